"""The bill's own alarm: 80 % spent, or 100 % forecast, of the environment's month."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_sns as sns
from constructs import Construct


class Budget(Construct):
    """A monthly cost budget over what carries the environment's tag."""

    def __init__(
        self, scope: Construct, construct_id: str, *, environment: str, usd: int, topic: sns.ITopic
    ) -> None:
        super().__init__(scope, construct_id)
        subscriber = budgets.CfnBudget.SubscriberProperty(
            subscription_type="SNS", address=topic.topic_arn
        )
        budgets.CfnBudget(
            self,
            "Monthly",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_name=f"docstokg-{environment}-{cdk.Stack.of(self).region}",
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=usd, unit="USD"),
                cost_filters={"TagKeyValue": [f"user:docstokg:environment${environment}"]},
            ),
            notifications_with_subscribers=[
                _notify(kind, share, subscriber)
                for kind, share in (("ACTUAL", 80), ("FORECASTED", 100))
            ],
        )


def _notify(
    kind: str, share: int, subscriber: budgets.CfnBudget.SubscriberProperty
) -> budgets.CfnBudget.NotificationWithSubscribersProperty:
    return budgets.CfnBudget.NotificationWithSubscribersProperty(
        notification=budgets.CfnBudget.NotificationProperty(
            notification_type=kind,
            comparison_operator="GREATER_THAN",
            threshold=share,
            threshold_type="PERCENTAGE",
        ),
        subscribers=[subscriber],
    )

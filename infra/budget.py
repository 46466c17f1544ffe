"""The bill's own alarm: 80 % spent, or 100 % forecast, of the environment's month."""

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
        subscriber = {"subscriptionType": "SNS", "address": topic.topic_arn}
        over = {"comparisonOperator": "GREATER_THAN", "thresholdType": "PERCENTAGE"}
        budgets.CfnBudget(
            self,
            "Monthly",
            budget={
                "budgetName": f"docstokg-{environment}-{cdk.Stack.of(self).region}",
                "budgetType": "COST",
                "timeUnit": "MONTHLY",
                "budgetLimit": {"amount": usd, "unit": "USD"},
                "costFilters": {"TagKeyValue": [f"user:docstokg:environment${environment}"]},
            },
            notifications_with_subscribers=[
                {
                    "notification": {"notificationType": kind, "threshold": share, **over},
                    "subscribers": [subscriber],
                }
                for kind, share in (("ACTUAL", 80), ("FORECASTED", 100))
            ],
        )

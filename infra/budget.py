"""Monthly cost budget."""

import aws_cdk as cdk
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_sns as sns
from constructs import Construct


def budget(scope: Construct, environment: str, usd: int, topic: sns.ITopic) -> None:
    """Create a monthly cost budget over the resources with the environment's tag.

    Notifies `topic` of costs over 80 %, and forecasts over 100 %.
    """
    subscriber = {"subscriptionType": "SNS", "address": topic.topic_arn}
    over = {"comparisonOperator": "GREATER_THAN", "thresholdType": "PERCENTAGE"}
    budgets.CfnBudget(
        Construct(scope, "Budget"),
        "Monthly",
        budget={
            "budgetName": f"docstokg-{environment}-{cdk.Stack.of(scope).region}",
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

"""Removal policies."""

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.base import Stack

DAYS = {
    1: "ONE_DAY", 7: "ONE_WEEK", 14: "TWO_WEEKS", 30: "ONE_MONTH", 60: "TWO_MONTHS",
    90: "THREE_MONTHS", 180: "SIX_MONTHS", 365: "ONE_YEAR", 731: "TWO_YEARS", 1827: "FIVE_YEARS",
}  # fmt: skip
# `Retain` would keep resources of a rolled-back creation and block their names.
RETAIN = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE


def log_group(
    scope: Construct,
    construct_id: str,
    stack: Stack,
    name: str | None = None,
) -> logs.LogGroup:
    """Return a log group with the environment's key and period.

    A named group is deleted with its stack.
    """
    return logs.LogGroup(
        scope,
        construct_id,
        log_group_name=name,
        retention=logs.RetentionDays[DAYS[stack.target.log_days]],
        encryption_key=stack.key,
        removal_policy=removal(retain=stack.target.retain_data and name is None),
    )


def log_group_arn(stack: cdk.Stack, name: str) -> str:
    """Return the ARN of the log group with this name, without `:*`."""
    return stack.format_arn(
        service="logs",
        resource="log-group",
        resource_name=name,
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )


def removal(*, retain: bool) -> cdk.RemovalPolicy:
    """Return RETAIN if `retain`, else DESTROY, for a resource with content."""
    return RETAIN if retain else cdk.RemovalPolicy.DESTROY

"""Removal policies."""

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

DAYS = {
    1: "ONE_DAY", 7: "ONE_WEEK", 14: "TWO_WEEKS", 30: "ONE_MONTH", 60: "TWO_MONTHS",
    90: "THREE_MONTHS", 180: "SIX_MONTHS", 365: "ONE_YEAR", 731: "TWO_YEARS", 1827: "FIVE_YEARS",
}  # fmt: skip
# `Retain` would keep resources of a rolled-back creation and block their names.
RETAIN = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE


def log_group(
    scope: Construct,
    construct_id: str,
    key: kms.IKey,
    *,
    days: int = 30,
    name: str | None = None,
    retain: bool = False,
) -> logs.LogGroup:
    """Return a log group under the environment's key; ValueError lists the valid periods."""
    if days not in DAYS:
        raise ValueError(f"log_days is one of {', '.join(map(str, DAYS))}, not {days}")
    return logs.LogGroup(
        scope,
        construct_id,
        log_group_name=name,
        retention=logs.RetentionDays[DAYS[days]],
        encryption_key=key,
        removal_policy=removal(retain=retain),
    )


def removal(*, retain: bool) -> cdk.RemovalPolicy:
    """Return the removal policy of a resource with content; see RETAIN."""
    return RETAIN if retain else cdk.RemovalPolicy.DESTROY

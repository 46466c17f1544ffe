"""What stays when its stack goes: one rule, so that a failed first deploy leaves nothing behind."""

import aws_cdk as cdk

# `Retain` would also keep what a rolled-back creation made, and block the next one by its name.
RETAIN = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE


def removal(*, retain: bool) -> cdk.RemovalPolicy:
    """How a resource with content goes: kept, except while it is first made, or deleted."""
    return RETAIN if retain else cdk.RemovalPolicy.DESTROY

"""Role for `infra.prune`."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.functions import Function
from infra.rights import allow

VERSIONS_ONLY = (
    "A qualifier must follow the name, so versions can go and the function itself cannot; "
    "infra.prune keeps those that the last state machine versions name."
)
STATES = (
    "DeleteStateMachineVersion",
    "DescribeStateMachine",
    "DescribeStateMachineAlias",
    "ListStateMachineVersions",
)


def pruner(scope: Construct, machines: Sequence[str], functions: dict[str, Function]) -> iam.Role:
    """Return the role for `make prune`, for principals of this account only."""
    role = iam.Role(
        Construct(scope, "Pruning"),
        "Role",
        description="DocsToKG: remove versions no state machine version names any more",
        assumed_by=iam.AccountRootPrincipal(),
        max_session_duration=cdk.Duration.hours(1),
    )
    arns = [function.function.function_arn for function in functions.values()]
    allow(role, ["lambda:ListAliases", "lambda:ListVersionsByFunction"], *arns)
    versions = (f"{arn}:*" for arn in arns)
    allow(role, ["lambda:DeleteFunction"], *versions, stars=VERSIONS_ONLY)
    allow(role, [f"states:{action}" for action in STATES], *machines)
    return role

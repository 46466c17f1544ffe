"""Who may remove old versions: a role that can delete `function:NAME:*`, never a function."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.functions import Function
from infra.nag import acknowledge, logical_id

VERSIONS_ONLY = (
    "A qualifier must follow the name, so versions can go and the function itself cannot; "
    "infra.prune keeps those that the last state machine versions name."
)


class Pruning(Construct):
    """The role that `make prune` takes on; only principals of this account may."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        machines: Sequence[str],
        functions: dict[str, Function],
    ) -> None:
        super().__init__(scope, construct_id)
        self.role = iam.Role(
            self,
            "Role",
            description="DocsToKG: remove versions no state machine version names any more",
            assumed_by=iam.AccountRootPrincipal(),
            max_session_duration=cdk.Duration.hours(1),
        )
        arns = [function.function.function_arn for function in functions.values()]
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=["lambda:ListAliases", "lambda:ListVersionsByFunction"], resources=arns
            )
        )
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=["lambda:DeleteFunction"], resources=[f"{arn}:*" for arn in arns]
            )
        )
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=[
                    "states:DeleteStateMachineVersion",
                    "states:DescribeStateMachine",
                    "states:DescribeStateMachineAlias",
                    "states:ListStateMachineVersions",
                ],
                resources=list(machines),
            )
        )
        acknowledge(
            self.role,
            {
                f"AwsSolutions-IAM5[Resource::<{logical_id(function.function)}.Arn>:*]": (
                    VERSIONS_ONLY
                )
                for function in functions.values()
            },
        )

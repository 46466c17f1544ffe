"""Rights in a line each: what a role may do to which resource, and with a key through whom."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct


def allow(role: iam.IRole, actions: Sequence[str], *resources: str) -> None:
    """Let `role` do `actions` to `resources`."""
    statement = iam.PolicyStatement(actions=list(actions), resources=list(resources))
    role.add_to_principal_policy(statement)


def use_key(role: iam.Role, key: kms.IKey, service: str, actions: Sequence[str]) -> None:
    """Let `role` use the key through one service of its region, and in no other way."""
    role.add_to_policy(
        key_use(key, f"{service}.{cdk.Stack.of(role).region}.amazonaws.com", actions)
    )


def key_use(key: kms.IKey, through: str, actions: Sequence[str]) -> iam.PolicyStatement:
    """Give the right to use a key through the service at an address."""
    return iam.PolicyStatement(
        actions=list(actions),
        resources=[key.key_arn],
        conditions={"StringEquals": {"kms:ViaService": through}},
    )


def service_role(scope: Construct, construct_id: str, service: str) -> iam.Role:
    """Make a role that a service of AWS takes on for this account alone."""
    account = {"StringEquals": {"aws:SourceAccount": cdk.Stack.of(scope).account}}
    principal = iam.ServicePrincipal(f"{service}.amazonaws.com", conditions=account)
    return iam.Role(scope, construct_id, assumed_by=principal)

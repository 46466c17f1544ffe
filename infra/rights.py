"""IAM rights."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.nag import acknowledge_stars


def allow(role: iam.IRole, actions: Sequence[str], *resources: str, stars: str = "") -> None:
    """Allow `role` these actions on resources; `stars`: the reason if some contain a star."""
    statement = iam.PolicyStatement(actions=list(actions), resources=list(resources))
    add(role, [statement], stars)


def add(role: iam.IRole, statements: Sequence[iam.PolicyStatement], stars: str) -> None:
    """Add statements; `stars`: the reason if their resources contain a star."""
    for statement in statements:
        role.add_to_principal_policy(statement)
        if stars:
            acknowledge_stars(role, stars, *statement.resources)


def policy_of(
    scope: Construct, name: str, purpose: str, statements: Sequence[iam.PolicyStatement], stars: str
) -> iam.ManagedPolicy:
    """Return a policy that an operator attaches to a role; `stars`: see `allow`."""
    policy = iam.ManagedPolicy(
        scope, name, description=f"DocsToKG: {purpose}", statements=list(statements)
    )
    acknowledge_stars(
        policy, stars, *(arn for statement in statements for arn in statement.resources)
    )
    return policy


def use_key(role: iam.Role, key: kms.IKey, service: str, actions: Sequence[str]) -> None:
    """Allow `role` to use the key only through one regional service."""
    role.add_to_policy(
        key_use(key, f"{service}.{cdk.Stack.of(role).region}.amazonaws.com", actions)
    )


def key_use(key: kms.IKey, through: str, actions: Sequence[str]) -> iam.PolicyStatement:
    """Return the right to use a key through the service at an address."""
    return iam.PolicyStatement(
        actions=list(actions),
        resources=[key.key_arn],
        conditions={"StringEquals": {"kms:ViaService": through}},
    )


def service_role(scope: Construct, construct_id: str, service: str) -> iam.Role:
    """Return a role that an AWS service assumes for this account only."""
    return iam.Role(scope, construct_id, assumed_by=own_service(scope, service))


def own_service(scope: Construct, service: str) -> iam.ServicePrincipal:
    """Return an AWS service that acts for this account."""
    account = {"StringEquals": {"aws:SourceAccount": cdk.Stack.of(scope).account}}
    return iam.ServicePrincipal(f"{service}.amazonaws.com", conditions=account)

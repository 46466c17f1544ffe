"""Acknowledges a finding of the security rules only together with the reason for it."""

import json
from typing import NamedTuple

import aws_cdk as cdk
from constructs import IConstruct


def logical_id(construct: IConstruct) -> str:
    """The resource's id in the template, as the rules' findings spell it."""
    resource = construct.node.default_child or construct
    assert isinstance(resource, cdk.CfnElement)
    return cdk.Stack.of(construct).get_logical_id(resource)


class Shared(NamedTuple):
    """An ARN of one stack as the other uses it, and as findings there spell it."""

    arn: str
    reported: str


def shared_arn(construct: IConstruct, name: str, arn: str) -> Shared:
    """Put an ARN out under a name of ours: one that CDK makes up cannot be told beforehand.

    An output that is read, no export: an export would lock this stack for as long as the other
    one imports it.
    """
    stack = cdk.Stack.of(construct)
    cdk.CfnOutput(stack, name, value=arn)
    read = cdk.Fn.get_stack_output(stack.stack_name, name)
    return Shared(read, json.dumps(stack.resolve(read), separators=(",", ":")))


def states_arn(stack: cdk.Stack, kind: str, name: str) -> Shared:
    """Compose the ARN of a state machine or of its executions."""
    account = "<AWS::AccountId>" if cdk.Token.is_unresolved(stack.account) else stack.account
    arn = f"arn:aws:states:{stack.region}:{stack.account}:{kind}:{name}"
    return Shared(arn, f"arn:aws:states:{stack.region}:{account}:{kind}:{name}")


def acknowledge(construct: IConstruct, reason: str, *rules: str) -> None:
    """Record why rules do not apply to `construct` and what is below it."""
    for rule in rules:
        cdk.Validations.of(construct).acknowledge(cdk.Acknowledgment(id=rule, reason=reason))


def acknowledge_stars(construct: IConstruct, reason: str, *resources: str) -> None:
    """Record why rights of `construct` name resources with a star, as findings spell them."""
    acknowledge(construct, reason, *(f"AwsSolutions-IAM5[Resource::{one}]" for one in resources))

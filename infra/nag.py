"""Acknowledged findings."""

import json
from typing import Any

import aws_cdk as cdk
from constructs import IConstruct


def shared_arn(construct: IConstruct, name: str, arn: str) -> str:
    """Return an ARN for use in another stack, by an output."""
    stack = cdk.Stack.of(construct)
    cdk.CfnOutput(stack, name, value=arn)
    return cdk.Fn.get_stack_output(stack.stack_name, name)


def acknowledge(construct: IConstruct, reason: str, *rules: str) -> None:
    """Record why rules do not apply to `construct` and its children."""
    for rule in rules:
        cdk.Validations.of(construct).acknowledge(cdk.Acknowledgment(id=rule, reason=reason))


def acknowledge_stars(construct: IConstruct, reason: str, *arns: str) -> None:
    """Record why rights contain a star; other ARNs are ignored."""
    stack = cdk.Stack.of(construct)
    for arn in (_reported(stack.resolve(arn)) for arn in arns):
        if "*" in arn:
            acknowledge(construct, reason, f"AwsSolutions-IAM5[Resource::{arn}]")


def _reported(value: Any) -> str:
    match value:
        case str():
            return value
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(map(_reported, parts))
    return json.dumps(value, separators=(",", ":"))

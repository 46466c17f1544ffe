"""Acknowledges a finding of the security rules only together with the reason for it."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import IConstruct


def logical_id(construct: IConstruct) -> str:
    """The resource's id in the template, as the rules' findings spell it."""
    resource = construct.node.default_child or construct
    assert isinstance(resource, cdk.CfnElement)
    return cdk.Stack.of(construct).get_logical_id(resource)


def acknowledge(construct: IConstruct, reasons: dict[str, str]) -> None:
    """Record why each rule id does not apply to `construct` and what is below it."""
    for rule, reason in reasons.items():
        cdk.Validations.of(construct).acknowledge(cdk.Acknowledgment(id=rule, reason=reason))

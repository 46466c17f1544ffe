"""Lower bounds: each right that a request or a service needs is there, and not its neighbours."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.infra.conftest import Template
from tests.infra.deployed import ACCOUNT, REGION, Deployed, sibling
from tests.infra.iam import Call, Policies
from tests.infra.service_calls import rights, via

# Two more of each service that nobody here may do, next to what somebody may.
FORBIDDEN = {
    "appconfig": ("appconfig:StartDeployment", "appconfig:UpdateConfigurationProfile"),
    "cloudwatch": ("cloudwatch:DeleteAlarms", "cloudwatch:PutMetricAlarm"),
    "dynamodb": ("dynamodb:Scan", "dynamodb:DeleteItem"),
    "ec2": ("ec2:RunInstances", "ec2:AuthorizeSecurityGroupIngress"),
    "es": ("es:DeleteDomain", "es:UpdateDomainConfig"),
    "execute-api": ("execute-api:ManageConnections", "execute-api:InvalidateCache"),
    "iam": ("iam:CreateRole", "iam:AttachRolePolicy"),
    "kms": ("kms:ScheduleKeyDeletion", "kms:PutKeyPolicy"),
    "lambda": ("lambda:UpdateFunctionCode", "lambda:AddPermission"),
    "logs": ("logs:DeleteLogGroup", "logs:GetLogEvents"),
    "scheduler": ("scheduler:DeleteSchedule", "scheduler:CreateScheduleGroup"),
    "s3": ("s3:DeleteBucket", "s3:PutBucketPolicy"),
    "secretsmanager": ("secretsmanager:PutSecretValue", "secretsmanager:DeleteSecret"),
    "sns": ("sns:Subscribe", "sns:SetTopicAttributes"),
    "sqs": ("sqs:PurgeQueue", "sqs:SetQueueAttributes"),
    "states": ("states:DeleteStateMachine", "states:UpdateStateMachine"),
    "sts": ("sts:TagSession", "sts:AssumeRoleWithSAML"),
    "xray": ("xray:GetTraceSummaries", "xray:DeleteGroup"),
}
# What a service does with our key for a caller that reads or writes through it.
BEHIND = {
    "dynamodb:": "kms:Decrypt", "secretsmanager:": "kms:Decrypt", "sqs:": "kms:GenerateDataKey",
    "s3:GetObject": "kms:Decrypt", "s3:PutObject": "kms:GenerateDataKey",
}  # fmt: skip
STRANGER = f"arn:aws:iam::{ACCOUNT}:role/stranger"
ELSEWHERE = "us-east-1"
OTHER = "999988887777"


def neighbours(call: Call) -> Iterator[Call]:
    """Calls that differ from an allowed one in one thing, and must all be refused.

    Two other actions, another principal, another resource of the kind, the same in another
    account, and each condition's key gone or about somebody else.
    """
    for action in FORBIDDEN[call.action.split(":")[0]]:
        yield Call(call.principal, action, call.resource, call.context)
    for principal in (STRANGER, "ec2.amazonaws.com"):
        yield Call(principal, call.action, call.resource, call.context)
    if call.resource == "*":
        # No resource to vary: these actions know none (Service Authorization Reference).
        other = call.principal.replace(ACCOUNT, OTHER).replace(".amazonaws", ".other")
        yield Call(other, call.action, call.resource, call.context)
    else:
        yield Call(call.principal, call.action, sibling(call.resource), call.context)
        moved = call.resource.replace(ACCOUNT, OTHER).replace(f":{REGION}:", f":{ELSEWHERE}:")
        if moved != call.resource:
            yield Call(call.principal, call.action, moved, call.context)
    for key in call.context:
        less = {name: value for name, value in call.context.items() if name != key}
        yield Call(call.principal, call.action, call.resource, less)
        other = _foreign(call.context[key])
        yield Call(call.principal, call.action, call.resource, {**less, key: other})


def assert_held(calls: list[Call], policies: Policies, deployed: Deployed) -> None:
    """Require that calls, with what services do for them, are allowed and no neighbour is."""
    assert [call for call in calls if not policies.allows(call)] == []
    key = deployed.arn(deployed.only("AWS::KMS::Key"))
    for call in calls:
        for action, behind in BEHIND.items():
            if call.action.startswith(action):
                used = Call(call.principal, behind, key, via(action.split(":")[0]))
                assert policies.allows(used), call
        allowed = [near for near in neighbours(call) if policies.allows(near)]
        # The loader may write every index of its domain, and a neighbouring path is one.
        assert not allowed or "Loader" in call.principal, allowed


def _foreign(value: str) -> str:
    if ACCOUNT in value:
        return value.replace(ACCOUNT, OTHER)
    return value.replace(REGION, ELSEWHERE) if REGION in value else f"other-{value}"


def test_only_required_calls_of_services_are_allowed(template: Template) -> None:
    deployed = Deployed(template)
    policies = Policies(deployed)
    lines = list(rights(deployed))
    assert len(lines) > 150
    refused = [f"{right.page}: {right.call}" for right in lines if not policies.allows(right.call)]
    assert refused == []
    allowed = []
    for right in lines:
        others = list(neighbours(right.call))
        assert len(others) >= 5
        allowed += [f"{right.call} -> {other}" for other in others if policies.allows(other)]
    assert allowed == []


Statements = list[dict[str, Any]]


def _drop(template: Template, fits: Callable[[dict[str, Any]], bool]) -> None:
    """Take every statement that fits out of every policy document."""
    dropped = 0
    for resource in template.resources.values():
        properties = resource.get("Properties", {})
        for name in ("PolicyDocument", "KeyPolicy"):
            if "Statement" in properties.get(name, {}):
                statements: Statements = properties[name]["Statement"]
                properties[name]["Statement"] = [s for s in statements if not fits(s)]
                dropped += len(statements) - len(properties[name]["Statement"])
    assert dropped


def _name_the_alias(template: Template) -> None:
    alias = next(iter(template.all("AWS::StepFunctions::StateMachineAlias")))
    for _, statement in template.statements():
        if statement["Action"] == "states:StartSyncExecution":
            statement["Resource"] = {"Ref": alias}


def _services(statement: dict[str, Any]) -> str:
    return json.dumps(statement.get("Principal", {}))


def _without(action: str) -> Callable[[Template], None]:
    return lambda template: _drop(template, lambda s: action in s["Action"])


ALONE = (
    "ec2:CreateNetworkInterface",
    "iam:PassRole",
    "s3:AbortMultipartUpload",
    "states:StartExecution",
    "states:StopExecution",
    "states:RedriveExecution",
)
"""Rights that a statement alone gives: network, snapshots, and what maps need."""
DEFECTS: dict[str, tuple[Callable[[Template], None], str]] = {
    "the right to start names the alias": (_name_the_alias, "states:StartSyncExecution"),
    "alarms may not publish": (
        lambda t: _drop(t, lambda s: s["Action"] == "sns:Publish" and "cloudwatch" in _services(s)),
        "sns:Publish",
    ),
    "alarms may not use the key": (
        lambda t: _drop(t, lambda s: "kms:Decrypt" in s["Action"] and "cloudwatch" in _services(s)),
        "kms:GenerateDataKey",
    ),
    "letters without their key": (
        lambda t: _drop(t, lambda s: "sqs." in json.dumps(s.get("Condition", {}))),
        "kms:GenerateDataKey",
    ),
    **{f"no {action}": (_without(action), action) for action in ALONE},
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_missing_right_is_seen(prod: Template, defect: str) -> None:
    """The defects a review found, put back one by one: the table must refuse each."""
    broken = copy.copy(prod)
    broken.resources = copy.deepcopy(prod.resources)
    undo, action = DEFECTS[defect]
    undo(broken)
    policies = Policies(Deployed(broken))
    refused = {r.call.action for r in rights(Deployed(broken)) if not policies.allows(r.call)}
    assert action in refused


def test_versions_can_be_deleted_and_functions_cannot(template: Template) -> None:
    deployed = Deployed(template)
    policies = Policies(deployed)
    (role,) = (arn for arn, name in policies.roles.items() if name.startswith("Pruning"))
    for name in deployed.all("AWS::Lambda::Function"):
        arn = deployed.arn(name)
        assert policies.allows(Call(role, "lambda:DeleteFunction", f"{arn}:7"))
        assert not policies.allows(Call(role, "lambda:DeleteFunction", arn))


def test_an_explicit_denial_wins(template: Template) -> None:
    """Queues and topic refuse plain HTTP whatever else is granted."""
    deployed = Deployed(template)
    policies = Policies(deployed)
    topics = [name for name in template.all("AWS::SNS::Topic") if name.startswith("Alerts")]
    topic = deployed.ref(topics[0])
    plain = {"aws:SourceAccount": ACCOUNT, "aws:SecureTransport": "false"}
    secure = {"aws:SourceAccount": ACCOUNT}
    assert policies.allows(Call("cloudwatch.amazonaws.com", "sns:Publish", topic, secure))
    assert not policies.allows(Call("cloudwatch.amazonaws.com", "sns:Publish", topic, plain))
    assert "SecureTransport" in json.dumps(policies.of_resources[topic])

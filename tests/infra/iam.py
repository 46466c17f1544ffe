"""Whether IAM would let a call through, by its published rules, for one account.

The rules are those of the page "Policy evaluation logic" of the IAM guide, as far as these
templates use them: an explicit denial wins; a role of the account needs its own policy or a
resource policy that names it; a service needs a resource policy; a key is opened by its own
policy, which may hand the decision on to the account's policies (KMS guide, "Key policies").
A condition operator or key that is not known here fails: nothing is guessed.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.infra.deployed import ACCOUNT, REGION, Deployed

Statement = dict[str, Any]
NOTHING: Mapping[str, str] = {}
ROOT = f"arn:aws:iam::{ACCOUNT}:root"
OPERATORS = ("StringEquals", "StringLike", "ArnEquals", "ArnLike", "Bool")
KEYS = (
    "aws:PrincipalArn", "aws:SecureTransport", "aws:SourceAccount", "aws:SourceArn",
    "bedrock:InferenceProfileArn", "dynamodb:LeadingKeys", "iam:PassedToService",
    "kms:EncryptionContext:aws:logs:arn", "kms:ViaService", "s3:prefix",
    "states:StateMachineQualifier",
)  # fmt: skip


class UnknownCondition(Exception):
    """A condition this evaluator has no rule for."""


@dataclass(frozen=True)
class Call:
    """One request as IAM sees it; `principal` is a role's ARN or a service's name."""

    principal: str
    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)


class Policies:
    """All policies of one environment."""

    def __init__(self, deployed: Deployed) -> None:
        self._deployed = deployed
        self.roles = {deployed.arn(name): name for name in deployed.all("AWS::IAM::Role")}
        self.of_roles: dict[str, list[Statement]] = {arn: [] for arn in self.roles}
        self.of_resources: dict[str, list[Statement]] = {}
        self.managed: dict[str, list[Statement]] = {}
        self._read_roles()
        self._read_resources()

    def allows(self, call: Call) -> bool:
        """Decide one call."""
        statements = self.of_roles.get(call.principal, self.managed.get(call.principal, []))
        named = (r for r in self.of_resources if fnmatch.fnmatchcase(call.resource, r))
        theirs = [statement for name in named for statement in self.of_resources[name]]
        matching = [s for s in statements if _matches(s, call)]
        granting = [s for s in theirs if _matches(s, call) and _names(s, call.principal)]
        if any(s["Effect"] == "Deny" for s in (*matching, *granting)):
            return False
        allowed = any(s["Effect"] == "Allow" for s in matching)
        if call.action.startswith("kms:"):
            handed_on = any(_matches(s, call) and ROOT in _principals(s, "AWS") for s in theirs)
            return any(s["Effect"] == "Allow" for s in granting) or (handed_on and allowed)
        if call.action == "sts:AssumeRole":
            return any(s["Effect"] == "Allow" for s in granting)
        return allowed or any(s["Effect"] == "Allow" for s in granting)

    def may(
        self, function: str, action: str, resource: str, context: Mapping[str, str] = NOTHING
    ) -> bool:
        """Decide one call of a function of ours."""
        return self.allows(Call(self._deployed.role_of(function), action, resource, context))

    def _read_roles(self) -> None:
        deployed = self._deployed
        by_name = {deployed.ref(name): arn for arn, name in self.roles.items()}
        for name in deployed.all("AWS::IAM::Policy"):
            policy = deployed.properties(name)
            for role in policy["Roles"]:
                self.of_roles[by_name[role]] += policy["PolicyDocument"]["Statement"]
        for name in deployed.all("AWS::IAM::ManagedPolicy"):
            policy = deployed.properties(name)
            self.managed[deployed.ref(name)] = policy["PolicyDocument"]["Statement"]
        for arn, name in self.roles.items():
            role = deployed.properties(name)
            assert not role.get("Policies"), name
            trust = role["AssumeRolePolicyDocument"]["Statement"]
            self.of_resources[arn] = [s | {"Resource": arn} for s in trust]

    def _read_resources(self) -> None:
        deployed = self._deployed
        for name in deployed.all("AWS::KMS::Key"):
            self._add(deployed.arn(name), deployed.properties(name)["KeyPolicy"]["Statement"])
        for kind, plural in (("SNS::Topic", "Topics"), ("SQS::Queue", "Queues")):
            addresses = {deployed.ref(n): deployed.arn(n) for n in deployed.all(f"AWS::{kind}")}
            for name in deployed.all(f"AWS::{kind}Policy"):
                policy = deployed.properties(name)
                for address in policy[plural]:
                    self._add(addresses[address], policy["PolicyDocument"]["Statement"])
        for name in deployed.all("AWS::S3::BucketPolicy"):
            policy = deployed.properties(name)
            statements = policy["PolicyDocument"]["Statement"]
            self._add(f"arn:aws:s3:::{policy['Bucket']}*", statements)
        for name in deployed.all("AWS::Lambda::Permission"):
            properties = deployed.properties(name)
            condition = {"ArnLike": {"aws:SourceArn": properties["SourceArn"]}}
            statement = {
                "Effect": "Allow",
                "Principal": {"Service": properties["Principal"]},
                "Action": properties["Action"],
                "Resource": properties["FunctionName"],
                "Condition": condition,
            }
            self._add(properties["FunctionName"], [statement])
        for name in deployed.all("AWS::Logs::ResourcePolicy"):
            document = json.loads(deployed.properties(name)["PolicyDocument"])
            for statement in document["Statement"]:
                for resource in listed(statement["Resource"]):
                    self._add(resource, [statement])

    def _add(self, resource: str, statements: list[Statement]) -> None:
        self.of_resources.setdefault(resource, []).extend(statements)


def _matches(statement: Statement, call: Call) -> bool:
    """Action, resource and every condition, as the call gives them."""
    unknown = set(statement) - {"Sid", "Effect", "Action", "Resource", "Condition", "Principal"}
    if unknown:
        raise UnknownCondition(f"statement with {sorted(unknown)}")
    return (
        any(_like(a.lower(), call.action.lower()) for a in listed(statement["Action"]))
        and any(_like(r, call.resource) for r in listed(statement["Resource"]))
        and all(
            _holds(operator, key, listed(values), call)
            for operator, keys in statement.get("Condition", {}).items()
            for key, values in keys.items()
        )
    )


def _holds(operator: str, key: str, wanted: list[str], call: Call) -> bool:
    kind = operator.removeprefix("ForAnyValue:")
    if kind not in OPERATORS or key not in KEYS:
        raise UnknownCondition(f"{operator} {key}")
    actual = {"aws:SecureTransport": "true", **call.context}.get(key)
    if actual is None:
        return False
    if kind in ("StringEquals", "Bool"):
        return actual in [str(value).lower() if kind == "Bool" else value for value in wanted]
    return any(_like(value, actual) for value in wanted)


def _like(pattern: str, text: str) -> bool:
    """IAM's wildcards: `*` and `?`; a bracket is a bracket."""
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]"))


def _names(statement: Statement, principal: str) -> bool:
    """Whether a resource policy's statement speaks of this principal itself."""
    regional = f".{REGION}.amazonaws.com"
    services = _principals(statement, "Service")
    # A service's name with the region in it names the service of that region.
    services = [*services, *(name.replace(regional, ".amazonaws.com") for name in services)]
    named = [*_principals(statement, "AWS"), *services]
    # A statement for everybody grants nothing here, but it may deny everybody.
    return principal in named or ("*" in named and statement["Effect"] == "Deny")


def _principals(statement: Statement, kind: str) -> list[str]:
    principal = statement.get("Principal", {})
    if principal == "*":
        return ["*"]
    return listed(principal.get(kind, []))


def listed(value: Any) -> list[Any]:
    """Return a list as it is, and any other value as a list of one."""
    return value if isinstance(value, list) else [value]

"""A synthesised environment as AWS would hold it: every reference a value, every policy a list.

Ids and ARNs are made up by the documented pattern of each type (its CloudFormation page, "Return
values"); a type or attribute nobody wrote down here fails, so that no policy is half resolved.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tests.infra.conftest import Template, handler_of

ACCOUNT = "111122223333"
REGION = "eu-central-1"
PSEUDO = {
    "AWS::AccountId": ACCOUNT, "AWS::Region": REGION, "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
}  # fmt: skip


@dataclass(frozen=True)
class Physical:
    """What `Ref` and `Fn::GetAtt` give for one resource."""

    ref: str
    attributes: dict[str, str] = field(default_factory=dict)


def _arn(service: str, tail: str, *, region: str = REGION) -> str:
    return f"arn:aws:{service}:{region}:{ACCOUNT}:{tail}"


def _names(kind: str, name: str) -> Physical | None:
    """Ids of the types whose reference is a name, or an ARN made of one."""
    arn = {
        "AWS::CloudWatch::Alarm": _arn("cloudwatch", f"alarm:{name}"),
        "AWS::DynamoDB::Table": _arn("dynamodb", f"table/{name}"),
        "AWS::IAM::Role": _arn("iam", f"role/{name}", region=""),
        "AWS::KMS::Key": _arn("kms", f"key/{name}"),
        "AWS::Lambda::Function": _arn("lambda", f"function:{name}"),
        "AWS::Logs::LogGroup": _arn("logs", f"log-group:{name}:*"),
    }.get(kind)
    if kind == "AWS::S3::Bucket":  # a bucket's name has no capitals
        return Physical(name.lower(), {"Arn": f"arn:aws:s3:::{name.lower()}"})
    return Physical(name, {"Arn": arn}) if arn else None


def _arns(kind: str, name: str) -> Physical | None:
    """Ids of the types whose reference is an ARN, a URL or has more attributes."""
    match kind:
        case "AWS::SecretsManager::Secret":
            return Physical(_arn("secretsmanager", f"secret:{name}-AbCdEf"))
        case "AWS::SNS::Topic":
            return Physical(_arn("sns", name), {"TopicArn": _arn("sns", name)})
        case "AWS::IAM::ManagedPolicy":
            return Physical(_arn("iam", f"policy/{name}", region=""))
        case "AWS::SQS::Queue":
            url = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}"
            return Physical(url, {"Arn": _arn("sqs", name), "QueueName": name})
        case "AWS::StepFunctions::StateMachine":
            arn = _arn("states", f"stateMachine:{name}")
            return Physical(arn, {"Arn": arn, "Name": name, "StateMachineRevisionId": "r"})
        case "AWS::OpenSearchService::Domain":
            host = f"{name.lower()}.{REGION}.es.amazonaws.com"
            return Physical(name, {"Arn": _arn("es", f"domain/{name}"), "DomainEndpoint": host})
        case "AWS::WAFv2::WebACL":
            return Physical(name, {"Arn": _arn("wafv2", f"regional/webacl/{name}/id")})
        case "AWS::EC2::SecurityGroup":
            return Physical("sg-1", {"GroupId": "sg-1"})
        case "AWS::ApiGateway::RestApi":
            return Physical("restapi1", {"RootResourceId": "root"})
        case "AWS::AppConfig::Environment" | "AWS::AppConfig::ConfigurationProfile":
            return Physical(name, {"EnvironmentId": name, "ConfigurationProfileId": name})
    return None


MACHINE = "AWS::StepFunctions::StateMachine"
OWN_NAME = ("FunctionName", "StateMachineName", "AlarmName", "LogGroupName")


class Deployed:
    """One environment, its roles' rights and its resources' policies, all resolved."""

    def __init__(self, template: Template) -> None:
        self.template = template
        self._resources = template.resources
        self._known: dict[str, Physical] = {}

    def all(self, kind: str) -> list[str]:
        """Logical ids of a type."""
        return [name for name, found in self._resources.items() if found["Type"] == kind]

    def properties(self, name: str) -> dict[str, Any]:
        """The properties of one resource, resolved."""
        found: dict[str, Any] = self.value(self._resources[name].get("Properties", {}))
        return found

    def ref(self, name: str) -> str:
        """What `Ref` gives for a logical id."""
        return self._physical(name).ref

    def arn(self, name: str) -> str:
        """The ARN of a logical id."""
        found = self._physical(name)
        return found.attributes.get("Arn", found.ref)

    def function(self, name: str) -> str:
        """Logical id of a function of ours."""
        (found,) = (
            key
            for key in self.all("AWS::Lambda::Function")
            if self._resources[key]["Properties"]["Handler"] == handler_of(name)
        )
        return found

    def role_of(self, name: str) -> str:
        """ARN of a function's role."""
        return str(self.properties(self.function(name))["Role"])

    def variables(self, name: str) -> dict[str, str]:
        """What a function finds in its environment."""
        found: dict[str, str] = self.properties(self.function(name))["Environment"]["Variables"]
        return found

    @property
    def machine(self) -> str:
        """Logical id of the machine that answers."""
        (found,) = (n for n in self.all(MACHINE) if n.startswith("Workflow"))
        return found

    @property
    def loading(self) -> str:
        """Logical id of the machine that loads."""
        (found,) = (n for n in self.all(MACHINE) if n.startswith("Ingestion"))
        return found

    def only(self, kind: str) -> str:
        """The logical id of a type there is one of."""
        (found,) = self.all(kind)
        return found

    def value(self, given: Any) -> Any:
        """Resolve every intrinsic function below `given`."""
        if isinstance(given, list):
            return [item for raw in given if (item := self.value(raw)) is not None]
        if not isinstance(given, dict):
            return given
        if len(given) == 1:
            ((name, argument),) = given.items()
            if name == "Ref":
                return self._reference(argument)
            if name.startswith("Fn::"):
                return self._intrinsic(name, argument)
        return {key: self.value(item) for key, item in given.items()}

    def _reference(self, name: str) -> str | None:
        if name == "AWS::NoValue":
            return None
        return PSEUDO[name] if name in PSEUDO else self.ref(name)

    def _intrinsic(self, name: str, argument: Any) -> Any:
        match name:
            case "Fn::GetAtt":
                logical, attribute = argument
                return self._physical(logical).attributes[attribute]
            case "Fn::Join":
                return argument[0].join(self.value(argument[1]))
            case "Fn::Select":
                return self.value(argument[1])[int(argument[0])]
            case "Fn::Split":
                return self.value(argument[1]).split(argument[0])
            case "Fn::Sub":
                assert isinstance(argument, str), argument
                return re.sub(r"\$\{([^}]+)\}", lambda m: str(self._reference(m[1])), argument)
        raise KeyError(f"{name} is not resolved here")

    def _physical(self, name: str) -> Physical:
        if name not in self._known:
            self._known[name] = self._made(name)
        return self._known[name]

    def _made(self, name: str) -> Physical:
        resource = self._resources[name]
        kind, given = resource["Type"], resource.get("Properties", {})
        match kind:
            case "AWS::Lambda::Version":
                version = self.arn(given["FunctionName"]["Ref"])
                return Physical(f"{version}:1", {"Version": "1"})
            case "AWS::Lambda::Alias":
                return Physical(f"{self.arn(given['FunctionName']['Ref'])}:{given['Name']}")
            case "AWS::StepFunctions::StateMachineVersion":
                version = f"{self.value(given['StateMachineArn'])}:1"
                return Physical(version, {"Arn": version})
            case "AWS::ApiGateway::Stage":
                return Physical(given["StageName"])
        own = next((self.value(given[key]) for key in OWN_NAME if key in given), name)
        found = _names(kind, own) or _arns(kind, own)
        return found or Physical(name)


def parts_of(arn: str) -> list[str]:
    """`arn:PARTITION:SERVICE:REGION:ACCOUNT:RESOURCE`, six parts."""
    parts = arn.split(":", 5)
    assert len(parts) == 6, arn
    return parts


def sibling(arn: str) -> str:
    """Another resource of the same kind beside this one: its first name is another."""
    *head, tail = parts_of(arn)
    if head[2] == "s3":
        return ":".join([*head, re.sub(r"^[^/]+", lambda m: f"{m[0]}-other", tail)])
    found = re.sub(r"([:/])([^:/]+)", lambda m: f"{m[1]}{m[2]}-other", tail, count=1)
    return ":".join([*head, found if found != tail else f"{tail}-other"])

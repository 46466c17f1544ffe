"""A synthesised environment as AWS would hold it: every reference a value, every policy a list.

Ids and ARNs are made up by the documented pattern of each type (its CloudFormation page, "Return
values"); a type or attribute nobody wrote down here fails, so that no policy is half resolved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.infra.conftest import Template, handler_of

ACCOUNT = "111122223333"
REGION = "eu-central-1"
PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Region": REGION,
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
}


class Physical(NamedTuple):
    """What `Ref` and `Fn::GetAtt` give for one resource."""

    ref: str
    attributes: Mapping[str, str] = {}


def _arn(service: str, tail: str, *, region: str = REGION) -> str:
    return f"arn:aws:{service}:{region}:{ACCOUNT}:{tail}"


def _physical_names(name: str) -> dict[str, tuple[str, dict[str, str]]]:
    """By type: the reference, and the attributes, of a resource of this name."""
    low, queue, topic = name.lower(), _arn("sqs", name), _arn("sns", name)
    machine = _arn("states", f"stateMachine:{name}")
    host = f"{low}.{REGION}.es.amazonaws.com"
    return {
        "ApiGateway::RestApi": ("restapi1", {"RootResourceId": "root"}),
        "AppConfig::ConfigurationProfile": (name, {"ConfigurationProfileId": name}),
        "AppConfig::Environment": (name, {"EnvironmentId": name}),
        "CloudWatch::Alarm": (name, {"Arn": _arn("cloudwatch", f"alarm:{name}")}),
        "DynamoDB::Table": (name, {"Arn": _arn("dynamodb", f"table/{name}")}),
        "EC2::SecurityGroup": ("sg-1", {"GroupId": "sg-1"}),
        "Events::Rule": (name, {"Arn": _arn("events", f"rule/{name}")}),
        "IAM::ManagedPolicy": (_arn("iam", f"policy/{name}", region=""), {}),
        "IAM::Role": (name, {"Arn": _arn("iam", f"role/{name}", region="")}),
        "KMS::Key": (name, {"Arn": _arn("kms", f"key/{name}")}),
        "Lambda::Function": (name, {"Arn": _arn("lambda", f"function:{name}")}),
        "Logs::LogGroup": (name, {"Arn": _arn("logs", f"log-group:{name}:*")}),
        "OpenSearchService::Domain": (
            name,
            {"Arn": _arn("es", f"domain/{name}"), "DomainEndpoint": host},
        ),
        "S3::Bucket": (low, {"Arn": f"arn:aws:s3:::{low}"}),  # its name has no capitals
        "SNS::Topic": (topic, {"TopicArn": topic}),
        "SQS::Queue": (
            f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}",
            {"Arn": queue, "QueueName": name},
        ),
        "SecretsManager::Secret": (_arn("secretsmanager", f"secret:{name}-AbCdEf"), {}),
        "StepFunctions::StateMachine": (
            machine,
            {"Arn": machine, "Name": name, "StateMachineRevisionId": "r"},
        ),
        "WAFv2::WebACL": (name, {"Arn": _arn("wafv2", f"regional/webacl/{name}/id")}),
    }


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
        return [name for name, resource in self._resources.items() if resource["Type"] == kind]

    def properties(self, name: str) -> dict[str, Any]:
        """The properties of one resource, resolved."""
        properties: dict[str, Any] = self.value(self._resources[name].get("Properties", {}))
        return properties

    def ref(self, name: str) -> str:
        """What `Ref` gives for a logical id."""
        return self._physical(name).ref

    def arn(self, name: str) -> str:
        """The ARN of a logical id."""
        physical = self._physical(name)
        return physical.attributes.get("Arn", physical.ref)

    def function(self, name: str) -> str:
        """Logical id of a function of ours."""
        (logical_id,) = (
            key
            for key in self.all("AWS::Lambda::Function")
            if self._resources[key]["Properties"]["Handler"] == handler_of(name)
        )
        return logical_id

    def role_of(self, name: str) -> str:
        """ARN of a function's role."""
        return str(self.properties(self.function(name))["Role"])

    def variables(self, name: str) -> dict[str, str]:
        """Return a function's environment variables."""
        variables: dict[str, str] = self.properties(self.function(name))["Environment"]["Variables"]
        return variables

    @property
    def machine(self) -> str:
        """Logical id of the machine that answers."""
        return self.of(MACHINE, "Workflow")

    @property
    def loading(self) -> str:
        """Logical id of the machine that loads."""
        return self.of(MACHINE, "Ingestion")

    def of(self, kind: str, part: str) -> str:
        """The logical id of a type that has this in it, of which there is one."""
        (logical_id,) = (name for name in self.all(kind) if part in name)
        return logical_id

    def only(self, kind: str) -> str:
        """The logical id of a type there is one of."""
        return self.of(kind, "")

    def value(self, node: Any) -> Any:
        """Resolve every intrinsic function below `node`."""
        if isinstance(node, list):
            return [item for raw in node if (item := self.value(raw)) is not None]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            ((name, argument),) = node.items()
            if name == "Ref":
                return self._reference(argument)
            if name.startswith("Fn::"):
                return self._intrinsic(name, argument)
        return {key: self.value(item) for key, item in node.items()}

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
            self._known[name] = self._create_physical(name)
        return self._known[name]

    def _create_physical(self, name: str) -> Physical:
        resource = self._resources[name]
        kind, properties = resource["Type"], resource.get("Properties", {})
        match kind:
            case "AWS::Lambda::Version":
                version = self.arn(properties["FunctionName"]["Ref"])
                return Physical(f"{version}:1", {"Version": "1"})
            case "AWS::Lambda::Alias":
                return Physical(
                    f"{self.arn(properties['FunctionName']['Ref'])}:{properties['Name']}"
                )
            case "AWS::StepFunctions::StateMachineVersion":
                version = f"{self.value(properties['StateMachineArn'])}:1"
                return Physical(version, {"Arn": version})
            case "AWS::ApiGateway::Stage":
                return Physical(properties["StageName"])
        physical_name = next(
            (self.value(properties[key]) for key in OWN_NAME if key in properties), name
        )
        return Physical(*_physical_names(physical_name).get(kind.removeprefix("AWS::"), (name, {})))


def sibling(arn: str) -> str:
    """Another resource of the same kind beside this one: its first name is another."""
    *head, tail = arn.split(":", 5)
    if head[2] == "s3":
        return ":".join([*head, re.sub(r"^[^/]+", lambda m: f"{m[0]}-other", tail)])
    renamed = re.sub(r"([:/])([^:/]+)", lambda m: f"{m[1]}{m[2]}-other", tail, count=1)
    return ":".join([*head, renamed if renamed != tail else f"{tail}-other"])

"""Limits of the emulator, the changes for them, and the tests that cover them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

UNKNOWN = (
    "AWS::Budgets::Budget", "AWS::EC2::SecurityGroupEgress", "AWS::EC2::SecurityGroupIngress",
    "AWS::Logs::QueryDefinition", "AWS::StepFunctions::StateMachineAlias",
    "AWS::StepFunctions::StateMachineVersion", "AWS::WAFv2::LoggingConfiguration",
    "AWS::WAFv2::WebACLAssociation",
)  # fmt: skip
LONGEST_S = 28
"""Instead of a state's TimeoutSeconds that is an expression."""

COVERED = (
    ("a budget, versions and aliases of state machines", "left out", "test_template"),
    ("a saved query", "left out", "test_alarms"),
    (
        "rules of security groups that stand alone, a firewall's place and log",
        "left out",
        "test_permissions, test_minor_findings, test_alarms",
    ),
    ("alarms of more than one metric", "made alarms of their first metric", "test_alarms"),
    ("templates of the gateway (VTL)", "functions and machines are called directly", "test_vtl"),
    ("IAM", "everything is allowed", "test_permissions, test_deployed_fleet, test_loading_fleet"),
    ("quotas, reserved concurrency", "none", "test_ingest_definition, test_app"),
    ("replacement, export locks", "accepts everything", "test_stores_kept"),
    ("batches and results of a distributed map", "runs on sfnx over them", "test_ingest_machine"),
    ("loads after S3 events", "created in staging and prod, off in dev", "test_source_loads"),
    ("error names in Retry and Catch", "not compared", "test_engine"),
    ("TimeoutSeconds as an expression", f"the number {LONGEST_S}", "test_template"),
    ("AppConfig's layer", "its agent is played, from the deployed profile", "test_aws_adapters"),
    ("arm64", "bundles of this machine", "test_bundles"),
    ("a domain", "a real OpenSearch beside it, as `existing`", "test_search_index"),
)
"""(what, instead, tests)"""


@dataclass
class Fitted:
    """A template for the emulator, and its changes."""

    body: dict[str, Any]
    removed: list[str] = field(default_factory=list)
    plain_alarms: int = 0


def fit(template: dict[str, Any], variables: dict[str, str]) -> Fitted:
    """Remove the types that the emulator lacks; add `variables` to every function."""
    body = json.loads(json.dumps(template))
    fitted = Fitted(body)
    resources = body["Resources"]
    for name in [name for name, resource in resources.items() if resource["Type"] in UNKNOWN]:
        fitted.removed.append(resources.pop(name)["Type"])
        for other in resources.values():
            needed = other.get("DependsOn", [])
            needed = [needed] if isinstance(needed, str) else needed
            if name in needed:
                other["DependsOn"] = [dependency for dependency in needed if dependency != name]
        assert json.dumps({"Ref": name}) not in json.dumps(body), name
    for resource in resources.values():
        properties = resource.get("Properties", {})
        match resource["Type"]:
            case "AWS::CloudWatch::Alarm" if "Metrics" in properties:
                fitted.plain_alarms += 1
                _make_plain(properties)
            case "AWS::Lambda::Function":
                properties["Architectures"] = ["x86_64"]
                properties.setdefault("Environment", {}).setdefault("Variables", {}).update(
                    variables
                )
            case "AWS::Lambda::LayerVersion":
                properties["CompatibleArchitectures"] = ["x86_64"]
            case "AWS::StepFunctions::StateMachine":
                text = properties["DefinitionString"]
                properties["DefinitionString"] = re.sub(
                    r'"TimeoutSeconds":\s*"\{%.*?%\}"', f'"TimeoutSeconds":{LONGEST_S}', text
                )
    return fitted


def _make_plain(alarm: dict[str, Any]) -> None:
    """Make an alarm of an expression one of the first metric it names."""
    first = next(metric["MetricStat"] for metric in alarm.pop("Metrics") if "MetricStat" in metric)
    alarm |= {
        "MetricName": first["Metric"]["MetricName"],
        "Namespace": first["Metric"]["Namespace"],
        "Dimensions": first["Metric"].get("Dimensions", []),
        "Statistic": "Sum",
        "Period": first["Period"],
    }

"""Properties that make CloudFormation replace a store: `python -m tests.infra.stores FOLDER`.

Of each resource that holds content: its logical id, its type, and the values of the properties
whose change replaces it, as the schemas of CloudFormation's registry say, which cfn-lint brings.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.infra.conftest import ENVIRONMENTS, Template

KINDS = (
    "AWS::DynamoDB::Table",
    "AWS::KMS::Key",
    "AWS::OpenSearchService::Domain",
    "AWS::S3::Bucket",
    "AWS::SecretsManager::Secret",
)
BY_POLICY = {"AWS::OpenSearchService::Domain": "EnableVersionUpgrade"}
"""Replaced by a change of version unless its update policy says this."""


def stores(template: Template) -> dict[str, dict[str, Any]]:
    """Return type and replacing properties by logical id."""
    return {
        name: {"Type": resource["Type"], "replaced by": _replacing(resource)}
        for name, resource in sorted(template.data.items())
        if resource["Type"] in KINDS
    }


def _replacing(resource: dict[str, Any]) -> dict[str, Any]:
    from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("eu-central-1", resource["Type"]).schema
    paths = [
        *schema.get("createOnlyProperties", ()),
        *schema.get("conditionalCreateOnlyProperties", ()),
    ]
    properties = {path: _at(resource.get("Properties", {}), path) for path in sorted(paths)}
    if switch := BY_POLICY.get(resource["Type"]):
        properties[switch] = resource.get("UpdatePolicy", {}).get(switch)
    return {path.removeprefix("/properties/"): value for path, value in properties.items() if value}


def _at(properties: Any, path: str) -> Any:
    for step in path.split("/")[2:]:
        if not isinstance(properties, dict) or step not in properties:
            return None
        properties = properties[step]
    return properties


if __name__ == "__main__":
    report = {name: stores(Template(Path(sys.argv[1]), name)) for name in ENVIRONMENTS}
    sys.stdout.write(json.dumps(report, indent=1, sort_keys=True) + "\n")

"""No change replaces a store unnoticed, and none is locked by an export."""

import json
from pathlib import Path
from typing import Any

from infra.app import still_read
from tests.infra.conftest import Template, infra_run
from tests.infra.stores import stores

COMMITTED = Path(__file__).parent / "stores.json"


def test_every_store_stays_as_first_created(template: Template) -> None:
    """Another logical id or another value here is a new, empty store beside an orphan.

    Where that is meant: write the file again (tests/infra/stores.py) and say in docs/deploy.md how
    the content gets across.
    """
    assert stores(template) == json.loads(COMMITTED.read_text("utf-8"))[template.name]


def test_another_engine_is_an_upgrade_in_place(template: Template) -> None:
    domain = template.resource("AWS::OpenSearchService::Domain")
    assert domain["UpdatePolicy"] == {"EnableVersionUpgrade": True}


def test_no_output_export_locks_the_data_stack(assembly: Path) -> None:
    """An exported value can be neither changed nor removed while the other stack imports it.

    Taking a model off the list, a domain that moves from `managed` to `existing`, a local embedder
    instead of a remote one: each takes an output away in the same deploy that stops reading it.
    """
    paths = sorted(assembly.glob("*/docstokg-*.template.json"))
    assert len(paths) == 6
    for path in paths:
        text = path.read_text("utf-8")
        assert "Fn::ImportValue" not in text, path.name
        outputs = json.loads(text)["Outputs"]
        assert not [name for name, output in outputs.items() if "Export" in output], path.name


def test_stacks_are_deployed_after_those_they_read(assembly: Path) -> None:
    """A value is read while the reader is deployed, so the order has to be said."""
    manifests = [*assembly.glob("*/manifest.json")]
    assert len(manifests) == 3
    for path in manifests:
        name = path.parent.name
        artifacts = json.loads(path.read_text("utf-8"))["artifacts"]
        assert f"docstokg-{name}-data" in artifacts[f"docstokg-{name}"]["dependencies"]


COMPARED = """
import json, sys
from dataclasses import replace
from pathlib import Path
from infra.app import build, refuse_removals
from infra.settings import environment
running, out = Path(sys.argv[1]), Path(sys.argv[2])
ours = environment("dev")

class Session:
    def get_partition_for_region(self, region):
        return "aws"
    def client(self, service, **keys):
        return self
    def assume_role(self, RoleArn, RoleSessionName):
        assert RoleArn.startswith("arn:aws:iam::") and "deploy-role" in RoleArn, RoleArn
        return {"Credentials": dict.fromkeys(("AccessKeyId", "SecretAccessKey", "SessionToken"))}
    def get_template(self, StackName):
        return {"TemplateBody": json.loads(running.read_text())}

fewer = replace(ours, models=tuple(m for m in ours.models if "claude" not in m))
refuse_removals(build(fewer, out=out), fewer, Session())
"""


def test_data_stacks_removing_values_in_use_are_refused(dev: Template, tmp_path: Path) -> None:
    """Of both stacks only this one has an error, so that the functions can be deployed first."""
    data, run = dev.paths
    for running, refused in ((run, True), (tmp_path / "0" / run.name, False)):
        out = tmp_path / str(int(not refused))
        done = infra_run("-c", COMPARED, str(running), str(out))
        assert done.returncode == 0, done.stderr[-3000:]
        assert "SecretsAnthropic" not in (out / data.name).read_text("utf-8")
        artifacts = json.loads((out / "manifest.json").read_text("utf-8"))["artifacts"]
        errors = {
            name: [
                entry["data"]
                for entries in _metadata(out, artifacts[name]).values()
                for entry in entries
                if entry["type"] == "aws:cdk:error"
            ]
            for name in ("docstokg-dev-data", "docstokg-dev")
        }
        assert errors["docstokg-dev"] == []
        assert bool(errors["docstokg-dev-data"]) is refused
        for text in errors["docstokg-dev-data"]:
            assert "SecretsAnthropic" in text and "docstokg-dev --exclusively" in text


def _metadata(out: Path, artifact: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    if "additionalMetadataFile" in artifact:
        return json.loads((out / artifact["additionalMetadataFile"]).read_text("utf-8"))
    return artifact.get("metadata", {})


def test_a_removed_domain_is_reported_as_still_read(
    dev: Template,
) -> None:
    data, run = (json.loads(text) for text in dev.texts)
    assert still_read(run, data) == []
    assert still_read({}, data) == []
    del data["Resources"]["SearchDomainAB6007CD"]
    data["Outputs"] = {k: v for k, v in data["Outputs"].items() if "SearchDomain" not in str(v)}
    assert "IndexArn" in still_read(run, data)

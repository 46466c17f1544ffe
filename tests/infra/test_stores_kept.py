"""No change replaces a store unnoticed, and none is locked by an export."""

import json
from pathlib import Path

import pytest

from tests.infra.conftest import Template
from tests.infra.stores import stores

pytestmark = [pytest.mark.xdist_group("synth"), pytest.mark.timeout(900)]

COMMITTED = Path(__file__).parent / "stores.json"


def test_every_store_is_the_one_that_was_made_first(template: Template) -> None:
    """Another logical id or another value here is a new, empty store beside an orphan.

    Where that is meant: write the file again (tests/infra/stores.py) and say in docs/deploy.md how
    the content gets across.
    """
    assert stores(template) == json.loads(COMMITTED.read_text("utf-8"))[template.name]


def test_another_engine_is_an_upgrade_in_place(template: Template) -> None:
    (domain,) = (
        resource
        for resource in template.resources.values()
        if resource["Type"] == "AWS::OpenSearchService::Domain"
    )
    assert domain["UpdatePolicy"] == {"EnableVersionUpgrade": True}


def test_no_output_is_an_export_that_locks_the_data_stack(assembly: Path) -> None:
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


def test_the_stack_that_runs_is_deployed_after_what_it_reads(assembly: Path) -> None:
    """A value is read while the reader is deployed, so the order has to be said."""
    manifests = [*assembly.glob("*/manifest.json")]
    assert len(manifests) == 3
    for path in manifests:
        name = path.parent.name
        artifacts = json.loads(path.read_text("utf-8"))["artifacts"]
        assert f"docstokg-{name}-data" in artifacts[f"docstokg-{name}"]["dependencies"]

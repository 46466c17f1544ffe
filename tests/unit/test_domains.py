"""A subject domain is named by a setting, found by its entry point, and acts in every mode."""

import re
import sys
from pathlib import Path

import pytest

from docstokg.contracts.check import Consistency, ConsistencyIssue
from docstokg.contracts.graph import GraphSlice
from docstokg.contracts.records import RelationRecord, Scope
from docstokg.domain.deadline import Deadline
from docstokg.errors import Misconfigured, Unavailable
from docstokg.usecases.domains import OntologyDomain, Together, domain_of
from tests.contract.embedded import EmbeddedGraph

PARTS = """
from docstokg.contracts.check import Consistency, ConsistencyIssue
class Parts:
    def expand_seeds(self, graph, seeds, scope, deadline):
        return (*seeds, "part:2")
    def metadata_filter(self, part):
        return {"plant": ("Ulm",)}
    def check_consistency(self, draft, graph, scope, deadline):
        issue = ConsistencyIssue(code="old_part", message="was replaced", start=0, end=4)
        return Consistency(ok=False, issues=(issue,))
PARTS = Parts()
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of somebody else, as pip leaves it."""
    (tmp_path / "their_parts.py").write_text(PARTS)
    info = tmp_path / "their_parts-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-parts\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[docstokg.domains]\nparts = their_parts:PARTS\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "their_parts", raising=False)


def test_one_that_is_not_installed_is_named() -> None:
    with pytest.raises(Misconfigured, match="'parts'"):
        domain_of(["ontology", "parts"])


def test_several_act_together(installed) -> None:
    class Other(OntologyDomain):
        def expand_seeds(self, graph, seeds, scope, deadline):
            return (*seeds, "other:1")

        def metadata_filter(self, part):
            return {"plant": ("Bonn",), "year": (2026,)}

        def check_consistency(self, draft, graph, scope, deadline):
            issue = ConsistencyIssue(code="late", message="later", start=9, end=10)
            return Consistency(ok=False, issues=(issue,))

    both = Together([Other(), domain_of(["parts"])])
    assert both.expand_seeds(None, ("a",), None, Deadline.after(30.0)) == ("a", "other:1", "part:2")
    assert both.metadata_filter(GraphSlice()) == {"plant": ("Bonn",), "year": (2026,)}
    report = both.check_consistency("x", None, None, Deadline.after(30.0))
    assert [issue.code for issue in report.issues] == ["old_part", "late"]
    assert report.ok is False


def test_the_example_of_the_page_adds_successors() -> None:
    page = (Path(__file__).parents[2] / "docs/domains.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.S)
    names = {}
    exec(example, names)
    graph = EmbeddedGraph()
    edges = (("1", "succeeded_by", "2"), ("1", "uses", "0"), ("0", "succeeded_by", "1"))
    graph.put_relations(
        [
            RelationRecord(namespace="default", source=f"part:{a}", type=kind, target=f"part:{b}")
            for a, kind, b in edges
        ]
    )
    seeds = names["PartsDomain"]().expand_seeds(
        graph, ("part:1",), Scope(namespace="default"), Deadline.after(30.0)
    )
    assert seeds == ("part:1", "part:2")


class Failing(OntologyDomain):
    def expand_seeds(self, graph, seeds, scope, deadline):
        raise Unavailable("the graph is away")


@pytest.mark.parametrize("enabled", [True, False])
def test_seeds_are_widened_in_every_mode(installed, enabled: bool) -> None:
    from docstokg_functions.expand.domain_seeds import widen_seeds
    from tests.unit.test_expand import plan, step

    now = plan("abc", seeds=("part:1",), enabled=enabled)
    run = step(now)
    widen_seeds(run, graph=None, domain=domain_of(["parts"]))
    wanted = ("part:1", "part:2") if enabled else ("part:1",)
    assert run.plan.expansion.seeds == wanted
    failed = step(now)
    widen_seeds(failed, graph=None, domain=Failing())
    assert failed.plan.expansion.seeds == ("part:1",)
    assert list(failed.degraded) == (["kg_unavailable"] if enabled else [])

"""The expand step on every graph store: flags, hops, bounds, seeds."""

from collections.abc import Sequence
from typing import Any

import pytest

from docstokg.contracts.graph import GraphSlice, SliceRequest
from docstokg.contracts.records import Scope
from docstokg.contracts.state import Expansion
from docstokg.domain.deadline import Deadline
from docstokg.ports import KnowledgeGraph
from tests.contract.test_knowledge_graph import (
    BRIDGE,
    Store,
    chunk,
    empty,  # noqa: F401 - a fixture
    entity,
    fill,
    mention,
    number,
    put_mentions,
    relation,
)
from tests.unit.test_expand import FACT, retrieved, run


class Counting:
    """Passes slices on and counts them: each is one round trip, and no other call is made."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._graph, self.trips = graph, 0

    def slice(self, request: SliceRequest, scope: Scope, deadline: Deadline) -> GraphSlice:
        """Count and pass on."""
        self.trips += 1
        return self._graph.slice(request, scope, Deadline.after(30))


@pytest.fixture
def clinic(empty: Store) -> Store:  # noqa: F811
    """The clinic, with a chunk about something else than is asked, and a chain of relations."""
    fill(empty.writer)
    empty.writer.put_chunks([chunk("x", "d5"), *(chunk(name, name) for name in "pqrs")])
    chain = [entity(f"X:{i}", f"link {i}") for i in range(4)]
    empty.writer.put_entities([entity("X:9", "other matter", listed=False), *chain])
    heads = {"x": "X:9"} | {name: f"X:{i}" for i, name in enumerate("pqrs")}
    put_mentions(empty.writer, *(mention(*pair, about=True) for pair in heads.items()))
    empty.writer.put_relations([relation(f"X:{i}", "leads_to", f"X:{i + 1}") for i in range(3)])
    empty.writer.close_load()
    return empty


def expanded(store: Store, query: str, pool: Sequence[str], **fields: Any) -> tuple[Expansion, int]:
    counting = Counting(store.graph)
    chosen = {name: fields.pop(name) for name in ("facts", "selected") if name in fields}
    return run(counting, query, retrieved(*pool, **chosen), **fields), counting.trips


def letters(expansion: Expansion) -> list[str]:
    names = {number(name): name for name in "abcdpqrsx"}
    return [names[item.uuid] for item in expansion.ranking]


def test_each_flag_changes_the_reply(clinic: Store) -> None:
    on, trips = expanded(clinic, "seizures in Crohn's disease", ["x"])
    assert (on.kg_stats.hops_executed, trips) == (2, 2)
    one_hop, trips = expanded(clinic, "seizures in Crohn's disease", ["x"], two_hops=False)
    assert (one_hop.kg_stats.hops_executed, trips) == (1, 1)
    off, trips = expanded(clinic, "seizures in Crohn's disease", ["x"], enabled=False)
    assert (letters(off), off.graph_gain.skipped, trips) == (["x"], "disabled", 0)
    plain, boosted = (
        letters(expanded(clinic, "bridge", "xad", boost=boost, facts=(FACT,), selected=3)[0])
        for boost in (0.0, 3.0)
    )
    assert plain.index("x") < plain.index("d")
    assert boosted.index("d") < boosted.index("x")


@pytest.mark.parametrize(("hops", "reached"), [(1, "pq"), (2, "pqr"), (3, "pqrs")])
def test_hops_lead_as_far_as_they_say(clinic: Store, hops: int, reached: str) -> None:
    expansion, trips = expanded(clinic, "link 0", "xp", max_hops=hops)
    assert (expansion.kg_stats.hops_executed, trips) == (hops, hops)
    assert set(letters(expansion)) == {"x", *reached}


def test_bounds_hold_for_everything_added(clinic: Store) -> None:
    def added(**bounds: Any) -> set[str]:
        expansion, _ = expanded(clinic, "Crohn's disease", "x", max_hops=2, **bounds)
        return set(letters(expansion)) - {"x"}

    assert added() == {"a", "b", "c"}
    assert added(concept_types=("hp",)) == {"a"}
    assert added(relations=("has_symptom",)) == {"a"}
    assert added(relations=("nope",)) == set()


def test_only_named_entities_are_direct_mentions(clinic: Store) -> None:
    expansion, _ = expanded(clinic, "Crohn's disease", "x", max_hops=2)
    kinds = {
        name: item.evidence.match_type
        for name, item in zip(letters(expansion), expansion.ranking, strict=True)
        if item.evidence
    }
    assert kinds["b"] == "direct_mention"
    assert kinds["a"] == "related_via"
    nothing, _ = expanded(clinic, "nothing known", "d", max_hops=2)
    assert all(
        item.evidence is None or item.evidence.match_type is None for item in nothing.ranking
    )


@pytest.mark.parametrize(
    "seed", [number("d"), "d", "doc:d4", "d4", "topic:seizure", "seizure", BRIDGE], ids=repr
)
def test_every_kind_of_node_is_a_seed(clinic: Store, seed: str) -> None:
    expansion, trips = expanded(clinic, "nothing known", "x", seeds=(seed, "no:1"), max_hops=1)
    assert "d" in letters(expansion)
    assert expansion.warnings == ("kg_expansion.seeds not in the graph: no:1",)
    assert trips == 1

"""Evidence is the end of a path from the question; seeds may be names and unusual ids."""

import pytest

from tests.contract.embedded import EmbeddedGraph
from tests.contract.test_knowledge_graph import (
    BRIDGE,
    chunk,
    entity,
    fill,
    mention,
    number,
    put_mentions,
)
from tests.unit.test_expand import retrieved, run


@pytest.fixture
def graph() -> EmbeddedGraph:
    """The clinic."""
    graph = EmbeddedGraph()
    fill(graph)
    return graph


def test_ties_from_the_pool_alone_are_no_evidence(graph: EmbeddedGraph) -> None:
    graph.put_entities([entity("X:1", "Far thing"), entity("X:2", "Farther thing")])
    graph.put_chunks([chunk("far", "d7"), chunk("farther", "d8")])
    put_mentions(
        graph,
        mention("far", "X:1", 0, 3),
        mention("farther", "X:1", about=True),
        mention("farther", "X:2", 5, 8),
    )
    expansion = run(graph, "seizures", retrieved("far", "a"))
    by_uuid = {item.uuid: item for item in expansion.ranking}
    assert by_uuid[number("far")].evidence is None  # its only name is not tied to the question
    added = by_uuid[number("farther")]
    assert added.source == "kg_expansion"
    assert added.evidence is not None
    assert (added.evidence.match_type, added.evidence.related_to) == (None, None)
    named = by_uuid[number("a")].evidence
    assert named is not None
    assert (named.match_type, named.path) == ("direct_mention", ())


def test_an_edge_between_two_chunk_names_spans_both(graph: EmbeddedGraph) -> None:
    expansion = run(graph, "Crohn's disease", retrieved("d"))
    tied = next(item for item in expansion.ranking if item.uuid == number("d")).evidence
    assert tied is not None
    assert tied.match_type == "related_via"
    (edge,) = (expansion.edges[i] for i in tied.path)
    assert (edge.src, edge.type, edge.dst) == ("MONDO:1", "CO_MENTIONED", BRIDGE)
    assert edge.evidence is not None
    assert (edge.evidence.uuid, edge.evidence.start, edge.evidence.end) == (number("b"), 0, 26)


def test_names_and_entity_like_chunk_ids_are_seeds(graph: EmbeddedGraph) -> None:
    graph.put_chunks([chunk("HP:0001250/with", "d9")])
    by_chunk = run(graph, "nothing known", retrieved("x"), seeds=("HP:0001250/with",))
    assert by_chunk.warnings == ()
    assert [item.source for item in by_chunk.ranking] == ["hybrid", "kg_expansion"]
    by_name = run(graph, "nothing known", retrieved("x"), seeds=("crohn's disease",))
    assert by_name.warnings == ()
    assert [seed.id for seed in by_name.seeds] == ["MONDO:1"]

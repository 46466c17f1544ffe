"""Edge weights decide every ranking: only rarity, headings and relations count."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.contracts.graph import (
    GraphSlice,
    SliceChunk,
    SliceEntity,
    SliceMention,
    SliceRelation,
)
from docstokg.domain.graph.slice_graph import (
    WEIGHTS,
    SliceGraph,
    Weights,
    ranked_chunks,
    restart,
    walk,
)

MANY = st.integers(1, 1000)


def graph(
    mentions: list[tuple[str, str, bool]],
    counts: dict[str, tuple[int, int]],
    relations: tuple[tuple[str, str], ...] = (),
    weights: Weights = WEIGHTS,
) -> SliceGraph:
    entities = {entity for _, entity, _ in mentions} | {e for pair in relations for e in pair}
    return SliceGraph(
        GraphSlice(
            entities=tuple(
                SliceEntity(e, e, mentions=counts.get(e, (2, 0))[0], heads=counts.get(e, (2, 0))[1])
                for e in sorted(entities)
            ),
            chunks=tuple(SliceChunk(c, c, c) for c in sorted({c for c, _, _ in mentions})),
            mentions=tuple(SliceMention(c, e, about=about) for c, e, about in mentions),
            relations=tuple(SliceRelation(a, "r", b) for a, b in relations),
        ),
        (),
        weights,
    )


def weight(part: SliceGraph, start: str, end: str) -> float:
    ends = {part.node[start], part.node[end]}
    return next(value for a, b, value in part.edges if {a, b} == ends)


@given(MANY, MANY)
def test_a_rarer_entity_ties_more(rare: int, common: int) -> None:
    part = graph([("c", "a", False), ("c", "b", False)], {"a": (rare, 0), "b": (common, 0)})
    assert (weight(part, "c", "a") >= weight(part, "c", "b")) == (rare <= common)
    assert weight(part, "c", "a") == pytest.approx(math.log(1 + 10_000 / rare))


@given(MANY, MANY)
def test_title_weights_fall_with_the_number_of_headings(smaller: int, larger: int) -> None:
    def headed(heads: int) -> float:
        return weight(graph([("c", "a", True)], {"a": (1001, heads)}), "c", "a")

    mention = weight(graph([("c", "a", False)], {"a": (1001, 0)}), "c", "a")
    assert headed(1) == pytest.approx(mention * WEIGHTS.about)
    assert headed(min(smaller, larger)) >= headed(max(smaller, larger)) >= mention


def test_relations_weigh_like_mentions_of_their_commoner_end() -> None:
    part = graph([], {"a": (1, 0), "b": (100, 0)}, (("a", "b"),), Weights(relation=3.0))
    assert weight(part, "a", "b") == pytest.approx(3 * math.log(101))


def test_chunks_about_an_entity_outrank_chunks_mentioning_it() -> None:
    part = graph(
        [("start", "a", False), ("article", "a", True), ("other", "a", False)], {"a": (3, 1)}
    )
    scores = walk(part, restart(part, {}, [], {"start": 1.0}))
    assert ranked_chunks(part, scores, {}) == ["article", "start", "other"]


def test_the_graph_orders_only_pools_without_clear_winner() -> None:
    mentions = [("first", "x", True), ("second", "a", True), ("third", "b", False)]
    part = graph(mentions, {"x": (1, 1), "a": (1, 1)})

    def first(pool: dict[str, float]) -> str:
        scores = walk(part, restart(part, {"a": 1.0}, [], pool))
        return ranked_chunks(part, scores, pool)[0]

    assert first({"first": 3.0, "second": 1.0, "third": 1.0}) == "first"
    assert first({"first": 2.0, "second": 1.95, "third": 1.9}) == "second"


@given(st.dictionaries(st.sampled_from("abc"), st.floats(0.1, 1.0), min_size=1))
def test_seeds_and_pool_share_the_restart(named: dict[str, float]) -> None:
    part = graph([("chunk", e, False) for e in "abc"], {})
    start = restart(part, named, [], {"chunk": 0.7})
    assert float(start.sum()) == pytest.approx(1 + WEIGHTS.passages)
    assert float(start[part.node["chunk"]]) == pytest.approx(WEIGHTS.passages)


def test_unreached_chunks_keep_retrieval_order() -> None:
    part = graph([("c", "a", False)], {})
    empty = SliceGraph(GraphSlice(), ("x", "y", "z"))
    scores = walk(empty, restart(empty, {}, [], {"z": 1.0}))
    assert ranked_chunks(empty, scores, {"x": 0.1, "y": 0.5, "z": 0.2}) == ["z", "y", "x"]
    assert part.led_on(["c"]) == part.led_on(["unknown"]) == part.led_on([]) == 0


def test_a_mention_leads_to_chunks_about_it() -> None:
    headline = graph([("c", "a", True), ("d", "b", False)], {"a": (1, 1)})
    title = graph([("c", "a", True), ("d", "a", False)], {"a": (2, 1)})
    assert headline.led_on(["c", "d"]) == 0
    assert title.led_on(["c", "d"]) == 0.5
    assert title.led_on(["d"]) == 1


def test_labels_mentioned_only_by_their_chunks_lead_nowhere() -> None:
    """A section's label ties the section's chunks alone: their order is the search's."""
    mentions = [("c", "label", True), ("d", "label", True), ("c", "a", False), ("e", "a", True)]
    part = graph(mentions, {"label": (2, 2), "a": (2, 1)})
    scores = walk(part, restart(part, {}, [], {"c": 1.0}))
    assert scores[part.node["d"]] == 0 < scores[part.node["e"]]
    quoted = graph(mentions, {"label": (3, 2), "a": (2, 1)})
    assert walk(quoted, restart(quoted, {}, [], {"c": 1.0}))[quoted.node["d"]] > 0


def test_names_of_long_manuals_are_weak_starts() -> None:
    part = graph([("c", "long", True), ("d", "page", True)], {"long": (200, 100), "page": (9, 4)})

    def share(named: dict[str, float]) -> float:
        return float(restart(part, named, [], {"d": 1.0})[: len(part.entities)].sum())

    assert share({"page": 1.0}) == pytest.approx(1.0)
    assert share({"long": 1.0}) == pytest.approx(WEIGHTS.about / 10)
    assert share({"long": 1.0, "page": 1.0}) == pytest.approx(1.0)

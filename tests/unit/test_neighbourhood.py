"""Caps must hold for any graph, and what the question names must never be crowded out."""

from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.neighbourhood import Mentioned, choose_nodes, choose_starts

KEYS = st.integers(0, 30)
ROWS = st.lists(
    st.builds(Mentioned, KEYS, st.integers(0, 50), st.integers(1, 40), st.just("")).map(
        lambda row: Mentioned(row.entity, row.position, row.count, f"e{row.entity:02}")
    ),
    max_size=60,
)


@given(st.lists(KEYS, unique=True, max_size=10), ROWS, st.integers(2, 60))
def test_starts_are_named_first_capped_and_lead_somewhere(
    named: list[int], rows: list[Mentioned], max_nodes: int
) -> None:
    starts = choose_starts(named, rows, max_nodes)
    assert len(starts) == len(set(starts)) <= max_nodes // 2
    assert starts[: len(named)] == named[: max_nodes // 2]
    shared = {row.entity for row in rows if row.count >= 2}
    assert set(starts) <= set(named) | shared


def test_a_rare_early_mention_leads() -> None:
    rows = [Mentioned(1, 0, 2, "a"), Mentioned(2, 0, 50, "b"), Mentioned(3, 40, 2, "c")]
    assert choose_starts([], rows, 600) == [1, 3, 2]
    assert choose_starts([], [Mentioned(1, 0, 1, "a")], 600) == []


@given(
    st.lists(KEYS, unique=True, min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(100, 160)), max_size=60),
    st.lists(st.tuples(st.integers(0, 7), KEYS), max_size=60),
    st.lists(st.integers(100, 160), unique=True, max_size=30),
    st.integers(1, 80),
)
def test_the_cap_holds_and_nothing_is_invented(
    starts: list[int],
    near: list[tuple[int, int]],
    links: list[tuple[int, int]],
    pool: list[int],
    max_nodes: int,
) -> None:
    near = [(starts[i % len(starts)], other) for i, other in near]
    links = [(starts[i % len(starts)], other) for i, other in links]
    choice = choose_nodes(starts, near, links, pool, max_nodes)
    assert len(choice.entities) + len(choice.chunks) <= max(max_nodes, len(starts))
    assert choice.entities[: len(starts)] == tuple(starts)
    assert len(set(choice.entities)) == len(choice.entities)
    assert len(set(choice.chunks)) == len(choice.chunks)
    assert set(choice.chunks) <= set(pool) | {other for _, other in near}
    found = set(pool) | {other for _, other in near}
    around = {other for _, other in links} - set(starts)
    everything = len(choice.chunks) == len(found) and len(choice.entities) == len(starts) + len(
        around
    )
    assert choice.truncated is not everything

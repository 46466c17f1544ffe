"""Caps hold for any graph and never exclude entities that the question names."""

from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.graph.neighbourhood import (
    Mentioned,
    choose_chunks,
    choose_entities,
    choose_near,
    most_entities,
    place_weight,
)

KEYS = st.integers(0, 30)
ROWS = st.lists(
    st.builds(Mentioned, KEYS, st.integers(1, 10**6), st.integers(1, 40), st.booleans()),
    max_size=60,
    unique_by=lambda row: row.entity,
)
LINKS = st.lists(st.tuples(st.integers(0, 7), KEYS), max_size=60)


@given(st.lists(KEYS, unique=True, max_size=10), LINKS, ROWS, st.sets(KEYS), st.integers(2, 60))
def test_entities_are_capped_new_and_lead_somewhere(
    opened: list[int],
    links: list[tuple[int, int]],
    rows: list[Mentioned],
    before: set[int],
    max_nodes: int,
) -> None:
    chosen = choose_entities(opened, links, rows, max_nodes, before)
    assert len(chosen) == len(set(chosen)) <= most_entities(max_nodes)
    assert list(chosen[: len(opened)]) == opened[: most_entities(max_nodes)]
    fresh = set(chosen) - set(opened)
    assert not fresh & before
    shared = {row.entity for row in rows if row.chunks >= 2 or row.heads}
    assert fresh <= shared | {other for _, other in links}


def test_related_entities_then_rare_early_mentions_come_first() -> None:
    first, late = place_weight(0), place_weight(30)
    rows = [
        Mentioned(1, first, 2, False), Mentioned(2, first, 50, False), Mentioned(3, late, 2, False),
    ]  # fmt: skip
    assert choose_entities([], [], rows, 600) == (1, 3, 2)
    assert choose_entities([9], [(0, 3)], rows, 600) == (9, 3, 1, 2)
    assert choose_entities([], [], [Mentioned(1, first, 1, False)], 600) == ()
    assert choose_entities([], [], [Mentioned(1, first, 1, True)], 600) == (1,)


def test_neighbours_of_hubs_leave_room_for_mentions() -> None:
    links = [(0, other) for other in range(100, 200)]
    rows = [Mentioned(other, place_weight(0), 2, False) for other in range(20)]
    chosen = choose_entities([9], links, rows, 60)
    assert sum(key >= 100 for key in chosen) == 10
    assert {row.entity for row in rows} <= set(chosen)


@given(
    st.lists(KEYS, unique=True, max_size=20),
    st.lists(st.lists(KEYS, max_size=5), max_size=5),
    st.integers(2, 40),
)
def test_given_chunks_are_opened_first(
    given_chunks: list[int], near: list[list[int]], max_nodes: int
) -> None:
    opened = choose_chunks(given_chunks, near, max_nodes)
    assert len(opened) == len(set(opened)) <= max_nodes // 2
    assert list(opened[: len(given_chunks)]) == given_chunks[: max_nodes // 2]


@given(
    st.lists(KEYS, unique=True, min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(100, 160)), max_size=60),
    LINKS,
    st.integers(1, 80),
)
def test_a_layer_fills_its_cap(
    starts: list[int], near: list[tuple[int, int]], links: list[tuple[int, int]], max_nodes: int
) -> None:
    near = [(starts[i % len(starts)], other) for i, other in near]
    links = [(starts[i % len(starts)], other) for i, other in links]
    choice = choose_near(starts, near, links, max_nodes)
    assert len(choice.entities) + len(choice.chunks) <= max(max_nodes, len(starts))
    assert choice.entities[: len(starts)] == tuple(starts)
    reached = {other for _, other in near}
    around = {other for _, other in links} - set(starts)
    assert set(choice.chunks) <= reached
    # Nothing is left out while there is room: what found none fills up to the cap.
    room = max(0, max_nodes - len(starts))
    assert len(choice.chunks) + len(choice.entities) - len(starts) == min(
        room, len(reached) + len(around)
    )

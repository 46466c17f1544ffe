"""Which nodes a capped slice of the graph keeps, so that every store answers alike.

The rule is here for SQLite and in adapters/cypher.py for Neo4j, with the same numbers;
tests/contract/test_knowledge_graph.py holds the two together.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

SMOOTHING = 10
"""As in reciprocal rank fusion: how much more the first places count than the next."""

UNIT = 1_000_000
"""Weights are whole numbers, whose sums do not depend on the order a store adds them in."""

LEAST_MENTIONS = 2
"""An entity that one chunk alone mentions, and none is about, leads nowhere."""

OPENED_SHARE = 2
"""Opened chunks take at most one in so many of all nodes."""

NEIGHBOUR_SHARE = 6
"""Neighbours may take one in so many of all nodes."""

COUNT_LIMIT = 1000
"""Chunks that mention an entity are counted up to here."""

MAX_HEADED = 500
"""Chunks about one entity among which the preferred ones are looked for."""

MAX_ALIASES = 500
MAX_RELATIONS = 5000


@dataclass(frozen=True, slots=True)
class Mentioned:
    """The opened chunk at `place` (0-based) mentions `entity`, as `count` chunks do in all.

    `heads`: whether any chunk is about the entity.
    """

    entity: int
    place: int
    count: int
    heads: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """The nodes to keep, best first; `truncated`: something found was left out."""

    entities: tuple[int, ...]
    chunks: tuple[int, ...]
    truncated: bool


def most_entities(max_nodes: int) -> int:
    """Give how many entities a slice of so many nodes holds: two thirds."""
    return max(1, max_nodes * 2 // 3)


def choose_chunks(
    given: Sequence[int], near: Iterable[Sequence[int]], max_nodes: int
) -> tuple[int, ...]:
    """Give the chunks to open: `given`, then those `near` each opened entity; half of the nodes."""
    found = dict.fromkeys(given)
    for chunks in near:
        found.update(dict.fromkeys(chunks))
    return tuple(found)[: max_nodes // OPENED_SHARE]


def choose_entities(
    opened: Sequence[int],
    neighbours: Iterable[tuple[int, int]],
    mentioned: Iterable[Mentioned],
    max_nodes: int,
    before: Collection[int] = (),
) -> tuple[int, ...]:
    """Give the entities to keep: at most two thirds of the nodes, none of those known `before`.

    The opened come first; then what relations lead to (`neighbours`: place of the opened entity,
    other end), a sixth of the nodes, by sum of 1 / (10 + place); then what the opened chunks
    mention, by the same sum over the root of how many chunks mention it. An entity that one chunk
    alone mentions, and none is about, leads nowhere and is left out. Ties by key.
    """
    old = {*opened, *before}
    linked: dict[int, int] = {}
    for place, other in dict.fromkeys(neighbours):
        if other not in old:
            linked[other] = linked.get(other, 0) + UNIT // (SMOOTHING + place)
    near = sorted(linked, key=lambda key: (-linked[key], key))[: max_nodes // NEIGHBOUR_SHARE]
    old.update(near)
    weight: dict[int, int] = {}
    spread: dict[int, float] = {}
    for row in mentioned:
        if (row.count >= LEAST_MENTIONS or row.heads) and row.entity not in old:
            weight[row.entity] = weight.get(row.entity, 0) + UNIT // (SMOOTHING + row.place)
            spread[row.entity] = math.sqrt(row.count)
    ranked = sorted(weight, key=lambda key: (-weight[key] / spread[key], key))
    return (*dict.fromkeys(opened), *near, *ranked)[: most_entities(max_nodes)]


def choose_near(
    starts: Sequence[int],
    near: Iterable[tuple[int, int]],
    neighbours: Iterable[tuple[int, int]],
    max_nodes: int,
) -> Choice:
    """Fill a layer of a walk: `starts`, their chunks, their neighbours.

    `near`: (start, chunk) as fetched for each start; `neighbours`: (start, other entity), which
    may take a sixth of all nodes and what the chunks leave free. Both rank by sum of
    1 / (10 + place of the start), ties by key.
    """
    place = {entity: i for i, entity in enumerate(starts)}
    chunks = _ranked(near, place)
    others = _ranked(((start, other) for start, other in neighbours if other not in place), place)
    room = max(0, max_nodes - len(starts))
    kept = chunks[: room - min(len(others), max_nodes // NEIGHBOUR_SHARE, room)]
    extra = others[: room - len(kept)]
    left_out = len(chunks) > len(kept) or len(others) > len(extra)
    return Choice((*starts, *extra), tuple(kept), left_out)


def _ranked(pairs: Iterable[tuple[int, int]], place: dict[int, int]) -> list[int]:
    weight: dict[int, int] = {}
    for start, other in dict.fromkeys(pairs):
        weight[other] = weight.get(other, 0) + UNIT // (SMOOTHING + place[start])
    # Two sorts, the second keeping the first's order among equals, beat one by pairs.
    return sorted(sorted(weight), key=weight.__getitem__, reverse=True)

"""Which nodes a capped slice of the graph keeps, so that every store answers alike.

The rule is here for SQLite and in adapters/neo4j/cypher.py for Neo4j, with the same numbers;
tests/contract/test_knowledge_graph.py holds the two together.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


class Mentioned(NamedTuple):
    """The opened chunks mention `entity`, as `chunks` chunks do in all.

    `weight`: sum of `place_weight` over the places of those chunks. `heads`: whether any chunk is
    about the entity.
    """

    entity: int
    weight: int
    chunks: int
    heads: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """The nodes to keep, best first."""

    entities: tuple[int, ...]
    chunks: tuple[int, ...]


def place_weight(place: int) -> int:
    """Say how much a chunk or entity at a place (0-based) of those opened counts."""
    return UNIT // (SMOOTHING + place)


def most_entities(max_nodes: int) -> int:
    """Give how many entities a slice of so many nodes holds: two thirds."""
    return max(1, max_nodes * 2 // 3)


def choose_chunks(
    seeds: Sequence[int], near: Iterable[Sequence[int]], max_nodes: int
) -> tuple[int, ...]:
    """Give the chunks to open: `seeds`, then those `near` each opened entity; half of the nodes."""
    ordered = dict.fromkeys(seeds)
    for chunks in near:
        ordered.update(dict.fromkeys(chunks))
    return tuple(ordered)[: max_nodes // OPENED_SHARE]


def choose_entities(
    opened: Sequence[int],
    neighbours: Iterable[tuple[int, int]],
    mentioned: Iterable[tuple[int, int, int, bool]],
    max_nodes: int,
    before: Collection[int] = (),
) -> tuple[int, ...]:
    """Give the entities to keep: at most two thirds of the nodes, none of those known `before`.

    The opened come first; then what relations lead to (`neighbours`: place of the opened entity,
    other end), a sixth of the nodes, by sum of 1 / (10 + place); then what the opened chunks
    mention (rows of what `Mentioned` has), by the same sum over the root of how many chunks mention
    it. An entity that one chunk alone mentions, and none is about, leads nowhere and is left out.
    Ties by key.
    """
    old = {*opened, *before}
    linked: dict[int, int] = {}
    for place, other in dict.fromkeys(neighbours):
        if other not in old:
            linked[other] = linked.get(other, 0) + place_weight(place)
    near = sorted(linked, key=lambda key: (-linked[key], key))[: max_nodes // NEIGHBOUR_SHARE]
    old.update(near)
    root = math.sqrt
    ranked = sorted(
        [
            (-weight / root(count), entity)
            for entity, weight, count, heads in mentioned
            if (count >= LEAST_MENTIONS or heads) and entity not in old
        ]
    )
    chosen = (*dict.fromkeys(opened), *near, *(entity for _, entity in ranked))
    return chosen[: most_entities(max_nodes)]


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
    near_chunks = chunks[: room - min(len(others), max_nodes // NEIGHBOUR_SHARE, room)]
    extra = others[: room - len(near_chunks)]
    return Choice((*starts, *extra), tuple(near_chunks))


def _ranked(pairs: Iterable[tuple[int, int]], place: dict[int, int]) -> list[int]:
    weight: dict[int, int] = {}
    for start, other in dict.fromkeys(pairs):
        weight[other] = weight.get(other, 0) + place_weight(place[start])
    # Two sorts, the second keeping the first's order among equals, beat one by pairs.
    return sorted(sorted(weight), key=weight.__getitem__, reverse=True)

"""Node selection for a slice of the graph, equal for all stores.

adapters/neo4j/cypher.py repeats its numbers.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

# As in reciprocal rank fusion: damps the advantage of the first places.
SMOOTHING = 10

# Weights are integers, so that sums do not depend on the order of addition.
UNIT = 1_000_000

# Minimum chunks that mention an entity, unless a chunk is about it.
LEAST_MENTIONS = 2

# Opened chunks take at most 1/OPENED_SHARE of all nodes.
OPENED_SHARE = 2

# Neighbours take at most 1/NEIGHBOUR_SHARE of all nodes.
NEIGHBOUR_SHARE = 6

# Limit for counting the chunks that mention an entity.
COUNT_LIMIT = 1000

# Maximum chunks about one entity that are searched for preferred ones.
MAX_HEADED = 500

MAX_ALIASES = 500
MAX_RELATIONS = 5000


class Mentioned(NamedTuple):
    """An entity mentioned by opened chunks.

    `weight`: sum of `place_weight` over those chunks. `chunks`: number of all chunks that mention
    it. `heads`: whether any chunk is about it.
    """

    entity: int
    weight: int
    chunks: int
    heads: bool


class Choice(NamedTuple):
    """The nodes to keep, best first."""

    entities: tuple[int, ...]
    chunks: tuple[int, ...]


def place_weight(place: int) -> int:
    """Return the weight of a 0-based place: 1,000,000 // (10 + place)."""
    return UNIT // (SMOOTHING + place)


def most_entities(max_nodes: int) -> int:
    """Return the maximum entities in a slice: two thirds of its nodes, at least 1."""
    return max(1, max_nodes * 2 // 3)


def choose_chunks(
    seeds: Sequence[int], near: Iterable[Sequence[int]], max_nodes: int
) -> tuple[int, ...]:
    """Return distinct chunks to open, at most half of the nodes: `seeds`, then each of `near`."""
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
    """Return the entities to keep, at most two thirds of the nodes.

    First the opened entities; then, except those in `before`, up to a sixth of the nodes from
    `neighbours` (place of the opened entity, other end), by sum of 1 / (10 + place); then entities
    of the opened chunks, by the same sum divided by the square root of their chunk count, without
    those with one chunk that is not about them. Ties by key.
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
    """Return the nodes of a walk's layer: `starts`, their chunks, their neighbours.

    `near`: (start, chunk); `neighbours`: (start, other entity), which get up to a sixth of all
    nodes plus unused room. Both are ranked by sum of 1 / (10 + place of the start), ties by key; a
    start outside `starts` raises KeyError.
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
    # Two stable sorts are faster than one with pairs as keys.
    return sorted(sorted(weight), key=weight.__getitem__, reverse=True)

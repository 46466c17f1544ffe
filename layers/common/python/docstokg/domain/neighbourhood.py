"""Which nodes a capped slice of the graph keeps, so that every store answers alike.

The rule is here for SQLite and in adapters/cypher.py for Neo4j, with the same numbers;
tests/contract/test_knowledge_graph.py holds the two together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SMOOTHING = 10
"""As in reciprocal rank fusion: how much more the first places count than the next."""

LEAST_MENTIONS = 2
"""An entity that one chunk alone mentions leads nowhere."""

START_SHARE = 2
"""Starts take at most one in so many of all nodes."""

POOL_SHARE = 2
"""Pool chunks may take one in so many of the places that starts and neighbours leave."""

NEIGHBOUR_SHARE = 6
"""Neighbours may take one in so many of all nodes."""

COUNT_LIMIT = 1000
"""Chunks that mention an entity are counted up to here."""

MAX_ALIASES = 500
MAX_RELATIONS = 5000


@dataclass(frozen=True, slots=True)
class Mentioned:
    """The pool chunk at `position` (0-based) mentions `entity`, as `count` chunks do in all."""

    entity: int
    position: int
    count: int
    id: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The nodes to keep, best first; `truncated`: something found was left out."""

    entities: tuple[int, ...]
    chunks: tuple[int, ...]
    truncated: bool


def most_starts(max_nodes: int) -> int:
    """Give how many entities a slice of so many nodes looks around."""
    return max(1, max_nodes // START_SHARE)


def choose_starts(
    named: Sequence[int], mentioned: Iterable[Mentioned], max_nodes: int
) -> list[int]:
    """Give the entities to look around: `named` first, then the pool's, at most half the nodes.

    An entity that one chunk alone mentions leads nowhere and is left out. The others rank by
    sum over pool chunks of 1 / (10 + position), divided by the square root of `count`; ties by id.
    """
    weight: dict[int, float] = {}
    rarity: dict[int, float] = {}
    name: dict[int, str] = {}
    known = set(named)
    for row in mentioned:
        if row.count >= LEAST_MENTIONS and row.entity not in known:
            weight[row.entity] = weight.get(row.entity, 0.0) + 1 / (SMOOTHING + row.position)
            rarity[row.entity], name[row.entity] = row.count**-0.5, row.id
    ranked = sorted(weight, key=lambda key: (-weight[key] * rarity[key], name[key]))
    return [*named, *ranked][: most_starts(max_nodes)]


def choose_nodes(
    starts: Sequence[int],
    near: Iterable[tuple[int, int]],
    neighbours: Iterable[tuple[int, int]],
    pool: Sequence[int],
    max_nodes: int,
) -> Choice:
    """Fill the slice: `starts`, the pool's chunks, the starts' chunks, the starts' neighbours.

    `near`: (start, chunk) as fetched for each start; `neighbours`: (start, other entity). Pool
    chunks may take half of what the starts leave, neighbours a sixth of all nodes, and each what
    the other leaves free. Chunks and neighbours rank by sum of 1 / (10 + place of the start),
    ties by key.
    """
    place = {entity: i for i, entity in enumerate(starts)}
    old = set(pool)
    chunks = _ranked(((start, chunk) for start, chunk in near if chunk not in old), place)
    others = _ranked(((start, other) for start, other in neighbours if other not in place), place)
    room = max(0, max_nodes - len(starts))
    reserved = min(len(others), max_nodes // NEIGHBOUR_SHARE, room)
    kept_pool = list(pool)[: max((room - reserved) // POOL_SHARE, room - reserved - len(chunks))]
    kept = [*kept_pool, *chunks][: room - reserved]
    extra = others[: room - len(kept)]
    left_out = len(pool) + len(chunks) > len(kept) or len(others) > len(extra)
    return Choice((*starts, *extra), tuple(kept), left_out)


def _ranked(pairs: Iterable[tuple[int, int]], place: dict[int, int]) -> list[int]:
    share = {start: 1 / (SMOOTHING + i) for start, i in place.items()}
    weight: dict[int, float] = {}
    for start, other in dict.fromkeys(pairs):
        weight[other] = weight.get(other, 0.0) + share[start]
    # Two sorts, the second keeping the first's order among equals, beat one by pairs.
    return sorted(sorted(weight), key=weight.__getitem__, reverse=True)

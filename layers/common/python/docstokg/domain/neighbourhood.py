"""Which nodes a capped slice of the graph keeps: the one rule that every store applies."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mentioned:
    """A pool chunk at `position` mentions `entity`, which `count` chunks mention in all."""

    entity: int
    position: int
    count: int
    id: str


@dataclass(frozen=True, slots=True)
class Budget:
    """Caps: nodes in all, chunks of one entity, neighbours of one entity."""

    nodes: int
    chunks_per_entity: int
    neighbours_per_entity: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The nodes to keep, best first."""

    entities: tuple[int, ...]
    chunks: tuple[int, ...]
    truncated: bool


def choose_starts(
    named: Sequence[int], mentioned: Iterable[Mentioned], max_nodes: int
) -> list[int]:
    best: dict[int, float] = {}
    info = {}
    for row in mentioned:
        if row.count < 2:
            continue
        best[row.entity] = best.get(row.entity, 0.0) + 1 / (10 + row.position)
        info[row.entity] = row
    ranked = sorted(
        (key for key in best if key not in named),
        key=lambda key: (-best[key] / info[key].count ** 0.5, info[key].id),
    )
    return [*named, *ranked][: max(1, max_nodes // 2)]


def choose_chunks(
    starts: Sequence[int],
    near: Iterable[tuple[int, int]],
    neighbours: Iterable[tuple[int, int, float]],
    pool: Sequence[int],
    budget: Budget,
) -> Choice:
    order = {entity: i for i, entity in enumerate(starts)}
    weight: dict[int, float] = {}
    for entity, chunk in near:
        weight[chunk] = weight.get(chunk, 0.0) + 1 / (10 + order[entity])
    room = budget.nodes - len(starts)
    in_pool = set(pool)
    new = sorted((c for c in weight if c not in in_pool), key=lambda c: (-weight[c], c))
    pool_kept = list(pool)[: max(room // 2, room - len(new))]
    chunks = (pool_kept + new)[:room]
    room -= len(chunks)
    links: dict[int, int] = {}
    for entity, other, _ in neighbours:
        if other not in order:
            links[other] = links.get(other, 0) + 1
    extra = sorted(links, key=lambda e: (-links[e], e))[:room]
    truncated = len(new) + len(pool) > len(chunks) or len(links) > len(extra)
    return Choice((*starts, *extra), tuple(chunks), truncated)

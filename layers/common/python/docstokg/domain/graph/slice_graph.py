"""Graph of a slice."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from docstokg.contracts.graph import (
    AliasMatch,
    GraphSlice,
    SliceEntity,
    SliceMention,
    SliceRelation,
    identity,
    united,
)
from docstokg.contracts.request import Direction
from docstokg.domain.graph.linking import Linker, Match, resolve
from docstokg.domain.graph.pagerank import Vector, personalised
from docstokg.domain.graph.same_names import SAME_AS
from docstokg.domain.identity import is_own_id
from docstokg.domain.text.names import PROPER

# Number of best facts whose endpoints become seeds (5 to 20 measured equal).
FACTS = 10

# Pool chunks that are opened and restart the walk: 10 lose half of the gain, 30 add little.
SEEDING_CHUNKS = 20


class Links(NamedTuple):
    """Links between chunks that let the walk reorder: docs/decisions/graph-order.md.

    `rare`: maximum chunks that mention a rare entity. `share`: minimum share of opened chunks (four
    of twenty) that mention another chunk's rare subject.
    """

    rare: int = 50
    share: float = 0.2


LINKS = Links()

# Collection size used for rarity, independent of the store: 200 to a billion rank equally.
COLLECTION = 10_000


class Weights(NamedTuple):
    """Weights of the walk, measured in docs/decisions/graph.md.

    `about`: edge between a chunk and its subject, in mentions. `relation`: edge between entities,
    in mentions. `passages`: the pool relative to all seeds. `sharpness`: exponent of the fused
    scores.
    """

    about: float = 5.0
    relation: float = 2.0
    passages: float = 2.0
    sharpness: float = 5.0


WEIGHTS = Weights()


class SliceGraph:
    """A graph of a slice: nodes are numbered entities first, then chunks, each sorted by id.

    A mention weighs log(1 + 10,000 / chunks that mention the entity), for the subject of a chunk
    multiplied by max(1, `about` / sqrt(chunks about it)). A relation weighs `relation` times the
    lesser rarity of its ends. Without mention edges: entities mentioned only by several chunks
    about them (such as a section label), and proper nouns without chunks about them and relations.
    """

    def __init__(
        self,
        part: GraphSlice,
        pool: Iterable[str],
        weights: Weights = WEIGHTS,
        direction: Direction = "both",
    ) -> None:
        """`pool`: uuids to include even if the slice lacks them.

        `direction`: of followed relations.
        """
        self.weights = weights
        self._direction = direction
        self.entities: dict[str, SliceEntity] = {item.id: item for item in part.entities}
        uuids = {item.uuid for item in part.chunks}
        uuids.update(pool)
        names = [*sorted(self.entities), *sorted(uuids)]
        self.node: dict[str, int] = {name: i for i, name in enumerate(names)}
        self.names: Sequence[str] = names
        self.chunks: Sequence[str] = names[len(self.entities) :]
        self.doc_of: dict[str, str] = {item.uuid: item.doc_id for item in part.chunks}
        self.chunk_id_of: dict[str, str] = {item.uuid: item.chunk_id for item in part.chunks}
        self.mentions: dict[str, dict[str, SliceMention]] = {}
        before, by_entity = "", dict[str, SliceMention]()
        for mention in part.mentions:  # sorted, so that sums have the same order for every store
            uuid = mention[0]
            if uuid != before:
                before, by_entity = uuid, self.mentions.setdefault(uuid, {})
            by_entity[mention[1]] = mention
        self.relations: dict[tuple[str, str], list[SliceRelation]] = {}
        apart = [{r.source, r.target} for r in part.relations if r.type == SAME_AS and not r.weight]
        for relation in part.relations:
            pair = (relation.source, relation.target)
            if len({*pair}) > 1 and not (relation.type == SAME_AS and {*pair} in apart):
                self.relations.setdefault((min(pair), max(pair)), []).append(relation)
        self._names: dict[str, set[str]] = {}
        self._meanings: dict[str, set[str]] = {}
        for relations in self.relations.values():
            for relation in relations:
                if relation.type == SAME_AS:
                    self._names.setdefault(relation.source, set()).add(relation.target)
                    self._meanings.setdefault(relation.target, set()).add(relation.source)
        self.edges, self.one_way = self._edges(part.mentions)

    def followed(self, start: str, end: str) -> list[SliceRelation]:
        """Return the relations that can be followed from `start` to `end`; SAME_AS both ways."""
        relations = self.relations.get((min(start, end), max(start, end)), [])
        if self._direction == "both":
            return relations
        source = start if self._direction == "out" else end
        return [r for r in relations if r.type == SAME_AS or r.source == source]

    def _edges(
        self, mentions: Sequence[SliceMention]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        node = self.node
        entries = [self.entities[name] for name in self.names[: len(self.entities)]]
        rare = [_rarity(entry.mentions) for entry in entries]
        headed = [
            rarity * self._emphasis(entry.heads)
            for rarity, entry in zip(rare, entries, strict=True)
        ]
        self.related = {end for pair in self.relations for end in pair}
        within = {
            item.id
            for item in entries
            if (item.heads > 1 and item.mentions <= item.heads)
            or (item.type == PROPER and not item.heads and item.id not in self.related)
        }
        if within:
            mentions = [mention for mention in mentions if mention[1] not in within]
        pairs = [
            pair if self.followed(*pair) else pair[::-1]
            for pair in sorted(self.relations)
            if self.followed(*pair) or self.followed(*pair[::-1])
        ]
        heads, tails = [node[a] for a, _ in pairs], [node[b] for _, b in pairs]
        size = len(mentions)
        edges = np.empty((size + len(pairs), 3))
        edges[:size, 0] = [node[mention[0]] for mention in mentions]
        ends = np.asarray([node[mention[1]] for mention in mentions], dtype=np.intp)
        edges[:size, 1] = ends
        about = np.asarray([mention[4] for mention in mentions], dtype=np.bool_)
        edges[:size, 2] = np.where(about, np.asarray(headed)[ends], np.asarray(rare)[ends])
        edges[size:, 0], edges[size:, 1] = heads, tails
        edges[size:, 2] = [
            self.weights.relation * min(rare[a], rare[b]) for a, b in zip(heads, tails, strict=True)
        ]
        one_way = np.zeros(len(edges), dtype=np.bool_)
        one_way[size:] = [not self.followed(b, a) for a, b in pairs]
        return edges, one_way

    def _emphasis(self, heads: int) -> float:
        return max(1.0, self.weights.about / math.sqrt(max(1, heads)))

    def is_rare(self, entity: str, rare: int = LINKS.rare) -> bool:
        """Return whether at most `rare` chunks mention an entity of the slice."""
        return entity in self.entities and self.entities[entity].mentions <= rare

    def led_on(self, uuids: Collection[str], rare: int = LINKS.rare) -> float:
        """Return the share of chunks that mention another chunk's rare subject; 0 for no chunks."""
        leading = sum(
            any(
                self.is_rare(entity, rare) and self.entities[entity].heads > 0 and not mention.about
                for entity, mention in self.mentions.get(uuid, {}).items()
            )
            for uuid in uuids
        )
        return leading / max(1, len(uuids))

    def rarity(self, entity: str) -> float:
        """Return 1 / (visible chunks that mention the entity), 0 if it is outside the slice."""
        entry = self.entities.get(entity)
        return 0.0 if entry is None else 1 / max(1, entry.mentions)

    def is_page(self, entity: str) -> bool:
        """Return whether the entity comes from a title or heading, not from an entity list."""
        entry = self.entities.get(entity)
        return entry is not None and is_own_id(entity) and entry.heads > 0

    def about(self, entity: str) -> set[str]:
        """Return the chunks that are about an entity, which must be in the slice (KeyError)."""
        if self.entities[entity].heads == 0:
            return set()
        return {
            uuid
            for uuid, mentioned in self.mentions.items()
            if entity in mentioned and mentioned[entity].about
        }

    def trust(self, entity: str) -> float:
        """Return the trust in a seed: min(1, `about` / sqrt(chunks about it)); 1 if unknown."""
        entry = self.entities.get(entity)
        heads = 0 if entry is None else entry.heads
        return min(1.0, self.weights.about / math.sqrt(heads)) if heads > 1 else 1.0

    def same_as(self, entity: str) -> list[str]:
        """Return the ids equated with an entity: its sources, and targets with no other source."""
        others = [other for other in self._names.get(entity, ()) if len(self._meanings[other]) == 1]
        return [*self._meanings.get(entity, ()), *others]

    def neighbours(self, entity: str) -> set[str]:
        """Return the entities that share a relation or a chunk with `entity`."""
        near = {b if a == entity else a for a, b in self.relations if entity in (a, b)}
        for by_entity in self.mentions.values():
            if entity in by_entity:
                near.update(by_entity)
        return near - {entity}


@lru_cache(maxsize=1024)
def _rarity(mentions: int) -> float:
    return math.log1p(COLLECTION / max(1, mentions))


def merge(first: GraphSlice, second: GraphSlice) -> GraphSlice:
    """Merge two slices: for equal ids the second's, the first's aliases and, if any, members."""
    return GraphSlice(
        aliases=first.aliases,
        entities=united([first.entities, second.entities], attrgetter("id")),
        chunks=united([first.chunks, second.chunks], attrgetter("uuid")),
        mentions=united([first.mentions, second.mentions], itemgetter(0, 1)),
        relations=united([first.relations, second.relations], identity),
        members=first.members or second.members,
    )


def names_in(query: str, aliases: Iterable[AliasMatch]) -> list[Match]:
    """Return the longest names in a question; homonyms are not resolved."""
    linker = Linker(aliases)
    return [match for match in linker.find(query, lower_case=True) if not match.nested]


def decided(matches: Sequence[Match], graph: SliceGraph) -> Sequence[Match]:
    """Resolve homonyms where possible, by relations or chunks shared with other names, or type."""
    doubtful = {e for match in matches if len(match.entity_ids) > 1 for e in match.entity_ids}
    if not doubtful:
        return matches
    sure = {match.entity_ids[0] for match in matches if len(match.entity_ids) == 1}
    context = {entity: len(graph.neighbours(entity) & sure) for entity in doubtful}
    types = {entity: item.type for entity, item in graph.entities.items()}
    return resolve(matches, types, context)


def with_other_names(matches: Iterable[Match], graph: SliceGraph) -> list[Match]:
    """Add the ids of `same_as` to each match, sorted, after its own."""
    return [
        replace(match, entity_ids=tuple(dict.fromkeys([*match.entity_ids, *others])))
        for match in matches
        for others in [sorted({o for e in match.entity_ids for o in graph.same_as(e)})]
    ]


def restart(
    graph: SliceGraph,
    entity_shares: Mapping[str, float],
    facts: Iterable[tuple[str, str, float]],
    pool: Mapping[str, float],
) -> Vector:
    """Return the restart vector, from seeds by rarity and the fused scores of the pool.

    s = seeds + passages * pool^sharpness / |pool^sharpness|, where seeds = trust * share * rarity /
    |.| + endpoints of facts * score * rarity / |.|, at most 1 in all; `trust` is the highest of the
    seeds. `entity_shares`: entity or given chunk -> its share of the name or seed; chunks have
    rarity 1. Entities outside the graph are ignored; a pool chunk outside raises KeyError.
    """
    size, weights = len(graph.names), graph.weights
    by_name, by_fact, by_pool = np.zeros(size), np.zeros(size), np.zeros(size)
    trust = 0.0
    for entity, share in entity_shares.items():
        if entity in graph.node:
            trust = max(trust, graph.trust(entity))
            rarity = graph.rarity(entity) if entity in graph.entities else 1.0
            by_name[graph.node[entity]] += share * rarity
    for source, target, score in facts:
        for entity in (source, target):
            if entity in graph.node:
                by_fact[graph.node[entity]] += max(0.0, score) * graph.rarity(entity)
    for uuid, score in pool.items():
        by_pool[graph.node[uuid]] += max(0.0, score) ** weights.sharpness
    seeds = trust * _scaled(by_name) + _scaled(by_fact)
    if seeds.sum() > 1:
        seeds = _scaled(seeds)
    return np.asarray(seeds + weights.passages * _scaled(by_pool), dtype=np.float64)


def _scaled(values: Vector) -> Vector:
    total = float(values.sum())
    return values / total if total > 0 else values


def ranked_chunks(graph: SliceGraph, scores: Vector, fused: Mapping[str, float]) -> list[str]:
    """Return the chunks by descending score, ties by descending fused score, then uuid."""
    chunks = graph.chunks  # by uuid, and numbered last
    fall = np.asarray([-fused.get(uuid, 0.0) for uuid in chunks])
    order = np.lexsort((fall, -scores[len(graph.entities) :]))
    return [chunks[place] for place in order.tolist()]


def walk(graph: SliceGraph, start: Vector) -> Vector:
    """Return the personalised PageRank of the slice's nodes."""
    return personalised(graph.edges, start, one_way=graph.one_way)

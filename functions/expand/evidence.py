"""Graph evidence of chunks."""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from docstokg.contracts.graph import SliceRelation
from docstokg.contracts.response import (
    CO_MENTIONED,
    EdgeEvidence,
    EvidenceEdge,
    MatchType,
    Source,
)
from docstokg.contracts.state import EntityRef, EvidencePointer, Ranked, RelatedEntity
from docstokg.domain.graph.pagerank import Vector
from docstokg.domain.graph.paths import most_probable
from docstokg.domain.graph.slice_graph import SliceGraph
from docstokg.domain.identity import prefix_of

MAX_CONCEPTS = 5
MAX_RELATED = 3
LONGEST_PATH = 3
# Number of best chunks with related entities; the model sees fewer.
RELATED_CHUNKS = 30

# Start shares of fact endpoints and of entities in pool chunks: paths from entities of the question
# come first.
FACT_SHARE, POOL_SHARE = 1e-6, 1e-9

MAX_BYTES = 65_000

# Approximate JSON bytes of each part, keys and escapes included.
_RANKED, _POINTER, _EDGE, _RELATED, _ENTITY, _NUMBER = 110, 130, 240, 100, 50, 5


class Bounds(NamedTuple):
    """Maximum path length, and allowed entity and relation types."""

    hops: int
    types: tuple[str, ...] | None = None
    relations: tuple[str, ...] | None = None


class EvidenceTable:
    """Tables of entities and edges within MAX_BYTES of JSON."""

    def __init__(
        self,
        graph: SliceGraph,
        scores: Vector,
        question_entities: Collection[str],
        fact_ends: Sequence[str],
        pool: Sequence[str],
        bounds: Bounds,
    ) -> None:
        self._graph = graph
        self._scores: list[float] = scores.tolist()
        self._of_question = frozenset(question_entities)
        self._bounds = bounds
        entities = len(graph.entities)
        # Entities are numbered by id, so that ties go to the lower id.
        best = np.argsort(-scores[:entities], kind="stable").tolist()
        self._by_place = [graph.names[node] for node in best]
        self._place = {name: place for place, name in enumerate(self._by_place)}
        walkable, one_way = self._walkable()
        starts = self._starts(fact_ends, pool)
        self._paths = most_probable(walkable, starts, bounds.hops, one_way)
        self._start: dict[str, str] = {}
        self._entities: dict[str, int] = {}
        self._refs: list[EntityRef] = []
        self._edges: dict[tuple[str, str, str, str | None], int] = {}
        self._edge_list: list[EvidenceEdge] = []
        self._ranking: list[Ranked] = []
        self._bytes = 0
        mentioning: dict[str, list[str]] = {name: [] for name in graph.names}
        for uuid, mentioned in graph.mentions.items():
            for entity in mentioned:
                mentioning[entity].append(uuid)
        self._mentioning = mentioning
        self._relations: dict[str, dict[str, SliceRelation]] = {}
        self._doc_ids: dict[str, set[str]] = {}

    def _score(self, name: str) -> float:
        return self._scores[self._graph.node[name]]

    def _walkable(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        border, edges = len(self._graph.entities), self._graph.edges
        related = (edges[:, 0] < border) & (edges[:, 1] < border)
        walkable = np.column_stack((edges, np.where(related, 1.0, 0.5)))
        taken = slice(None) if self._bounds.relations is None else related
        return walkable[taken], self._graph.one_way[taken]

    def _starts(self, fact_ends: Sequence[str], pool: Sequence[str]) -> dict[int, float]:
        graph = self._graph
        starts: dict[int, float] = {}
        best = [entity for uuid in pool for entity in graph.mentions.get(uuid, {})]
        for entities, share in (
            (best, POOL_SHARE),
            (fact_ends, FACT_SHARE),
            (self._of_question, 1.0),
        ):
            for entity in entities:
                if entity in graph.entities:
                    starts[graph.node[entity]] = share * max(1e-9, self._score(entity))
        return starts

    @property
    def is_unbounded(self) -> bool:
        """Whether the caller restricts neither types nor relations."""
        return self._bounds.types is None and self._bounds.relations is None

    def may_add(self, uuid: str) -> bool:
        """Return whether a path within the bounds leads to an entity of this chunk."""
        return self._matched(uuid, self._reaches) is not None

    def _reaches(self, entity: str) -> bool:
        types, relations = self._bounds.types, self._bounds.relations
        if relations is not None and not self._is_reached(entity):
            return False
        if types is None:
            return True
        kind = (self._graph.entities[entity].type or "").casefold()
        return bool({prefix_of(entity), kind} & set(types))

    def _is_reached(self, entity: str) -> bool:
        node = self._graph.node[entity]
        return node in self._paths.cost and not self._paths.is_seed(node)

    def _matched(self, uuid: str, allows: Callable[[str], bool]) -> str | None:
        node, cost, named = self._graph.node, self._paths.cost, self._of_question
        reached = [e for e in self._graph.mentions.get(uuid, {}) if node[e] in cost and allows(e)]
        return min(
            reached,
            key=lambda e: (
                bool(named) and not self._is_written(uuid, e),
                e not in named,
                self._start_of(e) not in named,
                self._graph.entities[e].type == "Heading",
                cost[node[e]],
                e,
            ),
            default=None,
        )

    def _start_of(self, entity: str) -> str:
        if entity not in self._start:
            walk = self._paths.to(self._graph.node[entity])
            self._start[entity] = self._graph.names[walk[0]]
        return self._start[entity]

    def add(self, uuid: str, source: Source, renamed: tuple[int, ...] = ()) -> None:
        """Append a chunk to the ranking, with as much evidence as fits."""
        self._bytes += _RANKED
        matched = self._matched(uuid, self._reaches)
        if matched is None and source == "hybrid":
            matched = self._matched(uuid, lambda entity: True)
        pointer = None if matched is None else self._pointer(uuid, matched)
        # Without a path from the question there is no evidence, except for chunks of the walk.
        if pointer is not None and pointer.match_type is None and source == "hybrid":
            pointer = None
        self._ranking.append(
            Ranked(
                uuid=uuid,
                source=source,
                evidence=pointer,
                concepts=self._concepts(uuid),
                renamed=renamed,
            )
        )

    def _concepts(self, uuid: str) -> tuple[str, ...]:
        entities = sorted(self._graph.mentions.get(uuid, {}), key=self._place.__getitem__)
        names: list[str] = []
        for entity in entities[:MAX_CONCEPTS]:
            name = self._graph.entities[entity].name
            if self._bytes + len(name.encode()) + _NUMBER > MAX_BYTES:
                break
            self._bytes += len(name.encode()) + _NUMBER
            names.append(name)
        return tuple(dict.fromkeys(names))

    def _is_written(self, uuid: str, entity: str) -> bool:
        mention = self._graph.mentions[uuid][entity]
        return mention.about or mention.start is not None

    def _pointer(self, uuid: str, matched: str) -> EvidencePointer:
        is_named = matched in self._of_question
        nodes = () if is_named else self._paths.to(self._graph.node[matched])
        steps = self._steps([self._graph.names[node] for node in nodes])
        seed = steps[0][0] if steps else matched
        # Over the limit, paths of lower ranks are dropped; their ends stay.
        if self._bytes + len(steps) * (_EDGE + _ENTITY) > MAX_BYTES * 0.8:
            steps = []
        self._bytes += _POINTER
        path = tuple(self._edge(source, target, via) for source, target, via in steps)
        stations = [seed, *(two for _, two, _ in steps)]
        if stations[-1] != matched:
            stations.append(matched)
        match_type: MatchType | None = "direct_mention" if is_named else None
        if path and seed in self._of_question:
            match_type = "related_via"
        placed = [(uuid, matched), *((via, e) for *ends, via in steps if via for e in ends)]
        if not all(self._is_written(*place) for place in placed):
            match_type = None
        documents = self._documents(matched)
        if seed != matched:
            documents = documents & self._documents(seed)
        return EvidencePointer(
            entity=self._entity(matched),
            match_type=match_type,
            related_to=None if seed == matched else self._entity(seed),
            path=path,
            nodes=tuple(self._entity(name) for name in stations),
            shared_docs=len(documents),
            related=self._related(matched, seed) if len(self._ranking) < RELATED_CHUNKS else (),
        )

    def _documents(self, entity: str) -> set[str]:
        if entity not in self._doc_ids:
            doc_of = self._graph.doc_of
            uuids = self._mentioning[entity]
            self._doc_ids[entity] = {doc_of.get(uuid, uuid) for uuid in uuids}
        return self._doc_ids[entity]

    def _related(self, matched: str, seed: str) -> tuple[RelatedEntity, ...]:
        relations = self._relations_of(matched)
        others = sorted(relations, key=lambda other: (other != seed, self._place[other]))
        strongest = [(other, relations[other]) for other in others[:MAX_RELATED]]
        self._bytes += _RELATED * len(strongest)
        return tuple(
            RelatedEntity(
                entity=self._entity(other),
                type=relation.type,
                incoming=relation.target == matched,
                evidence=relation.evidence_uuid,
            )
            for other, relation in strongest
        )

    def _relations_of(self, entity: str) -> dict[str, SliceRelation]:
        if not self._relations:
            self._relations = {name: {} for name in self._graph.entities}
            for (source, target), relations in self._graph.relations.items():
                best = min(relations, key=_strength) if len(relations) > 1 else relations[0]
                self._relations[source][target] = self._relations[target][source] = best
        return self._relations[entity]

    def _steps(self, walk: Sequence[str]) -> list[tuple[str, str, str | None]]:
        steps: list[tuple[str, str, str | None]] = []
        before, via = walk[0] if walk else "", None
        for name in walk[1:]:
            if name in self._graph.entities:
                steps.append((before, name, via))
                before, via = name, None
            else:
                via = name
        return steps

    def _entity(self, entity: str) -> int:
        if entity not in self._entities:
            item = self._graph.entities[entity]
            self._entities[entity] = len(self._refs)
            self._refs.append(EntityRef(id=item.id, name=item.name, type=item.type))
            self._bytes += _ENTITY + len(f"{item.id}{item.name}{item.type}".encode())
        return self._entities[entity]

    def _edge(self, source: str, target: str, via: str | None) -> int:
        if via is None:
            edge = _edge_of(min(self._graph.followed(source, target), key=_strength))
        else:
            places = [self._graph.mentions[via][name] for name in (source, target)]
            spans = [(at.start, at.end) for at in places if at.start is not None and at.end]
            place = EdgeEvidence(
                uuid=via,
                chunk_id=self._graph.chunk_id_of.get(via, ""),
                start=min((start for start, _ in spans), default=None),
                end=max((end for _, end in spans), default=None),
            )
            edge = EvidenceEdge(src=source, type=CO_MENTIONED, dst=target, evidence=place)
        return self._listed(edge)

    def joining(self, names: Sequence[Collection[str]]) -> tuple[SliceRelation, ...]:
        """Return the shortest path of stated relations between entities of two names, or ().

        Two or three relations, each with the chunk that states it, past no other name.
        """
        named = {entity for group in names for entity in group}
        paths: list[tuple[SliceRelation, ...]] = []
        for name in names:
            seen = {*name}
            frontier: list[tuple[str, tuple[SliceRelation, ...]]] = [
                (entity, ()) for entity in name
            ]
            for _ in range(LONGEST_PATH):
                near = [
                    (other, (*path, relation))
                    for entity, path in frontier
                    for other, relation in sorted(self._relations_of(entity).items())
                    if other not in seen
                    and relation.evidence_uuid
                    and relation in self._graph.followed(entity, other)
                ]
                seen.update(other for other, _ in near)
                paths += [path for other, path in near if other in named and len(path) > 1]
                frontier = [step for step in near if step[0] not in named]
        return min(paths, key=len, default=())

    def are_apart(self, names: Sequence[Collection[str]]) -> bool:
        """Return whether the slice joins two names neither by a chunk nor by a path.

        Any path of at most three relations counts, also one that no chunk states. False for fewer
        or more names, or if the caller restricts types or relations.
        """
        if len(names) != 2 or not self.is_unbounded:
            return False
        first, second = map(set, names)
        if any(
            first & by_entity.keys() and second & by_entity.keys()
            for by_entity in self._graph.mentions.values()
        ):
            return False
        reached = first
        for _ in range(LONGEST_PATH):
            reached = reached.union(*map(self._relations_of, reached))
        return reached.isdisjoint(second)

    def listed(self, relations: Sequence[SliceRelation]) -> tuple[int, ...]:
        """Add relations and their ends to the tables; return the relations' indices."""
        for relation in relations:
            self._entity(relation.source)
            self._entity(relation.target)
        return tuple(self._listed(_edge_of(relation)) for relation in relations)

    def _listed(self, edge: EvidenceEdge) -> int:
        key = (edge.src, edge.type, edge.dst, edge.evidence.uuid if edge.evidence else None)
        if key not in self._edges:
            self._edges[key] = len(self._edge_list)
            self._edge_list.append(edge)
            self._bytes += _EDGE
        return self._edges[key]

    def build(
        self,
    ) -> tuple[tuple[Ranked, ...], tuple[EntityRef, ...], tuple[EvidenceEdge, ...]]:
        """Return the ranking with its tables of entities and edges."""
        return tuple(self._ranking), tuple(self._refs), tuple(self._edge_list)


def _strength(relation: SliceRelation) -> tuple[float, bool, str, str, str]:
    return (
        -relation.weight,
        relation.evidence_uuid is None,
        relation.type,
        relation.source,
        relation.evidence_uuid or "",
    )


def _edge_of(relation: SliceRelation) -> EvidenceEdge:
    place = None
    if relation.evidence_uuid is not None:
        place = EdgeEvidence(
            uuid=relation.evidence_uuid,
            chunk_id=relation.evidence_chunk_id or "",
            start=relation.evidence_start,
            end=relation.evidence_end,
        )
    return EvidenceEdge(
        src=relation.source, type=relation.type, dst=relation.target, evidence=place
    )

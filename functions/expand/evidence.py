"""Say for each chunk which entity ties it to the question, and by what path."""

from collections.abc import Mapping, Sequence

from docstokg.contracts.graph import SliceRelation
from docstokg.contracts.response import EdgeEvidence, EvidenceEdge, Source
from docstokg.contracts.state import EntityRef, EvidencePointer, Ranked
from docstokg.domain.pagerank import Vector
from docstokg.domain.paths import most_probable
from docstokg.domain.slice_graph import SliceGraph

CO_MENTIONED = "CO_MENTIONED"
"""Type of an edge whose two entities are named by one chunk, without a stated relation."""

FALLBACK_SEEDS = 10
MAX_CONCEPTS = 8
FACT_SHARE = 0.01
"""Of a fact's endpoint as a seed beside named entities: a path from a named entity says more."""

MAX_BYTES = 65_000

# Rough JSON bytes of each part, keys and escapes included.
_RANKED, _POINTER, _EDGE, _ENTITY, _NUMBER = 110, 130, 240, 50, 5


class EvidenceTable:
    """Collects evidence in one table of entities and one of edges, within MAX_BYTES of JSON.

    Seeds are the entities the question names and those of its matching facts; without either,
    the concepts that hold most of the walk's probability.
    """

    def __init__(
        self,
        graph: SliceGraph,
        scores: Vector,
        named: Mapping[str, float],
        fact_ends: Sequence[str],
    ) -> None:
        self._graph = graph
        self._scores = scores
        self.seeds = self._seeds(named, fact_ends)
        shares = {
            graph.node[seed]: max(1e-9, self._score(seed))
            * (FACT_SHARE if named and seed not in named else 1.0)
            for seed in self.seeds
        }
        self._paths = most_probable(graph.edges, shares)
        self._entities: dict[str, int] = {}
        self._refs: list[EntityRef] = []
        self._edges: dict[tuple[str, str, str, str | None], int] = {}
        self._edge_list: list[EvidenceEdge] = []
        self._ranking: list[Ranked] = []
        self._bytes = 0
        self._documents: dict[str, set[str]] = {}
        for uuid, entities in graph.mentions.items():
            for entity in entities:
                self._documents.setdefault(entity, set()).add(graph.doc_of.get(uuid, uuid))

    def _score(self, name: str) -> float:
        return float(self._scores[self._graph.node[name]])

    def _seeds(self, named: Mapping[str, float], fact_ends: Sequence[str]) -> list[str]:
        known = self._graph.entities
        linked = dict.fromkeys([*named, *(end for end in fact_ends if end in known)])
        seeds = sorted(linked, key=lambda seed: (seed not in named, -self._score(seed), seed))
        if seeds:
            return seeds
        mentioned = {entity for ids in self._graph.mentions.values() for entity in ids}
        return sorted(mentioned, key=lambda e: (-self._score(e), e))[:FALLBACK_SEEDS]

    def knows(self, uuid: str) -> bool:
        """Tell whether some seed leads to an entity this chunk mentions."""
        return self._matched(uuid) is not None

    def _matched(self, uuid: str) -> str | None:
        """Give the mentioned entity with the most probable path from a seed."""
        node, cost = self._graph.node, self._paths.cost
        reached = [e for e in self._graph.mentions.get(uuid, {}) if node[e] in cost]
        return min(reached, key=lambda e: (cost[node[e]], e), default=None)

    def add(self, uuid: str, source: Source) -> None:
        """Add a chunk at the end of the ranking, with as much evidence as there is room for."""
        self._bytes += _RANKED
        matched = self._matched(uuid)
        pointer = None if matched is None else self._pointer(uuid, matched)
        self._ranking.append(
            Ranked(uuid=uuid, source=source, evidence=pointer, concepts=self._concepts(uuid))
        )

    def _concepts(self, uuid: str) -> tuple[str, ...]:
        entities = sorted(self._graph.mentions.get(uuid, {}), key=lambda e: (-self._score(e), e))
        names: list[str] = []
        for entity in entities[:MAX_CONCEPTS]:
            name = self._graph.entities[entity].name
            if self._bytes + len(name.encode()) + _NUMBER > MAX_BYTES:
                break
            self._bytes += len(name.encode()) + _NUMBER
            names.append(name)
        return tuple(dict.fromkeys(names))

    def _pointer(self, uuid: str, matched: str) -> EvidencePointer | None:
        nodes = self._paths.to(self._graph.node[matched])
        steps = self._steps([self._graph.names[node] for node in nodes])
        seed = steps[0][0] if steps else matched
        # A path that has no room any more is left out from the lowest ranks up; its ends stay.
        if self._bytes + len(steps) * (_EDGE + _ENTITY) > MAX_BYTES * 0.8:
            steps = []
        self._bytes += _POINTER
        path = tuple(self._edge(one, two, via) for one, two, via in steps)
        walked = [seed, *(two for _, two, _ in steps)]
        if walked[-1] != matched:
            walked.append(matched)
        documents = self._documents.get(matched, set())
        if seed != matched:
            documents = documents & self._documents.get(seed, set())
        direct = seed == matched
        return EvidencePointer(
            entity=self._entity(matched),
            match_type="direct_mention" if direct else "related_via",
            related_to=None if direct else self._entity(seed),
            path=path,
            nodes=tuple(self._entity(name) for name in walked),
            shared_docs=len(documents),
        )

    def _steps(self, walk: Sequence[str]) -> list[tuple[str, str, str | None]]:
        """Turn a walk over entities and chunks into (entity, entity, chunk between or None)."""
        steps: list[tuple[str, str, str | None]] = []
        before, via = walk[0], None
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

    def _edge(self, one: str, two: str, via: str | None) -> int:
        if via is None:
            pair = (min(one, two), max(one, two))
            edge = _stated(min(self._graph.relations[pair], key=_strength))
        else:
            mention = self._graph.mentions[via][two]
            place = EdgeEvidence(
                uuid=via,
                chunk_id=self._graph.chunk_id_of.get(via, ""),
                start=mention.start,
                end=mention.end,
            )
            edge = EvidenceEdge(src=one, type=CO_MENTIONED, dst=two, evidence=place)
        key = (edge.src, edge.type, edge.dst, edge.evidence.uuid if edge.evidence else None)
        if key not in self._edges:
            self._edges[key] = len(self._edge_list)
            self._edge_list.append(edge)
            self._bytes += _EDGE
        return self._edges[key]

    def build(
        self,
    ) -> tuple[tuple[Ranked, ...], tuple[EntityRef, ...], tuple[EvidenceEdge, ...]]:
        """Give the ranking with the entities and edges it points into."""
        return tuple(self._ranking), tuple(self._refs), tuple(self._edge_list)


def _strength(relation: SliceRelation) -> tuple[float, bool, str, str, str]:
    return (
        -relation.weight,
        relation.evidence_uuid is None,
        relation.type,
        relation.source,
        relation.evidence_uuid or "",
    )


def _stated(relation: SliceRelation) -> EvidenceEdge:
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

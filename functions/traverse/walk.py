"""Similarity-guided graph walk."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from docstokg.contracts.graph import DOCUMENT, TOPIC, SliceRequest
from docstokg.contracts.records import StoredChunk
from docstokg.contracts.request import Direction
from docstokg.contracts.response import GraphNode, GraphViewEdge
from docstokg.contracts.traverse import Frontier
from docstokg.domain import time_budget
from docstokg.domain.answer import notices
from docstokg.domain.deadline import Deadline
from docstokg.domain.graph.frontier import gate_layer, score_layer
from docstokg.domain.identity import prefix_of
from docstokg.domain.text.snippets import coverage, question_stems
from docstokg.domain.vectors import Floats, matrix, unpack
from docstokg.errors import DocsToKGError, Timeout, Unavailable
from docstokg.ports import Embedder, KnowledgeGraph, SearchIndex, embed_questions, encoder_of
from docstokg.usecases.run import Call, graph_reason

LABELS = ("Chunk", "Document", "Entity", "Topic")
# Source, type and target.
Edge = tuple[str, str, str]

STRUCTURAL = ("HAS_CHUNK", "HAS_TOPIC", "MENTIONS")
RELATED = "RELATED_TO"
# Maximum neighbours of one label per node: hubs are sampled by rank.
HUB = 20

LAYER_NODES = 600


@dataclass(frozen=True)
class WalkRequest:
    """Parameters of a walk, within the server's limits; without `query`, edge weights score."""

    query: str | None
    seeds: tuple[str, ...]
    direction: Direction
    max_depth: int
    soft_depth: int
    max_nodes: int
    frontier: Frontier
    labels: tuple[str, ...] = LABELS
    relations: tuple[str, ...] | None = None
    entities: tuple[str, ...] | None = None


class Node(NamedTuple):
    """A collected node; `path`: node ids from its seed to it, depth + 1 in number."""

    id: str
    label: str
    title: str
    score: float
    path: tuple[str, ...]


@dataclass
class WalkResult:
    """Nodes, edges and statistics of a walk."""

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: dict[Edge, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    expanded: int = 0
    pruned: int = 0
    skipped: int = 0
    depth_reached: int = 0
    embedding: str | None = None

    def view(self) -> tuple[tuple[GraphNode, ...], tuple[GraphViewEdge, ...]]:
        """Return nodes by depth, score and id, and the edges between them by depth and ends."""
        nodes = sorted(self.nodes.values(), key=lambda n: (len(n.path), -n.score, n.id))
        edges = sorted(
            (depth, edge)
            for edge, depth in self.edges.items()
            if {edge[0], edge[2]} <= self.nodes.keys()
        )
        listed = [
            GraphNode(id=n.id, label=n.label, title=n.title, score=round(n.score, 6)) for n in nodes
        ]
        lines = [
            GraphViewEdge(src=src, dst=dst, type=kind, depth=depth, path=self._path(src, dst))
            for depth, (src, kind, dst) in edges
        ]
        return tuple(listed), tuple(lines)

    def spent(self) -> dict[str, int]:
        """Return the statistics under their names in responses."""
        names = ("expanded", "pruned", "skipped", "depth_reached")
        return {name: getattr(self, name) for name in names}

    def _path(self, src: str, dst: str) -> tuple[str, ...]:
        source, target = self.nodes[src], self.nodes[dst]
        return (*source.path, dst) if len(target.path) > len(source.path) else target.path


def walk_graph(
    call: Call,
    request: WalkRequest,
    deadline: Deadline,
    *,
    graph: KnowledgeGraph,
    index: SearchIndex,
    embedder: Embedder | None,
) -> WalkResult:
    """Walk layer by layer until `deadline`.

    A failure of graph or index, or a timeout, is raised on the seeds and ends the walk later.
    Without a working embedder, words score.
    """
    return _Walker(call, request, deadline, graph, index, embedder).run()


@dataclass
class _Walker:
    _call: Call
    _request: WalkRequest
    _limit: Deadline
    _graph: KnowledgeGraph
    _index: SearchIndex
    _embedder: Embedder | None
    _result: WalkResult = field(default_factory=WalkResult)
    _paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _spare: list[tuple[int, float, str]] = field(default_factory=list)
    _heaviest: dict[str, float] = field(default_factory=dict)
    _query: Floats | None = None
    _chunks: dict[str, StoredChunk] = field(default_factory=dict)
    _titles: dict[str, str] = field(default_factory=dict)
    _kinds: dict[str, str | None] = field(default_factory=dict)
    _vectors: dict[str, Floats] = field(default_factory=dict)

    def _deadline(self) -> Deadline:
        if self._limit.remaining() < time_budget.LEAST_CALL_S:
            raise Timeout("the walk ran out of time")
        return self._limit

    def run(self) -> WalkResult:
        result, request, frontier = self._result, self._request, self._request.frontier
        self._embed_query()
        layer = self._seeds()
        before: float | None = None
        for depth in range(request.max_depth + 1):
            ranked = self._admit(layer, depth)
            if not ranked:
                break
            result.depth_reached = depth
            if depth == request.max_depth:
                break
            is_soft = depth < request.soft_depth
            delta = frontier.delta_threshold if is_soft else 0.0
            is_near = depth < 2 and is_soft  # next to the seeds, which are in the question
            gate = gate_layer(ranked, None if is_near else before, frontier.top_k, delta)
            result.pruned += len(ranked) - len(gate.expand)
            before = gate.best
            try:
                layer = self._expand(gate.expand, depth + 1)
            except DocsToKGError as error:
                self._call.log("graph_walk", error, graph_reason)
                break
            result.expanded += len(gate.expand)
        fill = sorted(self._spare)[: request.max_nodes - len(result.nodes)]
        for _, fall, name in fill:
            self._collect(name, -fall)
        result.skipped += len(self._spare) - len(fill)
        self._note_absent_relations()
        return result

    def _admit(self, layer: Sequence[str], depth: int) -> dict[str, float]:
        scores = self._scores(layer)
        room = self._request.max_nodes - len(self._result.nodes)
        ranked = sorted(layer, key=lambda name: (-scores[name], name))
        size = (room + 1) // 2 if depth else room
        self._spare += [(depth, -scores[name], name) for name in ranked[size:]]
        for name in ranked[:size]:
            self._collect(name, scores[name])
        return {name: scores[name] for name in ranked[:size]}

    def _collect(self, name: str, score: float) -> None:
        label, title = self._label(name), self._titles[name]
        self._result.nodes[name] = Node(name, label, title, score, self._paths[name])

    def _embed_query(self) -> None:
        embedder, query = self._embedder, self._request.query
        if embedder is None or query is None:
            return
        try:
            stored = self._index.info(self._deadline()).model_of(self._call.scope.namespace)
            embedder = self._embedder = encoder_of(embedder, stored)
            if embedder is None:
                raise Unavailable(f"what is stored was embedded by {stored}")
            deadline = self._deadline().limit(time_budget.WALK_QUERY_S)
            (vector,) = embed_questions(embedder, [query], deadline)
        except DocsToKGError as error:
            self._call.log("embed", error, "embedding_unavailable")
            return
        self._query = unpack(vector)
        self._result.embedding = embedder.model

    def _seeds(self) -> list[str]:
        seeds = self._request.seeds
        entities = self._graph.entities(seeds, self._call.scope, self._deadline())
        ids = {item.id.casefold(): item.id for item in entities}
        self._titles |= {item.id: item.name for item in entities}
        others = [seed for seed in seeds if seed.casefold() not in ids]
        groups = tuple(seed for seed in others if seed.startswith((DOCUMENT, TOPIC)))
        self._read([seed for seed in others if seed not in groups])
        if groups:
            around = SliceRequest(groups=groups, chunks_per_group=1)
            part = self._graph.slice(around, self._call.scope, self._deadline())
            self._titles |= {group: group.partition(":")[2] for group, _ in part.members}
        names = {seed: ids.get(seed.casefold(), seed) for seed in seeds}
        self._result.unknown = tuple(seed for seed in seeds if names[seed] not in self._titles)
        self._paths = {name: (name,) for name in names.values() if name in self._titles}
        return list(self._paths)

    def _read(self, uuids: Sequence[str]) -> None:
        missing = [uuid for uuid in dict.fromkeys(uuids) if uuid not in self._chunks]
        if not missing:
            return
        hydrated = self._index.get(missing, self._call.scope, self._deadline())
        if hydrated.failed:
            self._call.mark_degraded("hydration_incomplete")
        for uuid, chunk in hydrated.chunks.items():
            self._chunks[uuid] = chunk
            self._titles[uuid] = chunk.title or chunk.chunk_id
            if chunk.vector is not None:
                self._vectors[uuid] = matrix([chunk.vector])[0]

    def _expand(self, names: Sequence[str], depth: int) -> list[str]:
        if not names:
            return []
        with self._call.telemetry.span("graph_walk_layer"):
            around = self._slice_request(names)
            part = self._graph.slice(around, self._call.scope, self._deadline())
            near = {mention.uuid for mention in part.mentions if mention.entity_id in names}
            self._read([*near, *(uuid for _, uuid in part.members)])
        for item in part.entities:
            self._titles.setdefault(item.id, item.name)
            self._kinds[item.id] = item.type
        heaviest = sorted(part.relations, key=lambda relation: -relation.weight)
        for relation in heaviest:
            for end in (relation.source, relation.target):
                self._heaviest[end] = max(self._heaviest.get(end, 0.0), relation.weight)
        edges = [
            *((r.source, r.type, r.target) for r in heaviest),
            *((m.uuid, "MENTIONS", m.entity_id) for m in part.mentions),
            *(self._edge_of_group(group, uuid) for group, uuid in part.members),
            *(edge for uuid in around.chunk_uuids for edge in self._edges_of_chunk(uuid)),
        ]
        return self._next_layer(names, [edge for edge in edges if self._is_wanted(edge)], depth)

    def _slice_request(self, names: Sequence[str]) -> SliceRequest:
        relations, kinds = self._request.relations, None
        if relations is not None and RELATED.casefold() not in relations:
            structural = {name.casefold() for name in STRUCTURAL}
            kinds = tuple(kind for kind in relations if kind not in structural)
        by_label = {
            label: tuple(name for name in names if self._label(name) == label) for label in LABELS
        }
        return SliceRequest(
            entity_ids=by_label["Entity"],
            chunk_uuids=by_label["Chunk"],
            groups=by_label["Document"] + by_label["Topic"],
            relations=kinds,
            direction=self._request.direction,
            max_nodes=LAYER_NODES,
            chunks_per_entity=HUB,
            about_per_entity=0,
            neighbours_per_entity=HUB,
            chunks_per_group=HUB,
        )

    def _note_absent_relations(self) -> None:
        kinds = {kind.casefold() for kind in (RELATED, *STRUCTURAL)}
        kinds |= {kind.casefold() for _, kind, _ in self._result.edges}
        if not set(self._request.relations or ()) - kinds:
            return
        seeds = [name for name, path in self._paths.items() if len(path) == 1]
        around = self._slice_request(seeds).model_copy(update={"relations": None})
        part = self._call.attempt(
            "graph_kinds",
            lambda: self._graph.slice(around, self._call.scope, self._deadline()),
            lost=None,
        )
        if part:
            kinds |= {relation.type.casefold() for relation in part.relations}
            self._call.warnings += notices.nothing_has(
                "rel_whitelist", self._request.relations or (), kinds, "these seeds"
            )

    def _edges_of_chunk(self, uuid: str) -> list[Edge]:
        chunk = self._chunks[uuid]
        document = DOCUMENT + chunk.doc_id
        self._titles.setdefault(document, chunk.document_name or chunk.doc_id)
        self._titles |= {TOPIC + topic: topic for topic in chunk.topics}
        return [
            self._edge_of_group(group, uuid)
            for group in (document, *(TOPIC + topic for topic in chunk.topics))
        ]

    @staticmethod
    def _edge_of_group(group: str, uuid: str) -> Edge:
        if group.startswith(DOCUMENT):
            return group, "HAS_CHUNK", uuid
        return uuid, "HAS_TOPIC", group

    def _next_layer(self, names: Sequence[str], edges: Iterable[Edge], depth: int) -> list[str]:
        request = self._request
        layer: list[str] = []
        taken: dict[tuple[str, str], int] = {}
        origin = set(names)
        for edge in dict.fromkeys(edges):
            src, _, dst = edge
            for near, far, way in ((src, dst, "out"), (dst, src, "in")):
                if near not in origin or request.direction not in (way, "both"):
                    continue
                label = self._label(far)
                if far not in self._titles or label not in request.labels:
                    self._result.skipped += 1
                    continue
                if far not in self._paths:
                    taken[near, label] = taken.get((near, label), 0) + 1
                    if taken[near, label] > HUB:
                        self._result.skipped += 1
                        continue
                    self._paths[far] = (*self._paths[near], far)
                    layer.append(far)
                self._result.edges.setdefault(edge, depth)
        return layer

    def _is_wanted(self, edge: Edge) -> bool:
        request, (src, kind, dst) = self._request, edge
        if request.relations is not None:
            names = {kind.casefold()} | (set() if kind in STRUCTURAL else {RELATED.casefold()})
            if not names & set(request.relations):
                self._result.skipped += 1
                return False
        if request.entities is None:
            return True
        ends = [end for end in (src, dst) if end in self._kinds and end not in request.seeds]
        kinds = {end: (self._kinds[end] or "").casefold() for end in ends}
        allowed = set(request.entities)
        return all({end.casefold(), prefix_of(end), kinds[end]} & allowed for end in ends)

    def _scores(self, layer: Sequence[str]) -> dict[str, float]:
        """Return scores of nodes by vectors, else words, else their heaviest relation."""
        names = sorted(layer)
        if self._request.query is None:
            weights = {name: self._heaviest.get(name, 1.0) for name in names}
            highest = max(weights.values(), default=1.0) or 1.0
            return {name: weight / highest for name, weight in weights.items()}
        if self._query is None:
            stems = question_stems(self._request.query)
            return {name: coverage(stems, self._titles[name]) for name in names}
        return self._scores_by_vectors(names, self._query)

    def _scores_by_vectors(self, names: Sequence[str], query: Floats) -> dict[str, float]:
        self._stored([name for name in names if name not in self._vectors])
        self._embed([name for name in names if name not in self._vectors])
        candidates = {n: self._vectors[n] for n in names if n in self._vectors}
        collected = [self._vectors[n] for n in sorted(self._result.nodes) if n in self._vectors]
        scores = score_layer(
            query,
            candidates,
            np.stack(collected) if collected else None,
            self._request.frontier.novelty_penalty,
        )
        return {name: scores.get(name, 0.0) for name in names}

    def _stored(self, names: Sequence[str]) -> None:
        entities = [name for name in names if self._label(name) == "Entity"]
        if not entities:
            return
        stored = self._call.attempt(
            "graph_vectors",
            lambda: self._graph.vectors(entities, self._call.scope, self._deadline()),
            graph_reason,
        )
        if stored is None or self._query is None:
            return
        size = self._query.nbytes
        self._vectors |= {n: unpack(v) for n, v in stored.items() if len(v) == size}

    def _embed(self, names: Sequence[str]) -> None:
        embedder = self._embedder
        if not names or embedder is None:
            return
        texts = [self._titles[name] for name in names]
        vectors = self._call.attempt(
            "embed", lambda: embedder.embed(texts, self._deadline()), "embedding_unavailable"
        )
        if vectors is not None:
            self._vectors |= {n: unpack(v) for n, v in zip(names, vectors, strict=True)}

    def _label(self, name: str) -> str:
        if name in self._chunks:
            return "Chunk"
        if name.startswith(DOCUMENT):
            return "Document"
        return "Topic" if name.startswith(TOPIC) else "Entity"

"""A walk over chunks, entities, topics and documents that expands only what promises something."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from docstokg.contracts.graph import DOCUMENT, TOPIC, GraphSlice, SliceRequest
from docstokg.contracts.records import StoredChunk
from docstokg.contracts.response import GraphNode, GraphViewEdge
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.contracts.traverse import Direction, Frontier
from docstokg.domain import time_budget
from docstokg.domain.graph.frontier import gate_layer, score_layer, share_of
from docstokg.domain.identity import prefix_of
from docstokg.domain.text.snippets import coverage, question_stems
from docstokg.domain.vectors import Floats, matrix, unpack
from docstokg.errors import DocsToKGError, Timeout, Unavailable
from docstokg.ports import Embedder, KnowledgeGraph, SearchIndex, embed_questions, encoder_of
from docstokg.usecases.run import Call, graph_reason

LABELS = ("Chunk", "Document", "Entity", "Topic")
STRUCTURAL = ("HAS_CHUNK", "HAS_TOPIC", "MENTIONS")
RELATED = "RELATED_TO"
HUB = 20
"""Neighbours of one kind taken from one node: hubs are sampled by rank, never fully expanded."""

LAYER_NODES = 400


@dataclass(frozen=True)
class WalkRequest:
    """What is asked of a walk, after the server's caps; no `query`: edge weights score."""

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


@dataclass(frozen=True)
class Node:
    """A collected node; `path`: node ids from its seed to it, one more than it is deep."""

    id: str
    label: str
    title: str
    score: float
    path: tuple[str, ...]


@dataclass
class WalkResult:
    """What a walk found and what it spent."""

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: dict[tuple[str, str, str], int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    expanded: int = 0
    pruned: int = 0
    skipped: int = 0
    depth_reached: int = 0
    embedding: str | None = None

    def view(self) -> tuple[tuple[GraphNode, ...], tuple[GraphViewEdge, ...]]:
        """Give nodes by depth, score and id, and the edges between them by depth and ends."""
        nodes = sorted(self.nodes.values(), key=lambda n: (len(n.path), -n.score, n.id))
        edges = sorted(
            (depth, edge)
            for edge, depth in self.edges.items()
            if {edge[0], edge[2]} <= self.node_ids
        )
        shown = [
            GraphNode(id=n.id, label=n.label, title=n.title, score=round(n.score, 6)) for n in nodes
        ]
        lines = [
            GraphViewEdge(src=src, dst=dst, type=kind, depth=depth, path=self._path(src, dst))
            for depth, (src, kind, dst) in edges
        ]
        return tuple(shown), tuple(lines)

    def spent(self) -> dict[str, int]:
        """Give what it spent, by the names that responses have for it."""
        names = ("expanded", "pruned", "skipped", "depth_reached")
        return {name: getattr(self, name) for name in names}

    @property
    def node_ids(self) -> set[str]:
        """The ids of the collected nodes."""
        return set(self.nodes)

    def _path(self, src: str, dst: str) -> tuple[str, ...]:
        """Give the node ids from a seed to `dst`, over this edge unless it leads back."""
        one, two = self.nodes[src], self.nodes[dst]
        return (*one.path, dst) if len(two.path) > len(one.path) else two.path


def walk_graph(
    call: Call,
    request: WalkRequest,
    time_s: float,
    *,
    graph: KnowledgeGraph,
    index: SearchIndex,
    embedder: Embedder | None,
) -> WalkResult:
    """Walk layer by layer within `time_s` seconds; what fails or runs out leaves what there is.

    A layer's candidates are scored; the best are kept, at most the layer's share of the remaining
    nodes; of these the gate chooses which are expanded. The graph's failure on the seeds is raised;
    later ones are noted by the call.
    """
    until = time.monotonic() + time_s
    return _Walker(call, request, until, graph, index, embedder).run()


@dataclass
class _Walker:
    _call: Call
    _request: WalkRequest
    _until: float
    _graph: KnowledgeGraph
    _index: SearchIndex
    _embedder: Embedder | None
    _result: WalkResult = field(default_factory=WalkResult)
    _heaviest: dict[str, float] = field(default_factory=dict)
    _query: Floats | None = None
    _chunks: dict[str, StoredChunk] = field(default_factory=dict)
    _titles: dict[str, str] = field(default_factory=dict)
    _kinds: dict[str, str | None] = field(default_factory=dict)
    _vectors: dict[str, Floats] = field(default_factory=dict)

    def _left_s(self) -> float:
        left = self._until - time.monotonic()
        if left < time_budget.LEAST_CALL_S:
            raise Timeout("the walk ran out of time")
        return left

    def run(self) -> WalkResult:
        result, request = self._result, self._request
        self._embed_query()
        layer: dict[str, tuple[str, ...]] = {seed: (seed,) for seed in self._seeds()}
        best: float | None = None
        for depth in range(request.max_depth + 1):
            best_nodes = self._best_of(layer, depth)
            for name, score in best_nodes.items():
                label, title = self._label(name), self._titles[name]
                result.nodes[name] = Node(name, label, title, score, layer[name])
            if not best_nodes:
                break
            result.depth_reached = depth
            if depth == request.max_depth:
                break
            frontier = request.frontier
            delta = frontier.delta_threshold if depth <= request.soft_depth else 0.0
            gate = gate_layer(best_nodes, best if depth > 1 else None, frontier.top_k, delta)
            result.pruned += len(best_nodes) - len(gate.expand)
            best = gate.best
            try:
                layer = self._expand(gate.expand, depth + 1)
            except DocsToKGError as error:
                self._call.log("graph_walk", error, graph_reason)
                break
            result.expanded += len(gate.expand)
        return result

    def _best_of(self, layer: dict[str, tuple[str, ...]], depth: int) -> dict[str, float]:
        """Give the scores of a layer's best nodes, as many as there is room for."""
        request = self._request
        scores = self._scores(layer)
        room = request.max_nodes
        if depth:
            left = request.max_nodes - len(self._result.nodes)
            room = share_of(left, request.max_depth - depth + 1)
        ranked = sorted(layer, key=lambda name: (-scores[name], name))
        best = {name: scores[name] for name in ranked[:room]}
        self._result.skipped += len(ranked) - len(best)
        return best

    def _embed_query(self) -> None:
        embedder, query = self._embedder, self._request.query
        if embedder is None or query is None:
            return
        try:
            stored = self._index.info(self._left_s()).model_of(self._call.scope.namespace)
            embedder = self._embedder = encoder_of(embedder, stored)
            if embedder is None:
                raise Unavailable(f"what is stored was embedded by {stored}")
            time_s = min(time_budget.WALK_QUERY_S, self._left_s())
            (vector,) = embed_questions(embedder, [query], time_s)
        except DocsToKGError as error:
            self._call.log("embed", error, "embedding_unavailable")
            return
        self._query = unpack(vector)
        self._result.embedding = embedder.model

    def _seeds(self) -> list[str]:
        """Resolve the seeds to node ids, in the order given; what is unknown is noted."""
        seeds = self._request.seeds
        entities = {
            item.id.casefold(): item
            for item in self._graph.entities(seeds, self._call.scope, self._left_s())
        }
        rest = [seed for seed in seeds if seed.casefold() not in entities]
        self._read([seed for seed in rest if not seed.startswith((DOCUMENT, TOPIC))])
        groups = self._members([seed for seed in rest if seed.startswith((DOCUMENT, TOPIC))])
        valid, unknown = [], []
        for seed in seeds:
            entity = entities.get(seed.casefold())
            if entity is not None:
                self._titles[entity.id] = entity.name
                valid.append(entity.id)
            elif seed in self._chunks:
                valid.append(seed)
            elif any(group == seed for group, _ in groups):
                self._titles[seed] = seed.partition(":")[2]
                valid.append(seed)
            else:
                unknown.append(seed)
        self._result.unknown = tuple(unknown)
        return list(dict.fromkeys(valid))

    def _read(self, uuids: Sequence[str]) -> None:
        """Hydrate chunks that are not known yet: titles, topics, documents and vectors."""
        missing = [uuid for uuid in dict.fromkeys(uuids) if uuid not in self._chunks]
        if not missing:
            return
        hydrated = self._index.get(missing, self._call.scope, self._left_s())
        if hydrated.failed:
            self._call.mark_degraded("hydration_incomplete")
        for uuid, chunk in hydrated.chunks.items():
            self._chunks[uuid] = chunk
            self._titles[uuid] = chunk.title or chunk.chunk_id
            if chunk.vector is not None:
                self._vectors[uuid] = matrix([chunk.vector])[0]

    def _expand(self, names: Sequence[str], depth: int) -> dict[str, tuple[str, ...]]:
        """Fetch what lies one step from `names`; give new nodes with the paths that found them."""
        edges: list[tuple[str, str, str]] = []
        by_label = {
            label: [name for name in names if self._label(name) == label] for label in LABELS
        }
        with self._call.telemetry.span("graph_walk_layer"):
            edges += self._around_entities(by_label["Entity"])
            edges += self._around_chunks(by_label["Chunk"])
            edges += [
                (group, "HAS_CHUNK", uuid)
                if group.startswith(DOCUMENT)
                else (uuid, "HAS_TOPIC", group)
                for group, uuid in self._members(by_label["Document"] + by_label["Topic"])
            ]
        return self._next_layer(names, [edge for edge in edges if self._is_wanted(edge)], depth)

    def _next_layer(
        self, names: Sequence[str], edges: Iterable[tuple[str, str, str]], depth: int
    ) -> dict[str, tuple[str, ...]]:
        """Give what the edges lead to, each node with its path; hubs give HUB of a label."""
        request = self._request
        layer: dict[str, tuple[str, ...]] = {}
        taken: dict[tuple[str, str], int] = {}
        origin = set(names)
        for edge in dict.fromkeys(edges):
            src, _, dst = edge
            for here, there, way in ((src, dst, "out"), (dst, src, "in")):
                if here not in origin or request.direction not in (way, "both"):
                    continue
                label = self._label(there)
                if there not in self._titles or label not in request.labels:
                    self._result.skipped += 1
                    continue
                if there not in self._result.nodes and there not in layer:
                    taken[here, label] = taken.get((here, label), 0) + 1
                    if taken[here, label] > HUB:
                        self._result.skipped += 1
                        continue
                    layer[there] = (*self._result.nodes[here].path, there)
                self._result.edges.setdefault(edge, depth)
        return layer

    def _slice(self, *, chunks: Sequence[str] = (), around: int = HUB) -> SliceRequest:
        kinds = None
        relations = self._request.relations
        if relations is not None and RELATED.casefold() not in relations:
            structural = {name.casefold() for name in STRUCTURAL}
            kinds = tuple(kind for kind in relations if kind not in structural)
        return SliceRequest(
            chunk_uuids=tuple(chunks),
            relations=kinds,
            max_nodes=LAYER_NODES,
            chunks_per_entity=around,
            about_per_entity=0,
            neighbours_per_entity=around,
        )

    def _around_entities(self, names: Sequence[str]) -> list[tuple[str, str, str]]:
        if not names:
            return []
        part = self._graph.widen(names, self._slice(), self._call.scope, self._left_s())
        self._read([item.uuid for item in part.chunks])
        self._note(part)
        heaviest = sorted(part.relations, key=lambda relation: -relation.weight)
        for relation in heaviest:
            for end in (relation.source, relation.target):
                self._heaviest[end] = max(self._heaviest.get(end, 0.0), relation.weight)
        return [
            *((r.source, r.type, r.target) for r in heaviest),
            *((m.uuid, "MENTIONS", m.entity_id) for m in part.mentions),
        ]

    def _note(self, part: GraphSlice) -> None:
        for item in part.entities:
            self._titles.setdefault(item.id, item.name)
            self._kinds[item.id] = item.type

    def _around_chunks(self, names: Sequence[str]) -> list[tuple[str, str, str]]:
        if not names:
            return []
        around = self._slice(chunks=names, around=0)
        part = self._graph.slice(around, self._call.scope, self._left_s())
        self._note(part)
        edges = [(m.uuid, "MENTIONS", m.entity_id) for m in part.mentions]
        for name in names:
            chunk = self._chunks[name]
            document = DOCUMENT + chunk.doc_id
            self._titles.setdefault(document, chunk.document_name or chunk.doc_id)
            edges.append((document, "HAS_CHUNK", name))
            for topic in chunk.topics:
                self._titles.setdefault(TOPIC + topic, topic)
                edges.append((name, "HAS_TOPIC", TOPIC + topic))
        return edges

    def _members(self, groups: Sequence[str]) -> list[tuple[str, str]]:
        """Find the chunks of documents and topics that best match the question."""
        return [
            member
            for prefix in (DOCUMENT, TOPIC)
            if (names := [group[len(prefix) :] for group in groups if group.startswith(prefix)])
            for member in self._members_of(prefix, names)
        ]

    def _members_of(self, prefix: str, names: Sequence[str]) -> list[tuple[str, str]]:
        scope, key = self._call.scope, "doc_id" if prefix == DOCUMENT else "topic"
        conditions = {**(scope.filter or {})}
        allowed = conditions.get(key)
        conditions[key] = tuple(n for n in names if allowed is None or n in allowed)
        if not conditions[key]:
            return []
        scope = scope.model_copy(update={"filter": conditions})
        size = HUB * len(names)
        text = self._request.query or " ".join(names)
        query = ChannelQuery(channel="bm25", size=size, text=text)
        if self._query is not None:
            vector = self._query.astype("<f4").tobytes()
            query = ChannelQuery(channel="dense", size=size, vector=vector)
        (answer,) = self._index.search([query], scope, self._left_s())
        self._read([hit.uuid for hit in answer.hits])
        members: list[tuple[str, str]] = []
        for hit in answer.hits:
            chunk = self._chunks.get(hit.uuid)
            if chunk is not None:
                own = [chunk.doc_id] if prefix == DOCUMENT else list(chunk.topics)
                members += [(prefix + name, hit.uuid) for name in names if name in own]
        return members

    def _is_wanted(self, edge: tuple[str, str, str]) -> bool:
        """Tell whether the allow-lists of relations and the entity filter let an edge pass."""
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

    def _scores(self, layer: dict[str, tuple[str, ...]]) -> dict[str, float]:
        """Score the nodes of a layer by vectors, or by words where there are none.

        Without a query: by the heaviest relation that ends there (1 where none does), in shares
        of the layer's heaviest.
        """
        names = sorted(layer)
        if self._request.query is None:
            weights = {name: self._heaviest.get(name, 1.0) for name in names}
            most = max(weights.values(), default=1.0) or 1.0
            return {name: weight / most for name, weight in weights.items()}
        if self._query is None:
            stems = question_stems(self._request.query)
            return {name: coverage(stems, self._titles[name]) for name in names}
        return self._scores_by_vectors(names, self._query)

    def _scores_by_vectors(self, names: Sequence[str], query: Floats) -> dict[str, float]:
        """Score by cosine, less what repeats the collected nodes; 0 where there is no vector."""
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
        """Read what the load made of entity names; what is of another space is made anew."""
        entities = [name for name in names if self._label(name) == "Entity"]
        if not entities:
            return
        stored = self._call.attempt(
            "graph_vectors",
            lambda: self._graph.vectors(entities, self._call.scope, self._left_s()),
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
            "embed", lambda: embedder.embed(texts, self._left_s()), "embedding_unavailable"
        )
        if vectors is not None:
            self._vectors |= {n: unpack(v) for n, v in zip(names, vectors, strict=True)}

    def _label(self, name: str) -> str:
        if name in self._chunks:
            return "Chunk"
        if name.startswith(DOCUMENT):
            return "Document"
        return "Topic" if name.startswith(TOPIC) else "Entity"

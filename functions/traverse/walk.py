"""A walk over chunks, entities, topics and documents that expands only what promises something."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from docstokg.contracts.graph import SliceRequest
from docstokg.contracts.records import Scope, StoredChunk
from docstokg.contracts.response import DegradedReason, GraphNode, GraphViewEdge
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.contracts.traverse import Direction, Frontier
from docstokg.domain.frontier import gate_layer, score_layer, share_of
from docstokg.domain.identity import prefix_of
from docstokg.domain.snippets import coverage, question_stems
from docstokg.domain.vectors import Floats, matrix, unpack
from docstokg.errors import DocsToKGError, PlanRejected, Timeout, Unavailable
from docstokg.observability import Telemetry
from docstokg.ports import Embedder, KnowledgeGraph, SearchIndex

LABELS = ("Chunk", "Document", "Entity", "Topic")
STRUCTURAL = ("HAS_CHUNK", "HAS_TOPIC", "MENTIONS")
RELATED = "RELATED_TO"
DOCUMENT, TOPIC = "doc:", "topic:"
HUB = 20
"""Neighbours of one kind taken from one node: hubs are sampled by rank, never fully expanded."""

LAYER_NODES = 400
LEAST_S = 0.005
QUERY_S = 0.5


@dataclass(frozen=True)
class Walk:
    """What is asked of a walk, after the server's caps."""

    query: str
    scope: Scope
    seeds: tuple[str, ...]
    direction: Direction
    max_depth: int
    soft_depth: int
    max_nodes: int
    frontier: Frontier
    labels: tuple[str, ...] = LABELS
    relations: tuple[str, ...] | None = None
    entities: tuple[str, ...] | None = None
    gated: bool = True


@dataclass(frozen=True)
class Node:
    """A collected node; `path`: node ids from its seed to it."""

    id: str
    label: str
    title: str
    score: float
    depth: int
    path: tuple[str, ...]


@dataclass
class Walked:
    """What a walk found and what it spent."""

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: dict[tuple[str, str, str], int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    expanded: int = 0
    pruned: int = 0
    skipped: int = 0
    depth_reached: int = 0
    embedding: str | None = None
    degraded: list[DegradedReason] = field(default_factory=list)

    def view(self) -> tuple[tuple[GraphNode, ...], tuple[GraphViewEdge, ...]]:
        """Give nodes by depth, score and id, and the edges between them by depth and ends."""
        nodes = sorted(self.nodes.values(), key=lambda n: (n.depth, -n.score, n.id))
        edges = sorted(
            (depth, edge) for edge, depth in self.edges.items() if {edge[0], edge[2]} <= self.known
        )
        return (
            tuple(
                GraphNode(id=n.id, label=n.label, title=n.title, score=round(n.score, 6))
                for n in nodes
            ),
            tuple(
                GraphViewEdge(src=src, dst=dst, type=kind, depth=depth, path=self._path(src, dst))
                for depth, (src, kind, dst) in edges
            ),
        )

    @property
    def known(self) -> set[str]:
        """The ids of the collected nodes."""
        return set(self.nodes)

    def _path(self, src: str, dst: str) -> tuple[str, ...]:
        """Give the node ids from a seed to `dst`, over this edge unless it leads back."""
        one, two = self.nodes[src], self.nodes[dst]
        return (*one.path, dst) if two.depth > one.depth else two.path


def walk_graph(
    asked: Walk,
    *,
    graph: KnowledgeGraph,
    index: SearchIndex,
    embedder: Embedder | None,
    telemetry: Telemetry,
    time_s: float,
) -> Walked:
    """Walk layer by layer within `time_s` seconds; what fails or runs out leaves what there is.

    A layer's candidates are scored; the best are kept, at most the layer's share of the remaining
    nodes; of these the gate chooses which are expanded. Not `gated` is plain breadth-first, to
    measure against: the first found are kept, in the order the stores give them, and all are
    expanded. The graph's failure on the seeds is raised.
    """
    walker = _Walker(asked, graph, index, embedder, telemetry, time.monotonic() + time_s)
    return walker.run()


class _Walker:
    def __init__(
        self,
        asked: Walk,
        graph: KnowledgeGraph,
        index: SearchIndex,
        embedder: Embedder | None,
        telemetry: Telemetry,
        until: float,
    ) -> None:
        self._asked = asked
        self._graph = graph
        self._index = index
        self._embedder = embedder
        self._telemetry = telemetry
        self._until = until
        self._found = Walked()
        self._stems = question_stems(asked.query)
        self._query: Floats | None = None
        self._chunks: dict[str, StoredChunk] = {}
        self._titles: dict[str, str] = {}
        self._kinds: dict[str, str | None] = {}
        self._vectors: dict[str, Floats] = {}

    def _left_s(self) -> float:
        left = self._until - time.monotonic()
        if left < LEAST_S:
            raise Timeout("the walk ran out of time")
        return left

    def run(self) -> Walked:
        found, asked = self._found, self._asked
        self._embed_query()
        layer: dict[str, tuple[str, ...]] = {seed: (seed,) for seed in self._seeds()}
        best: float | None = None
        for depth in range(asked.max_depth + 1):
            scores = self._scores(layer)
            layers_left = asked.max_depth - depth + 1
            room = share_of(asked.max_nodes - len(found.nodes), layers_left)
            if depth == 0:
                room = asked.max_nodes
            ranked = list(layer)
            if asked.gated:
                ranked.sort(key=lambda name: (-scores[name], name))
            kept = {name: scores[name] for name in ranked[:room]}
            found.skipped += len(ranked) - len(kept)
            for name in kept:
                found.nodes[name] = Node(
                    name,
                    _label(name, self._chunks),
                    self._titles[name],
                    scores[name],
                    depth,
                    layer[name],
                )
            if not kept:
                break
            found.depth_reached = depth
            if depth == asked.max_depth:
                break
            wanted = asked.frontier
            delta = wanted.delta_threshold if depth <= asked.soft_depth else 0.0
            gated = gate_layer(kept, best if depth > 1 else None, wanted.top_k, delta)
            chosen = gated.expand if asked.gated else tuple(kept)
            found.pruned += len(kept) - len(chosen)
            best = gated.best
            try:
                layer = self._expand(chosen, depth + 1)
            except DocsToKGError as error:
                found.degraded.append(reason_of(error))
                break
            found.expanded += len(chosen)
        return found

    def _embed_query(self) -> None:
        if self._embedder is None:
            return
        try:
            stored = self._index.info(self._left_s()).embedding_model
            if stored not in (None, self._embedder.model):
                raise Unavailable(f"what is stored was embedded by {stored}")
            (vector,) = self._embedder.embed([self._asked.query], min(QUERY_S, self._left_s()))
        except DocsToKGError:
            self._found.degraded.append("embedding_unavailable")
            return
        self._query = unpack(vector)
        self._found.embedding = self._embedder.model

    def _seeds(self) -> list[str]:
        """Resolve the seeds to node ids, in the order given; what is unknown is noted."""
        asked = self._asked
        entities = {
            item.id.casefold(): item
            for item in self._graph.entities(asked.seeds, asked.scope, self._left_s())
        }
        rest = [seed for seed in asked.seeds if seed.casefold() not in entities]
        self._read([seed for seed in rest if not seed.startswith((DOCUMENT, TOPIC))])
        groups = self._members([seed for seed in rest if seed.startswith((DOCUMENT, TOPIC))])
        found, unknown = [], []
        for seed in asked.seeds:
            entity = entities.get(seed.casefold())
            if entity is not None:
                self._titles[entity.id] = entity.name
                found.append(entity.id)
            elif seed in self._chunks:
                found.append(seed)
            elif any(group == seed for group, _ in groups):
                self._titles[seed] = seed.partition(":")[2]
                found.append(seed)
            else:
                unknown.append(seed)
        self._found.unknown = tuple(unknown)
        return list(dict.fromkeys(found))

    def _read(self, uuids: Sequence[str]) -> None:
        """Hydrate chunks that are not known yet: titles, topics, documents and vectors."""
        missing = [uuid for uuid in dict.fromkeys(uuids) if uuid not in self._chunks]
        if not missing:
            return
        got = self._index.get(missing, self._asked.scope, self._left_s())
        if got.failed:
            self._found.degraded.append("hydration_incomplete")
        for uuid, chunk in got.chunks.items():
            self._chunks[uuid] = chunk
            self._titles[uuid] = chunk.title or chunk.chunk_id
            if chunk.vector is not None:
                self._vectors[uuid] = matrix([chunk.vector])[0]

    def _expand(self, names: Sequence[str], depth: int) -> dict[str, tuple[str, ...]]:
        """Fetch what lies one step from `names`; give new nodes with the paths that found them."""
        asked = self._asked
        edges: list[tuple[str, str, str]] = []
        by_label = {
            label: [name for name in names if _label(name, self._chunks) == label]
            for label in LABELS
        }
        with self._telemetry.span("graph_walk_layer"):
            edges += self._around_entities(by_label["Entity"])
            edges += self._around_chunks(by_label["Chunk"])
            groups = by_label["Document"] + by_label["Topic"]
            edges += [self._membership(group, uuid) for group, uuid in self._members(groups)]
        return self._reached(names, [edge for edge in edges if self._wanted(edge)], depth, asked)

    def _reached(
        self,
        names: Sequence[str],
        edges: Iterable[tuple[str, str, str]],
        depth: int,
        asked: Walk,
    ) -> dict[str, tuple[str, ...]]:
        layer: dict[str, tuple[str, ...]] = {}
        taken: dict[tuple[str, str], int] = {}
        origin = set(names)
        for edge in dict.fromkeys(edges):
            src, _, dst = edge
            for here, there, way in ((src, dst, "out"), (dst, src, "in")):
                if here not in origin or asked.direction not in (way, "both"):
                    continue
                label = _label(there, self._chunks)
                if there not in self._titles or label not in asked.labels:
                    self._found.skipped += 1
                    continue
                known = there in self._found.nodes or there in layer
                if not known:
                    taken[here, label] = taken.get((here, label), 0) + 1
                    if taken[here, label] > HUB:
                        self._found.skipped += 1
                        continue
                    layer[there] = (*self._found.nodes[here].path, there)
                self._found.edges.setdefault(edge, depth)
        return layer

    def _slice(self, *, chunks: Sequence[str] = (), around: int = HUB) -> SliceRequest:
        kinds = None
        if self._asked.relations is not None and RELATED.casefold() not in self._asked.relations:
            structural = {name.casefold() for name in STRUCTURAL}
            kinds = tuple(kind for kind in self._asked.relations if kind not in structural)
        return SliceRequest(
            chunk_uuids=tuple(chunks),
            relations=kinds,
            max_nodes=LAYER_NODES,
            chunks_per_entity=around,
            neighbours_per_entity=around,
        )

    def _around_entities(self, names: Sequence[str]) -> list[tuple[str, str, str]]:
        if not names:
            return []
        part = self._graph.widen(names, self._slice(), self._asked.scope, self._left_s())
        self._read([item.uuid for item in part.chunks])
        for item in part.entities:
            self._titles.setdefault(item.id, item.name)
            self._kinds[item.id] = item.type
        heaviest = sorted(part.relations, key=lambda relation: -relation.weight)
        return [
            *((r.source, r.type, r.target) for r in heaviest),
            *((m.uuid, "MENTIONS", m.entity_id) for m in part.mentions),
        ]

    def _around_chunks(self, names: Sequence[str]) -> list[tuple[str, str, str]]:
        if not names:
            return []
        asked = self._slice(chunks=names, around=0)
        part = self._graph.slice(asked, self._asked.scope, self._left_s())
        for item in part.entities:
            self._titles.setdefault(item.id, item.name)
            self._kinds[item.id] = item.type
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

    def _membership(self, group: str, uuid: str) -> tuple[str, str, str]:
        if group.startswith(DOCUMENT):
            return (group, "HAS_CHUNK", uuid)
        return (uuid, "HAS_TOPIC", group)

    def _members(self, groups: Sequence[str]) -> list[tuple[str, str]]:
        """Find the chunks of documents and topics that best match the question."""
        found: list[tuple[str, str]] = []
        for prefix in (DOCUMENT, TOPIC):
            names = [group[len(prefix) :] for group in groups if group.startswith(prefix)]
            if not names:
                continue
            key = "doc_id" if prefix == DOCUMENT else "topic"
            conditions = {**(self._asked.scope.filter or {})}
            allowed = conditions.get(key)
            conditions[key] = tuple(n for n in names if allowed is None or n in allowed)
            if not conditions[key]:
                continue
            scope = self._asked.scope.model_copy(update={"filter": conditions})
            size = HUB * len(names)
            asked = ChannelQuery(channel="bm25", size=size, text=self._asked.query)
            if self._query is not None:
                vector = self._query.astype("<f4").tobytes()
                asked = ChannelQuery(channel="dense", size=size, vector=vector)
            (result,) = self._index.search([asked], scope, self._left_s())
            self._read([hit.uuid for hit in result.hits])
            for hit in result.hits:
                chunk = self._chunks.get(hit.uuid)
                if chunk is None:
                    continue
                own = [chunk.doc_id] if prefix == DOCUMENT else list(chunk.topics)
                found += [(prefix + name, hit.uuid) for name in names if name in own]
        return found

    def _wanted(self, edge: tuple[str, str, str]) -> bool:
        """Tell whether the allow-lists of relations and the entity filter let an edge pass."""
        asked, (src, kind, dst) = self._asked, edge
        if asked.relations is not None:
            names = {kind.casefold()} | (set() if kind in STRUCTURAL else {RELATED.casefold()})
            if not names & set(asked.relations):
                self._found.skipped += 1
                return False
        if asked.entities is None:
            return True
        ends = [end for end in (src, dst) if end in self._kinds and end not in asked.seeds]
        return all(self._is_allowed(end, asked.entities) for end in ends)

    def _is_allowed(self, entity: str, allowed: Sequence[str]) -> bool:
        kind = self._kinds.get(entity) or ""
        return bool({entity.casefold(), prefix_of(entity), kind.casefold()} & set(allowed))

    def _scores(self, layer: dict[str, tuple[str, ...]]) -> dict[str, float]:
        """Score the nodes of a layer by vectors, or by words where there are none."""
        names = sorted(layer)
        if self._query is not None:
            self._stored([name for name in names if name not in self._vectors])
            self._embed([name for name in names if name not in self._vectors])
            having = {n: self._vectors[n] for n in names if n in self._vectors}
            kept = [self._vectors[n] for n in sorted(self._found.nodes) if n in self._vectors]
            scores = score_layer(
                self._query,
                having,
                np.stack(kept) if kept else None,
                self._asked.frontier.novelty_penalty,
            )
        else:
            scores = {}
        return {
            name: scores[name]
            if name in scores
            else coverage(self._stems, self._titles[name])
            if self._query is None
            else 0.0
            for name in names
        }

    def _stored(self, names: Sequence[str]) -> None:
        """Read what the load made of entity names; what is of another space is made anew."""
        entities = [name for name in names if _label(name, self._chunks) == "Entity"]
        if not entities:
            return
        try:
            found = self._graph.vectors(entities, self._asked.scope, self._left_s())
        except DocsToKGError as error:
            if (reason := reason_of(error)) not in self._found.degraded:
                self._found.degraded.append(reason)
            return
        assert self._query is not None
        size = self._query.nbytes
        self._vectors |= {n: unpack(v) for n, v in found.items() if len(v) == size}

    def _embed(self, names: Sequence[str]) -> None:
        if not names or self._embedder is None:
            return
        try:
            texts = [self._titles[name] for name in names]
            vectors = self._embedder.embed(texts, self._left_s())
        except DocsToKGError:
            if "embedding_unavailable" not in self._found.degraded:
                self._found.degraded.append("embedding_unavailable")
            return
        self._vectors |= {n: unpack(v) for n, v in zip(names, vectors, strict=True)}


def _label(name: str, chunks: dict[str, StoredChunk]) -> str:
    if name in chunks:
        return "Chunk"
    if name.startswith(DOCUMENT):
        return "Document"
    return "Topic" if name.startswith(TOPIC) else "Entity"


def reason_of(error: DocsToKGError) -> DegradedReason:
    """Name a failure of the graph as the response does."""
    if isinstance(error, Timeout):
        return "kg_timeout"
    return "kg_plan_rejected" if isinstance(error, PlanRejected) else "kg_unavailable"

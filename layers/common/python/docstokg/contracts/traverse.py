"""`POST /v1/traverse`: a policy-gated walk of the graph from given nodes."""

from typing import Annotated, Literal

from pydantic import Field

from docstokg.contracts.model import Contract, Many, StrictContract
from docstokg.contracts.request import Name, Namespace, NodeId, Query
from docstokg.contracts.response import DegradedReason, GraphNode, GraphViewEdge

Direction = Literal["out", "in", "both"]


class Frontier(StrictContract):
    """When a node is expanded: among its layer's `top_k`, at most `delta_threshold` below the best.

    `novelty_penalty` x similarity to what is collected is taken off every score.
    """

    top_k: int = Field(20, ge=1, le=100)
    delta_threshold: float = Field(0.05, ge=0, le=2)
    novelty_penalty: float = Field(0.2, ge=0, le=1)


class TraverseFilters(StrictContract):
    """`topic`: a chunk must have one of these. `entity`: ids, CURIE prefixes or types allowed."""

    topic: Annotated[Many[Name], Field(max_length=100)] | None = None
    entity: Annotated[Many[NodeId], Field(max_length=100)] | None = None


class TraverseRequest(StrictContract):
    """Where to start, what to look for, how far to go; the server's caps always win.

    Node ids: an entity's id (CURIEs in any case), a chunk's uuid, `doc:ID`, `topic:NAME`. Without
    `query` the weights of edges score. The cursor of an answer's graph (`graph.budget.cursor`)
    carries seeds, query and limits itself and is sent with `namespace` alone.
    """

    seed_ids: Annotated[Many[NodeId], Field(max_length=50)] = ()
    query: Query | None = None
    namespace: Namespace = "default"
    direction: Direction = "both"
    max_depth: int = Field(3, ge=1)
    max_nodes: int = Field(150, ge=1)
    rel_whitelist: Annotated[Many[Name], Field(max_length=50)] | None = None
    label_whitelist: Annotated[Many[Name], Field(max_length=50)] | None = None
    frontier: Frontier = Frontier()
    filters: TraverseFilters = TraverseFilters()
    cursor: str | None = Field(None, max_length=16384)


class Scoring(Contract):
    """How nodes were scored; `embedding` null = by shared words."""

    formula: str = "cosine(query, node) - novelty_penalty * max cosine(node, collected)"
    embedding: str | None = None
    top_k: int
    delta_threshold: float
    novelty_penalty: float


class Caps(Contract):
    """The caps in force."""

    max_depth: int
    max_nodes: int
    time_s: float
    labels: tuple[str, ...]
    relations: tuple[str, ...] | None = None


class Explain(Contract):
    """What the walk did: nodes expanded, gated off (pruned), left out by caps (skipped)."""

    scoring: Scoring
    caps: Caps
    expanded: int = 0
    pruned: int = 0
    skipped: int = 0
    depth_reached: int = 0
    degraded_reasons: tuple[DegradedReason, ...] = ()


class TraverseResponse(Contract):
    """A page of the walk: nodes by depth, then score; edges between the nodes of the whole walk."""

    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[GraphViewEdge, ...] = ()
    explain: Explain
    cursor: str | None = None
    warnings: tuple[str, ...] = ()

"""`POST /v1/traverse`: a policy-gated walk of the graph from given nodes."""

from typing import Annotated

from pydantic import Field

from docstokg.contracts.model import Contract, Many, StrictContract
from docstokg.contracts.request import Direction, Name, Namespace, NodeId, Query
from docstokg.contracts.response import DegradedReason, GraphNode, GraphViewEdge


class Frontier(StrictContract):
    """When a node is expanded: among its layer's `top_k`, at most `delta_threshold` below the best.

    `novelty_penalty` x similarity to what is collected is taken off every score.
    """

    top_k: int = Field(20, ge=1, le=100, description="nodes of a layer that are expanded")
    delta_threshold: float = Field(
        0.05, ge=0, le=2, description="how far below the layer before a score may fall"
    )
    novelty_penalty: float = Field(
        0.2, ge=0, le=1, description="what similarity to nodes already collected costs"
    )


class TraverseFilters(StrictContract):
    """`topic`: a chunk must have one of these. `entity`: ids, CURIE prefixes or types allowed."""

    topic: Annotated[Many[Name], Field(max_length=100)] | None = Field(
        None, description="a passage must have one of these"
    )
    entity: Annotated[Many[NodeId], Field(max_length=100)] | None = Field(
        None, description="ids, id prefixes or types an entity may have"
    )


class TraverseRequest(StrictContract):
    """Where to start, what to look for, how far to go; the server's caps always win.

    Node ids: an entity's id (CURIEs in any case), a chunk's uuid, `doc:ID`, `topic:NAME`. Without
    `query` the weights of edges score. The cursor of an answer's graph (`graph.budget.cursor`)
    carries seeds, query and limits itself and is sent with `namespace` alone.
    """

    seed_ids: Annotated[Many[NodeId], Field(max_length=50)] = Field(
        (),
        description="where to start: entity ids, passage uuids, doc:ID or topic:NAME",
        examples=[["HP:0001250"]],
    )
    query: Query | None = Field(
        None, description="what to walk towards; null: the weights of edges decide"
    )
    namespace: Namespace = Field("default", description="which graph is walked")
    direction: Direction = Field("both", description="along edges, against them, or either way")
    max_depth: int = Field(3, ge=1, description="edges from a seed at most")
    max_nodes: int = Field(150, ge=1, description="nodes at most")
    rel_whitelist: Annotated[Many[Name], Field(max_length=50)] | None = Field(
        None, description="only relations of these types"
    )
    label_whitelist: Annotated[Many[Name], Field(max_length=50)] | None = Field(
        None, description="only nodes of these labels: Chunk, Entity, Topic, Document"
    )
    frontier: Frontier = Field(Frontier(), description="which nodes are expanded")
    filters: TraverseFilters = Field(TraverseFilters(), description="which nodes may be met")
    cursor: str | None = Field(
        None, max_length=16384, description="`cursor` of the page before: the walk goes on there"
    )


class Scoring(Contract):
    """How nodes were scored; `embedding` null = by shared words."""

    formula: str = "cosine(query, node) - novelty_penalty * max cosine(node, collected)"
    """how a node is scored"""
    embedding: str | None = None
    """the encoder; null: shared words are counted"""
    top_k: int
    """nodes of each layer that may be expanded"""
    delta_threshold: float
    """how far below the best of the layer before an expanded node may score"""
    novelty_penalty: float
    """how much a node loses by being like one collected before"""


class Caps(Contract):
    """The caps in force."""

    max_depth: int
    """edges between a seed and the farthest node"""
    max_nodes: int
    """nodes of one page at most"""
    time_s: float
    """seconds for the walk"""
    labels: tuple[str, ...]
    """kinds of nodes that were walked over"""
    relations: tuple[str, ...] | None = None
    """relations that were followed; null: all"""


class Explain(Contract):
    """What the walk did: nodes expanded, gated off (pruned), left out by caps (skipped)."""

    scoring: Scoring
    """how nodes were scored"""
    caps: Caps
    """the limits of the walk"""
    expanded: int = 0
    """nodes whose neighbours were looked at"""
    pruned: int = 0
    """nodes that were not expanded: too far from the question, or not among the best"""
    skipped: int = 0
    """nodes left out by the limits"""
    depth_reached: int = 0
    """edges between a seed and the farthest node reached"""
    degraded_reasons: tuple[DegradedReason, ...] = ()
    """which part did not answer"""


class TraverseResponse(Contract):
    """A page of the walk: nodes by depth, then score; edges between the nodes of the whole walk."""

    nodes: tuple[GraphNode, ...] = ()
    """by depth, then score"""
    edges: tuple[GraphViewEdge, ...] = ()
    """between the nodes of the whole walk"""
    explain: Explain
    """what the walk did"""
    cursor: str | None = None
    """of the next page; null on the last"""
    warnings: tuple[str, ...] = ()
    """what a reader should know"""

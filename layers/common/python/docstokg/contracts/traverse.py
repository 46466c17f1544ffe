"""Contract of `POST /v1/traverse`."""

from typing import Annotated

from pydantic import Field

from docstokg.contracts.model import Contract, Many, StrictContract
from docstokg.contracts.request import Direction, InNamespaces, Name, NodeId, Query
from docstokg.contracts.response import DegradedReason, GraphNode, GraphViewEdge


class Frontier(StrictContract):
    """Rules for expanding nodes."""

    top_k: int = Field(20, ge=1, le=100)
    """maximum number of nodes expanded per layer"""
    delta_threshold: float = Field(0.05, ge=0, le=2)
    """maximum score drop below the best node of the previous layer"""
    novelty_penalty: float = Field(0.2, ge=0, le=1)
    """weight of the similarity to collected nodes, subtracted from the score"""


class TraverseFilters(StrictContract):
    """Filters on the visited nodes."""

    topic: Annotated[Many[Name], Field(max_length=100)] | None = None
    """allowed topics of passages"""
    entity: Annotated[Many[NodeId], Field(max_length=100)] | None = None
    """allowed entity ids, id prefixes or types"""


class TraverseRequest(InNamespaces):
    """Request body of `POST /v1/traverse`. The server's own limits take precedence.

    Node ids are entity ids (CURIEs in any case), chunk uuids, `doc:ID` or `topic:NAME`. The cursor
    of an answer's graph (`graph.budget.cursor`) contains seeds, query and limits; send it with
    `namespace` only.
    """

    seed_ids: Annotated[Many[NodeId], Field(max_length=50)] = Field((), examples=[["HP:0001250"]])
    """start nodes: entity ids, passage uuids, doc:ID or topic:NAME"""
    query: Query | None = None
    """question that scores the nodes; null: scored by edge weights"""
    direction: Direction = "both"
    """direction in which edges are followed"""
    max_depth: int = Field(3, ge=1)
    """maximum number of edges from a seed"""
    max_nodes: int = Field(150, ge=1)
    """maximum number of nodes"""
    rel_whitelist: Annotated[Many[Name], Field(max_length=50)] | None = None
    """allowed relation types"""
    label_whitelist: Annotated[Many[Name], Field(max_length=50)] | None = None
    """allowed node labels: Chunk, Entity, Topic, Document"""
    frontier: Frontier = Frontier()
    """rules for expanding nodes"""
    filters: TraverseFilters = TraverseFilters()
    """filters on the visited nodes"""
    cursor: str | None = Field(None, max_length=16384)
    """`cursor` of the previous page"""


class Scoring(Contract):
    """Scoring of the nodes."""

    formula: str = "cosine(query, node) - novelty_penalty * max cosine(node, collected)"
    """formula of the score"""
    embedding: str | None = None
    """embedding model; null: scored by shared words"""
    top_k: int
    """maximum number of nodes expanded per layer"""
    delta_threshold: float
    """maximum score drop below the best node of the previous layer"""
    novelty_penalty: float
    """weight of the similarity to collected nodes"""


class Caps(Contract):
    """Effective limits of the walk."""

    max_depth: int
    """maximum number of edges from a seed"""
    max_nodes: int
    """maximum number of nodes per page"""
    time_s: float
    """time limit of the walk in seconds"""
    labels: tuple[str, ...]
    """labels of the visited nodes"""
    relations: tuple[str, ...] | None = None
    """followed relation types; null: all"""


class Explain(Contract):
    """Scoring, limits and usage of a walk."""

    scoring: Scoring
    """scoring of the nodes"""
    caps: Caps
    """effective limits of the walk"""
    expanded: int = 0
    """number of expanded nodes"""
    pruned: int = 0
    """nodes not expanded: score too low or not among the best"""
    skipped: int = 0
    """nodes omitted because of limits"""
    depth_reached: int = 0
    """maximum number of edges from a seed"""
    degraded_reasons: tuple[DegradedReason, ...] = ()
    """failed components"""


class TraverseResponse(Contract):
    """A page of a graph walk."""

    nodes: tuple[GraphNode, ...] = ()
    """nodes, by depth, then score"""
    edges: tuple[GraphViewEdge, ...] = ()
    """edges between nodes of the whole walk"""
    explain: Explain
    """scoring, limits and usage"""
    cursor: str | None = None
    """cursor of the next page; null on the last page"""
    warnings: tuple[str, ...] = ()
    """warnings for the reader"""

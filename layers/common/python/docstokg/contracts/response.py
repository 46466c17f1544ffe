"""What a caller gets back, field by field."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from docstokg.contracts.model import Contract

DegradedReason = Literal[
    "bm25_unavailable",
    "splade_unavailable",
    "dense_unavailable",
    "embedding_unavailable",
    "facts_unavailable",
    "retrieval_timeout",
    "retrieval_unavailable",
    "hydration_incomplete",
    "kg_unavailable",
    "kg_timeout",
    "kg_plan_rejected",
    "reranker_unavailable",
    "deadline_exceeded",
    "llm_timeout",
    "llm_quota_exceeded",
    "llm_unavailable",
    "payload_trimmed",
]
REASONS: Mapping[str, str] = {
    "bm25_unavailable": "word search did not answer",
    "splade_unavailable": "learned sparse search did not answer",
    "dense_unavailable": "vector search did not answer",
    "embedding_unavailable": "the question could not be turned into a vector",
    "facts_unavailable": "the search for stated facts did not answer",
    "retrieval_timeout": "searching took too long",
    "retrieval_unavailable": "no search channel answered",
    "hydration_incomplete": "some passages could not be read",
    "kg_unavailable": "the knowledge graph could not be used",
    "kg_timeout": "the knowledge graph took too long",
    "kg_plan_rejected": "the graph refused the query plan",
    "reranker_unavailable": "the reranker could not be used",
    "deadline_exceeded": "the time for this question ran out",
    "llm_timeout": "the language model took too long",
    "llm_quota_exceeded": "the language model's quota is used up",
    "llm_unavailable": "the language model did not answer",
    "payload_trimmed": "the response was cut to the allowed size",
}
"""Every degraded reason as a person says it; the page has the same words."""

Channel = Literal["bm25", "splade", "dense", "facts"]
Source = Literal["hybrid", "kg_expansion"]
OffsetBase = Literal["document", "chunk"]
MatchType = Literal["direct_mention", "related_via"]
Verdict = Literal["supported", "weak", "unsupported", "uncited", "not_checked"]
ConfidenceLevel = Literal["high", "medium", "low"]
ConflictKind = Literal["value", "negation", "superseded"]
FusionMethod = Literal["minmax+MMR", "RRF+MMR", "minmax", "RRF"]


class ChannelRank(Contract):
    """Where one channel put a chunk: 1-based rank and the channel's own score."""

    rank: int
    score: float


class Span(Contract):
    """A stretch of a chunk, in code points of `text[char_start:char_end]` plus the offset base."""

    uuid: str
    char_start: int
    char_end: int


class Conflict(Contract):
    """Two cited passages that disagree, the newer first where it is known which one that is.

    `value`: they state other numbers or dates of one thing. `negation`: one denies what the other
    says, or says the opposite. `superseded`: the second one's document is replaced by the first's.
    """

    ranks: tuple[int, int]
    spans: tuple[Span, Span]
    kind: ConflictKind


class EdgeEvidence(Contract):
    """The chunk and the span of its text that state an edge."""

    uuid: str
    chunk_id: str
    start: int | None = None
    end: int | None = None


class EvidenceEdge(Contract):
    """A typed, directed edge of the graph and what states it, when known."""

    src: str
    type: str
    dst: str
    evidence: EdgeEvidence | None = None


class KgEvidence(Contract):
    """Why the graph says that a chunk matters to the question."""

    matched_entity: str
    entity_id: str
    entity_type: str | None
    match_type: MatchType
    related_to: str | None = None
    path: tuple[EvidenceEdge, ...] = ()
    shared_docs: int = 0


class Provenance(Contract):
    """Which load last changed the chunk, and when it was read for this answer."""

    run_id: str
    retrieved_at: str


class PageBox(Contract):
    """A stretch of a line on a page of a PDF: points from the page's upper left corner."""

    page: int = Field(description="1-based")
    x0: float = Field(description="left edge")
    y0: float = Field(description="upper edge")
    x1: float = Field(description="right edge")
    y1: float = Field(description="lower edge")


class Citation(Contract):
    """One verifiable piece of evidence: `snippet` is exactly text[start:end] of its source."""

    rank: int
    doc_id: str
    document_name: str | None = None
    uuid: str
    chunk_id: str
    page: int | str | None = None
    section: str | None = None
    uri: str | None = None
    anchor: str | None = None
    snippet: str
    char_start: int
    char_end: int
    offset_base: OffsetBase
    text_sha256: str
    boxes: tuple[PageBox, ...] = Field((), description="where the snippet stands, of a PDF")
    score: float = Field(ge=0, le=1)
    full_text: str | None = None
    title: str | None = None
    metadata: dict[str, Any] | None = None
    source: Source
    cited: bool = False
    concepts_mentioned: tuple[str, ...] = ()
    kg_path: tuple[str, ...] = ()
    kg_evidence: KgEvidence | None = None
    channels: dict[Channel, ChannelRank] = {}
    provenance: Provenance
    namespace: str | None = Field(None, description="which of several that were asked")


class SentenceVerdict(Contract):
    """What the cited sources say of one sentence: answer[start:end]."""

    start: int
    end: int
    citations: tuple[int, ...] = ()
    verdict: Verdict
    support: float = Field(ge=0, le=1)
    span: Span | None = None
    reasons: tuple[str, ...] = ()


class Grounding(Contract):
    """How well an answer is covered by what it cites."""

    coverage: float
    context_coverage: float
    cited_count: int
    total_citations: int
    invalid_citations: tuple[str, ...] = ()
    grounded: bool
    sentences: tuple[SentenceVerdict, ...] = ()


class GraphNode(Contract):
    """A node of the walked graph."""

    id: str
    label: str
    title: str
    score: float


class GraphViewEdge(Contract):
    """An edge of the walked graph; `path` is the node ids from a seed to `dst`."""

    src: str
    dst: str
    type: str
    depth: int
    path: tuple[str, ...] = ()


class GraphBudget(Contract):
    """What the walk spent."""

    expanded: int
    pruned: int
    skipped: int
    depth_reached: int
    cursor: str | None = None


class GraphView(Contract):
    """Verbosity graph: the neighbourhood of the citations."""

    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[GraphViewEdge, ...] = ()
    budget: GraphBudget


class ChannelUse(Contract):
    """What one channel brought: candidates, and the citations found by it."""

    candidates: int = 0
    selected: int = 0
    took_ms: float = 0.0


class KgStats(Contract):
    """What graph expansion did."""

    concepts_expanded: int = 0
    hops_executed: int = 0
    chunks_added: int = 0
    triples_traversed: int = 0


class GraphGain(Contract):
    """The counterfactual: what the graph changed, or why it was left out."""

    added: tuple[str, ...] = ()
    top_k_without: tuple[str, ...] = ()
    skipped: str | None = None


class PlanUse(Contract):
    """Whether the graph's query plans are admitted, and the time its step may take."""

    explain_ok: bool
    timeout_ms: int


class GraphUse(Contract):
    """Nodes of the slice around which was looked, those that were not, and why none were."""

    expanded: int = 0
    pruned: int = 0
    reason: str | None = None


class Fusion(Contract):
    """How the channels' lists became one."""

    method: FusionMethod
    k: int | None = None
    lambda_: float | None = Field(alias="lambda", default=0.7)

    model_config = {"populate_by_name": True, "serialize_by_alias": True}


class BudgetUsed(Contract):
    """What one request spent."""

    chunks: int = 0
    tokens_context: int = 0
    tokens_gen: int = 0
    elapsed_s: float = 0.0


class BudgetLimits(Contract):
    """The limits in force, after the server's ceilings."""

    max_chunks: int
    max_tokens_context: int
    max_tokens_gen: int
    timeout_s: float


class ProvidersUsed(Contract):
    """Who did what: model names, or null where nothing did."""

    embedding: str | None = None
    sparse: str | None = None
    reranker: str | None = None
    llm: str | None = None


class Timings(Contract):
    """Milliseconds per step, as each step measured itself."""

    validation: float = 0.0
    routing: float = 0.0
    hybrid_retrieval: float = 0.0
    kg_expansion: float = 0.0
    dedup_mmr: float = 0.0
    hydration: float = 0.0
    citation_extraction: float = 0.0
    graph_view: float = 0.0
    llm_synthesis: float = 0.0
    total: float = 0.0


class Diagnostics(Contract):
    """What it took; never query text, never snippets."""

    timings_ms: Timings
    channels: dict[Channel, ChannelUse] = {}
    kg_stats: KgStats = KgStats()
    graph_gain: GraphGain = GraphGain()
    plan: PlanUse
    graph: GraphUse = GraphUse()
    fusion: Fusion
    budget_used: BudgetUsed
    budget_limits: BudgetLimits
    providers: ProvidersUsed = ProvidersUsed()
    estimated_cost_usd: float | None = 0.0
    degraded: bool = False
    degraded_reasons: tuple[DegradedReason, ...] = ()
    cache_hit: bool = False


class Metadata(Contract):
    """What was asked, in the server's words."""

    namespace: str
    namespaces: tuple[str, ...] = Field((), description="all, where several were asked")
    top_k: int
    kg_expansion_enabled: bool
    synthesis_enabled: bool
    request_id: str
    service_version: str
    index_model: str | None = None


class ConfidenceParts(Contract):
    """What confidence is made of, each in [0, 1].

    `retrieval`: the mean score of the passages given to the model. `sources`: 0.3, 0.6, 1.0 for
    one, two, three or more documents cited. `similarity`: cosine of question and answer, 0 without
    an embedder.
    """

    retrieval: float = Field(0.0, ge=0, le=1)
    sources: float = Field(0.0, ge=0, le=1)
    similarity: float = Field(0.0, ge=0, le=1)


class RAGResponse(Contract):
    """The answer to one question; `query_used`: a follow-up as understood from its history."""

    query: str
    query_used: str = ""
    answer: str = ""
    citations: tuple[Citation, ...] = ()
    results_count: int = 0
    confidence: float = Field(0.0, ge=0, le=1)
    confidence_level: ConfidenceLevel = "low"
    confidence_parts: ConfidenceParts | None = None
    grounding: Grounding | None = None
    conflicts: tuple[Conflict, ...] = ()
    graph: GraphView | None = None
    warnings: tuple[str, ...] = ()
    diagnostics: Diagnostics | None = None
    metadata: Metadata


class ExplainStage(Contract):
    """What became of a passage in one step; `rank` counts from 1, `score` is the step's own."""

    stage: Literal["filter", "search", "selection", "graph", "walk", "passages", "budget"]
    outcome: Literal["kept", "lost", "skipped"]
    rank: int | None = None
    score: float | None = None
    reason: str = ""


class ExplainResponse(Contract):
    """Why a passage is among the citations of a question (`rank`), or at which stage it was lost.

    `would_have_helped`: what of the request, asked otherwise, would have kept it there.
    """

    doc_id: str
    chunk_id: str
    rank: int | None = None
    stages: tuple[ExplainStage, ...] = ()
    lost_at: str | None = None
    would_have_helped: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    request_id: str


class FieldProblem(Contract):
    """One thing wrong with a request, at its JSON path such as `$.budget.max_chunks`."""

    path: str
    code: str
    message: str


class Problem(Contract):
    """`application/problem+json` (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str
    request_id: str
    errors: tuple[FieldProblem, ...] = ()


class DependencyHealth(Contract):
    """One dependency's state and how long it took to say so, in milliseconds."""

    state: Literal["up", "down", "open", "off"]
    ms: float | None = None


class Health(Contract):
    """`GET /v1/health`."""

    status: Literal["ok", "degraded", "down"]
    version: str
    dependencies: dict[str, DependencyHealth]

"""Response models."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from docstokg.contracts.model import Contract
from docstokg.contracts.records import ReceiptText

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
    "verifier_unavailable",
    "deadline_exceeded",
    "llm_timeout",
    "llm_quota_exceeded",
    "llm_unavailable",
    "payload_trimmed",
]

# Text of each degraded reason.
REASONS: Mapping[str, str] = {
    "bm25_unavailable": "keyword search was unavailable",
    "splade_unavailable": "sparse search was unavailable",
    "dense_unavailable": "vector search was unavailable",
    "embedding_unavailable": "the embedding of the question failed",
    "facts_unavailable": "fact search was unavailable",
    "retrieval_timeout": "search timed out",
    "retrieval_unavailable": "search was unavailable",
    "hydration_incomplete": "some passages could not be loaded",
    "kg_unavailable": "the knowledge graph was unavailable",
    "kg_timeout": "the knowledge graph timed out",
    "kg_plan_rejected": "the graph rejected the query plan",
    "reranker_unavailable": "the reranker was unavailable",
    "verifier_unavailable": "the verifier was unavailable",
    "deadline_exceeded": "the time limit of the request was reached",
    "llm_timeout": "the language model timed out",
    "llm_quota_exceeded": "the quota of the language model is exhausted",
    "llm_unavailable": "the language model was unavailable",
    "payload_trimmed": "the response was truncated to the maximum size",
}

Channel = Literal["bm25", "splade", "dense", "facts"]
Source = Literal["hybrid", "kg_expansion"]
OffsetBase = Literal["document", "chunk"]
MatchType = Literal["direct_mention", "related_via"]
Verdict = Literal["supported", "unsupported", "unverified", "uncited", "not_checked"]
ConfidenceLevel = Literal["high", "medium", "low"]
Basis = Literal["quotation", "verifier"]
CheckProblem = Literal["late", "unreadable", "refused"]
ConflictKind = Literal["superseded"]
QueryUsedBy = Literal["as_sent", "rule", "model"]
FusionMethod = Literal["minmax+MMR", "RRF+MMR", "minmax", "RRF"]


class ChannelRank(Contract):
    """Rank and score of a chunk in one channel."""

    rank: int
    """1-based rank in the channel"""
    score: float
    """score of the channel; not comparable between channels"""


class Span(Contract):
    """A range of a chunk in code points, relative to the citation's `offset_base`."""

    uuid: str
    """the passage"""
    char_start: int
    """start, relative to the citation's `offset_base`"""
    char_end: int
    """end, exclusive"""


class Conflict(Contract):
    """Two citations; the document of the first declares that it supersedes that of the second."""

    ranks: tuple[int, int]
    """ranks of the newer and the superseded citation"""
    spans: tuple[Span, Span]
    """the two passages"""
    kind: ConflictKind
    """reason of the entry"""


class EdgeEvidence(Contract):
    """The chunk and the text span that state an edge."""

    uuid: str
    """uuid of the passage"""
    chunk_id: str
    """chunk id of the passage"""
    start: int | None = None
    """start of the span in the passage; null: unknown"""
    end: int | None = None
    """end of the span, exclusive; null: unknown"""


# Type of an edge between two entities that one chunk mentions without stating a relation.
CO_MENTIONED = "CO_MENTIONED"


class EvidenceEdge(Contract):
    """A typed, directed edge of the graph and the passage that states it, if known."""

    src: str
    """source entity"""
    type: str
    """relation type"""
    dst: str
    """target entity"""
    evidence: EdgeEvidence | None = None
    """passage that states the edge, if known"""


class KgEvidence(Contract):
    """Relevance of a chunk to the question according to the graph."""

    matched_entity: str
    """name of the entity that the passage mentions"""
    entity_id: str
    """id of that entity"""
    entity_type: str | None
    """type of that entity; null: untyped"""
    match_type: MatchType
    """`direct_mention`: the question names the entity; `related_via`: a related one"""
    related_to: str | None = None
    """related entity of the question; null for `direct_mention`"""
    path: tuple[EvidenceEdge, ...] = ()
    """edges from the entity of the question to the passage"""
    shared_docs: int = 0
    """number of documents that mention both entities"""


class Provenance(Contract):
    """Load that last changed the chunk, and time of retrieval."""

    run_id: str
    """id of the load that last changed the chunk"""
    retrieved_at: str
    """time of retrieval, ISO 8601"""


class PageBox(Contract):
    """Box around part of a line on a PDF page, in points from the upper left corner."""

    page: int = Field(description="1-based page number")
    x0: float = Field(description="left edge")
    y0: float = Field(description="upper edge")
    x1: float = Field(description="right edge")
    y1: float = Field(description="lower edge")


class Citation(Contract):
    """A verifiable source: `snippet` is exactly `text[char_start:char_end]` of the source."""

    rank: int
    """citation number; the marker [n] refers to rank n"""
    doc_id: str
    """document id"""
    document_name: str | None = None
    """file name of the document"""
    uuid: str
    """uuid of the passage, derived from namespace and chunk id"""
    chunk_id: str
    """chunk id of the passage: document and number"""
    page: int | str | None = None
    """page, slide or sheet"""
    section: str | None = None
    """heading of the section"""
    uri: str | None = None
    """URI of the source as given by the document"""
    anchor: str | None = None
    """location in the source: heading anchor, cell or line"""
    snippet: str
    """cited text, exactly as in the source"""
    char_start: int
    """start of the snippet in code points, from 0"""
    char_end: int
    """end of the snippet, exclusive"""
    offset_base: OffsetBase
    """text that char_start and char_end refer to: the document or the passage"""
    text_sha256: str
    """SHA-256 of the whole passage, to detect changes"""
    boxes: tuple[PageBox, ...] = Field((), description="location of the snippet on PDF pages")
    ocr: bool = Field(False, description="whether the text was read by OCR")
    ocr_confidence: float | None = Field(
        None, description="lowest OCR confidence of a line, 0 to 1"
    )
    score: float = Field(ge=0, le=1)
    """relevance, 0 to 1; comparable within one response"""
    full_text: str | None = None
    """whole passage; only with verbosity `full`"""
    title: str | None = None
    """title of the document"""
    metadata: dict[str, Any] | None = None
    """metadata of the document"""
    source: Source
    """whether search or graph expansion selected the passage"""
    cited: bool = False
    """whether the answer cites the passage"""
    concepts_mentioned: tuple[str, ...] = ()
    """names of entities that the passage mentions"""
    kg_path: tuple[str, ...] = ()
    """nodes from the entity of the question to the passage"""
    kg_evidence: KgEvidence | None = None
    """reason why the graph added or boosted the passage"""
    channels: dict[Channel, ChannelRank] = {}
    """rank and score of the passage in each search channel"""
    provenance: Provenance
    """origin of the passage"""
    namespace: str | None = None
    """namespace of the passage, if several were searched"""


class SentenceVerdict(Contract):
    """Verdict on one sentence, `answer[start:end]`."""

    start: int
    """start of the sentence in the answer"""
    end: int
    """end of the sentence in the answer, exclusive"""
    citations: tuple[int, ...] = ()
    """ranks that the sentence cites"""
    proven: tuple[int, ...] = ()
    """cited ranks whose passage contains the quotation, or the verifier's quote"""
    verdict: Verdict
    """supported: quoted, or by the verifier; unsupported: by the verifier; unverified: undecided"""
    decided_by: str | None = None
    """name of the check that decided, as in `checked_by`; null: undecided"""
    support: float = Field(ge=0, le=1)
    """estimated support by the cited sources, 0 to 1; does not affect the verdict"""
    quote: str | None = None
    """source text that the sentence quotes or the verifier returned"""
    span: Span | None = None
    """source span with the best support"""
    reasons: tuple[str, ...] = ()
    """observations, such as a number missing in the cited sources, or why it was not checked"""


# `decided_by` and `name` of the rule-based check.
RULES = "rules"


class CheckedBy(Contract):
    """A check that took part in the verdicts."""

    name: str
    """rules, onnx:MODEL, http:HOST, llm:MODEL or bedrock-guardrail"""
    kind: Literal["rules", "model"]
    """rules verify quotations; a model decides the other sentences"""
    self_check: bool = False
    """whether the same model also wrote the answer"""
    took_ms: float = 0.0
    """duration in milliseconds"""
    degraded: bool = False
    """whether the check failed or timed out"""
    problem: CheckProblem | None = None
    """late: no reply in time; unreadable: parts of it are invalid; refused: other failures"""


class Grounding(Contract):
    """Support of an answer by its citations."""

    coverage: float
    """share of factual sentences with a valid marker, 0 to 1"""
    context_coverage: float
    """`cited_count` / `total_citations`"""
    cited_count: int
    """number of passages that the answer cites"""
    total_citations: int
    """number of passages given to the model"""
    invalid_citations: tuple[str, ...] = ()
    """markers that refer to no passage"""
    grounded: bool | None
    """true: every factual sentence is proven to stand in its sources, which does not mean that it
    answers; false: one is unsupported or uncited, a marker is invalid, coverage is below 0.7, or
    text was removed for safety; null: not verified"""
    basis: Basis | None = None
    """proof of the supported sentences: quotation only, or (also) the verifier; null: none"""
    checked_by: tuple[CheckedBy, ...] = ()
    """checks that were run"""
    sentences: tuple[SentenceVerdict, ...] = ()
    """verdict per sentence"""


class GraphNode(Contract):
    """A node of the graph view."""

    id: str
    """node id"""
    label: str
    """Entity, Chunk, Document or Topic"""
    title: str
    """name or title"""
    score: float
    """score, see `explain.scoring`"""


class GraphViewEdge(Contract):
    """An edge of the graph view."""

    src: str
    """source node"""
    dst: str
    """target node"""
    type: str
    """relation type"""
    depth: int
    """number of edges from a seed to `dst`"""
    path: tuple[str, ...] = ()
    """node ids from a seed to `dst`"""


class GraphBudget(Contract):
    """Usage of a graph walk."""

    expanded: int
    """number of expanded nodes"""
    pruned: int
    """nodes not expanded: score too low or not among the best"""
    skipped: int
    """nodes omitted because of limits"""
    depth_reached: int
    """maximum number of edges from a seed"""
    cursor: str | None = None
    """cursor of the next page; null on the last page"""


class GraphView(Contract):
    """Graph around the citations (verbosity `graph`)."""

    nodes: tuple[GraphNode, ...] = ()
    """nodes, by depth, then score"""
    edges: tuple[GraphViewEdge, ...] = ()
    """edges between the nodes"""
    budget: GraphBudget
    """usage of the graph walk"""


class ChannelUse(Contract):
    """Results of one channel."""

    candidates: int = 0
    """number of passages found"""
    selected: int = 0
    """number of them among the citations"""
    took_ms: float = 0.0
    """duration in milliseconds"""


class KgStats(Contract):
    """Graph expansion statistics."""

    concepts_expanded: int = 0
    """number of entities read"""
    hops_executed: int = 0
    """number of hops from the entities of the question"""
    chunks_added: int = 0
    """number of passages added by the graph"""
    triples_traversed: int = 0
    """number of relations between these entities"""


class GraphGain(Contract):
    """Difference between the citations with and without the graph."""

    added: tuple[str, ...] = ()
    """uuids of citations that no search channel found"""
    top_k_without: tuple[str, ...] = ()
    """uuids of the citations without the graph"""
    skipped: str | None = None
    """reason if the graph was not used, else null"""
    order_kept: Literal["no_rare_name"] | None = None
    """reason if the order of the search was kept, else null"""


class PlanUse(Contract):
    """Admission and time limit of graph queries."""

    explain_ok: bool
    """whether the query plans were admitted"""
    timeout_ms: int
    """time limit of the graph step in milliseconds"""


class GraphUse(Contract):
    """Counts of expanded and unexpanded slice nodes, and the reason if none was expanded."""

    expanded: int = 0
    """number of expanded nodes"""
    pruned: int = 0
    """number of unexpanded nodes"""
    reason: str | None = None
    """reason if no node was expanded, else null"""


class Fusion(Contract):
    """Fusion of the channel rankings."""

    method: FusionMethod
    """fusion method, and whether MMR reduced near-duplicates"""
    k: int | None = None
    """constant of reciprocal rank fusion; null for minmax"""
    lambda_: float | None = Field(alias="lambda", default=0.7)
    """MMR weight of relevance against diversity, 0 to 1; null: no MMR"""

    model_config = {"populate_by_name": True, "serialize_by_alias": True}


class BudgetUsed(Contract):
    """Budget usage of one request."""

    chunks: int = 0
    """number of selected passages"""
    tokens_context: int = 0
    """estimated tokens of the passages given to the model"""
    tokens_gen: int = 0
    """estimated tokens of the answer"""
    elapsed_s: float = 0.0
    """seconds since the request arrived"""


class BudgetLimits(Contract):
    """Effective budget after applying the server's limits."""

    max_chunks: int
    """maximum number of passages"""
    max_tokens_context: int
    """maximum tokens of the passages given to the model"""
    max_tokens_gen: int
    """maximum tokens of the answer"""
    timeout_s: float
    """timeout of the request in seconds"""


class ProvidersUsed(Contract):
    """Models used; null: none."""

    embedding: str | None = None
    """embedding model"""
    sparse: str | None = None
    """sparse encoder"""
    reranker: str | None = None
    """reranker model"""
    llm: str | None = None
    """model that generated the answer"""


class Timings(Contract):
    """Duration of each step in milliseconds."""

    validation: float = 0.0
    """request validation"""
    condensing: float = 0.0
    """rewriting a follow-up question with the language model"""
    routing: float = 0.0
    """graph routing"""
    hybrid_retrieval: float = 0.0
    """search"""
    kg_expansion: float = 0.0
    """graph expansion"""
    dedup_mmr: float = 0.0
    """deduplication and MMR"""
    hydration: float = 0.0
    """loading passages"""
    citation_extraction: float = 0.0
    """snippet extraction"""
    graph_view: float = 0.0
    """graph view"""
    llm_synthesis: float = 0.0
    """answer generation"""
    answer_check: float = 0.0
    """answer verification"""
    between_steps: float = 0.0
    """message transfer between steps"""
    total: float = 0.0
    """total duration"""


class Diagnostics(Contract):
    """Diagnostics; never contain query text or snippets."""

    timings_ms: Timings
    """durations by step in milliseconds"""
    channels: dict[Channel, ChannelUse] = {}
    """results of each search channel"""
    kg_stats: KgStats = KgStats()
    """graph expansion statistics"""
    graph_gain: GraphGain = GraphGain()
    """effect of the graph on the citations"""
    plan: PlanUse
    """admission of graph queries"""
    graph: GraphUse = GraphUse()
    """use of graph nodes"""
    fusion: Fusion
    """fusion of the channel rankings"""
    budget_used: BudgetUsed
    """budget usage"""
    budget_limits: BudgetLimits
    """effective budget"""
    providers: ProvidersUsed = ProvidersUsed()
    """models used"""
    estimated_cost_usd: float | None = 0.0
    """estimated cost of the language model at list price; null: unknown price"""
    degraded: bool = False
    """whether a component failed"""
    degraded_reasons: tuple[DegradedReason, ...] = ()
    """failed components"""
    cache_hit: bool = False
    """whether the response came from the cache"""


class Metadata(Contract):
    """Effective request parameters."""

    namespace: str
    """searched namespace"""
    namespaces: tuple[str, ...] = ()
    """all searched namespaces, if several"""
    top_k: int
    """number of passages selected by search"""
    kg_expansion_enabled: bool
    """whether graph expansion was enabled"""
    synthesis_enabled: bool
    """whether synthesis was enabled"""
    request_id: str
    """request id, as in the logs"""
    service_version: str
    """version of the service"""
    index_model: str | None = None
    """embedding model of the index; null: none"""


class ConfidenceParts(Contract):
    """Components of the confidence, each in [0, 1]."""

    retrieval: float = Field(0.0, ge=0, le=1)
    """mean score of the passages given to the model"""
    sources: float = Field(0.0, ge=0, le=1)
    """0.3, 0.6 or 1.0 for one, two, or at least three cited documents"""
    similarity: float = Field(0.0, ge=0, le=1)
    """cosine similarity of question and answer; 0 without an embedder"""


class Receipt(Contract):
    """Proof of a response without the store."""

    texts: tuple[ReceiptText, ...] = ()
    """passages of the citations"""
    settings_digest: str
    """SHA-256 of the server's settings without credentials"""
    version: int = 1
    """version of this format"""
    key_id: str
    """`kid` of the public key at /.well-known/docstokg-keys.json"""
    signature: str
    """Ed25519, base64, of the response's RFC 8785 JSON without `diagnostics` and this field"""


class TextSpan(Contract):
    """A range of code points."""

    start: int
    """first code point"""
    end: int
    """code point after the last"""


class RAGResponse(Contract):
    """Response to one question."""

    query: str
    """the question"""
    query_used: str = ""
    """question used for retrieval; a follow-up is rewritten from its history"""
    query_used_by: QueryUsedBy = "as_sent"
    """how `query_used` was obtained: as sent, by a rule, or by the language model"""
    answer: str = ""
    """answer with markers [n]; "" if synthesis is disabled"""
    best_span: TextSpan | None = None
    """part of `answer` that the built-in model chose; null: another model or no answer"""
    citations: tuple[Citation, ...] = ()
    """citations by rank"""
    notes: tuple[str, ...] = ()
    """notes of the domain, relations on a path between two names; at most 10 of 200 characters"""
    results_count: int = 0
    """number of citations"""
    confidence: float = Field(0.0, ge=0, le=1)
    """confidence in the answer, 0 to 1"""
    confidence_level: ConfidenceLevel = "low"
    """confidence as high, medium or low"""
    confidence_parts: ConfidenceParts | None = None
    """components of the confidence; null: no answer"""
    grounding: Grounding | None = None
    """verification of the answer; null: no answer"""
    conflicts: tuple[Conflict, ...] = ()
    """citations whose document is superseded by that of another citation"""
    graph: GraphView | None = None
    """graph around the citations; only with verbosity `graph`"""
    receipt: Receipt | None = None
    """signed receipt; null: not requested"""
    warnings: tuple[str, ...] = ()
    """warnings for the reader"""
    diagnostics: Diagnostics | None = None
    """diagnostics; null: not requested"""
    metadata: Metadata
    """effective request parameters"""


class FieldProblem(Contract):
    """An error in one field of a request."""

    path: str
    """JSON path of the field, such as `$.budget.max_chunks`"""
    code: str
    """error code"""
    message: str
    """error message"""


class Problem(Contract):
    """Error response, `application/problem+json` (RFC 9457)."""

    type: str = "about:blank"
    """always about:blank"""
    title: str
    """reason phrase of the HTTP status"""
    status: int
    """HTTP status code"""
    code: str
    """machine-readable error code"""
    detail: str
    """explanation, as a sentence"""
    request_id: str
    """request id, as in the logs"""
    errors: tuple[FieldProblem, ...] = ()
    """all errors of the request"""

"""What a caller gets back, field by field."""

from typing import Any, Final, Literal

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
    "verifier_unavailable",
    "deadline_exceeded",
    "llm_timeout",
    "llm_quota_exceeded",
    "llm_unavailable",
    "payload_trimmed",
]

Channel = Literal["bm25", "splade", "dense", "facts"]
Source = Literal["hybrid", "kg_expansion"]
OffsetBase = Literal["document", "chunk"]
MatchType = Literal["direct_mention", "related_via"]
Verdict = Literal["supported", "unsupported", "unverified", "uncited", "not_checked"]
ConfidenceLevel = Literal["high", "medium", "low"]
ConflictKind = Literal["superseded"]
QueryUsedBy = Literal["as_sent", "rule", "model"]
FusionMethod = Literal["minmax+MMR", "RRF+MMR", "minmax", "RRF"]


class ChannelRank(Contract):
    """Where one channel put a chunk: 1-based rank and the channel's own score."""

    rank: int
    """place in the channel's list, from 1"""
    score: float
    """the channel's own; scores of two channels cannot be compared"""


class Span(Contract):
    """A stretch of a chunk, in code points of `text[char_start:char_end]` plus the offset base."""

    uuid: str
    """the passage"""
    char_start: int
    """where it begins, in the citation's offset base"""
    char_end: int
    """where it ends, exclusive"""


class Conflict(Contract):
    """Two citations, of which the first one's document declares that it supersedes the second's."""

    ranks: tuple[int, int]
    """ranks of the newer and of the superseded citation"""
    spans: tuple[Span, Span]
    """the two passages"""
    kind: ConflictKind
    """reason of the entry"""


class EdgeEvidence(Contract):
    """The chunk and the span of its text that state an edge."""

    uuid: str
    """the passage"""
    chunk_id: str
    """the passage's id"""
    start: int | None = None
    """where the stretch that states the edge begins in the passage; null: not known"""
    end: int | None = None
    """where the stretch ends in the passage; null: not known"""


CO_MENTIONED: Final = "CO_MENTIONED"
"""Type of an edge whose two entities are named by one chunk, without a stated relation."""


class EvidenceEdge(Contract):
    """A typed, directed edge of the graph and what states it, when known."""

    src: str
    """the entity it begins at"""
    type: str
    """the relation"""
    dst: str
    """the entity it leads to"""
    evidence: EdgeEvidence | None = None
    """what states it, when known"""


class KgEvidence(Contract):
    """Why the graph says that a chunk matters to the question."""

    matched_entity: str
    """the entity that the passage mentions"""
    entity_id: str
    """the entity's id"""
    entity_type: str | None
    """its type, where it has one"""
    match_type: MatchType
    """whether the question names it, or something related to it"""
    related_to: str | None = None
    """the entity of the question it is related to; null: the question names it itself"""
    path: tuple[EvidenceEdge, ...] = ()
    """the edges from the question's entity to the passage"""
    shared_docs: int = 0
    """documents that tell of both"""


class Provenance(Contract):
    """Which load last changed the chunk, and when it was read for this answer."""

    run_id: str
    """the load that last changed it"""
    retrieved_at: str
    """when it was read for this answer, ISO 8601"""


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
    """its number: [n] in the answer means rank n"""
    doc_id: str
    """the document"""
    document_name: str | None = None
    """the document's file name"""
    uuid: str
    """the passage, by its place and load"""
    chunk_id: str
    """the passage's id: document and number"""
    page: int | str | None = None
    """page, slide or sheet"""
    section: str | None = None
    """the heading it stands under"""
    uri: str | None = None
    """the source's address, as the document gives it"""
    anchor: str | None = None
    """the place inside the source: a heading's anchor, a cell, a line"""
    snippet: str
    """the cited text, exactly as it stands in the source"""
    char_start: int
    """where the snippet begins, in code points, from 0"""
    char_end: int
    """where the snippet ends, exclusive"""
    offset_base: OffsetBase
    """what char_start and char_end count in: the document, or the passage alone"""
    text_sha256: str
    """of the whole passage, to prove that it is unchanged"""
    boxes: tuple[PageBox, ...] = Field((), description="where the snippet stands, of a PDF")
    ocr: bool = Field(False, description="read from a picture of the page")
    ocr_confidence: float | None = Field(None, description="of its least sure line, 0 to 1")
    score: float = Field(ge=0, le=1)
    """between 0 and 1, to compare inside one response"""
    full_text: str | None = None
    """the whole passage; with verbosity `full` alone"""
    title: str | None = None
    """the document's title"""
    metadata: dict[str, Any] | None = None
    """what the document says of itself"""
    source: Source
    """who selected it: search, or the graph"""
    cited: bool = False
    """whether the answer cites it"""
    concepts_mentioned: tuple[str, ...] = ()
    """names of entities the passage mentions"""
    kg_path: tuple[str, ...] = ()
    """the nodes from the question's entity to the passage"""
    kg_evidence: KgEvidence | None = None
    """why the graph brought or raised it"""
    channels: dict[Channel, ChannelRank] = {}
    """where each search channel put the passage"""
    provenance: Provenance
    """which load it is from"""
    namespace: str | None = None
    """its own, where several were asked"""


class SentenceVerdict(Contract):
    """The check of one sentence against the sources it cites: answer[start:end]."""

    start: int
    """where it begins in the answer"""
    end: int
    """where it ends in the answer, exclusive"""
    citations: tuple[int, ...] = ()
    """the ranks it cites"""
    verdict: Verdict
    """supported: a quotation, or the verifier says so; unsupported: the verifier says so;
    unverified: cited, but nobody decided; uncited; not_checked"""
    decided_by: str | None = None
    """name of the check that decided, as in `checked_by`; null: undecided"""
    support: float = Field(ge=0, le=1)
    """fitted score of how well the cited sources support it, 0 to 1; it decides nothing"""
    quote: str | None = None
    """words of the source that the sentence quotes, or that the verifier names"""
    span: Span | None = None
    """the stretch of a source that supports it best"""
    reasons: tuple[str, ...] = ()
    """observations, such as a number that no cited source contains; or why it is not checked"""


RULES = "rules"
"""`decided_by` and `name` of the check by rules."""


class CheckedBy(Contract):
    """A check that took part in the verdicts."""

    name: str
    """rules, onnx:MODEL, http:HOST, llm:MODEL or bedrock-guardrail"""
    kind: Literal["rules", "model"]
    """rules prove quotations; a model decides the other sentences"""
    self_check: bool = False
    """whether the same model also wrote the answer"""
    took_ms: float = 0.0
    """milliseconds it took"""
    degraded: bool = False
    """whether it failed or was late"""


class Grounding(Contract):
    """How well an answer is covered by what it cites."""

    coverage: float
    """share of the factual sentences that have a valid marker, 0 to 1"""
    context_coverage: float
    """`cited_count` / `total_citations`"""
    cited_count: int
    """passages that the answer cites"""
    total_citations: int
    """passages given to the model"""
    invalid_citations: tuple[str, ...] = ()
    """markers that mean no passage"""
    grounded: bool | None
    """true: every factual sentence is supported; false: one is unsupported or uncited, a marker is
    invalid, coverage is below 0.7, or text was removed for safety; null: not verified"""
    checked_by: tuple[CheckedBy, ...] = ()
    """the checks that took part"""
    sentences: tuple[SentenceVerdict, ...] = ()
    """the verdict on each sentence"""


class GraphNode(Contract):
    """A node of the walked graph."""

    id: str
    """the entity, document or topic"""
    label: str
    """its kind"""
    title: str
    """its name"""
    score: float
    """see `explain.scoring`"""


class GraphViewEdge(Contract):
    """An edge of the walked graph; `path` is the node ids from a seed to `dst`."""

    src: str
    """the node it begins at"""
    dst: str
    """the node it leads to"""
    type: str
    """the relation"""
    depth: int
    """edges between a seed and `dst`"""
    path: tuple[str, ...] = ()
    """nodes from a seed to `dst`"""


class GraphBudget(Contract):
    """What the walk spent."""

    expanded: int
    """nodes whose neighbours were looked at"""
    pruned: int
    """nodes that were not expanded: too far from the question, or not among the best"""
    skipped: int
    """nodes left out by the limits"""
    depth_reached: int
    """edges between a seed and the farthest node reached"""
    cursor: str | None = None
    """of the next page of the walk; null: there is none"""


class GraphView(Contract):
    """Verbosity graph: the neighbourhood of the citations."""

    nodes: tuple[GraphNode, ...] = ()
    """by depth, then score"""
    edges: tuple[GraphViewEdge, ...] = ()
    """between the nodes"""
    budget: GraphBudget
    """what the walk spent"""


class ChannelUse(Contract):
    """What one channel brought: candidates, and the citations found by it."""

    candidates: int = 0
    """passages the channel found"""
    selected: int = 0
    """citations that it found"""
    took_ms: float = 0.0
    """milliseconds"""


class KgStats(Contract):
    """What graph expansion did."""

    concepts_expanded: int = 0
    """entities that were read"""
    hops_executed: int = 0
    """steps that were taken from the entities of the question"""
    chunks_added: int = 0
    """passages that the graph brought"""
    triples_traversed: int = 0
    """relations between them"""


class GraphGain(Contract):
    """The counterfactual: what the graph changed, or why it was left out."""

    added: tuple[str, ...] = ()
    """uuids of citations that no search channel had found"""
    top_k_without: tuple[str, ...] = ()
    """uuids of the citations as search alone would have them"""
    skipped: str | None = None
    """why the graph was left out; null: it was used"""


class PlanUse(Contract):
    """Whether the graph's query plans are admitted, and the time its step may take."""

    explain_ok: bool
    """whether the graph admitted the query plans"""
    timeout_ms: int
    """milliseconds for the graph's step"""


class GraphUse(Contract):
    """Nodes of the slice around which was looked, those that were not, and why none were."""

    expanded: int = 0
    """nodes around which was looked"""
    pruned: int = 0
    """nodes left out"""
    reason: str | None = None
    """why no node was used; null: some were"""


class Fusion(Contract):
    """How the channels' lists became one."""

    method: FusionMethod
    """how scores were put together, and whether near repeats were moved back"""
    k: int | None = None
    """the constant of reciprocal rank fusion; null: another method was used"""
    lambda_: float | None = Field(alias="lambda", default=0.7)
    """how much relevance counts against diversity, 0 to 1; null: no diversity was asked"""

    model_config = {"populate_by_name": True, "serialize_by_alias": True}


class BudgetUsed(Contract):
    """What one request spent."""

    chunks: int = 0
    """passages selected"""
    tokens_context: int = 0
    """tokens of the passages given to the model, as estimated here"""
    tokens_gen: int = 0
    """tokens of the answer, as estimated here"""
    elapsed_s: float = 0.0
    """seconds since the request came"""


class BudgetLimits(Contract):
    """The limits in force, after the server's ceilings."""

    max_chunks: int
    """passages that may be selected"""
    max_tokens_context: int
    """tokens of passages that the model may read"""
    max_tokens_gen: int
    """tokens that the model may write"""
    timeout_s: float
    """seconds for the whole request"""


class ProvidersUsed(Contract):
    """Who did what: model names, or null where nothing did."""

    embedding: str | None = None
    """the encoder of the question"""
    sparse: str | None = None
    """the encoder of related words"""
    reranker: str | None = None
    """the model that ordered the passages"""
    llm: str | None = None
    """the model that wrote the answer"""


class Timings(Contract):
    """Milliseconds per step, as each step measured itself."""

    validation: float = 0.0
    """reading the request"""
    condensing: float = 0.0
    """rewriting a follow-up by the language model"""
    routing: float = 0.0
    """choosing what the graph is asked"""
    hybrid_retrieval: float = 0.0
    """searching"""
    kg_expansion: float = 0.0
    """asking the graph"""
    dedup_mmr: float = 0.0
    """leaving out repeats"""
    hydration: float = 0.0
    """reading the passages"""
    citation_extraction: float = 0.0
    """cutting the snippets"""
    graph_view: float = 0.0
    """walking around the citations"""
    llm_synthesis: float = 0.0
    """writing the answer"""
    answer_check: float = 0.0
    """checking the answer"""
    between_steps: float = 0.0
    """reading, writing and passing on the messages between the steps"""
    total: float = 0.0
    """the whole request"""


class Diagnostics(Contract):
    """What it took; never query text, never snippets."""

    timings_ms: Timings
    """milliseconds by step"""
    channels: dict[Channel, ChannelUse] = {}
    """what each search channel brought"""
    kg_stats: KgStats = KgStats()
    """what graph expansion did"""
    graph_gain: GraphGain = GraphGain()
    """what the graph changed"""
    plan: PlanUse
    """whether the graph's queries are admitted"""
    graph: GraphUse = GraphUse()
    """what was looked at in the graph"""
    fusion: Fusion
    """how the channels' lists became one"""
    budget_used: BudgetUsed
    """what the request spent"""
    budget_limits: BudgetLimits
    """the limits in force"""
    providers: ProvidersUsed = ProvidersUsed()
    """which models worked"""
    estimated_cost_usd: float | None = 0.0
    """of the language model, by list price; null: the price is not known"""
    degraded: bool = False
    """whether a part did not answer"""
    degraded_reasons: tuple[DegradedReason, ...] = ()
    """which part did not answer"""
    cache_hit: bool = False
    """whether the answer was stored before"""


class Metadata(Contract):
    """What was asked, in the server's words."""

    namespace: str
    """where was searched"""
    namespaces: tuple[str, ...] = ()
    """all of them, where several were asked"""
    top_k: int
    """passages that search selects"""
    kg_expansion_enabled: bool
    """whether the graph was asked"""
    synthesis_enabled: bool
    """whether an answer was asked for"""
    request_id: str
    """of this request, as in the logs"""
    service_version: str
    """of the service"""
    index_model: str | None = None
    """the encoder that the namespace was loaded with; null: none"""


class ConfidenceParts(Contract):
    """What confidence is made of, each in [0, 1].

    `retrieval`: the mean score of the passages given to the model. `sources`: 0.3, 0.6, 1.0 for
    one, two, three or more documents cited. `similarity`: cosine of question and answer, 0 without
    an embedder.
    """

    retrieval: float = Field(0.0, ge=0, le=1)
    """mean score of the passages given to the model"""
    sources: float = Field(0.0, ge=0, le=1)
    """0.3, 0.6 or 1.0 for one, two, or more documents cited"""
    similarity: float = Field(0.0, ge=0, le=1)
    """cosine of question and answer, 0 without an encoder"""


class RAGResponse(Contract):
    """The answer to one question; `query_used`: a follow-up as understood from its history."""

    query: str
    """the question"""
    query_used: str = ""
    """a follow-up as understood from its history"""
    query_used_by: QueryUsedBy = "as_sent"
    """who made `query_used` of the question: nobody, a rule, or the language model"""
    answer: str = ""
    """with markers [n]; "" where none was asked for"""
    citations: tuple[Citation, ...] = ()
    """the evidence, by rank"""
    notes: tuple[str, ...] = ()
    """remarks of the subject domain on the question, at most 10 of 200 characters"""
    results_count: int = 0
    """how many citations there are"""
    confidence: float = Field(0.0, ge=0, le=1)
    """between 0 and 1"""
    confidence_level: ConfidenceLevel = "low"
    """the same in a word"""
    confidence_parts: ConfidenceParts | None = None
    """what confidence is made of; null: there is no answer"""
    grounding: Grounding | None = None
    """what the sources say of each sentence; null: there is no answer"""
    conflicts: tuple[Conflict, ...] = ()
    """citations whose document another citation's document supersedes"""
    graph: GraphView | None = None
    """the neighbourhood of the citations; with verbosity `graph` alone"""
    warnings: tuple[str, ...] = ()
    """what a reader should know"""
    diagnostics: Diagnostics | None = None
    """what it took; null: not asked for"""
    metadata: Metadata
    """what was asked"""


StageName = Literal["filter", "search", "selection", "graph", "walk", "passages", "budget"]


class ExplainStage(Contract):
    """What became of a passage in one step; `rank` counts from 1, `score` is the step's own."""

    stage: StageName
    """the step"""
    outcome: Literal["kept", "lost", "skipped"]
    """what became of it"""
    rank: int | None = None
    """its place after the step, from 1"""
    score: float | None = None
    """the step's own"""
    reason: str = ""
    """why, in a sentence"""


class ExplainResponse(Contract):
    """Why a passage is among the citations of a question (`rank`), or at which stage it was lost.

    `would_have_helped`: what of the request, asked otherwise, would have kept it there.
    """

    doc_id: str
    """its document"""
    chunk_id: str
    """the passage that was looked for"""
    rank: int | None = None
    """its rank among the citations; null: it is none"""
    stages: tuple[ExplainStage, ...] = ()
    """what became of it, step by step"""
    lost_at: str | None = None
    """the stage at which it was lost; null: it is cited"""
    would_have_helped: tuple[str, ...] = ()
    """what of the request, asked otherwise, would have kept it"""
    warnings: tuple[str, ...] = ()
    """what a reader should know"""
    request_id: str
    """of this request, as in the logs"""


class FieldProblem(Contract):
    """One thing wrong with a request, at its JSON path such as `$.budget.max_chunks`."""

    path: str
    """where, as a JSON path such as `$.budget.max_chunks`"""
    code: str
    """the kind of mistake"""
    message: str
    """what is wrong, in a sentence"""


class Problem(Contract):
    """`application/problem+json` (RFC 9457)."""

    type: str = "about:blank"
    """always about:blank"""
    title: str
    """the HTTP status in words"""
    status: int
    """the HTTP status"""
    code: str
    """the kind of problem, for programs"""
    detail: str
    """what happened, in a sentence"""
    request_id: str
    """of this request, as in the logs"""
    errors: tuple[FieldProblem, ...] = ()
    """everything that is wrong with the request"""

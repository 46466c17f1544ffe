"""Messages between the steps.

Flow: Envelope -> validate -> Validated{plan, scope} -> retrieve -> Retrieval -> expand -> Expansion
-> ground -> Grounded -> synthesize -> Synthesis -> respond -> Reply.
"""

from typing import Literal, NamedTuple

from docstokg.contracts import Json
from docstokg.contracts.chat import ChatPlan
from docstokg.contracts.envelope import Reply
from docstokg.contracts.model import Contract, Packed
from docstokg.contracts.records import Scope
from docstokg.contracts.request import Direction, Expected, GraphLimits, Turn, Verbosity
from docstokg.contracts.response import (
    BudgetLimits,
    Channel,
    ChannelUse,
    Citation,
    Conflict,
    DegradedReason,
    EvidenceEdge,
    Fusion,
    GraphGain,
    GraphUse,
    GraphView,
    KgStats,
    MatchType,
    ProvidersUsed,
    QueryUsedBy,
    Source,
)
from docstokg.contracts.retrieval import ExplainResponse
from docstokg.contracts.routes import RouteName


class RetrievalPlan(Contract):
    """Plan of the retrieve step: channels with their sizes, fusion and MMR.

    `embed`: false if the requested embedder is not configured or is disabled. `time_s`: time limit.
    """

    channels: dict[Channel, int]
    fusion: Literal["minmax", "rrf"] = "minmax"
    mmr: bool = True
    embed: bool = True
    time_s: float


class ExpansionPlan(Contract):
    """Plan of the expand step; skipped if not `enabled`.

    `restrict`: restrict retrieval to documents near the seeds. `max_hops`: None to choose by the
    question. `boost`: added to the score, in [0, 1], of pool chunks that mention an entity of the
    question. `limit`: maximum number of added chunks.
    """

    enabled: bool
    restrict: bool = False
    max_hops: int | None = None
    two_hops: bool = True
    boost: float = 0.1
    limit: int = 32
    seeds: tuple[str, ...] = ()
    concept_types: tuple[str, ...] | None = None
    relations: tuple[str, ...] | None = None
    direction: Direction = "both"
    max_nodes: int | None = None
    time_s: float


class SynthesisPlan(Contract):
    """Plan of the synthesize step.

    `fallback`: model used if the first one fails. `min_probability`: minimum probability of an
    answer of the built-in model.
    """

    model: str
    fallback: str | None = None
    temperature: float
    max_tokens: int
    style_hint: str | None = None
    min_probability: float = 0.0


class CachePlan(Contract):
    """Cache entry of the response: scope key and hash of the canonical request."""

    key: str
    request_hash: str


class Plan(Contract):
    """Plan of all later steps, with one absolute deadline (epoch ms).

    `query`: question used for retrieval; `sent`: question as sent, if different; `query_used_by`:
    its rewriting. `condense`: remote model that rewrites a follow-up. `rewrite`: its question if
    that lacks words of the sent one; searched as well, not answered. `turns`: last turns.
    `groups`: None for all passages. `choices`: granted namespaces, if the request names none;
    `namespace` is then a fallback, or "". `recalls`: the recall step runs. `snippet_chars`: in code
    points. `rerank`: "lost" if the requested reranker is unavailable. `told`: progress is
    published. `verifies`: respond calls a verifier.
    """

    request_id: str
    route: RouteName
    caller_sub: str
    namespace: str
    others: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    recalls: bool = False
    groups: tuple[str, ...] | None
    query: str
    sent: str | None = None
    query_used_by: QueryUsedBy = "as_sent"
    condense: str | None = None
    rewrite: str | None = None
    condensing_ms: float = 0.0
    condensing_usd: float | None = 0.0
    turns: tuple[Turn, ...] = ()
    top_k: int
    started_ms: int
    deadline_ms: int
    retrieval: RetrievalPlan
    expansion: ExpansionPlan
    synthesis: SynthesisPlan | None = None
    verbosity: Verbosity
    snippet_chars: int
    graph_limits: GraphLimits | None = None
    diagnostics: bool
    receipt: bool = False
    rerank: Literal["yes", "no", "lost"] = "yes"
    budget_limits: BudgetLimits
    min_score: float = 0.3
    repair: Literal["attribute", "drop", "report"] = "report"
    cache: CachePlan | None = None
    chat: ChatPlan | None = None
    warnings: tuple[str, ...] = ()
    validation_ms: float = 0.0
    expect: Expected | None = None
    streams: bool = False
    verifies: bool = False


class Condensed(Contract):
    """Plan fields set by rewriting a follow-up question."""

    query: str
    sent: str | None = None
    query_used_by: QueryUsedBy
    rewrite: str | None = None
    condensing_ms: float = 0.0
    condensing_usd: float | None = 0.0


class Validated(Contract):
    """Either a plan with its scope, or a reply that ends the execution."""

    plan: Plan | None = None
    scope: Scope | None = None
    reply: Reply | None = None


class Failure(Contract):
    """Problem to return for an execution without citations."""

    status: int
    code: str
    detail: str


class Recalled(Contract):
    """The searched namespace, and a cached response or a refusal, if any.

    `cache`: otherwise the cache entry to write (None: none).
    """

    namespace: str
    reply: Reply | None = None
    failure: Failure | None = None
    cache: CachePlan | None = None


class Candidate(NamedTuple):
    """A chunk with its fused score, comparable only within one query."""

    uuid: str
    score: float


# Result of a channel for a chunk: index in the pool, rank and score in the channel.
Place = tuple[int, int, float]


class FactRef(Contract):
    """A relation that matches the question, and the chunk that states it."""

    source: str
    type: str
    target: str
    score: float
    evidence_uuid: str | None = None


class StepResult(Contract):
    """Fields of every step result."""

    took_ms: float = 0.0
    degraded: tuple[DegradedReason, ...] = ()
    warnings: tuple[str, ...] = ()


class Retrieval(StepResult):
    """Result of the retrieve step.

    `selected`: uuids after MMR, at most top_k. `pool`: fused candidates, best first, at most 220.
    `ranks`: channel results as plain tuples. `query_vector`: base64 of the float32 unit vector, or
    None without an embedder. `absent`: words of the question that are in no passage of the
    namespace.
    """

    selected: tuple[str, ...] = ()
    pool: Packed[tuple[Candidate, ...]] = ()
    ranks: Packed[dict[Channel, tuple[Place, ...]]] = {}
    facts: Packed[tuple[FactRef, ...]] = ()
    query_vector: str | None = None
    channels: dict[Channel, ChannelUse] = {}
    providers: ProvidersUsed = ProvidersUsed()
    index_model: str | None = None
    route_ms: float = 0.0
    mmr_ms: float = 0.0
    absent: tuple[str, ...] = ()
    failed: bool = False


class EntityRef(Contract):
    """An entity in the evidence."""

    id: str
    name: str
    type: str | None = None


class SeedRef(EntityRef):
    """A seed of the graph walk; `share`: its part of the restart vector."""

    share: float = 0.0


class RelatedEntity(Contract):
    """A relation of a chunk's entity to another one, an index into Expansion.entities.

    `incoming`: whether the chunk's entity is the target. `evidence`: uuid of the stating chunk, if
    known.
    """

    entity: int
    type: str
    incoming: bool = False
    evidence: str | None = None


class EvidencePointer(Contract):
    """`kg_evidence` of a chunk, as indices into Expansion.entities and Expansion.edges.

    `path`: edges from the seed to `entity`; `nodes`: entities on that path. `match_type`: None if
    the walk found the chunk without a path from an entity of the question.
    """

    entity: int
    match_type: MatchType | None = None
    related_to: int | None = None
    path: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    shared_docs: int = 0
    related: tuple[RelatedEntity, ...] = ()


class Renaming(Contract):
    """An alias at `query[start:end]`, and the preferred `name` of its entity."""

    start: int
    end: int
    name: str


class Ranked(Contract):
    """A chunk in its final order before hydration.

    `renamed`: indices into Expansion.renamings whose entity the chunk mentions or is about.
    """

    uuid: str
    source: Source
    evidence: EvidencePointer | None = None
    concepts: tuple[str, ...] = ()
    renamed: tuple[int, ...] = ()


class Expansion(StepResult):
    """Result of the expand step: final chunk order and graph evidence.

    `path`: indices into `edges` of the stated relations that join two names of the question.
    `apart`: the two listed names of the question if nothing near them in the graph joins them.
    """

    ranking: Packed[tuple[Ranked, ...]] = ()
    entities: Packed[tuple[EntityRef, ...]] = ()
    edges: Packed[tuple[EvidenceEdge, ...]] = ()
    renamings: tuple[Renaming, ...] = ()
    kg_stats: KgStats = KgStats()
    graph_gain: GraphGain = GraphGain()
    graph: GraphUse = GraphUse()
    seeds: tuple[SeedRef, ...] = ()
    notes: tuple[str, ...] = ()
    path: tuple[int, ...] = ()
    apart: tuple[str, ...] = ()


class Restriction(StepResult):
    """Documents near the given seeds; None if they are unknown."""

    doc_ids: tuple[str, ...] | None = None


class OtherName(Contract):
    """Names of the same entity in the question and in a passage."""

    in_question: str
    in_passage: str


class GraphFact(Contract):
    """A relation `A -type-> B`; `stated_in`: rank of the passage that states it, if known."""

    text: str
    stated_in: int | None = None


class Block(Contract):
    """A passage given to the model; `text` is `chunk.text[start:start+len(text)]`.

    `char_start`: offset of the chunk in the offset base (0 if unknown). `relevance`: 0 to 10.
    `subject`: title or document name. `section`: label of its section. `sentences`: code-point
    spans of `text`; `cosines`: similarity of each sentence to the question, only for the extractive
    model. `superseded_by`: rank of the block whose document supersedes this one. `edition`: of the
    newest member of a series, with the others; `newest`: rank of its block, in the others' blocks.
    `steps`: place in the path between two names of the question (`joined`), and the span of `text`
    that states that edge. `apart`: the two names of the question if neither a block nor the graph
    joins them. `quoted`: it is a quoted reply or forwarded mail.
    """

    rank: int
    uuid: str
    text: str
    start: int = 0
    char_start: int = 0
    document_name: str
    subject: str = ""
    section: str = ""
    page: int | str | None = None
    relevance: int
    sentences: tuple[tuple[int, int], ...] = ()
    cosines: tuple[float, ...] = ()
    kg_match: str | None = None
    related: tuple[GraphFact, ...] = ()
    other_names: tuple[OtherName, ...] = ()
    superseded_by: int | None = None
    edition: str = ""
    newest: int | None = None
    steps: tuple[tuple[int, int, int], ...] = ()
    joined: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    quoted: bool = False


class StepReport(Contract):
    """Diagnostics of the steps up to ground."""

    channels: dict[Channel, ChannelUse] = {}
    fusion: Fusion
    kg_stats: KgStats = KgStats()
    graph_gain: GraphGain = GraphGain()
    graph: GraphUse = GraphUse()
    providers: ProvidersUsed = ProvidersUsed()
    index_model: str | None = None
    route_ms: float = 0.0
    retrieval_ms: float = 0.0
    expansion_ms: float = 0.0
    mmr_ms: float = 0.0
    hydration_ms: float = 0.0
    grounding_ms: float = 0.0
    tokens_context: int = 0


class Grounded(Contract):
    """Result of the ground step: citations, blocks for the model, and diagnostics.

    `relevant`: whether a citation reaches the minimum score.
    """

    citations: Packed[tuple[Citation, ...]] = ()
    blocks: tuple[Block, ...] = ()
    relevant: bool = False
    conflicts: tuple[Conflict, ...] = ()
    query_vector: str | None = None
    seeds: tuple[SeedRef, ...] = ()
    notes: tuple[str, ...] = ()
    report: Packed[StepReport]
    explained: ExplainResponse | None = None
    degraded: tuple[DegradedReason, ...] = ()
    warnings: tuple[str, ...] = ()


class Synthesis(StepResult):
    """Raw output of the model; respond parses and checks the markers.

    `outcome`: answered; abstained: nothing was found and no model called; failed: see `degraded`;
    unconfigured: failed, and no model has a key or address; no_room: no sentence fits into the
    token budget. `block_count`: number of leading blocks given to the model; None for all.
    `probability`: that the built-in model's choice is correct, and `best_span`: its place in
    `answer`; None for other models. `is_incomplete`: the reply broke off after complete sentences.
    """

    outcome: Literal["answered", "abstained", "failed", "unconfigured", "no_room"]
    answer: str = ""
    model: str | None = None
    provider: str = ""
    block_count: int | None = None
    probability: float | None = None
    best_span: tuple[int, int] | None = None
    is_incomplete: bool = False
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = 0.0


class RespondInput(Contract):
    """Input of the last step; exactly one of `grounded` and `failure` is set."""

    plan: Plan
    grounded: Grounded | None = None
    synthesis: Synthesis | None = None
    graph: GraphView | None = None
    graph_ms: float = 0.0
    failure: Failure | None = None
    degraded: tuple[DegradedReason, ...] = ()


class TraceMessage(Contract):
    """A message to the trace queue; contains no text."""

    request_id: str
    session: str
    namespace: str
    query_hash: str
    created_ms: int
    retrieved: tuple[Json, ...] = ()
    focused_on: tuple[Json, ...] = ()
    supported_by: tuple[int, ...] = ()

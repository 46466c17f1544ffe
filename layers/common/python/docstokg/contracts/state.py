"""What travels between the steps: references and budgets, no texts until they are cited.

Walk: Envelope -> validate -> Validated{plan, scope} -> retrieve -> Retrieval -> expand ->
Expansion -> ground -> Grounded -> synthesize -> Synthesis -> respond -> Reply.
"""

from typing import Any, Literal, NamedTuple

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
    ExplainResponse,
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
from docstokg.contracts.routes import RouteName


class RetrievalPlan(Contract):
    """What retrieve may run: channels with their sizes, the fusion, whether MMR selects.

    `embed` false: the caller wants another embedder than this server has, or it is switched off.
    """

    channels: dict[Channel, int]
    fusion: Literal["minmax", "rrf"] = "minmax"
    mmr: bool = True
    embed: bool = True
    time_s: float


class ExpansionPlan(Contract):
    """What expand may do; `enabled` false skips the step, `restrict` routes retrieval before it.

    `max_hops` None: as many as the question needs. `boost` is added to the score, in [0, 1], of a
    pool chunk that names an entity of the question. `limit`: chunks the graph may add. `seeds`,
    `concept_types`, `relations`, `direction` and `max_nodes` are the caller's. `time_s`: seconds
    for the whole step.
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
    """Which model may write how much, under the server's citation rules.

    `fallback`: the model that answers when the first does not. `min_probability`: how likely the
    built-in model must be right to say anything.
    """

    model: str
    fallback: str | None = None
    temperature: float
    max_tokens: int
    style_hint: str | None = None
    min_probability: float = 0.0


class CachePlan(Contract):
    """Where the response may be kept: scope key and the hash of the canonical request."""

    key: str
    request_hash: str
    ttl_s: int


class Plan(Contract):
    """What every later step may do and spend, and one absolute deadline (epoch ms).

    `query`: as understood, `query_used_by` whom; `sent`: as it was sent, if that is different.
    `condense`: the remote model that rewrites a follow-up. `turns`: the last turns of the
    conversation, for a remote model's prompt.
    `groups` None sees every passage. `snippet_chars`: code points of a snippet. `graph_limits`
    narrows the walk of verbosity graph. `max_blocks`: passages given to the model (a few behind
    them may explain or answer better, `functions/ground/ground.py`), if the best of all scores
    `min_score` of 1 or more. `rerank` lost: what the caller asks for is not configured here, or is
    switched off. `told`: somebody hears of the steps through the store of responses. `verifies`:
    respond asks a verifier, for which synthesize leaves time.
    """

    request_id: str
    route: RouteName
    caller_sub: str
    namespace: str
    others: tuple[str, ...] = ()
    groups: tuple[str, ...] | None
    query: str
    sent: str | None = None
    query_used_by: QueryUsedBy = "as_sent"
    condense: str | None = None
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
    rerank: Literal["yes", "no", "lost"] = "yes"
    budget_limits: BudgetLimits
    min_score: float = 0.3
    max_blocks: int = 5
    full_text_bytes: int = 16384
    repair: Literal["attribute", "drop", "report"] = "report"
    cache: CachePlan | None = None
    chat: ChatPlan | None = None
    warnings: tuple[str, ...] = ()
    validation_ms: float = 0.0
    expect: Expected | None = None
    told: bool = False
    verifies: bool = False


class Condensed(Contract):
    """The fields of a plan that the rewriting of a follow-up sets."""

    query: str
    sent: str | None = None
    query_used_by: QueryUsedBy
    condensing_ms: float = 0.0
    condensing_usd: float | None = 0.0


class Validated(Contract):
    """Either a plan with its scope, or a reply that ends the execution at once."""

    plan: Plan | None = None
    scope: Scope | None = None
    reply: Reply | None = None


class Recalled(Contract):
    """A stored response or a refusal, else where the response may be kept (None: nowhere)."""

    reply: Reply | None = None
    cache: CachePlan | None = None


class Candidate(NamedTuple):
    """A chunk some channel found; `score` is the fused one, comparable within its query only."""

    uuid: str
    score: float


Place = tuple[int, int, float]
"""Where a channel put a chunk: its place in the pool, the channel's rank, the channel's score."""


class FactRef(Contract):
    """A relation the question matched: endpoints, type and the chunk that states it."""

    source: str
    type: str
    target: str
    score: float
    evidence_uuid: str | None = None


class StepResult(Contract):
    """What every step says beside its result."""

    took_ms: float = 0.0
    degraded: tuple[DegradedReason, ...] = ()
    warnings: tuple[str, ...] = ()


class Retrieval(StepResult):
    """What the channels found.

    `selected`: uuids after MMR, at most top_k. `pool`: all fused candidates, best first, at most
    220. `ranks`: which channels found them; read for what is cited, one in ten, so that no model
    is made for the others. `query_vector`: base64 of the float32 unit vector, or None without an
    embedder. `absent`: words of the question that no passage of the namespace holds.
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
    """An entity as evidence names it."""

    id: str
    name: str
    type: str | None = None


class SeedRef(EntityRef):
    """An entity the walk restarts from; `share`: its part of the restart vector, of sum 1."""

    share: float = 0.0


class RelatedEntity(Contract):
    """A relation of a chunk's entity with another one, an index of Expansion.entities.

    `incoming`: it leads from the other entity to the chunk's. `evidence`: uuid of the chunk that
    states it, if known.
    """

    entity: int
    type: str
    incoming: bool = False
    evidence: str | None = None


class EvidencePointer(Contract):
    """kg_evidence of one chunk, pointing into Expansion.entities and Expansion.edges.

    `path`: indices of edges from the seed to `entity`; `nodes`: entity indices along it.
    `match_type` None: no path leads from an entity that the question names; the walk found it.
    """

    entity: int
    match_type: MatchType | None = None
    related_to: int | None = None
    path: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    shared_docs: int = 0
    related: tuple[RelatedEntity, ...] = ()


class Renaming(Contract):
    """query[start:end] names an entity whose preferred `name` is another."""

    start: int
    end: int
    name: str


class Ranked(Contract):
    """A chunk in its final order before hydration.

    `renamed`: indices of those of Expansion.renamings whose entity it names or is about.
    """

    uuid: str
    source: Source
    evidence: EvidencePointer | None = None
    concepts: tuple[str, ...] = ()
    renamed: tuple[int, ...] = ()


class Expansion(StepResult):
    """The order in which chunks are to be cited, and what the graph knows of each."""

    ranking: Packed[tuple[Ranked, ...]] = ()
    entities: Packed[tuple[EntityRef, ...]] = ()
    edges: Packed[tuple[EvidenceEdge, ...]] = ()
    renamings: tuple[Renaming, ...] = ()
    kg_stats: KgStats = KgStats()
    graph_gain: GraphGain = GraphGain()
    graph: GraphUse = GraphUse()
    seeds: tuple[SeedRef, ...] = ()
    notes: tuple[str, ...] = ()


class Restriction(StepResult):
    """The documents of the slice around the given seeds; None when routing could not tell."""

    doc_ids: tuple[str, ...] | None = None


class OtherName(Contract):
    """What the question, word for word, and a passage call the same entity."""

    in_question: str
    in_passage: str


class GraphFact(Contract):
    """A relation as `A -type-> B`; `stated_in`: rank of the passage that states it, if known."""

    text: str
    stated_in: int | None = None


class Block(Contract):
    """A passage given to the model: `text` is chunk.text[start:start+len(text)].

    `char_start`: where the chunk begins in the offset base (0 when unknown). `relevance`: 0..10.
    `subject`: the title above it, or its document's name. `sentences`: code-point spans of `text`;
    `cosines`: question against each of them, for the extractive model only. `other_names`: what
    the graph knows of names that the question and this passage have for the same.
    `superseded_by`: rank of the block whose document supersedes this one's.
    """

    rank: int
    uuid: str
    text: str
    start: int = 0
    char_start: int = 0
    document_name: str
    subject: str = ""
    page: int | str | None = None
    relevance: int
    sentences: tuple[tuple[int, int], ...] = ()
    cosines: tuple[float, ...] = ()
    kg_match: str | None = None
    related: tuple[GraphFact, ...] = ()
    other_names: tuple[OtherName, ...] = ()
    superseded_by: int | None = None


class StepReport(Contract):
    """Everything diagnostics will say, gathered up to ground."""

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
    """Citations with snippets, the blocks for the model, and what it took to get here.

    `relevant`: at least one citation reaches the score threshold; else an answer carries a warning.
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
    """The model's raw words; markers are parsed and checked in respond.

    `outcome`: answered; abstained = nothing found, no call made; failed = see `degraded`;
    no_room = no sentence fits into the token budget.
    `block_count`: how many blocks, from the first, the model that answered was given; None for all.
    `probability`: how likely the built-in model's choice is right; None for another model.
    """

    outcome: Literal["answered", "abstained", "failed", "no_room"]
    answer: str = ""
    model: str | None = None
    provider: str = ""
    block_count: int | None = None
    probability: float | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = 0.0


class Failure(Contract):
    """Why the execution ends without citations: the problem+json status and code to answer."""

    status: int
    code: str
    detail: str


class RespondInput(Contract):
    """What the last step receives; exactly one of `grounded` and `failure` is set."""

    plan: Plan
    grounded: Grounded | None = None
    synthesis: Synthesis | None = None
    graph: GraphView | None = None
    graph_ms: float = 0.0
    failure: Failure | None = None
    degraded: tuple[DegradedReason, ...] = ()


class TraceMessage(Contract):
    """One message without text to the trace queue."""

    request_id: str
    session: str
    namespace: str
    query_hash: str
    created_ms: int
    retrieved: tuple[dict[str, Any], ...] = ()
    focused_on: tuple[dict[str, Any], ...] = ()
    supported_by: tuple[int, ...] = ()

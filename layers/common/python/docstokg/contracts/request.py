"""Request models and their validation."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from docstokg.contracts.model import Many, StrictContract

Verbosity = Literal["snippet", "full", "graph"]
EmbedderName = Literal["jina", "openai", "hf", "bedrock", "local"]
EmbeddingProvider = Literal["auto", EmbedderName]
RerankerName = Literal["jina", "cohere", "bedrock", "local", "none"]
RerankProvider = Literal["auto", RerankerName]
Direction = Literal["out", "in", "both"]
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr

NAMESPACE_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,62}$"
# In UTF-8, so that a Chinese word of two characters is long enough.
MIN_QUERY_BYTES = 3

MAX_QUERY_CHARACTERS = 4096
DEFAULT_NAMESPACE = "default"
ANY_NAMESPACE = "null: `default`, or the only one in use if that is empty"
MAX_STYLE_CHARACTERS = 2000
MAX_TURNS = 20
MAX_HISTORY_BYTES = 32 * 1024
MAX_FILTER_KEYS = 20
MAX_FILTER_VALUES = 100


def _no_nul(text: str) -> str:
    if "\x00" in text:
        raise PydanticCustomError("nul_character", "must not contain the NUL character")
    return text


def _trimmed(value: object) -> object:
    return value.strip() if isinstance(value, str) else value


def _no_surrogates(text: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise PydanticCustomError("lone_surrogate", "must not contain lone surrogates")
    return text


def _scalar(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    try:
        return handler(value)
    except ValidationError:
        raise PydanticCustomError(
            "filter_value", "must be a string, a finite number or a boolean"
        ) from None


def _long_enough(query: str) -> str:
    if len(query.encode()) < MIN_QUERY_BYTES:
        minimum = MIN_QUERY_BYTES
        message = (
            f"must be at least {minimum} letters long ({minimum} bytes in UTF-8); add question "
            "marks to a shorter name"
        )
        raise PydanticCustomError("string_too_short", message)
    return query


def padded(query: str) -> str:
    """Return a question of one or two bytes, such as a name, with question marks; others as is."""
    missing = MIN_QUERY_BYTES - len(query.strip().encode("utf-8", "surrogatepass"))
    return query.strip() + "?" * missing if 0 < missing < MIN_QUERY_BYTES else query


def _not_empty(values: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    if not values:
        raise PydanticCustomError("too_short", "must contain at least one value")
    return values


def _as_values(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


FilterValue = Annotated[Scalar, WrapValidator(_scalar)]
Query = Annotated[
    str,
    Field(min_length=1, max_length=MAX_QUERY_CHARACTERS),
    BeforeValidator(_trimmed),
    AfterValidator(_no_surrogates),
    AfterValidator(_long_enough),
    AfterValidator(_no_nul),
]
Text = Annotated[str, AfterValidator(_no_surrogates), AfterValidator(_no_nul)]
Namespace = Annotated[str, Field(pattern=NAMESPACE_PATTERN)]
NodeId = Annotated[str, Field(min_length=1, max_length=512)]
Name = Annotated[str, Field(min_length=1, max_length=128)]
FilterValues = Annotated[
    Annotated[tuple[FilterValue, ...], Field(strict=False, max_length=MAX_FILTER_VALUES)],
    AfterValidator(_not_empty),
    BeforeValidator(_as_values, json_schema_input_type=FilterValue | list[FilterValue]),
]
Filter = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=256)], FilterValues],
    Field(max_length=MAX_FILTER_KEYS),
]


class Turn(StrictContract):
    """A previous question or answer of the conversation."""

    role: Literal["user", "assistant"]
    """author of the turn"""
    content: Text
    """text of the turn; empty turns are ignored"""


def _within_bytes(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    if sum(len(turn.content.encode()) for turn in turns) > MAX_HISTORY_BYTES:
        raise PydanticCustomError("history_too_large", "must contain at most 32 KiB of text")
    return turns


History = Annotated[Many[Turn], Field(max_length=MAX_TURNS), AfterValidator(_within_bytes)]


# Maximum tokens of an answer whose request does not limit them.
GENERATION_TOKENS = 300


class ExplainBudget(StrictContract):
    """Budget of one explanation."""

    max_chunks: int = Field(48, ge=1, le=100)
    """maximum number of citations"""
    timeout_s: float = Field(12.0, ge=1, le=60)
    """timeout of the request in seconds; the server may lower it"""


class SearchBudget(ExplainBudget):
    """Budget of one search. Without `max_chunks`, `top_k` chunks are returned."""

    max_tokens_context: int = Field(8000, ge=256, le=32000)
    """maximum size of passages given to the model, in tokens of four UTF-8 bytes"""


class Budget(SearchBudget):
    """Budget of one answer."""

    max_tokens_gen: int | None = Field(None, ge=0, le=4096)
    """maximum tokens of the answer; null: 300 if synthesis is enabled, else 0"""


class KgExpansion(StrictContract):
    """Graph expansion: passages that the knowledge graph adds to the search results."""

    enabled: bool = True
    """false: search only, without the graph"""
    hops: int | None = Field(None, ge=1, le=3)
    """maximum hops; null: one, or two if several entities of the question lead on"""
    limit: int = Field(32, ge=0, le=100)
    """maximum passages added by the graph; never many more than `top_k`"""
    concept_types: Annotated[Many[Name], Field(max_length=50)] | None = Field(
        None, examples=[["hp", "mondo"]]
    )
    """allowed entity types or id prefixes, such as hp"""
    relations: Annotated[Many[Name], Field(max_length=50)] | None = Field(
        None, examples=[["has_phenotype"]]
    )
    """allowed relation types"""
    max_nodes: int | None = Field(None, ge=20, le=600)
    """maximum entities and passages read from the graph; null: 300 for one hop, 400 in total"""
    direction: Direction = "both"
    """direction in which relations are followed from an entity"""
    seeds: Annotated[Many[NodeId], Field(max_length=50)] = ()
    """start nodes in addition to the entities of the question, as node ids"""
    route: bool = False
    """true: restrict the search to documents near `seeds`"""


class SynthesisRequest(StrictContract):
    """Synthesis: whether and how an answer is generated."""

    enabled: bool = False
    """true: generate an answer from the citations"""
    model: str = Field("gpt-4o-mini", min_length=1, max_length=128)
    """model from `GET /v1/models`; `extractive` quotes sources and needs no network"""
    temperature: float = Field(0.0, ge=0, le=2)
    """sampling temperature of the model"""
    system_prompt: str | None = Field(None, max_length=MAX_STYLE_CHARACTERS)
    """style hint; the server's own rules take precedence"""


class Providers(StrictContract):
    """Embedding and reranking providers; `auto`: as configured for the index."""

    embedding: EmbeddingProvider = "auto"
    """provider of the question's embedding"""
    reranker: RerankProvider = "auto"
    """reranker provider"""


class GraphLimits(StrictContract):
    """Limits of the graph view (verbosity `graph`); the server's own limits take precedence."""

    max_depth_soft: int | None = Field(None, ge=1)
    """from this depth on, expand only nodes that score at least as high as the best node of the
    previous layer; null: 3"""
    max_depth_hard: int | None = Field(None, ge=1)
    """maximum depth, at most 5; null: 5"""
    max_nodes_hard: int | None = Field(None, ge=1)
    """maximum number of nodes, at most 200; null: 200"""
    rel_whitelist: Annotated[Many[Name], Field(max_length=50)] | None = None
    """allowed relation types"""


class Limits(StrictContract):
    """Optional limits."""

    graph: GraphLimits | None = None
    """limits of the graph view"""


_TOP_K = "number of passages selected by search, before graph expansion"
_BUDGET = "budget of the request"


class InNamespaces(StrictContract):
    """A request about one or several namespaces."""

    namespace: Namespace | None = Field(None, description=f"namespace to read; {ANY_NAMESPACE}")
    namespaces: Annotated[Many[Namespace], Field(min_length=1, max_length=20)] | None = None
    """several namespaces, instead of `namespace`; the caller needs access to all"""

    @property
    def requested_namespaces(self) -> tuple[str, ...]:
        """Return the requested namespaces without duplicates; () if the request names none."""
        single = (self.namespace,) if self.namespace is not None else ()
        return tuple(dict.fromkeys(self.namespaces or single))


class Question(InNamespaces):
    """A question and the search for its passages."""

    query: Query = Field(examples=["What is a febrile seizure?"])
    """the question, 3 to 4096 characters"""
    history: History = Field(
        (), examples=[[{"role": "user", "content": "What is Angelman syndrome?"}]]
    )
    """previous turns, oldest first, at most 32 KiB in total; used to rewrite follow-up questions,
    see `query_used` of the response"""
    top_k: int = Field(8, ge=1, le=100, description=_TOP_K)
    filter: Filter | None = Field(None, examples=[{"doc_id": ["handbook.md"], "year": 2026}])
    """filter on doc_id, document_name, section, topic or metadata keys. Values of one key are ORed,
    different keys are ANDed."""
    kg_expansion: KgExpansion = KgExpansion()
    """graph expansion"""
    providers: Providers = Providers()
    """embedding and reranking providers"""


class SearchRequest(Question):
    """Request body of `POST /v1/search`: evidence without an answer."""

    budget: SearchBudget = Field(SearchBudget(), description=_BUDGET)
    verbosity: Verbosity = "snippet"
    """full: add whole passages; graph: add the graph around the citations"""
    limits: Limits = Limits()
    """optional limits"""
    diagnostics: bool = True
    """true: include diagnostics in the response"""
    receipt: bool = False
    """true: add a signed receipt, which proves the response without the store; in MCP only with
    `numbers`"""
    cache_key: str | None = Field(None, min_length=1, max_length=128)
    """key under which the response is cached for the same request and caller"""


class RAGRequest(SearchRequest):
    """Request body of `POST /v1/answer`: evidence and optionally an answer."""

    top_k: int = Field(10, ge=1, le=100, description=_TOP_K)
    budget: Budget = Field(Budget(), description=_BUDGET)
    synthesis: SynthesisRequest = SynthesisRequest()
    """synthesis of an answer"""

    @property
    def generation_tokens(self) -> int:
        """Return the maximum tokens of the answer; 0 without one."""
        requested = self.budget.max_tokens_gen
        default = GENERATION_TOKENS if self.synthesis.enabled else 0
        return default if requested is None else requested

    @model_validator(mode="wrap")
    @classmethod
    def _synthesis_needs_tokens(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        errors: list[InitErrorDetails] = []
        value: Self | None = None
        try:
            value = handler(data)
        except ValidationError as exc:
            errors = [
                InitErrorDetails(
                    type=PydanticCustomError(error["type"], error["msg"]),
                    loc=error["loc"],
                    input=error["input"],
                )
                for error in exc.errors()
            ]
        if _enabled_without_tokens(data):
            errors.append(
                InitErrorDetails(
                    type=PydanticCustomError(
                        "tokens_required", "must be greater than 0 when synthesis is enabled"
                    ),
                    loc=("budget", "max_tokens_gen"),
                    input=0,
                )
            )
        if errors or value is None:
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return value


class Expected(StrictContract):
    """Expected passage, or document of which any passage is expected; exactly one of them."""

    doc_id: NodeId | None = None
    """expected document"""
    chunk_id: NodeId | None = None
    """expected passage"""

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        if (self.doc_id is None) == (self.chunk_id is None):
            raise PydanticCustomError("one_of", "must contain either doc_id or chunk_id")
        return self


# Fields of an answer's request that have no effect on an explanation.
ANSWER_FIELDS = frozenset(
    f"$.{path}"
    for path in (
        "verbosity", "limits", "diagnostics", "receipt", "cache_key", "budget.max_tokens_context",
        "budget.max_tokens_gen", "synthesis.enabled", "synthesis.temperature",
        "synthesis.system_prompt",
    )
)  # fmt: skip


class ExplainSynthesis(StrictContract):
    """The model of the explained answer."""

    model: str | None = Field(None, min_length=1, max_length=128)
    """model that rewrites a follow-up question, see `history`; null: by rule"""


class ExplainRequest(Question):
    """Request body of `POST /v1/explain`: a question and an expected citation."""

    top_k: int = Field(10, ge=1, le=100, description=_TOP_K)
    budget: ExplainBudget = Field(ExplainBudget(), description=_BUDGET)
    synthesis: ExplainSynthesis = ExplainSynthesis()
    """model of the answer"""
    expect: Expected
    """passage or document to trace through the stages"""


def _enabled_without_tokens(data: object) -> bool:
    if isinstance(data, RAGRequest):
        return data.synthesis.enabled and data.budget.max_tokens_gen == 0
    if not isinstance(data, dict):
        return False
    synthesis, budget = data.get("synthesis"), data.get("budget", {})
    if not (isinstance(synthesis, dict) and synthesis.get("enabled") is True):
        return False
    tokens = budget.get("max_tokens_gen") if isinstance(budget, dict) else None
    return tokens == 0 and not isinstance(tokens, bool)

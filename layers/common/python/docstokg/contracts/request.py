"""What a caller may ask, field by field, with every rule that needs no server setting."""

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
EmbedderName = Literal["jina", "openai", "hf", "local"]
EmbeddingProvider = Literal["auto", EmbedderName]
RerankerName = Literal["jina", "cohere", "local", "none"]
RerankProvider = Literal["auto", RerankerName]
Direction = Literal["out", "in", "both"]
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr

NAMESPACE_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,62}$"
MIN_QUERY_BYTES = 3
"""In UTF-8: a Chinese word of two characters is a question, two Latin letters are not."""

MAX_QUERY_CHARACTERS = 4096
DEFAULT_NAMESPACE = "default"
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
    """Refuse a question of fewer than MIN_QUERY_BYTES bytes."""
    if len(query.encode()) < MIN_QUERY_BYTES:
        message = f"must have at least {MIN_QUERY_BYTES} bytes of UTF-8"
        raise PydanticCustomError("string_too_short", message)
    return query


def _not_empty(values: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """Refuse a filter that nothing can meet."""
    if not values:
        raise PydanticCustomError("too_short", "must hold at least one value")
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
    """What was said before: a question, or the answer to it."""

    role: Literal["user", "assistant"] = Field(description="who said it")
    content: Text = Field(description="its text; what is empty says nothing")


def _within_bytes(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    if sum(len(turn.content.encode()) for turn in turns) > MAX_HISTORY_BYTES:
        raise PydanticCustomError("history_too_large", "must hold at most 32 KiB of text")
    return turns


History = Annotated[Many[Turn], Field(max_length=MAX_TURNS), AfterValidator(_within_bytes)]


class SearchBudget(StrictContract):
    """What one search may spend; as many chunks as `top_k` unless `max_chunks` is given."""

    max_chunks: int = Field(48, ge=1, le=100, description="citations returned at most")
    max_tokens_context: int = Field(
        8000,
        ge=256,
        le=32000,
        description="passages handed to a model at most, in tokens of four UTF-8 bytes",
    )
    timeout_s: float = Field(
        12.0, ge=1, le=60, description="seconds for everything; the server may lower it"
    )


class Budget(SearchBudget):
    """What one answer may spend."""

    max_tokens_gen: int = Field(
        0, ge=0, le=4096, description="tokens the model may write; needed when it answers"
    )


class KgExpansion(StrictContract):
    """How far the knowledge graph may widen the result."""

    enabled: bool = Field(True, description="false: search alone")
    hops: int | None = Field(
        None, ge=1, le=3, description="at most so many; null: one, or two for several entities"
    )
    limit: int = Field(
        32, ge=0, le=100, description="passages the graph may add; never many more than `top_k`"
    )
    concept_types: Annotated[Many[Name], Field(max_length=50)] | None = Field(
        None,
        description="only entities of these types or id prefixes, e.g. hp",
        examples=[["hp", "mondo"]],
    )
    relations: Annotated[Many[Name], Field(max_length=50)] | None = Field(
        None, description="only relations of these types", examples=[["has_phenotype"]]
    )
    max_nodes: int | None = Field(
        None,
        ge=20,
        le=600,
        description="maximum number of entities and passages read from the graph; null: 300 for "
        "one hop, 400 in all",
    )
    direction: Direction = Field(
        "both", description="direction in which relations are followed from an entity"
    )
    seeds: Annotated[Many[NodeId], Field(max_length=50)] = Field(
        (), description="node ids to start from, beside what the question names"
    )
    route: bool = Field(
        False, description="search only the documents around `seeds`, not only after them"
    )


class SynthesisRequest(StrictContract):
    """Whether and how to write an answer."""

    enabled: bool = Field(False, description="write an answer from the citations")
    model: str = Field(
        "gpt-4o-mini",
        min_length=1,
        max_length=128,
        description="one the server lists; `extractive` quotes and needs no network",
    )
    temperature: float = Field(0.0, ge=0, le=2, description="handed to the model")
    system_prompt: str | None = Field(
        None, max_length=2000, description="a hint at style, below the server's own rules"
    )


class Providers(StrictContract):
    """Which embedder and reranker to use; `auto` is what the index was built with."""

    embedding: EmbeddingProvider = Field("auto", description="who makes the question's vector")
    reranker: RerankProvider = Field("auto", description="who reorders what is found")


class GraphLimits(StrictContract):
    """Caps for verbosity graph; the server's caps always win."""

    max_depth_soft: int | None = Field(
        None,
        ge=1,
        description="from this depth on, expand only nodes that score at least as high as the "
        "best node of the layer before; null: 3",
    )
    max_depth_hard: int | None = Field(None, ge=1, description="last depth, at most 5; null: 5")
    max_nodes_hard: int | None = Field(
        None, ge=1, description="maximum number of nodes, at most 200; null: 200"
    )
    rel_whitelist: Annotated[Many[Name], Field(max_length=50)] | None = Field(
        None, description="only relations of these types"
    )


class Limits(StrictContract):
    """Optional caps by part."""

    graph: GraphLimits | None = Field(None, description="caps of the graph view")


_TOP_K = "passages search selects, before the graph adds some"
_BUDGET = "what it may spend"


class SearchRequest(StrictContract):
    """`POST /v1/search`: evidence without an answer."""

    query: Query = Field(
        description="the question, 3 to 4096 characters", examples=["What is a febrile seizure?"]
    )
    history: History = Field(
        (),
        description="the turns before, oldest first, together at most 32 KiB: what a follow-up "
        "refers to; `query_used` of the response says how it was understood",
        examples=[[{"role": "user", "content": "What is Angelman syndrome?"}]],
    )
    top_k: int = Field(8, ge=1, le=100, description=_TOP_K)
    namespace: Namespace = Field("default", description="which corpus is asked")
    namespaces: Annotated[Many[Namespace], Field(min_length=1, max_length=20)] | None = Field(
        None, description="several at once, instead of `namespace`; every one must be granted"
    )
    filter: Filter | None = Field(
        None,
        description="only passages that fit: keys doc_id, document_name, section, topic or one of "
        "the metadata; values of one key are alternatives, all keys must fit",
        examples=[{"doc_id": ["handbook.md"], "year": 2026}],
    )
    budget: SearchBudget = Field(SearchBudget(), description=_BUDGET)
    kg_expansion: KgExpansion = Field(
        KgExpansion(), description="how far the graph may widen the result"
    )
    verbosity: Verbosity = Field(
        "snippet", description="full adds whole passages, graph the graph around the citations"
    )
    providers: Providers = Field(Providers(), description="which embedder and reranker to use")
    limits: Limits = Field(Limits(), description="caps by part")
    diagnostics: bool = Field(True, description="say what it took, step by step")
    cache_key: str | None = Field(
        None,
        min_length=1,
        max_length=128,
        description="under it the same request of the same caller gives the stored response",
    )

    @property
    def asked_namespaces(self) -> tuple[str, ...]:
        """List what is asked, each once."""
        return tuple(dict.fromkeys(self.namespaces or (self.namespace,)))


class RAGRequest(SearchRequest):
    """`POST /v1/answer`: evidence and, when asked, an answer made of it."""

    top_k: int = Field(10, ge=1, le=100, description=_TOP_K)
    budget: Budget = Field(Budget(), description=_BUDGET)
    synthesis: SynthesisRequest = Field(
        SynthesisRequest(), description="whether and how an answer is written"
    )

    @model_validator(mode="wrap")
    @classmethod
    def _synthesis_needs_tokens(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Report the cross-field rule beside every other error, not only when all else is right."""
        errors: list[InitErrorDetails] = []
        value: Self | None = None
        try:
            value = handler(data)
        except ValidationError as exc:
            errors = [_again(error) for error in exc.errors()]
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
    """A passage, or a document of which one passage is enough; one of the two."""

    doc_id: NodeId | None = Field(None, description="a document")
    chunk_id: NodeId | None = Field(None, description="one passage")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.doc_id is None) == (self.chunk_id is None):
            raise PydanticCustomError("one_of", "must hold either doc_id or chunk_id")
        return self


class ExplainRequest(RAGRequest):
    """`POST /v1/explain`: a question, and what should be among its citations."""

    expect: Expected = Field(description="the passage to follow through the steps")


def _again(error: Any) -> InitErrorDetails:
    return InitErrorDetails(
        type=PydanticCustomError(error["type"], error["msg"]),
        loc=error["loc"],
        input=error["input"],
    )


def _enabled_without_tokens(data: object) -> bool:
    if isinstance(data, RAGRequest):
        return data.synthesis.enabled and data.budget.max_tokens_gen == 0
    if not isinstance(data, dict):
        return False
    synthesis, budget = data.get("synthesis"), data.get("budget", {})
    if not (isinstance(synthesis, dict) and synthesis.get("enabled") is True):
        return False
    tokens = budget.get("max_tokens_gen", 0) if isinstance(budget, dict) else None
    return tokens == 0 and not isinstance(tokens, bool)

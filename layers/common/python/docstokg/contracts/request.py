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
EmbeddingProvider = Literal["auto", "jina", "openai", "hf", "local"]
RerankProvider = Literal["auto", "jina", "cohere", "local", "none"]
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr

NAMESPACE_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,62}$"
QUERY_CHARACTERS = (3, 4096)
MAX_BODY_BYTES = 64 * 1024
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
    Field(min_length=QUERY_CHARACTERS[0], max_length=QUERY_CHARACTERS[1]),
    BeforeValidator(_trimmed),
    AfterValidator(_no_surrogates),
    AfterValidator(_no_nul),
]
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


class SearchBudget(StrictContract):
    """What one search may spend; as many chunks as `top_k` unless `max_chunks` is given."""

    max_chunks: int = Field(48, ge=1, le=100)
    max_tokens_context: int = Field(8000, ge=256, le=32000)
    timeout_s: float = Field(12.0, ge=1, le=60)


class Budget(SearchBudget):
    """What one answer may spend."""

    max_tokens_gen: int = Field(0, ge=0, le=4096)


class KgExpansion(StrictContract):
    """How far the knowledge graph may widen the result."""

    enabled: bool = True
    hops: int | None = Field(None, ge=1, le=3)
    limit: int = Field(32, ge=0, le=100)
    concept_types: Annotated[Many[Name], Field(max_length=50)] | None = None
    relations: Annotated[Many[Name], Field(max_length=50)] | None = None
    seeds: Annotated[Many[NodeId], Field(max_length=50)] = ()
    route: bool = False


class SynthesisRequest(StrictContract):
    """Whether and how to write an answer."""

    enabled: bool = False
    model: str = Field("gpt-4o-mini", min_length=1, max_length=128)
    temperature: float = Field(0.0, ge=0, le=2)
    system_prompt: str | None = Field(None, max_length=2000)


class Providers(StrictContract):
    """Which embedder and reranker to use; `auto` is what the index was built with."""

    embedding: EmbeddingProvider = "auto"
    reranker: RerankProvider = "auto"


class GraphLimits(StrictContract):
    """Caps for verbosity graph; the server's caps always win."""

    max_depth_soft: int | None = Field(None, ge=1)
    max_depth_hard: int | None = Field(None, ge=1)
    max_nodes_hard: int | None = Field(None, ge=1)
    rel_whitelist: Annotated[Many[Name], Field(max_length=50)] | None = None


class Limits(StrictContract):
    """Optional caps by part."""

    graph: GraphLimits | None = None


class SearchRequest(StrictContract):
    """`POST /v1/search`: evidence without an answer."""

    query: Query
    top_k: int = Field(8, ge=1, le=100)
    namespace: Namespace = "default"
    filter: Filter | None = None
    budget: SearchBudget = SearchBudget()
    kg_expansion: KgExpansion = KgExpansion()
    verbosity: Verbosity = "snippet"
    providers: Providers = Providers()
    limits: Limits = Limits()
    diagnostics: bool = True
    cache_key: str | None = Field(None, min_length=1, max_length=128)


class RAGRequest(StrictContract):
    """`POST /v1/answer`: evidence and, when asked, an answer made of it."""

    query: Query
    top_k: int = Field(10, ge=1, le=100)
    namespace: Namespace = "default"
    filter: Filter | None = None
    budget: Budget = Budget()
    kg_expansion: KgExpansion = KgExpansion()
    synthesis: SynthesisRequest = SynthesisRequest()
    verbosity: Verbosity = "snippet"
    providers: Providers = Providers()
    limits: Limits = Limits()
    diagnostics: bool = True
    cache_key: str | None = Field(None, min_length=1, max_length=128)

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

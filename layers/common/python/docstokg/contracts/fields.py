"""Request fields as keyword arguments of the client, for type checkers."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from docstokg.contracts.request import (
    Budget,
    Direction,
    EmbeddingProvider,
    GraphLimits,
    KgExpansion,
    Limits,
    Providers,
    RerankProvider,
    SearchBudget,
    SynthesisRequest,
    Turn,
    Verbosity,
)

type Scalar = str | int | float | bool


class TurnFields(TypedDict):
    """Fields of `Turn`."""

    role: Literal["user", "assistant"]
    content: str


class SearchBudgetFields(TypedDict, total=False):
    """Fields of `SearchBudget`."""

    max_chunks: int
    timeout_s: float
    max_tokens_context: int


class BudgetFields(SearchBudgetFields, total=False):
    """Fields of `Budget`."""

    max_tokens_gen: int | None


class KgExpansionFields(TypedDict, total=False):
    """Fields of `KgExpansion`."""

    enabled: bool
    hops: int | None
    limit: int
    concept_types: Sequence[str] | None
    relations: Sequence[str] | None
    max_nodes: int | None
    direction: Direction
    seeds: Sequence[str]
    route: bool


class SynthesisFields(TypedDict, total=False):
    """Fields of `SynthesisRequest`."""

    enabled: bool
    model: str
    temperature: float
    system_prompt: str | None


class ProvidersFields(TypedDict, total=False):
    """Fields of `Providers`."""

    embedding: EmbeddingProvider
    reranker: RerankProvider


class GraphLimitsFields(TypedDict, total=False):
    """Fields of `GraphLimits`."""

    max_depth_soft: int | None
    max_depth_hard: int | None
    max_nodes_hard: int | None
    rel_whitelist: Sequence[str] | None


class LimitsFields(TypedDict, total=False):
    """Fields of `Limits`."""

    graph: GraphLimits | GraphLimitsFields | None


class QuestionFields(TypedDict, total=False):
    """Common fields of `SearchFields` and `AnswerFields`."""

    namespace: str | None
    namespaces: Sequence[str] | None
    history: Sequence[Turn | TurnFields]
    top_k: int
    filter: Mapping[str, Scalar | Sequence[Scalar]] | None
    kg_expansion: KgExpansion | KgExpansionFields
    providers: Providers | ProvidersFields
    verbosity: Verbosity
    limits: Limits | LimitsFields
    diagnostics: bool
    receipt: bool
    cache_key: str | None


class SearchFields(QuestionFields, total=False):
    """Fields of `SearchRequest`, without `query`."""

    budget: SearchBudget | SearchBudgetFields


class AnswerFields(QuestionFields, total=False):
    """Fields of `RAGRequest`, without `query`."""

    budget: Budget | BudgetFields
    synthesis: SynthesisRequest | SynthesisFields

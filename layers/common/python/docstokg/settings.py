"""Every setting, read once from a mapping such as the environment; nothing else reads it."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator

from docstokg.contracts.language_models import facts_table
from docstokg.contracts.model import Contract, wrong_in_words
from docstokg.contracts.request import EmbedderName, RerankerName
from docstokg.contracts.response import Channel
from docstokg.errors import Misconfigured

PREFIX = "DOCSTOKG_"
UNPREFIXED = (
    "KG_ENABLED",
    "KG_BOOST_ENABLED",
    "KG_BOOST_VALUE",
    "KG_2HOP_ENABLED",
    "FEATURE_VERBOSITY_GRAPH",
    "FEATURE_TRAVERSAL_TOOL",
    "PROVIDER_JINA_ENABLED",
    "RAG_LOG_SNIPPETS",
)
SECRETS = (
    "index_password",
    "graph_password",
    "llm_api_key",
    "openai_api_key",
    "anthropic_api_key",
    "embed_api_key",
    "rerank_api_key",
    "verifier_api_key",
    "cursor_key",
)
CHANNEL_SIZES: dict[Channel, int] = {"bm25": 80, "splade": 80, "dense": 60, "facts": 20}
MODELS = (
    "gpt-4o-mini",
    "gpt-4o",
    "claude-3-haiku",
    "extractive",
    "gpt-5-mini",
    "gpt-5.4-mini",
    "gpt-6-luna",
    "gpt-6.1-sol",
    "claude-haiku-4-5",
    "claude-haiku-5-5",
    "claude-sonnet-5-5",
    "claude-opus-5-5",
)
"""Names a request may choose unless a deployment says otherwise; a test finds each in the pinned
table of litellm but claude-3-haiku, which its maker has retired."""

VERIFIERS = "onnx:FOLDER, https://HOST/predict, llm:MODEL or bedrock-guardrail:ID:VERSION"
_VERIFIER = r"(?:onnx:|llm:|https?://).|bedrock-guardrail:[^:]+:[^:]+$"

DEFAULT_STORE = "sqlite:///.docstokg/store.sqlite"


class IndexSettings(Contract):
    """Where chunks and facts are searched."""

    index_url: str = Field(
        DEFAULT_STORE,
        description="sqlite:///PATH or http(s):// OpenSearch; where the folder has no .docstokg/, "
        "commands take the user's data folder",
    )
    index_auth: Literal["basic", "sigv4-es", "sigv4-aoss"] = Field(
        "basic", description="how OpenSearch is signed in to: a password, or IAM"
    )
    index_user: str | None = Field(None, description="user of OpenSearch with `basic`")
    index_password: str | None = Field(None, description="its password")
    index_name: str = Field("docstokg", description="alias of the chunk index; facts add -facts")


class GraphSettings(Contract):
    """Where entities and relations are."""

    graph_url: str = Field(DEFAULT_STORE, description="sqlite:///PATH, neo4j(+s):// or bolt://")
    graph_user: str = Field("neo4j", description="user of Neo4j")
    graph_password: str | None = Field(None, description="its password")
    graph_database: str = Field("neo4j", description="name of the database in Neo4j")
    graph_budget_per_minute: int = Field(60, ge=1, description="graph walks per caller")


class ModelSettings(Contract):
    """Who writes answers, and by which rules."""

    llm_base_url: str | None = Field(None, description="any OpenAI-compatible address")
    llm_api_key: str | None = Field(None, description="key of that address or of the provider")
    openai_api_key: str | None = Field(None, description="key of OpenAI")
    anthropic_api_key: str | None = Field(None, description="key of Anthropic")
    provider_urls: tuple[str, ...] = Field(
        (), description="openai=URL, anthropic=URL, bedrock=URL: other addresses of their APIs"
    )
    llm_fallback_model: str | None = Field(
        None, description="asked when the first one fails; extractive always answers"
    )
    models: tuple[str, ...] = Field(
        MODELS, description="what a request may choose; openai/, anthropic/, bedrock/, gateway/NAME"
    )
    model_table: tuple[str, ...] = Field(
        (),
        description="NAME=TOKENS or NAME=TOKENS/IN/OUT: context size and dollars per million "
        "tokens of models that litellm's table does not know",
    )
    allow_system_prompt: bool = Field(True, description="pass the client's style hint on")
    repair: Literal["attribute", "drop", "report"] = Field(
        "report",
        description="drop removes unsupported sentences, attribute adds markers a model forgot",
    )

    @field_validator("model_table")
    @classmethod
    def _readable(cls, lines: tuple[str, ...]) -> tuple[str, ...]:
        facts_table(lines)
        return lines


class EncoderSettings(Contract):
    """What texts are turned into vectors and weights by."""

    embed_provider: Literal[EmbedderName, "none"] = Field(
        "local", description="who makes vectors; none: words and weights only"
    )
    embed_base_url: tuple[str, ...] = Field(
        (), description="other addresses of that provider's API; the next one where one fails"
    )
    embed_model: str | None = Field(
        None,
        description="default: the provider's; local: also `multilingual` or an encoder's folder",
    )
    embed_dimension: int | None = Field(None, description="needed for models not known here")
    embed_api_key: str | None = Field(None, description="key of the embedding provider")
    sparse: Literal["local", "none"] = Field("local", description="learned sparse weights")
    names: Literal["auto", "rule"] = Field(
        "auto", description="who finds names in texts at a load; auto: spaCy where installed"
    )
    provider_jina_enabled: bool = Field(
        True, description="flag: use Jina, for embeddings and reranking"
    )


class RerankSettings(Contract):
    """Who reads question and passage together, if anybody."""

    rerank_provider: RerankerName = Field("none", description="who reorders what is found")
    rerank_base_url: str | None = Field(None, description="another address of that provider's API")
    rerank_model: str | None = Field(None, description="default: the provider's")
    rerank_api_key: str | None = Field(None, description="key of the rerank provider")
    rerank_model_path: str | None = Field(
        None, description="ONNX cross-encoder: `local`, or after a remote one"
    )


class VerifierSettings(Contract):
    """Verifier: a model that decides whether the sources support a sentence."""

    verifier: str | None = Field(
        None, description=f"{VERIFIERS}; https: Text Embeddings Inference; default: none"
    )
    verifier_api_key: str | None = Field(None, description="key of an https:// verifier")
    verifier_label: str = Field(
        "entailment", description="class of a supported claim, for https://HOST/predict"
    )
    verifier_threshold: float = Field(
        0.5,
        ge=0,
        le=1,
        description="probability at which a claim counts as supported; verifier.json of an "
        "onnx:FOLDER takes precedence",
    )

    @field_validator("verifier")
    @classmethod
    def _known(cls, verifier: str | None) -> str | None:
        if verifier and not re.match(_VERIFIER, verifier):
            raise ValueError(f"must be {VERIFIERS}")
        return verifier


class RankingSettings(Contract):
    """What is found, in which order, and how much of it is shown."""

    fusion: Literal["minmax", "rrf"] = Field("minmax", description="how channels are summed")
    min_score: float = Field(0.3, ge=0, le=1, description="below it an answer carries a warning")
    answer_min_probability: float = Field(
        0.65,
        ge=0,
        le=1,
        description="`extractive` says nothing where the passages answer less probably than this",
    )
    max_timeout_s: float = Field(25.0, ge=1, le=60, description="longest a request may ask for")
    default_timeout_s: float = Field(
        12.0, ge=1, le=60, description="time of a request that names none, chats and the page's too"
    )
    domains: tuple[str, ...] = Field(
        ("ontology",), description="subject domains: entry points of group docstokg.domains"
    )
    kg_enabled: bool = Field(True, description="flag: the graph takes part")
    kg_boost_enabled: bool = Field(True, description="flag: the walk prefers whoever names it too")
    kg_boost_value: float = Field(0.1, ge=0, le=1, description="flag: by so much of the score")
    kg_2hop_enabled: bool = Field(True, description="flag: a second hop where it may help")
    feature_verbosity_graph: bool = Field(True, description="flag: verbosity graph")
    feature_traversal_tool: bool = Field(True, description="flag: /v1/traverse and its tool")

    @property
    def traverses(self) -> bool:
        """Whether `/v1/traverse` and its tool are served."""
        return self.kg_enabled and self.feature_traversal_tool


class CacheSettings(Contract):
    """What is kept of work done."""

    cache_dir: str = Field("~/.cache/docstokg", description="vectors, responses, downloads")
    tables: tuple[str, ...] = Field(
        (), description="DynamoDB tables: cache=NAME of responses, circuit=NAME of circuit states"
    )


class AccessSettings(Contract):
    """Who may ask."""

    auth: Literal["off", "keys"] = Field(
        "off", description="keys: X-Api-Key or Authorization: Bearer is asked for"
    )
    hosts: tuple[str, ...] = Field(
        (), description="with auth off: names the server answers under, beside loopback"
    )
    keys_file: str | None = Field(None, description="JSON of keys and what each may see")
    open_metrics: bool = Field(False, description="with auth keys: /metrics needs no key")
    cursor_key: str | None = Field(
        None, description="seals MCP cursors; default: a file in the cache folder"
    )
    jwt_issuer: str | None = Field(None, description="the authoriser's: who signs tokens")
    jwt_audience: str | None = Field(None, description="whom tokens are made for")
    jwt_jwks_url: str | None = Field(None, description="the issuer's public keys")
    jwt_claims: tuple[str, str, str, str] = Field(
        ("aud", "namespaces", "groups", "load"),
        description="what tokens call their audience (Cognito: client_id), the namespaces granted, "
        "the caller's groups, and the namespaces they may load into",
    )


class OperationSettings(Contract):
    """Logs, metrics, traces and what a deployment is connected to."""

    traces: str = Field("off", description="where traces go: off, local, or the URL of a queue")
    appconfig: str | None = Field(None, description="APPLICATION/ENVIRONMENT/PROFILE of the flags")
    secrets: str | None = Field(None, description="Secrets Manager ids, each a JSON of settings")
    environment: str | None = Field(
        None, description="dimension of the CloudWatch metrics; none are written without it"
    )
    workflow_arn: str | None = Field(None, description="the state machine; for the MCP function")
    route_functions: tuple[str, ...] = Field(
        (),
        description="check=ARN, documents=ARN, traverse=ARN for the MCP function; synthesize=ARN "
        "for functions whose verifier is llm:MODEL",
    )
    ingest_url: str | None = Field(
        None, description="the bucket documents are loaded through: s3://NAME or file:///FOLDER"
    )
    ingest_machine_arn: str | None = Field(
        None, description="the state machine that loads it; without it a process of this server"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="the least a line must be to be written"
    )
    rag_log_snippets: bool = Field(False, description="show query text and snippets in the log")


class Internal(Contract):
    """What commands tell each other, and nobody sets. `process_dir`: shared by `serve --workers`.

    `mmr`, `channels`: for `eval --ablate`.
    """

    mmr: bool = True
    channels: tuple[Channel, ...] = ("bm25", "splade", "dense", "facts")
    process_dir: str | None = None


class Settings(
    Internal,
    IndexSettings,
    GraphSettings,
    EncoderSettings,
    RerankSettings,
    VerifierSettings,
    RankingSettings,
    ModelSettings,
    CacheSettings,
    AccessSettings,
    OperationSettings,
):
    """One deployment's settings; the field `index_url` is the variable `DOCSTOKG_INDEX_URL`."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Settings":
        """Read the variables that name a setting; `Misconfigured` names every wrong one."""
        values: dict[str, Any] = {}
        for field in NAMES:
            name = variable(field)
            if (text := environment.get(name, "")) != "":
                many = isinstance(cls.model_fields[field].default, tuple)
                values[field] = tuple(text.replace(",", " ").split()) if many else text
        try:
            return cls.model_validate(values)
        except ValidationError as exc:
            wrong = [f"{variable(str(e['loc'][0]))}: {wrong_in_words(e)}" for e in exc.errors()]
            raise Misconfigured(f"wrong setting: {'; '.join(wrong)}") from exc


PARTS: tuple[type[Contract], ...] = tuple(
    part for part in Settings.__bases__ if issubclass(part, Contract) and part is not Internal
)
"""Every setting belongs to one of these; what needs one part only asks for that."""
NAMES = tuple(field for part in PARTS for field in part.model_fields)


def variable(field: str) -> str:
    """Name the environment variable of a setting."""
    name = field.upper()
    return name if name in UNPREFIXED else PREFIX + name

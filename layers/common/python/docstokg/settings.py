"""Settings."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

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
# Variables of scripts, tests and examples.
OUTSIDE = (
    "DOCSTOKG_REQUIRE",
    "DOCSTOKG_TEST_CHUNKS",
    "DOCSTOKG_TOKEN",
    "DOCSTOKG_KEY",
    "DOCSTOKG_URL",
)
# Removed variables, and the variable that replaces each; a constant replaces an empty one.
REPLACED = {
    "DOCSTOKG_CACHE_TABLE": "DOCSTOKG_TABLES",
    "DOCSTOKG_CIRCUIT_TABLE": "DOCSTOKG_TABLES",
    "DOCSTOKG_AWS_REGION": "AWS_DEFAULT_REGION",
    "DOCSTOKG_INDEX_CA_FILE": "SSL_CERT_FILE",
    "DOCSTOKG_CURSOR_KEY": "",
    "DOCSTOKG_CYPHER_TIMEOUT_MS": "",
    "DOCSTOKG_MAX_BLOCKS": "",
    "DOCSTOKG_MAX_FULL_TEXT_BYTES": "",
    "DOCSTOKG_CACHE_TTL_S": "",
    "DOCSTOKG_TRACE_DAYS": "",
    "DOCSTOKG_HEALTH_KEEP_S": "",
    "DOCSTOKG_EXTRACT_PARALLEL": "",
    "DOCSTOKG_EXTRACT_TIMEOUT_S": "",
}
# Kubernetes sets them for a service named docstokg.
_SERVICE = re.compile(r"_(SERVICE_HOST|SERVICE_PORT|PORT)(_.*)?$")
SECRETS = (
    "index_password",
    "graph_password",
    "llm_api_key",
    "openai_api_key",
    "anthropic_api_key",
    "embed_api_key",
    "rerank_api_key",
    "verifier_api_key",
    "plan_keys",
)
CHANNEL_SIZES: dict[Channel, int] = {"bm25": 80, "splade": 80, "dense": 60, "facts": 20}
# Default of `DOCSTOKG_MODELS`. All are in the pinned litellm table (tested) except for the retired
# claude-3-haiku.
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

VERIFIERS = "onnx:FOLDER, https://HOST/predict, llm:MODEL or bedrock-guardrail:ID:VERSION"
_VERIFIER = r"(?:onnx:|llm:|https?://).|bedrock-guardrail:[^:]+:[^:]+$"

# Origin of a web page, or all origins.
Origin = Annotated[str, Field(pattern=r"^(\*|[a-z][a-z+.-]*://[^/\s]+)$")]

DEFAULT_STORE = "sqlite:///.docstokg/store.sqlite"


class IndexSettings(Contract):
    """Index: chunks and facts."""

    index_url: str = DEFAULT_STORE
    """sqlite:///PATH, or http(s):// URL of OpenSearch; without .docstokg/ in the current folder,
    commands use the user's data folder"""
    index_auth: Literal["basic", "sigv4-es", "sigv4-aoss"] = "basic"
    """OpenSearch authentication: password or IAM"""
    index_user: str | None = None
    """OpenSearch user, for `basic`"""
    index_password: str | None = None
    """OpenSearch password, for `basic`"""
    index_name: str = "docstokg"
    """alias of the chunk index; -facts is appended for facts"""
    index_shards: int = Field(1, ge=1)
    """primary shards of a new OpenSearch index"""
    index_replicas: int | None = Field(None, ge=0)
    """replicas of each; default: one if there is a second node"""


class GraphSettings(Contract):
    """Graph: entities and relations."""

    graph_url: str = DEFAULT_STORE
    """sqlite:///PATH, neo4j(+s):// or bolt:// URL"""
    graph_user: str = "neo4j"
    """Neo4j user"""
    graph_password: str | None = None
    """Neo4j password"""
    graph_database: str = "neo4j"
    """Neo4j database"""
    graph_budget_per_minute: int = Field(60, ge=1)
    """maximum graph walks per caller and minute"""


class ModelSettings(Contract):
    """Language models."""

    llm_base_url: str | None = None
    """base URL of an OpenAI-compatible API"""
    llm_api_key: str | None = None
    """API key for that URL or for the provider"""
    openai_api_key: str | None = None
    """OpenAI API key"""
    anthropic_api_key: str | None = None
    """Anthropic API key"""
    provider_urls: tuple[str, ...] = ()
    """alternative base URLs: openai=URL, anthropic=URL, bedrock=URL"""
    llm_fallback_model: str | None = None
    """model used if the requested one fails; extractive is always available"""
    models: tuple[str, ...] = MODELS
    """models allowed in requests; prefixes: openai/, anthropic/, bedrock/, gateway/"""
    model_table: tuple[str, ...] = ()
    """models missing in litellm's table: NAME=TOKENS or NAME=TOKENS/IN/OUT (context size, dollars
    per million tokens)"""
    allow_system_prompt: bool = True
    """pass the client's style hint to the model"""
    repair: Literal["attribute", "drop", "report"] = "report"
    """drop: remove unsupported sentences; attribute: add missing markers"""

    @field_validator("model_table")
    @classmethod
    def _readable(cls, lines: tuple[str, ...]) -> tuple[str, ...]:
        facts_table(lines)
        return lines


class EncoderSettings(Contract):
    """Encoders."""

    embed_provider: Literal[EmbedderName, "none"] = "local"
    """embedding provider; none: no vectors, only words and sparse weights"""
    embed_base_url: tuple[str, ...] = ()
    """alternative base URLs of that provider; on failure the next is tried"""
    embed_model: str | None = None
    """model; default: the provider's; local: also `multilingual` or a model folder"""
    embed_dimension: int | None = None
    """vector dimension; required for unknown models"""
    embed_api_key: str | None = None
    """API key of the embedding provider"""
    sparse: Literal["local", "none"] = "local"
    """encoder of learned sparse weights"""
    reader: Literal["auto", "none"] = "auto"
    """model that chooses the built-in model's quotation; auto: if the local encoder is installed"""
    names: Literal["auto", "rule"] = "auto"
    """name recognition during a load; auto: spaCy if installed"""
    provider_jina_enabled: bool = True
    """flag: allow Jina for embeddings and reranking"""


class RerankSettings(Contract):
    """Reranker."""

    rerank_provider: RerankerName = "none"
    """reranker provider"""
    rerank_base_url: str | None = None
    """alternative base URL of that provider"""
    rerank_model: str | None = None
    """reranker model; default: the provider's"""
    rerank_api_key: str | None = None
    """API key of the rerank provider"""
    rerank_model_path: str | None = None
    """ONNX cross-encoder, for `local` and as fallback of a remote reranker"""


class VerifierSettings(Contract):
    """Verifier: a model that decides whether the sources support a sentence."""

    verifier: str | None = Field(
        None, description=f"{VERIFIERS}; https: Text Embeddings Inference; default: none"
    )
    verifier_api_key: str | None = None
    """API key of an https:// verifier"""
    verifier_label: str = "entailment"
    """label of supported claims, for https://HOST/predict"""
    verifier_threshold: float = Field(0.5, ge=0, le=1)
    """minimum probability of a supported claim; verifier.json of an onnx:FOLDER takes precedence"""

    @field_validator("verifier")
    @classmethod
    def _check_verifier(cls, verifier: str | None) -> str | None:
        if verifier and not re.match(_VERIFIER, verifier):
            raise ValueError(f"must be {VERIFIERS}")
        return verifier


class RankingSettings(Contract):
    """Ranking."""

    fusion: Literal["minmax", "rrf"] = "minmax"
    """score fusion of the channels"""
    min_score: float = Field(0.3, ge=0, le=1)
    """minimum relevance score; below it an answer has a warning"""
    answer_min_probability: float = Field(0.4, ge=0, le=1)
    """minimum expected credit (docs/meaning.md) of an `extractive` answer; below it, none"""
    max_timeout_s: float = Field(25.0, ge=1, le=60)
    """maximum timeout of a request, in seconds"""
    default_timeout_s: float = Field(12.0, ge=1, le=60)
    """default timeout of a request, in seconds; also for chats and the page"""
    domains: tuple[str, ...] = ("ontology",)
    """subject domains: entry points of group docstokg.domains"""
    kg_enabled: bool = True
    """flag: use the graph"""
    kg_boost_enabled: bool = True
    """flag: boost chunks that mention an entity of the question"""
    kg_boost_value: float = Field(0.1, ge=0, le=1)
    """flag: size of that boost, as a fraction of the score"""
    kg_2hop_enabled: bool = True
    """flag: allow a second hop"""
    feature_verbosity_graph: bool = True
    """flag: allow verbosity `graph`"""
    feature_traversal_tool: bool = True
    """flag: serve /v1/traverse and its tool"""

    @property
    def traverses(self) -> bool:
        """Return whether `/v1/traverse` and its tool are served."""
        return self.kg_enabled and self.feature_traversal_tool


class CacheSettings(Contract):
    """Caches."""

    cache_dir: str = "~/.cache/docstokg"
    """folder of cached vectors, responses and downloads"""
    tables: tuple[str, ...] = ()
    """DynamoDB tables: cache=NAME for responses, circuit=NAME for circuit breakers"""


class AccessSettings(Contract):
    """Authentication."""

    auth: Literal["off", "keys"] = "off"
    """keys: require X-Api-Key or Authorization: Bearer"""
    hosts: tuple[str, ...] = ()
    """with auth off: accepted Host names in addition to loopback"""
    cors_origins: tuple[Origin, ...] = ()
    """web pages that may call the server, such as https://HOST; *: all pages"""
    keys_file: str | None = None
    """JSON file of API keys and their permissions"""
    open_metrics: bool = False
    """with auth keys: serve /metrics without a key"""
    jwt_issuer: str | None = None
    """issuer of JWTs, for the authoriser"""
    jwt_audience: str | None = None
    """audience of JWTs"""
    jwt_jwks_url: str | None = None
    """URL of the issuer's public keys"""
    jwt_claims: tuple[str, str, str, str] = ("aud", "namespaces", "groups", "load")
    """claim names: audience (Cognito: client_id), readable namespaces, groups, loadable
    namespaces"""
    plan_keys: str | None = None
    """API keys of the gateway's usage plans, KEY=NAME,...; NAME is the `sub` or a group of the
    tokens that may use it"""


class OperationSettings(Contract):
    """Operation: logs, metrics, traces and AWS resources."""

    public_url: str = ""
    """address of the page for users, such as https://HOST; citations link to it"""
    receipt_key: str | None = None
    """Ed25519 key of receipts: a PEM file, or the ARN of a secret with its text; `docstokg
    receipt-key` makes one"""
    traces: str = "off"
    """trace destination: off, local, or a queue URL"""
    appconfig: str | None = None
    """AppConfig APPLICATION/ENVIRONMENT/PROFILE of the flags"""
    secrets: str | None = None
    """Secrets Manager ids; each secret is a JSON object of settings"""
    environment: str | None = None
    """dimension of CloudWatch metrics; without it none are written"""
    workflow_arn: str | None = None
    """ARN of the answer state machine, for the MCP function"""
    route_functions: tuple[str, ...] = ()
    """check=ARN, documents=ARN, traverse=ARN for the MCP function; synthesize=ARN for functions
    with a verifier llm:MODEL"""
    ingest_url: str | None = None
    """bucket for loading documents: s3://NAME or file:///FOLDER"""
    ingest_machine_arn: str | None = None
    """ARN of the load state machine; without it a server process loads"""
    load_concurrency: int = Field(4, ge=1)
    """loads at once in AWS, each into another namespace"""
    load_schedule_role: str | None = None
    """role that starts loads after changes of the bucket"""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """minimum level of logged lines"""
    rag_log_snippets: bool = False
    """log query text and snippets"""


class Internal(Contract):
    """Internal settings; not user-configurable.

    `process_dir`: shared by `serve --workers`. `mmr`, `channels`: for `eval --ablate`.
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
    """All settings; field `index_url` is the variable `DOCSTOKG_INDEX_URL`."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], *, strict: bool = True) -> "Settings":
        """Read the settings; raise `Misconfigured` with every invalid variable.

        If `strict`, variables with the product's prefix that nothing reads are invalid.
        """
        if strict and (unknown := unknown_variables(environment)):
            raise Misconfigured(f"wrong setting: {'; '.join(unknown)}")
        values: dict[str, Any] = {}
        for field in NAMES:
            name = variable(field)
            if (text := environment.get(name, "")) != "":
                is_list = isinstance(cls.model_fields[field].default, tuple)
                values[field] = tuple(text.replace(",", " ").split()) if is_list else text
        try:
            return cls.model_validate(values)
        except ValidationError as exc:
            wrong = [f"{variable(str(e['loc'][0]))}: {wrong_in_words(e)}" for e in exc.errors()]
            raise Misconfigured(f"wrong setting: {'; '.join(wrong)}") from exc


# Sections. Code that needs only one section takes only that one.
PARTS: tuple[type[Contract], ...] = tuple(
    part for part in Settings.__bases__ if issubclass(part, Contract) and part is not Internal
)
NAMES = tuple(field for part in PARTS for field in part.model_fields)


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a sentence for each variable with the product's prefix that nothing reads."""
    names = {*map(variable, NAMES), *OUTSIDE}
    return [
        f"{name} {_advice(name, names)}"
        for name in sorted(environment.keys() - names)
        if name.startswith(PREFIX) and not _SERVICE.search(name)
    ]


def _advice(name: str, names: Iterable[str]) -> str:
    if name in REPLACED:
        return f"was removed; set {REPLACED[name]}" if REPLACED[name] else "was removed; unset it"
    import difflib

    by_suffix = {full.removeprefix(PREFIX): full for full in names}
    nearest = difflib.get_close_matches(name.removeprefix(PREFIX), by_suffix, 1, cutoff=0.75)
    return (
        f"is unknown; did you mean {by_suffix[nearest[0]]}?" if nearest else "is unknown; unset it"
    )


def settings_digest(settings: Settings) -> str:
    """Return the hex SHA-256 of the settings that may affect a response, without credentials."""
    without = {*SECRETS, "index_user", "graph_user", "process_dir"}
    return hashlib.sha256(settings.model_dump_json(exclude=without).encode()).hexdigest()


def variable(field: str) -> str:
    """Return the environment variable of a setting."""
    name = field.upper()
    return name if name in UNPREFIXED else PREFIX + name

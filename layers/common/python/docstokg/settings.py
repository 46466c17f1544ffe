"""Every setting, read once from a mapping such as the environment; nothing else reads it."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from docstokg.contracts.model import Contract
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
SECRETS = ("index_password", "graph_password", "llm_api_key", "embed_api_key", "rerank_api_key")
CHANNEL_SIZES: dict[Channel, int] = {"bm25": 80, "splade": 80, "dense": 60, "facts": 20}
DEFAULT_STORE = "sqlite:///.docstokg/store.sqlite"


class Settings(Contract):
    """One deployment's settings; the field `index_url` is the variable `DOCSTOKG_INDEX_URL`."""

    index_url: str = Field(DEFAULT_STORE, description="sqlite:///PATH or http(s):// OpenSearch")
    index_auth: Literal["basic", "sigv4-es", "sigv4-aoss"] = "basic"
    index_user: str | None = None
    index_password: str | None = None
    index_name: str = Field("docstokg", description="alias of the chunk index; facts add -facts")
    index_ca_file: str | None = Field(None, description="PEM file of a private certificate maker")
    aws_region: str | None = Field(None, description="region for SigV4; default: the session's")

    graph_url: str = Field(DEFAULT_STORE, description="sqlite:///PATH, neo4j(+s):// or bolt://")
    graph_user: str = "neo4j"
    graph_password: str | None = None
    graph_database: str = "neo4j"
    graph_budget_per_minute: int = Field(60, ge=1, description="graph walks per caller")

    llm_base_url: str | None = Field(None, description="any OpenAI-compatible address")
    llm_api_key: str | None = None
    llm_fallback_model: str | None = None
    models: tuple[str, ...] = ("gpt-4o-mini", "gpt-4o", "claude-3-haiku", "extractive")
    allow_system_prompt: bool = Field(True, description="pass the client's style hint on")

    embed_provider: Literal["local", "jina", "openai", "hf", "none"] = "local"
    embed_base_url: str | None = None
    embed_fallback_url: str | None = None
    embed_model: str | None = None
    embed_dimension: int | None = None
    embed_api_key: str | None = None
    sparse: Literal["local", "none"] = "local"

    rerank_provider: Literal["jina", "cohere", "local", "none"] = "none"
    rerank_base_url: str | None = None
    rerank_model: str | None = None
    rerank_api_key: str | None = None
    rerank_model_path: str | None = Field(None, description="ONNX cross-encoder for `local`")

    cache_dir: str = Field("~/.cache/docstokg", description="vectors, responses, downloads")
    cache_ttl_s: int = Field(3600, ge=1)
    max_timeout_s: float = Field(25.0, ge=1, le=60)
    auth: Literal["off", "keys"] = "off"
    keys_file: str | None = None

    fusion: Literal["minmax", "rrf"] = "minmax"
    mmr: bool = Field(True, description="internal; `eval --ablate mmr`")
    channels: tuple[Channel, ...] = Field(
        ("bm25", "splade", "dense", "facts"), description="internal; `eval --ablate bm25,...`"
    )
    repair: Literal["drop", "report"] = "report"
    min_score: float = Field(0.3, ge=0, le=1, description="below it nothing counts as relevant")
    max_blocks: int = Field(5, ge=1, le=20, description="passages given to the model")
    max_full_text_bytes: int = Field(16384, ge=256)
    cypher_timeout_ms: int = Field(1500, ge=50)
    traces: Literal["off", "local", "sqs"] = "off"
    trace_queue_url: str | None = None
    cache_table: str | None = Field(None, description="DynamoDB table of cached responses")
    circuit_table: str | None = Field(None, description="DynamoDB table of circuit states")
    appconfig: str | None = Field(None, description="APPLICATION/ENVIRONMENT/PROFILE of the flags")
    secrets: str | None = Field(None, description="Secrets Manager ids, each a JSON of settings")
    metrics: Literal["off", "emf"] = Field("off", description="emf writes CloudWatch metrics")
    environment: str = Field("local", description="dimension of the metrics")
    workflow_arn: str | None = Field(None, description="the state machine; for the MCP function")
    check_function_arn: str | None = Field(None, description="/v1/check; for the MCP function")
    traverse_function_arn: str | None = Field(None, description="/v1/traverse; likewise")
    trace_days: int = Field(30, ge=1, description="age at which recorded traces are removed")
    jwt_issuer: str | None = Field(None, description="the authoriser's: who signs tokens")
    jwt_audience: str | None = None
    jwt_jwks_url: str | None = Field(None, description="the issuer's public keys")
    jwt_audience_claim: str = Field("aud", description="Cognito's access tokens: client_id")
    jwt_namespaces_claim: str = "namespaces"
    jwt_groups_claim: str = "groups"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"

    kg_enabled: bool = True
    kg_boost_enabled: bool = True
    kg_boost_value: float = Field(0.1, ge=0, le=1)
    kg_2hop_enabled: bool = True
    feature_verbosity_graph: bool = True
    feature_traversal_tool: bool = True
    provider_jina_enabled: bool = True
    rag_log_snippets: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Settings":
        """Read the variables that name a setting; `Misconfigured` names every wrong one."""
        values: dict[str, Any] = {}
        for field in cls.model_fields:
            name = variable(field)
            if (text := environment.get(name, "")) != "":
                many = field in ("models", "channels")
                values[field] = tuple(text.replace(",", " ").split()) if many else text
        try:
            return cls.model_validate(values)
        except ValidationError as exc:
            wrong = "; ".join(
                f"{variable(str(error['loc'][0]))}: {error['msg']}" for error in exc.errors()
            )
            raise Misconfigured(f"wrong setting: {wrong}") from exc


def variable(field: str) -> str:
    """Name the environment variable of a setting."""
    name = field.upper()
    return name if name in UNPREFIXED else PREFIX + name

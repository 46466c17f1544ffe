"""Settings allowed in `Environment.settings`, by the functions that read them.

An invalid value ends the synthesis.
"""

from collections.abc import Mapping

from docstokg.errors import Misconfigured
from docstokg.settings import Settings, variable
from infra.settings import Environment
from infra.specs import FunctionSpec

type Value = str | int | float | bool | tuple[str, ...]

EVERY = frozenset({"log_level", "rag_log_snippets"})
"""Read by every function."""

BY_USE: Mapping[str, frozenset[str]] = {
    "index": frozenset({"index_name"}),
    "graph": frozenset({"graph_database", "kg_enabled"}),
    "loader": frozenset({"index_name"}),
    "graph_loader": frozenset({"graph_database", "kg_enabled"}),
    "graph_writer": frozenset({"graph_database"}),
    "embedder": frozenset(
        {
            "embed_provider", "embed_base_url", "embed_model", "embed_dimension",
            "provider_jina_enabled",
        }
    ),
    "reranker": frozenset({"rerank_provider", "rerank_base_url", "rerank_model"}),
    "verifier": frozenset({"verifier", "verifier_label", "verifier_threshold"}),
    "model": frozenset({"models", "model_table", "llm_base_url", "provider_urls"}),
}  # fmt: skip
"""Read by the functions with this use (`FunctionSpec.uses`)."""

BY_FUNCTION: Mapping[str, frozenset[str]] = {
    "validate": frozenset(
        {
            "models", "llm_fallback_model", "allow_system_prompt", "repair", "embed_provider",
            "rerank_provider", "provider_jina_enabled", "fusion", "min_score",
            "answer_min_probability", "max_timeout_s", "default_timeout_s", "kg_enabled",
            "kg_boost_enabled", "kg_boost_value", "kg_2hop_enabled", "feature_verbosity_graph",
            "verifier",
        }
    ),
    "retrieve": frozenset({"sparse", "graph_database"}),
    "traverse": frozenset({"feature_traversal_tool", "graph_budget_per_minute", "sparse"}),
    "check": frozenset({"max_timeout_s", "sparse", "domains"}),
    "expand": frozenset({"domains"}),
    "synthesize": BY_USE["verifier"],
    "respond": frozenset({"domains"}),
    "stream": frozenset({"domains", "max_timeout_s"}),
    # To choose a default model without a key.
    "mcp": frozenset({"feature_traversal_tool", "kg_enabled", "max_timeout_s"}) | BY_USE["model"],
    "ingest_encode": frozenset({"sparse"}),
    "ingest_names": frozenset({"names"}),
    "ingest_resolve": frozenset({"names", "sparse"}),
    "ingest_write": frozenset({"names", "sparse"}),
    "ingest_close": frozenset({"names", "sparse"}),
}  # fmt: skip
"""Read by one function only."""

DEPLOYED = EVERY.union(*BY_USE.values(), *BY_FUNCTION.values())
"""Read by any function."""


def chosen(environment: Environment) -> dict[str, Value]:
    """Return an environment's product settings; raise `Misconfigured` for invalid ones."""
    own: dict[str, Value] = {
        "models": environment.models,
        "embed_provider": environment.embed_provider,
        "max_timeout_s": environment.max_timeout_s,
        "index_name": environment.index_name,
    }
    explicit = dict(environment.settings)
    if doubled := sorted(own.keys() & explicit.keys()):
        raise Misconfigured(f"{environment.name}: {', '.join(doubled)} has a field of its own")
    if foreign := sorted(explicit.keys() - DEPLOYED):
        raise Misconfigured(f"{environment.name}: {', '.join(foreign)} cannot be set from here")
    if str(explicit.get("verifier")).startswith("onnx:"):
        raise Misconfigured(f"{environment.name}: verifier onnx:FOLDER: no bundle holds the folder")
    variables = own | explicit
    texts = {variable(name): text(value) for name, value in variables.items()}
    read = Settings.from_environment(texts)
    if changed := [name for name, value in variables.items() if getattr(read, name) != value]:
        raise Misconfigured(f"{environment.name}: {', '.join(changed)} is of another type")
    return variables


def settings_of(environment: Environment, spec: FunctionSpec) -> dict[str, str]:
    """Return the variables of one function."""
    reads = EVERY | BY_FUNCTION.get(spec.name, frozenset())
    for use in spec.uses:
        reads |= BY_USE.get(use, frozenset())
    return {
        variable(name): text(value)
        for name, value in sorted(chosen(environment).items())
        if name in reads
    }


def text(value: Value) -> str:
    """Return a value in the format of `Settings.from_environment`."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)

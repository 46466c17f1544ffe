"""Settings of `Environment.settings`."""

from docstokg.errors import Misconfigured
from docstokg.settings import Settings, variable
from infra.settings import Environment
from infra.sizing import layout

type Value = str | int | float | bool | tuple[str, ...]

DEPLOYED = frozenset(
    {
        "answer_min_probability", "allow_system_prompt", "default_timeout_s", "domains",
        "embed_base_url", "embed_dimension", "embed_model", "embed_provider",
        "feature_traversal_tool", "feature_verbosity_graph", "fusion", "graph_budget_per_minute",
        "graph_database", "index_name", "kg_2hop_enabled", "kg_boost_enabled", "kg_boost_value",
        "kg_enabled", "llm_base_url", "llm_fallback_model", "load_concurrency", "log_level",
        "max_timeout_s", "min_score", "model_table", "models", "names", "provider_jina_enabled",
        "provider_urls", "public_url", "rag_log_snippets", "receipt_key", "repair",
        "rerank_base_url", "rerank_model", "rerank_provider", "sparse", "verifier",
        "verifier_label", "verifier_threshold",
    }
)  # fmt: skip


def chosen(environment: Environment) -> dict[str, Value]:
    """Return an environment's product settings; raise `Misconfigured` for invalid ones."""
    index = environment.index
    derived: dict[str, Value] = {
        "models": environment.models,
        "embed_provider": environment.embed_provider,
        "max_timeout_s": environment.max_timeout_s,
        "index_name": environment.index_name,
    }
    if index.kind == "managed":  # the nodes of an existing domain are not known
        shards, replicas = layout(index.data_nodes, index.zones, index.chunks)
        derived |= {"index_shards": shards, "index_replicas": replicas}
    explicit = dict(environment.settings)
    if doubled := sorted(derived.keys() & explicit.keys()):
        raise Misconfigured(f"{environment.name}: {', '.join(doubled)} has a field of its own")
    if foreign := sorted(explicit.keys() - DEPLOYED):
        raise Misconfigured(f"{environment.name}: {', '.join(foreign)} cannot be set from here")
    if str(explicit.get("verifier")).startswith("onnx:"):
        raise Misconfigured(f"{environment.name}: verifier onnx:FOLDER: no bundle holds the folder")
    variables = derived | explicit | {"load_concurrency": environment.loads}
    texts = {variable(name): text(value) for name, value in variables.items()}
    parsed = Settings.from_environment(texts)
    if changed := [name for name, value in variables.items() if getattr(parsed, name) != value]:
        raise Misconfigured(f"{environment.name}: {', '.join(changed)} is of another type")
    return variables


def settings_of(environment: Environment) -> dict[str, str]:
    """Return the settings of `chosen` as a function's variables, sorted; raise as it does."""
    return {variable(name): text(value) for name, value in sorted(chosen(environment).items())}


def text(value: Value) -> str:
    """Return a value in the format of `Settings.from_environment`."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)

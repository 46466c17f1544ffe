"""Every setting changed once: what differs; a setting that did nothing would fail here or there."""

import re
from contextlib import suppress
from operator import attrgetter
from pathlib import Path

import pytest

from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, Misconfigured, Unavailable
from docstokg.settings import NAMES, Settings
from docstokg.wiring import Wiring
from docstokg_functions.health import handler as health
from tests.model_server import ModelServer, serving
from tests.unit.test_validate import run

ASKED = {
    "query": "What is a seizure?",
    "cache_key": "k",
    "verbosity": "graph",
    "synthesis": {"enabled": True, "model": "extractive", "system_prompt": "Be brief."},
    "budget": {"max_tokens_gen": 50},
}
CLOSED = "http://127.0.0.1:9"
PLANNED = [
    ("allow_system_prompt", False, "synthesis.style_hint"), ("min_score", 0.6, "min_score"),
    ("kg_boost_enabled", False, "expansion.boost"), ("kg_boost_value", 0.5, "expansion.boost"),
    ("feature_verbosity_graph", False, "verbosity"), ("kg_2hop_enabled", 0, "expansion.two_hops"),
    ("answer_min_probability", 0.5, "synthesis.min_probability"), ("repair", "drop", "repair"),
    ("default_timeout_s", 7.0, "budget_limits.timeout_s"), ("mmr", False, "retrieval.mmr"),
    ("max_timeout_s", 3.0, "budget_limits.timeout_s"), ("kg_enabled", False, "expansion.enabled"),
    ("verifier", "llm:m", "verifies"), ("fusion", "rrf", "retrieval.fusion"),
    ("llm_fallback_model", "gpt-4o", "synthesis.fallback"),
]  # fmt: skip
MADE = [
    ("embed_provider", "none", Wiring.embedder), ("sparse", "none", Wiring.sparse_encoder),
    ("names", "rule", Wiring.names), ("reader", "none", Wiring.reader),
    ("tables", ("cache=t",), Wiring.response_cache),
    ("tables", ("circuit=t",), Wiring.call_counter),
    ("ingest_machine_arn", "arn:aws:states:r:1:s", Wiring.load_runs),
    (
        "route_functions", ("check=arn:aws:lambda:r:1:f",),
        lambda wiring: wiring.route_function("check"),
    ),
    ("workflow_arn", "arn:aws:states:r:1:s", lambda wiring: wiring.workflow()),
]  # fmt: skip
SENT = [
    ("embed_model", "m-2"), ("embed_dimension", 16), ("embed_api_key", "other"),
    ("rerank_model", "r-2"), ("rerank_api_key", "other"), ("rerank_provider", "jina"),
    ("rerank_base_url", CLOSED),
]  # fmt: skip
SHOWN = {
    "changes_of_one_quiet_period_start_one_load": "load_schedule_role",
    "runs_over_the_limit_are_refused": "load_concurrency",
    "a_domain_of_somebody_elses_acts_too": "domains",
    "only_graph_views_over_the_budget_are_refused":
        "graph_budget_per_minute",
    "a_local_reranker_failing_midway_keeps_the_order": "rerank_model_path",
    "a_small_context_holds_fewer_passages": "model_table",
    "a_switched_off_provider_neither_embeds_nor_reranks": "provider_jina_enabled",
    "a_tool_switched_off_is_no_longer_offered":
        "appconfig feature_traversal_tool",
    "an_answer_leaves_its_trace": "traces",
    "an_issuer_may_name_its_claims_freely":
        "jwt_audience jwt_claims jwt_issuer jwt_jwks_url",
    "another_address_serves_when_the_first_is_gone": "embed_base_url",
    "citations_link_to_their_passages_on_the_page": "public_url",
    "pages_of_listed_origins_may_call": "cors_origins",
    "each_model_is_asked_of_its_own_provider":
        "anthropic_api_key llm_api_key llm_base_url openai_api_key provider_urls",
    "health_is_told_again_where_deployed": "environment",
    "keys_bind_namespaces_and_groups": "open_metrics",
    "a_key_removed_from_the_file_fails_immediately": "auth keys_file",
    "models_are_listed_with_namespaces_granted_by_name": "models",
    "only_names_of_this_machine_are_answered": "hosts",
    "a_manipulation_is_found": "receipt_key",
    "a_wrong_secret_disables_only_its_provider": "secrets",
    "a_replaced_key_counts_at_the_next_reading": "plan_keys",
    "the_setting_names_a_folder_or_a_bucket": "ingest_url",
    "the_configured_key_is_sent": "verifier_api_key",
    "label_and_threshold_reach_the_predict_server": "verifier_label verifier_threshold",
    "cache_log_and_redaction_settings_take_effect": "cache_dir log_level rag_log_snippets",
    "login_settings_reach_their_stores":
        "graph_database graph_password graph_user index_auth index_name index_password index_user "
        "index_shards index_replicas index_url",
    "without_the_graph_hybrid_results_stay": "graph_url",
}  # fmt: skip
"""Tests that show what other settings do: each fails where its setting is as if not there."""


def test_every_setting_is_shown_to_do_something() -> None:
    named = {row[0] for row in (*PLANNED, *MADE, *SENT)} - {"mmr"}
    assert sorted(named.union(*map(str.split, SHOWN.values()))) == sorted(NAMES)
    tests = Path(__file__).resolve().parents[1]
    texts = [file.read_text("utf-8") for file in tests.rglob("test_*.py")]
    for test, names in SHOWN.items():
        (text,) = (text for text in texts if f"def test_{test}(" in text)
        assert [n for n in names.split() if not re.search(rf"\b({n}|{n.upper()})\b", text)] == []


def test_login_settings_reach_their_stores(tmp_path) -> None:
    login = {"user": "u", "password": "p"}
    named = {
        f"{part}_{name}": value for part in ("index", "graph") for name, value in login.items()
    }
    settings = Settings(
        index_url="http://127.0.0.1:9", index_name="i", index_auth="sigv4-es",
        index_shards=3, index_replicas=2,
        graph_url="bolt://127.0.0.1:9", graph_database="d", **named,
    )  # fmt: skip
    wiring = Wiring(settings)
    index, graph = wiring._opensearch(), wiring._neo4j()
    assert index.items() >= {**login, "name": "i", "auth": "sigv4-es", "shards": (3, 2)}.items()
    assert graph.items() >= {**login, "database": "d"}.items()


@pytest.mark.parametrize(("name", "value", "seen"), PLANNED, ids=[row[0] for row in PLANNED])
def test_a_setting_reaches_the_plan(name, value, seen) -> None:
    usual, changed = run(ASKED).plan, run(ASKED, **{name: value}).plan
    assert attrgetter(seen)(usual) != attrgetter(seen)(changed)


@pytest.mark.parametrize(("name", "value", "port"), MADE, ids=[row[0] for row in MADE])
def test_another_port_is_made(name, value, port) -> None:
    usual = None
    with suppress(Misconfigured):
        usual = port(Wiring(Settings()))
    assert type(port(Wiring(Settings(**{name: value})))) is not type(usual)


def remote(server: ModelServer, **overrides) -> Wiring:
    chosen = {
        "embed_provider": "openai", "embed_base_url": (server.url,), "embed_model": "m-1",
        "embed_dimension": 8, "embed_api_key": "k", "rerank_provider": "cohere",
        "rerank_base_url": server.url, "rerank_model": "r-1", "rerank_api_key": "k", **overrides,
    }  # fmt: skip
    return Wiring(Settings(**chosen))


@pytest.mark.parametrize(("name", "value"), SENT)
def test_a_provider_is_sent_something_else(name: str, value: object, tmp_path) -> None:
    sent = []
    for place, overrides in enumerate(({}, {name: value})):
        with serving() as server:
            wiring = remote(server, cache_dir=str(tmp_path / str(place)), **overrides)
            with suppress(DocsToKGError):
                wiring.embedder().embed(["a"], Deadline.after(5.0))
            with suppress(DocsToKGError):
                wiring.reranker().rank("q", ["a"], Deadline.after(5.0))
            wiring.close()
        sent.append((server.requests, [header["Authorization"] for header in server.headers]))
    assert sent[0] != sent[1]


def test_another_address_serves_when_the_first_is_gone(tmp_path) -> None:
    with serving() as server:
        wiring = remote(server, cache_dir=str(tmp_path), embed_base_url=(CLOSED, server.url))
        wiring.embedder().embed(["a"], Deadline.after(5.0))
        assert len(server.requests) == 1
        wiring.close()
        lonely = remote(server, cache_dir=str(tmp_path), embed_base_url=(CLOSED,))
        with pytest.raises(Unavailable):
            lonely.embedder().embed(["b"], Deadline.after(5.0))
        lonely.close()


def test_cache_log_and_redaction_settings_take_effect(tmp_path, capsys) -> None:
    settings = Settings(cache_dir=str(tmp_path), log_level="WARNING")
    wiring = Wiring(settings)
    wiring.response_cache().put("k", "hash", "body", 60, Deadline.after(5.0))
    assert [file.name for file in tmp_path.glob("*.sqlite")] == ["responses.sqlite"]
    wiring.telemetry.log("INFO", "a", query="q1")
    wiring.telemetry.log("WARNING", "b", query="q2")
    Wiring(Settings(rag_log_snippets=True)).telemetry.log("INFO", "c", query="q3")
    assert re.findall(r"<\w+>|q\d", capsys.readouterr().err) == ["<REDACTED>", "q3"]


def test_health_is_told_again_where_deployed(small_store, settings_for, models) -> None:
    for environment in ("test", None):
        wiring = Wiring(settings_for(small_store, environment=environment), None, models)
        handler = health.build(wiring)
        first = handler({}, None)
        assert (handler({}, None) is first) == bool(environment)
        wiring.close()


def test_processes_of_one_server_count_together(tmp_path) -> None:
    first, second = (Wiring(Settings(process_dir=str(tmp_path))).call_counter() for _ in range(2))
    assert first is not None and second is not None
    assert [
        first.add("walks", 60, Deadline.after(30.0)),
        second.add("walks", 60, Deadline.after(30.0)),
    ] == [1, 2]
    assert Wiring(Settings()).call_counter() is None

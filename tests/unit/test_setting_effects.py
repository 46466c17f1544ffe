"""What a setting changes that no other test looks at."""

import re
from pathlib import Path

import pytest

from docstokg.adapters.onnx.reranker import OnnxReranker
from docstokg.errors import Unavailable
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
EFFECTS = [
    ("allow_system_prompt", False, lambda plan: plan.synthesis.style_hint, None),
    ("kg_boost_enabled", False, lambda plan: plan.expansion.boost, 0.0),
    ("kg_boost_value", 0.5, lambda plan: plan.expansion.boost, 0.5),
    ("kg_2hop_enabled", False, lambda plan: plan.expansion.two_hops, False),
    ("feature_verbosity_graph", False, lambda plan: plan.verbosity, "snippet"),
    ("min_score", 0.6, lambda plan: plan.min_score, 0.6),
    ("answer_min_probability", 0.4, lambda plan: plan.synthesis.min_probability, 0.4),
    ("default_timeout_s", 7.0, lambda plan: plan.budget_limits.timeout_s, 7.0),
    ("max_timeout_s", 3.0, lambda plan: plan.budget_limits.timeout_s, 3.0),
    ("kg_enabled", False, lambda plan: plan.expansion.enabled, False),
    ("fusion", "rrf", lambda plan: plan.retrieval.fusion, "rrf"),
    ("mmr", False, lambda plan: plan.retrieval.mmr, False),
    ("repair", "drop", lambda plan: plan.repair, "drop"),
    ("llm_fallback_model", "gpt-4o", lambda plan: plan.synthesis.fallback, "gpt-4o"),
]
ROOT = Path(__file__).resolve().parents[2]


def texts(*folders: str) -> str:
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    left_out = ("settings.py", "test_settings.py")
    return "\n".join(file.read_text("utf-8") for file in files if file.name not in left_out)


def test_no_setting_is_unread_or_untried() -> None:
    code, tests = texts("functions", "layers", "local", "infra"), texts("tests")
    tried = r"\b{0}=|[\"']{0}[\"']|\b(DOCSTOKG_)?{1}\b"
    assert [n for n in NAMES if not re.search(rf"\.{n}\b", code)] == []
    assert [n for n in NAMES if not re.search(tried.format(n, n.upper()), tests)] == []


def test_what_stores_are_signed_in_to_with_reaches_them(tmp_path) -> None:
    login = {"user": "u", "password": "p"}
    named = {
        f"{part}_{name}": value for part in ("index", "graph") for name, value in login.items()
    }
    settings = Settings(
        index_url="http://127.0.0.1:9", index_name="i", index_auth="sigv4-es",
        graph_url="bolt://127.0.0.1:9", graph_database="d", **named,
    )  # fmt: skip
    wiring = Wiring(settings)
    index, graph = wiring._opensearch(), wiring._neo4j()
    assert index.items() >= {**login, "name": "i", "auth": "sigv4-es"}.items()
    assert graph.items() >= {**login, "database": "d"}.items()


def test_the_local_reranker_stands_behind_a_remote_one_alone() -> None:
    remote = {"rerank_provider": "cohere", "rerank_api_key": "k"}
    assert Wiring(Settings(**remote)).fallback_reranker() is None
    assert Wiring(Settings(rerank_model_path="x.onnx")).fallback_reranker() is None
    made = Wiring(Settings(**remote, rerank_model_path="x.onnx")).fallback_reranker()
    assert isinstance(made, OnnxReranker)


@pytest.mark.parametrize(
    ("name", "value", "seen", "expected"), EFFECTS, ids=[row[0] for row in EFFECTS]
)
def test_a_setting_reaches_the_plan(name, value, seen, expected) -> None:
    usual, changed = run(ASKED).plan, run(ASKED, **{name: value}).plan
    assert usual is not None and changed is not None
    assert seen(changed) == expected != seen(usual)


def embedding(server: ModelServer, **more) -> Settings:
    return Settings(
        embed_provider="openai", embed_base_url=(server.url,), embed_model="m-1",
        embed_dimension=8, embed_api_key="k", **more,
    )  # fmt: skip


def test_another_address_serves_when_the_first_is_gone(tmp_path) -> None:
    with serving() as server:
        settings = embedding(server, cache_dir=str(tmp_path))
        settings = settings.model_copy(update={"embed_base_url": (CLOSED, server.url)})
        wiring = Wiring(settings)
        wiring.embedder().embed(["a"], 5.0)
        assert len(server.requests) == 1
        wiring.close()
        lonely = Wiring(settings.model_copy(update={"embed_base_url": (CLOSED,)}))
        with pytest.raises(Unavailable):
            lonely.embedder().embed(["b"], 5.0)
        lonely.close()


def test_health_is_told_again_where_deployed(small_store, settings_for, models) -> None:
    for environment in ("test", None):
        wiring = Wiring(settings_for(small_store, environment=environment), None, models)
        handler = health.build(wiring)
        first = handler({}, None)
        assert (handler({}, None) is first) == bool(environment)
        wiring.close()


def test_processes_of_one_server_count_together(tmp_path) -> None:
    one, two = (Wiring(Settings(process_dir=str(tmp_path))).call_counter() for _ in range(2))
    assert one is not None and two is not None
    assert [one.add("walks", 60, 1.0), two.add("walks", 60, 1.0)] == [1, 2]
    assert Wiring(Settings()).call_counter() is None

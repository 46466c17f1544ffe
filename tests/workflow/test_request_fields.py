"""Every field of a request has its effect: changing only this field changes the reply."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from docstokg.contracts.request import ANSWER_FIELDS, ExplainRequest, RAGRequest
from docstokg.wiring import Wiring
from docstokg_local.cli.verify import verify_response
from tests.builders import settings_at
from tests.conftest import load_folder, opened, store_of, write_corpus
from tests.model_server import ModelServer, serving

TOWNS = ("Zell", "Brix", "Kalm", "Orvo", "Plin", "Quist", "Runn", "Stav")
LONG = "The mill on the river was rebuilt after the flood and grinds rye for the whole valley. "
PAGES = [
    {
        "id": f"c{i}",
        "doc_id": f"d{i}",
        "title": f"{town} Mill",
        "metadata": {"year": 1900 + i},
        "text": f"{town} Mill stands in {town}. {TOWNS[i - 1]} Mill sends its rye here. "
        f"{LONG * 12}",
    }
    for i, town in enumerate(TOWNS)
]
MILLS = [{"id": f"M:{i}", "name": f"{town} Mill", "type": "Mill"} for i, town in enumerate(TOWNS)]
SENDS = [
    {
        "source": f"M:{i}",
        "type": "sends",
        "target": f"M:{(i + 1) % 8}",
        "evidence": {"chunk_id": f"c{(i + 1) % 8}"},
    }
    for i in range(8)
]
MORE = [
    {
        "id": "c1", "doc_id": "d1", "title": "Ledger",
        "text": "Rye goes from Quist Mill to Zell Mill.",
    },
    {"id": "x", "doc_id": "x", "title": "Zell Mill", "text": f"Zell Mill buys salt. {LONG}"},
]  # fmt: skip
BASE: dict[str, Any] = {"query": "Which mill sends rye to Zell Mill?", "top_k": 3}
WRITTEN = {"synthesis": {"enabled": True}, "budget": {"max_tokens_gen": 90, "timeout_s": 25}}
VIEW = {"verbosity": "graph"}
NARROW = {**VIEW, "top_k": 1, "kg_expansion": {"enabled": False}}
CHANGES: dict[str, tuple[dict[str, Any], Any]] = {
    "query": ({}, "Who grinds rye in Plin?"),
    "history": (
        {"query": "And what does it grind?"},
        [{"role": "user", "content": "Where is Plin Mill?"}],
    ),
    "top_k": ({}, 1),
    "namespace": ({}, "elsewhere"),
    "namespaces": ({}, ["default", "more"]),
    "filter": ({}, {"year": 1904}),
    "budget.max_chunks": ({}, 1),
    "budget.max_tokens_context": (WRITTEN, 300),
    "budget.max_tokens_gen": (WRITTEN, 40),
    "kg_expansion.enabled": ({}, False),
    "kg_expansion.hops": ({"query": "What is sent to Zell Mill?"}, 3),
    "kg_expansion.limit": ({}, 0),
    "kg_expansion.concept_types": ({}, ["town"]),
    "kg_expansion.relations": ({}, ["buys"]),
    "kg_expansion.max_nodes": ({"query": " ".join(TOWNS)}, 20),
    "kg_expansion.direction": ({}, "out"),
    "kg_expansion.seeds": ({}, ["M:5"]),
    "kg_expansion.route": ({"kg_expansion": {"seeds": ["M:5"]}}, True),
    "synthesis.enabled": ({"budget": {"max_tokens_gen": 90}}, True),
    "synthesis.model": (WRITTEN, "extractive"),
    "synthesis.temperature": (WRITTEN, 0.7),
    "synthesis.system_prompt": (WRITTEN, "Write like a miller."),
    "verbosity": ({}, "full"),
    "providers.embedding": ({}, "openai"),
    "providers.reranker": ({}, "cohere"),
    "limits.graph.max_depth_soft": (NARROW, 1),
    "limits.graph.max_depth_hard": (VIEW, 1),
    "limits.graph.max_nodes_hard": (VIEW, 4),
    "limits.graph.rel_whitelist": (VIEW, ["MENTIONS"]),
    "diagnostics": ({}, False),
}
ELSEWHERE = {
    "budget.timeout_s": "tests/faults/test_deadlines.py",
    "cache_key": "tests/e2e/test_stored_answers.py",
    "receipt": "tests/workflow/test_receipts.py",
}


def fields(model: type[BaseModel], path: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        types = () if get_origin(field.annotation) is tuple else get_args(field.annotation)
        inner = [t for t in (field.annotation, *types) if isinstance(t, type(BaseModel))]
        if inner:
            yield from fields(inner[0], f"{path}{name}.")
        else:
            yield path + name


def with_value(body: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    name, _, tail = path.partition(".")
    return {**body, name: with_value(body.get(name, {}), tail, value) if tail else value}


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """Leave out what differs each time, and what only repeats the request."""
    answer = {k: v for k, v in answer.items() if k not in ("metadata", "query", "request_id")}
    for citation in answer["citations"]:
        del citation["provenance"]
    diagnostics = dict(answer["diagnostics"] or {})
    for name in ("timings_ms", "budget_used", "budget_limits"):
        diagnostics.pop(name, None)
    for use in diagnostics.get("channels", {}).values():
        del use["took_ms"]
    return {**answer, "diagnostics": diagnostics}


@pytest.fixture(scope="module")
def mills(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("mills")
    rows = {"chunks.jsonl": PAGES, "entities.jsonl": MILLS, "relations.jsonl": SENDS}
    corpus = write_corpus(folder / "more", {"chunks.jsonl": MORE})
    store = store_of(folder, cache_dir, rows)
    load_folder(corpus, store, cache_dir, namespace="more")
    return store


@pytest.fixture(scope="module")
def client_and_server(
    mills: Path, models: dict[str, Any], cache_dir: Path
) -> Iterator[tuple[Any, ModelServer]]:
    """A client over the mills, and the server of its language models."""
    with serving() as server:
        settings = settings_at(mills, cache_dir=cache_dir, llm_base_url=server.url)
        with opened(settings, models) as client:
            yield client, server


@pytest.fixture
def client(mills: Path, client_for: Any) -> Any:
    return client_for(mills)


def test_every_field_is_tried_here_or_elsewhere() -> None:
    named = set(fields(RAGRequest))
    assert named == CHANGES.keys() | ELSEWHERE.keys()
    assert all(Path(file).is_file() for file in ELSEWHERE.values())


@pytest.mark.parametrize("path", CHANGES)
def test_a_field_that_is_changed_changes_the_answer(
    client_and_server: tuple[Any, ModelServer], path: str
) -> None:
    (client, server), (overrides, value) = client_and_server, CHANGES[path]
    server.requests.clear()
    usual = {**BASE, **overrides}
    before = client.post("/v1/answer", json=usual).json()
    sent = list(server.requests)
    after = client.post("/v1/answer", json=with_value(usual, path, value)).json()
    others = server.requests[len(sent) :]
    differs = comparable(before) != comparable(after)
    assert differs or [body for _, body in sent] != [body for _, body in others]


@pytest.mark.parametrize(
    ("fields", "warned"),
    [
        ({"filter": {"yaer": 1904}}, "filter: keys not found: yaer; available: doc_id, "
         "document_name, section, topic, year"),
        ({"kg_expansion": {"relations": ["buys"]}},
         "kg_expansion.relations: not found near this question: buys; available: "),
        ({"kg_expansion": {"concept_types": ["town"]}},
         "kg_expansion.concept_types: not found near this question: town; available: "),
        ({"limits": {"graph": {"rel_whitelist": ["buys", "MENTIONS"]}}},
         "limits.graph.rel_whitelist: not found near this question: buys; available: "),
        ({"query": "What does Quisst send?"},
         "Nothing is called 'Quisst' here; it was read as 'Quist'."),
    ],
)  # fmt: skip
def test_absent_values_are_named_with_available_ones(
    client: Any, fields: dict[str, Any], warned: str
) -> None:
    answer = client.post("/v1/search", json={**BASE, **fields}).json()
    assert any(warning.startswith(warned) for warning in answer["warnings"]), answer["warnings"]


@pytest.mark.parametrize("direction", ["out", "in"])
def test_paths_follow_relations_in_the_direction_asked_for(client: Any, direction: str) -> None:
    expansion = {"direction": direction, "hops": 2, "relations": ["sends"], "seeds": ["M:0"]}
    body = {"query": "What about Zell Mill?", "top_k": 8, "kg_expansion": expansion}
    citations = client.post("/v1/search", json=body).json()["citations"]
    paths = [c["kg_evidence"]["path"] for c in citations if c["kg_evidence"]]
    steps = [(edge["src"], edge["dst"]) for path in paths for edge in path]
    assert steps
    for path in filter(None, paths):
        ends = [(edge["src"], edge["dst"])[:: 1 if direction == "out" else -1] for edge in path]
        assert ends[0][0] == "M:0"
        assert all(first[1] == second[0] for first, second in itertools.pairwise(ends))


def test_a_slice_keeps_to_its_largest_size(client: Any) -> None:
    body = {"query": " ".join(TOWNS)}
    sizes = []
    for limits in ({}, {"max_nodes": 20}):
        reply = client.post("/v1/search", json={**body, "kg_expansion": {"hops": 3, **limits}})
        graph = reply.json()["diagnostics"]["graph"]
        sizes.append(graph["expanded"] + graph["pruned"])
    assert sizes[1] <= 20 < sizes[0]
    for wrong in (19, 601):
        refused = client.post("/v1/search", json={**body, "kg_expansion": {"max_nodes": wrong}})
        assert refused.json()["errors"][0]["path"] == "$.kg_expansion.max_nodes"


def test_a_synonym_of_the_question_is_noted(small_store: Path, client_for: Any) -> None:
    client = client_for(small_store)
    for query, notes in (
        ("What stops fits in children?", ["'fits' is a synonym of Seizure (HP:0001250)."]),
        ("What stops a seizure?", []),
    ):
        answer = client.post("/v1/search", json={"query": query}).json()
        assert answer["notes"] == notes
    off = client.post("/v1/search", json={"query": query, "kg_expansion": {"enabled": False}})
    assert off.json()["notes"] == []


@pytest.mark.parametrize(
    ("fields", "switch", "changed"),
    [
        ({"query": "What is sent to Zell Mill?", "kg_expansion": {"hops": 3}}, "kg_2hop_enabled",
         lambda answer: answer["diagnostics"]["kg_stats"]["hops_executed"]),
        (VIEW, "feature_verbosity_graph", lambda answer: answer["graph"]),
        (BASE, "kg_enabled", lambda answer: answer["diagnostics"]["kg_stats"]),
    ],
)  # fmt: skip
def test_a_switch_changes_the_answer(
    mills: Path, client_for: Any, fields: dict[str, Any], switch: str, changed: Any
) -> None:
    body = {**BASE, **fields}
    on, off = (
        client_for(mills, **{switch: value}).post("/v1/search", json=body).json()
        for value in (True, False)
    )
    assert changed(on) != changed(off)


def test_the_boost_changes_the_order(small_store: Path, client_for: Any) -> None:
    body = {"query": "sodium channel neurons fever children, seizure?"}
    orders = set()
    for settings in ({"kg_boost_enabled": False}, {}, {"kg_boost_value": 1.0}):
        answer = client_for(small_store, **settings).post("/v1/search", json=body).json()
        orders.add(tuple(citation["chunk_id"] for citation in answer["citations"]))
    assert len(orders) == 3


def jina(server: ModelServer) -> dict[str, str]:
    """Return settings with this server as reranker."""
    return {"rerank_provider": "jina", "rerank_base_url": server.url, "rerank_api_key": "k"}


def test_switches_disable_the_traversal_tool_and_a_provider(mills: Path, client_for: Any) -> None:
    walk = {"seed_ids": ["M:5"], "query": BASE["query"]}
    for on, status in ((True, 200), (False, 404)):
        client = client_for(mills, feature_traversal_tool=on)
        assert client.post("/v1/traverse", json=walk).status_code == status
    with serving() as server:
        for on in (True, False):
            client = client_for(mills, provider_jina_enabled=on, **jina(server))
            diagnostics = client.post("/v1/search", json=BASE).json()["diagnostics"]
            assert ("reranker_unavailable" in diagnostics["degraded_reasons"]) is not on
            assert (diagnostics["providers"]["reranker"] is not None) is on
        assert len(server.requests) == 1


def test_verbosity_full_gives_title_and_metadata(client: Any) -> None:
    body = {**BASE, "verbosity": "full"}
    citations = client.post("/v1/answer", json=body).json()["citations"]
    assert {(c["title"], c["metadata"]["year"]) for c in citations} <= {
        (page["title"], page["metadata"]["year"]) for page in PAGES
    }


def test_several_namespaces_are_one_question(mills: Path, client: Any) -> None:
    body = {**BASE, "namespaces": ["more", "default"], "verbosity": "full"}
    answer = client.post("/v1/answer", json=body).json()
    assert answer["metadata"]["namespaces"] == ["more", "default"]
    citations = {(c["namespace"], c["chunk_id"]): c for c in answer["citations"]}
    assert {"more", "default"} == {namespace for namespace, _ in citations}
    assert citations["more", "c1"]["full_text"] == MORE[0]["text"]
    wiring = Wiring(settings_at(mills))
    assert verify_response(answer, None, lambda: wiring) == ([], len(citations))
    answer["metadata"]["namespaces"] = []
    assert verify_response(answer, None, lambda: wiring)[0]
    explanation = explained(client, namespaces=["default", "more"], expect={"chunk_id": "x"})
    assert explanation["doc_id"] == "x"


def explained(client: Any, status: int = 200, **fields: Any) -> dict[str, Any]:
    reply = client.post("/v1/explain", json={**BASE, **fields})
    assert reply.status_code == status, reply.text
    return dict(reply.json())


def test_a_passage_is_followed_through_every_stage(client: Any) -> None:
    cited = explained(client, expect={"doc_id": "d0"})
    assert (cited["doc_id"], cited["chunk_id"], cited["lost_at"]) == ("d0", "c0", None)
    answer = client.post("/v1/answer", json=BASE).json()["citations"]
    assert [c["doc_id"] for c in answer][cited["rank"] - 1] == "d0"
    searched = ["search", "selection"]
    assert [s["stage"] for s in cited["stages"]] == [*searched, "graph", "walk", "budget"]
    missing = [p["doc_id"] for p in PAGES if p["doc_id"] not in {c["doc_id"] for c in answer}]
    for doc_id in missing:
        lost = explained(client, expect={"doc_id": doc_id})
        assert lost["rank"] is None
        assert lost["lost_at"] in ("search", "selection", "walk")
        assert lost["would_have_helped"]
    cut = explained(client, expect={"doc_id": answer[1]["doc_id"]}, budget={"max_chunks": 1})
    assert (cut["lost_at"], cut["would_have_helped"]) == ("budget", ["budget.max_chunks 2 or more"])
    out = explained(client, expect={"chunk_id": "c0"}, filter={"year": 1904})
    assert out["lost_at"] == "filter"
    off = explained(client, expect={"chunk_id": "c0"}, kg_expansion={"enabled": False})
    assert [s["stage"] for s in off["stages"]] == [*searched, "budget"]


def test_a_passage_below_place_100_needs_another_question(
    tmp_path: Path, cache_dir: Path, client_for: Any
) -> None:
    texts = [f"Letter {n} sends thanks." for n in range(80)]
    texts += [f"Windmills grind grain {n}." for n in range(80, 160)]
    chunks = [{"id": f"c{n}", "doc_id": f"d{n}", "text": text} for n, text in enumerate(texts)]
    client = client_for(store_of(tmp_path, cache_dir, {"chunks.jsonl": chunks}))
    windmills = [explained(client, expect={"doc_id": f"d{n}"}) for n in range(96, 140, 8)]
    low = [reply for reply in windmills if (reply["stages"][0]["rank"] or 0) > 100]
    assert low
    for reply in low:
        assert reply["lost_at"] == "selection"
        assert reply["would_have_helped"] == ["a question that names what the passage is about"]


def test_explain_refuses_fields_of_an_answer(client: Any) -> None:
    unused = set(fields(RAGRequest)) - set(fields(ExplainRequest))
    assert {f"$.{path}" for path in unused if not path.startswith("limits.")} == ANSWER_FIELDS - {
        "$.limits"
    }
    only_explained = set(fields(ExplainRequest)) - set(fields(RAGRequest))
    assert only_explained == {"expect.doc_id", "expect.chunk_id"}
    values = {path: value for path, (_, value) in CHANGES.items()}
    values |= {"cache_key": "k", "receipt": True}
    body: dict[str, Any] = {"expect": {"doc_id": "d0"}, "top_p": 1}
    for path in unused:
        body = with_value(body, path, values[path])
    errors = {error["path"]: error for error in explained(client, 400, **body)["errors"]}
    assert errors.keys() == ANSWER_FIELDS | {"$.top_p"}
    unused_message = "leave out what only an answer uses"
    assert errors.pop("$.top_p")["message"] != unused_message
    assert {error["message"] for error in errors.values()} == {unused_message}


def test_explain_reranks_within_its_timeout(mills: Path, client_for: Any) -> None:
    question: dict[str, Any] = {"expect": {"doc_id": "d0"}}
    lost = "Incomplete: the reranker was unavailable."
    off = explained(client_for(mills), providers={"reranker": "cohere"}, **question)
    assert lost in off["warnings"]
    with serving() as server:
        client = client_for(mills, **jina(server))
        none = explained(client, providers={"reranker": "none"}, **question)
        assert (server.requests, none["warnings"]) == ([], [])
        reranked = explained(client, **question)
        assert (len(server.requests), reranked["warnings"]) == (1, [])
        assert reranked["stages"] != none["stages"]
        server.mode, server.delay_s = "slow", 0.7
        assert explained(client, budget={"timeout_s": 10}, **question)["warnings"] == []
        assert lost in explained(client, budget={"timeout_s": 1}, **question)["warnings"]


def test_absent_expectations_are_404_or_explained(client: Any) -> None:
    assert explained(client, 404, expect={"doc_id": "nope"})["code"] == "not_found"
    assert explained(client, 404, expect={"chunk_id": "nope"})["code"] == "not_found"
    unlike = {"query": "Zyx quux wvut?", "providers": {"embedding": "openai"}}
    explanation = explained(client, namespace="more", expect={"doc_id": "x"}, **unlike)
    assert explanation["lost_at"] == "search"
    assert explained(client, 400, expect={})["errors"][0]["path"] == "$.expect"

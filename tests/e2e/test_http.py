"""The HTTP API over the real state machine, handlers, stores and models."""

import hashlib
import re

import pytest
from openapi_spec_validator import validate as validate_openapi

from docstokg_functions.validate.validate import NO_SYNTHESIS
from tests.builders import keyed
from tests.conftest import CORPUS

TEXTS = {row["id"]: row["text"] for row in CORPUS["chunks.jsonl"]}


def problem(response, status: int) -> dict:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert body["request_id"] == response.headers["x-request-id"]
    return body


def proven(citation: dict) -> None:
    text = TEXTS[citation["chunk_id"]]
    base = 1000 if citation["chunk_id"] == "plain" else 0
    assert citation["offset_base"] == ("document" if base else "chunk")
    start, end = citation["char_start"] - base, citation["char_end"] - base
    assert text[start:end] == citation["snippet"]
    assert citation["text_sha256"] == hashlib.sha256(text.encode()).hexdigest()


def test_a_question_becomes_cited_evidence(small_client) -> None:
    response = small_client.post("/v1/answer", json={"query": "What are seizures in children?"})
    body = response.json()
    assert response.status_code == 200
    assert "seizure" in [citation["chunk_id"] for citation in body["citations"][:2]]
    assert [c["rank"] for c in body["citations"]] == list(range(1, body["results_count"] + 1))
    for citation in body["citations"]:
        proven(citation)
    assert body["diagnostics"]["degraded"] is False, body["diagnostics"]
    assert set(body["diagnostics"]["channels"]) == {"bm25", "splade", "dense", "facts"}
    ranked_by = {name for citation in body["citations"] for name in citation["channels"]}
    assert ranked_by >= {"bm25", "splade", "dense"}
    assert (body["answer"], body["confidence"], body["grounding"]) == ("", 0, None)
    assert body["metadata"]["index_model"]


def test_the_graph_shows_its_path(small_client) -> None:
    request = {"query": "Which disease has HP:0001250?", "top_k": 3}
    body = small_client.post("/v1/answer", json=request).json()
    by_chunk = {citation["chunk_id"]: citation for citation in body["citations"]}
    assert by_chunk["seizure"]["kg_evidence"]["entity_id"] == "HP:0001250"
    assert by_chunk["dravet"]["kg_path"], by_chunk["dravet"]
    assert body["diagnostics"]["kg_stats"]["hops_executed"] >= 1


def test_search_has_short_snippets_and_no_answer(small_client) -> None:
    body = small_client.post("/v1/search", json={"query": "electrical events"}).json()
    assert body["answer"] == ""
    assert body["grounding"] is None
    assert all(len(citation["snippet"]) <= 200 for citation in body["citations"])
    for citation in body["citations"]:
        proven(citation)


@pytest.mark.parametrize(
    ("wanted", "chunks"),
    [
        ({"doc_id": "d-asthma"}, {"asthma"}),
        ({"topic": ["neurology", "genetics"]}, {"seizure", "dravet"}),
        ({"year": [2020, 2021.0]}, {"seizure", "dravet"}),
        ({"tags": "acute"}, {"seizure"}),
        ({"section": "Definition", "year": 2021}, set()),
        ({"nothing": "here"}, set()),
    ],
)
def test_a_filter_bounds_everything(small_client, wanted, chunks) -> None:
    request = {"query": "seizures asthma fever", "filter": wanted}
    body = small_client.post("/v1/answer", json=request).json()
    assert {citation["chunk_id"] for citation in body["citations"]} == chunks
    assert bool(set(body["warnings"]) - {NO_SYNTHESIS}) is (not chunks)


def test_keys_bind_namespaces_and_groups(small_store, client_for, tmp_path) -> None:
    holders = {"staff": {"groups": ["staff"]}, "guest": {"namespaces": ["default"], "groups": []}}
    keys = keyed(tmp_path, holders)
    client = client_for(small_store, **keys)

    def ask(key: str | None, **fields):
        request = {"query": "secret anticonvulsant trial", **fields}
        return client.post("/v1/answer", json=request, headers={"X-Api-Key": key} if key else {})

    for key in (None, "wrong"):
        problem(ask(key), 401)
    assert "secret" in {citation["chunk_id"] for citation in ask("staff").json()["citations"]}
    guest = ask("guest")
    assert "secret" not in {citation["chunk_id"] for citation in guest.json()["citations"]}
    assert "Trial 77" not in guest.text
    problem(ask("guest", namespace="other"), 403)
    assert client.get("/v1/health").status_code == 200
    assert client.get("/openapi.json").status_code == 200
    problem(client.get("/metrics"), 401)
    assert client.get("/metrics", headers={"X-Api-Key": "guest"}).status_code == 200
    opened = client_for(small_store, **keys, open_metrics=True)
    assert opened.get("/metrics").status_code == 200


def test_errors_have_one_shape(small_client) -> None:
    problem(small_client.get("/nowhere"), 404)
    problem(small_client.get("/v1/answer"), 405)
    problem(small_client.post("/v1/answer", content=b"{}"), 415)
    headers = {"Content-Type": "application/json; charset=utf-8"}
    refusal = problem(small_client.post("/v1/answer", content=b"{}", headers=headers), 400)
    assert refusal["errors"] == [
        {"path": "$.query", "code": "missing", "message": "this field is required"}
    ]
    problem(small_client.post("/v1/answer", content=b"x" * 70_000, headers=headers), 413)


def test_a_cached_answer_and_a_reused_key(small_store, client_for, tmp_path) -> None:
    client = client_for(small_store, cache_dir=str(tmp_path))
    request = {"query": "What is asthma?", "cache_key": "one"}
    first = client.post("/v1/answer", json=request).json()
    second = client.post("/v1/answer", json=request).json()
    assert first["diagnostics"]["cache_hit"] is False
    assert second["diagnostics"]["cache_hit"] is True
    assert second["citations"] == first["citations"]
    problem(client.post("/v1/answer", json={**request, "top_k": 3}), 409)


def test_health_openapi_and_metrics(small_client) -> None:
    health = small_client.get("/v1/health").json()
    assert health["status"] == "ok"
    assert health["dependencies"]["index"]["state"] == "up"
    document = small_client.get("/openapi.json").json()
    validate_openapi(document)
    routes = set(document["paths"])
    assert {"/v1/answer", "/v1/search", "/v1/health", "/openapi.json"} <= routes
    small_client.post("/v1/answer", json={"query": "asthma"})
    text = small_client.get("/metrics").text
    assert re.search(r'rag_requests_total\{.*route="answer",status="200".*\} 1.0', text)
    for name in ("rag_request_latency_seconds", "rag_kg_chunks_added", "query_verbosity_total"):
        assert name in text

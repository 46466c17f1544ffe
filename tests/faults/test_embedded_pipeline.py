"""Break embedded stores and models; the reply uses the remaining parts."""

import json
import shutil
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from docstokg.adapters.onnx.wordpieces import cassette_model
from docstokg.contracts.response import RAGResponse
from docstokg.wiring import Wiring
from docstokg_local.cli.doctor import examine
from tests.builders import refusal
from tests.jvm.servers import free_port
from tests.onnx_files import FLOAT, write_model

ASK = {"query": "What are seizures?", "budget": {"timeout_s": 2}}


def post_answer(client, body=ASK, status=200):
    response = client.post("/v1/answer", json=body)
    assert response.status_code == status, response.text
    if status == 200:
        RAGResponse.model_validate(response.json())
    return response.json()


def reasons(body) -> set[str]:
    assert body["diagnostics"]["degraded"] is bool(body["diagnostics"]["degraded_reasons"])
    return set(body["diagnostics"]["degraded_reasons"])


def broken(path: Path, how: str) -> None:
    """Delete a database, overwrite it, or cut it off."""
    for log in path.parent.glob(f"{path.name}-*"):
        log.unlink()
    if how == "deleted":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:5000] if how == "truncated" else b"garbage" * 5000)


@pytest.mark.parametrize("how", ["deleted", "truncated", "garbage"])
def test_a_lost_index_is_503_and_comes_back(copied_store, client_for, how, tmp_path) -> None:
    backup = shutil.copy(copied_store, tmp_path / "backup.sqlite")
    client = client_for(copied_store, kg_enabled=False)
    assert post_answer(client)["citations"]
    broken(copied_store, how)
    lost = post_answer(client, status=503)
    assert lost["code"] == "nothing_to_cite"
    assert client.get("/v1/health").status_code == 503
    if how != "deleted":
        broken(copied_store, "deleted")
    shutil.copy(backup, copied_store)
    assert post_answer(client)["citations"]


@pytest.mark.parametrize("how", ["deleted", "garbage"])
def test_without_the_graph_hybrid_results_stay(copied_store, client_for, tmp_path, how) -> None:
    graph = tmp_path / "graph.sqlite"
    shutil.copy(copied_store, graph)
    client = client_for(copied_store, graph_url=f"sqlite:///{graph}")
    assert reasons(post_answer(client)) == set()
    broken(graph, how)
    body = post_answer(client)
    assert reasons(body) == {"kg_unavailable"}
    assert body["citations"]
    assert all(citation["kg_evidence"] is None for citation in body["citations"])
    shutil.copy(copied_store, graph)
    assert reasons(post_answer(client)) == set()


TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
MCP = {"accept": "application/json, text/event-stream"}


@pytest.fixture
def silence():
    """A server that accepts connections and never answers, and the connections it accepted."""
    accepted = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    accepted.append(server.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1], accepted
        server.shutdown(socket.SHUT_RDWR)
    for connection in accepted:
        connection.close()


def tools_of(client) -> set[str]:
    tools = client.post("/mcp", json=TOOLS, headers=MCP).json()["result"]["tools"]
    return {tool["name"] for tool in tools}


def test_the_graph_switched_off_is_not_called_anywhere(small_store, client_for, silence) -> None:
    port, accepted = silence
    client = client_for(small_store, graph_url=f"bolt://127.0.0.1:{port}", kg_enabled=False)
    graphic = {**ASK, "verbosity": "graph", "kg_expansion": {"seeds": ["HP:1"], "route": True}}
    for route in ("answer", "search"):
        body = client.post(f"/v1/{route}", json=graphic).json()
        assert (body["graph"], body["diagnostics"]["degraded_reasons"]) == (None, [])
        assert any("switched off" in warning for warning in body["warnings"])
        assert body["diagnostics"]["graph_gain"]["skipped"] == "disabled"
    expected = {**graphic, "expect": {"doc_id": "d-seizure"}}
    del expected["verbosity"]  # refused: only an answer uses it
    explained = client.post("/v1/explain", json=expected).json()
    assert any("switched off" in warning for warning in explained["warnings"])
    synthesis = {"synthesis": {"enabled": True, "model": "extractive"}}
    post_answer(client, {**ASK, **synthesis, "budget": {"max_tokens_gen": 100, "timeout_s": 2}})
    checked = client.post("/v1/check", json={"text": "A seizure (HP:0001250) is brief."}).json()
    assert checked["consistency"] == {"ok": True, "issues": []}
    assert any("switched off" in warning for warning in checked["warnings"])
    assert checked["diagnostics"]["degraded_reasons"] == []
    walk = client.post("/v1/traverse", json={"seed_ids": ["HP:0001250"]})
    assert refusal(walk) == (404, "not_found")
    assert "traverse_relationships" not in tools_of(client)
    assert client.get("/v1/health").json()["dependencies"]["graph"]["state"] == "off"
    assert accepted == []
    on = client_for(small_store, graph_url=f"bolt://127.0.0.1:{port}")
    assert reasons(post_answer(on)) == {"kg_timeout"}
    assert accepted
    assert "traverse_relationships" in tools_of(on)


def test_doctor_tells_slow_graphs_from_absent_graphs(small_store, settings_for, silence) -> None:
    remedies = {}
    for name, port in (("slow", silence[0]), ("absent", free_port())):
        wiring = Wiring(settings_for(small_store, graph_url=f"bolt://127.0.0.1:{port}"))
        (graph,) = (diagnosis for diagnosis in examine(wiring) if diagnosis.part == "graph")
        assert graph.state == "missing"
        remedies[name] = graph.remedy
        wiring.close()
    assert remedies == {
        "slow": "slow or frozen: try again, then check the load of the server at "
        "DOCSTOKG_GRAPH_URL",
        "absent": "check DOCSTOKG_GRAPH_URL, and that the server runs",
    }


def test_a_local_reranker_failing_midway_keeps_the_order(small_store, client_for, tmp_path) -> None:
    shutil.copy(cassette_model() / "tokenizer.json", tmp_path / "tokenizer.json")
    broken = write_model(tmp_path / "float.onnx", ["plus"], takes=FLOAT)
    log: list[str] = []
    client = client_for(small_store, log, rerank_provider="local", rerank_model_path=str(broken))
    body = post_answer(client)
    assert reasons(body) == {"reranker_unavailable"}
    assert body["citations"][0]["chunk_id"] == "seizure"
    assert body["diagnostics"]["providers"]["reranker"] is None
    (line,) = [json.loads(text) for text in log if "rerank_failed" in text]
    assert (line["kind"], line["request_id"]) == ("Unavailable", body["metadata"]["request_id"])

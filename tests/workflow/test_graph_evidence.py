"""What the graph says of a chunk reaches prompt and response unchanged; walks answer over HTTP."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docstokg.contracts.state import Block, Expansion
from docstokg.domain.prompt import block_text
from docstokg.wiring import Wiring
from functions.expand import handler as expand
from functions.ground import handler as ground
from functions.respond import handler as respond
from functions.retrieve import handler as retrieve
from functions.validate import handler as validate

QUESTION = "What does Dravet syndrome look like?"
EDGE = ("MONDO:0100135", "has_phenotype", "HP:0001250")


@pytest.fixture
def wiring(small_store: Path, settings_for: Callable[..., Any], models: dict[str, Any]) -> Wiring:
    return Wiring(settings_for(small_store), made=models)


def test_an_evidence_object_survives_every_step(wiring: Wiring) -> None:
    body = {"query": QUESTION, "top_k": 5}
    envelope = {
        "route": "answer",
        "request_id": "r",
        "caller": {"sub": "s", "namespaces": ["*"], "groups": ["*"]},
        "body_b64": base64.b64encode(json.dumps(body).encode()).decode(),
    }
    try:
        made = validate.build(wiring)({"envelope": envelope}, None)
        state = {"plan": made["plan"], "scope": made["scope"]}
        state["retrieval"] = retrieve.build(wiring)(state, None)
        state["expansion"] = expand.build(wiring)({"mode": "expand", **state}, None)
        expansion = Expansion.model_validate(state["expansion"])
        grounded = ground.build(wiring)(state, None)
        reply = respond.build(wiring)({"plan": made["plan"], "grounded": grounded}, None)
    finally:
        wiring.close()
    related = [
        item for item in expansion.ranking if item.evidence is not None and item.evidence.path
    ]
    edges = [expansion.edges[item.evidence.path[0]] for item in related if item.evidence]
    assert EDGE in {(edge.src, edge.type, edge.dst) for edge in edges}
    item, edge = next(
        (item, edge)
        for item, edge in zip(related, edges, strict=True)
        if (edge.src, edge.type, edge.dst) == EDGE
    )
    assert edge.evidence is not None
    assert (edge.evidence.chunk_id, edge.evidence.start, edge.evidence.end) == ("dravet", 45, 86)

    response = json.loads(reply["body"])
    shown = next(c for c in response["citations"] if c["uuid"] == item.uuid)
    assert shown["kg_evidence"]["match_type"] == "related_via"
    assert shown["kg_evidence"]["related_to"] == "Dravet syndrome"
    assert shown["kg_evidence"]["entity_id"] == "HP:0001250"
    assert shown["kg_evidence"]["path"][0]["evidence"] == {
        "uuid": edge.evidence.uuid,
        "chunk_id": "dravet",
        "start": 45,
        "end": 86,
    }
    assert shown["kg_path"] == ["MONDO:0100135", "HP:0001250"]
    assert "Seizure" in shown["concepts_mentioned"]

    blocks = [Block.model_validate(block) for block in grounded["blocks"]]
    block = next(block for block in blocks if block.uuid == item.uuid)
    assert "Seizure (Phenotype) - related via Dravet syndrome" in block_text(block)


def test_verbosity_graph_shows_the_neighbourhood(
    small_store: Path, client_for: Callable[..., Any]
) -> None:
    client = client_for(small_store)
    body = {"query": QUESTION, "verbosity": "graph"}
    answer = client.post("/v1/answer", json=body).json()
    nodes = {node["id"]: node for node in answer["graph"]["nodes"]}
    assert nodes["MONDO:0100135"]["label"] == "Entity"
    edges = {(edge["src"], edge["type"], edge["dst"]) for edge in answer["graph"]["edges"]}
    assert EDGE in edges
    assert answer["graph"]["budget"]["expanded"] > 0
    assert client.post("/v1/answer", json={"query": QUESTION}).json()["graph"] is None
    narrow = {"graph": {"max_nodes_hard": 3, "rel_whitelist": ["mentions"]}}
    few = client.post("/v1/answer", json={**body, "limits": narrow}).json()["graph"]
    assert len(few["nodes"]) <= 3
    assert {edge["type"] for edge in few["edges"]} <= {"MENTIONS"}


def test_traverse_over_http(small_store: Path, client_for: Callable[..., Any]) -> None:
    client = client_for(small_store, graph_budget_per_minute=3)
    body = {"seed_ids": ["mondo:0100135"], "query": "seizures of infants", "max_depth": 2}
    first = client.post("/v1/traverse", json=body)
    assert first.status_code == 200
    found = first.json()
    assert found["nodes"][0]["id"] == "MONDO:0100135"
    assert EDGE in {(edge["src"], edge["type"], edge["dst"]) for edge in found["edges"]}
    assert client.post("/v1/traverse", json=body).json() == found
    assert client.post("/v1/traverse", json={**body, "cursor": "x"}).status_code == 400
    assert client.post("/v1/traverse", json=body).status_code == 200
    refused = client.post("/v1/traverse", json=body)
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 0


def test_a_graph_view_over_the_budget_is_refused_and_other_questions_are_not(
    small_store: Path, client_for: Callable[..., Any]
) -> None:
    client = client_for(small_store, graph_budget_per_minute=1)
    body = {"query": QUESTION, "verbosity": "graph"}
    assert client.post("/v1/answer", json=body).status_code == 200
    refused = client.post("/v1/answer", json=body)
    assert (refused.status_code, refused.json()["code"]) == (429, "graph_budget_exceeded")
    assert refused.headers["content-type"].startswith("application/problem+json")
    assert int(refused.headers["Retry-After"]) > 0
    assert client.post("/v1/answer", json={"query": QUESTION}).status_code == 200


def test_a_switched_off_tool_is_not_there(
    small_store: Path, client_for: Callable[..., Any]
) -> None:
    client = client_for(small_store, feature_traversal_tool=False)
    body = {"seed_ids": ["HP:0001250"], "query": QUESTION}
    assert client.post("/v1/traverse", json=body).status_code == 404

"""Graph evidence of a chunk reaches prompt and response unchanged."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from docstokg.contracts.state import Block, Expansion
from docstokg.domain.answer.prompt import block_text
from docstokg.wiring import Wiring
from docstokg_functions.expand import handler as expand
from docstokg_functions.ground import handler as ground
from docstokg_functions.mcp.compact import compact_search, graph_facts
from docstokg_functions.respond import handler as respond
from docstokg_functions.retrieve import handler as retrieve
from docstokg_functions.validate import handler as validate
from tests.builders import answer_request, body_of, refusal
from tests.conftest import passage, store_of
from tests.envelopes import event
from tests.model_server import serving

QUESTION = "What does Dravet syndrome look like?"
VIEW = {"verbosity": "graph"}
EDGE = ("MONDO:0100135", "has_phenotype", "HP:0001250")


def answer_of(client: Any, **fields: Any) -> dict[str, Any]:
    return body_of(client.post("/v1/answer", json={"query": QUESTION, **fields}))


def search_of(client: Any, **fields: Any) -> dict[str, Any]:
    return body_of(client.post("/v1/search", json={"query": QUESTION, **fields}))


def edges_of(view: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {(edge["src"], edge["type"], edge["dst"]) for edge in view["edges"]}


def stepped(wiring: Wiring, query: str) -> dict[str, Any]:
    """Return the output of each step up to grounding."""
    validated = validate.build(wiring)({"envelope": event({"query": query, "top_k": 5})}, None)
    state = {"plan": validated["plan"], "scope": validated["scope"]}
    state["retrieval"] = retrieve.build(wiring)(state, None)
    state["expansion"] = expand.build(wiring)({"mode": "expand", **state}, None)
    return {**state, "grounded": ground.build(wiring)(state, None)}


def test_an_evidence_object_survives_every_step(wiring: Wiring) -> None:
    state = stepped(wiring, QUESTION)
    grounded, expansion = state["grounded"], Expansion.model_validate(state["expansion"])
    reply = respond.build(wiring)({"plan": state["plan"], "grounded": grounded}, None)
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
    cited = next(c for c in response["citations"] if c["uuid"] == item.uuid)
    assert cited["kg_evidence"]["match_type"] == "related_via"
    assert cited["kg_evidence"]["related_to"] == "Dravet syndrome"
    assert cited["kg_evidence"]["entity_id"] == "HP:0001250"
    assert cited["kg_evidence"]["path"][0]["evidence"] == {
        "uuid": edge.evidence.uuid, "chunk_id": "dravet", "start": 45, "end": 86,
    }  # fmt: skip
    assert cited["kg_path"] == ["MONDO:0100135", "HP:0001250"]
    assert "Seizure" in cited["concepts_mentioned"]

    blocks = [Block.model_validate(block) for block in grounded["blocks"]]
    block = next(block for block in blocks if block.uuid == item.uuid)
    assert "Seizure (Phenotype) - related via Dravet syndrome" in block_text(block)


def test_verbosity_graph_shows_the_neighbourhood(small_client: Any) -> None:
    graph = answer_of(small_client, **VIEW)["graph"]
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert nodes["MONDO:0100135"]["label"] == "Entity"
    assert EDGE in edges_of(graph)
    assert graph["budget"]["expanded"] > 0
    assert answer_of(small_client)["graph"] is None
    narrow = {"graph": {"max_nodes_hard": 3, "rel_whitelist": ["mentions"]}}
    few = answer_of(small_client, limits=narrow, **VIEW)["graph"]
    assert len(few["nodes"]) <= 3
    assert {edge["type"] for edge in few["edges"]} <= {"MENTIONS"}


@pytest.mark.parametrize("relation", [EDGE[1], "RELATED_TO"])
def test_a_view_of_one_relation_has_its_edges(small_client: Any, relation: str) -> None:
    limits = {"graph": {"rel_whitelist": [relation]}}
    answer = answer_of(small_client, limits=limits, **VIEW)
    assert EDGE in edges_of(answer["graph"])
    assert not [warning for warning in answer["warnings"] if "not found near" in warning]


def test_only_graph_views_over_the_budget_are_refused(
    small_store: Path, client_for: Callable[..., Any]
) -> None:
    client = client_for(small_store, graph_budget_per_minute=1)
    answer_of(client, **VIEW)
    refused = client.post("/v1/answer", json={"query": QUESTION, **VIEW})
    assert refusal(refused) == (429, "graph_budget_exceeded")
    assert refused.headers["content-type"].startswith("application/problem+json")
    assert int(refused.headers["Retry-After"]) > 0
    answer_of(client)


DISEASES = 30


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Path:
    """One disease that its only chunk calls by its preferred name, among thirty others."""
    sentence = "Disorder number {} is treated with rest and remedy number {}."
    chunks = [passage(f"c{i}", "", sentence.format(i, i * 7)) for i in range(DISEASES)]
    chunks.append(passage("z", "Sheet 31", "Zorbium syndrome responds to quinine."))
    names = {"name": "Zorbium syndrome", "synonyms": ["Kappler disease", "ZS-4"]}
    corpus = {"chunks.jsonl": chunks, "entities.jsonl": [{"id": "D:1", "type": "Disease", **names}]}
    return store_of(tmp_path_factory.mktemp("clinic"), cache_dir, corpus)


@pytest.mark.parametrize(
    "question",
    [
        "How is Kappler disease treated?", "How is D:1 treated?", "What is the treatment of ZS-4?",
        "How is kappler disease treated?",
    ],
)  # fmt: skip
def test_synonyms_ids_and_abbreviations_find_the_preferred_name(
    clinic: Path, client_for: Callable[..., Any], question: str
) -> None:
    answer = answer_of(client_for(clinic), **answer_request(question))
    first = answer["citations"][0]
    assert first["chunk_id"] == "z"
    assert first["score"] >= 0.3
    assert first["kg_path"] == ["D:1"]
    assert first["kg_evidence"]["match_type"] == "direct_mention"
    assert first["document_name"] == "Sheet 31"
    named = [c for c in answer["citations"] if c["kg_evidence"] is not None]
    assert [citation["chunk_id"] for citation in named] == ["z"]
    assert answer["answer"] == "Zorbium syndrome responds to quinine [1]."
    assert answer["grounding"]["grounded"] is True


def test_a_model_gets_the_questions_other_names(
    clinic: Path, client_for: Callable[..., Any]
) -> None:
    with serving() as server:
        client = client_for(clinic, llm_base_url=server.url)
        for question in ("How is Kappler disease treated?", "How is Zorbium syndrome treated?"):
            budget = {"max_tokens_gen": 100, "timeout_s": 25}
            answer_of(client, query=question, synthesis={"enabled": True}, budget=budget)
        other, same = (sent["messages"][1]["content"] for _, sent in server.requests)
    line = "KG Match: Zorbium syndrome (Disease) - direct mention"
    assert f"{line}, called Kappler disease in the question\n" in other
    assert line not in same  # it would state nothing that the passage does not


def test_dense_views_show_more_than_they_expand(
    tmp_path: Path, cache_dir: Path, client_for: Callable[..., Any]
) -> None:
    pages = [
        {"id": f"c{i}", "doc_id": f"d{i}", "text": f"Train {i} leaves Zurbach station at {i}."}
        for i in range(30)
    ]
    station = {"id": "S:1", "name": "Zurbach station", "type": "Station"}
    store = store_of(tmp_path, cache_dir, {"chunks.jsonl": pages, "entities.jsonl": [station]})
    question = "Which train leaves Zurbach station at 7?"
    answer = answer_of(client_for(store), query=question, **VIEW)
    budget = answer["graph"]["budget"]
    assert 0 < budget["expanded"] < len(answer["graph"]["nodes"])
    assert budget["pruned"] > 0
    assert "payload_trimmed" not in answer["diagnostics"]["degraded_reasons"]


def test_a_search_is_limited_and_counts_graph_additions(small_client: Any) -> None:
    search = partial(search_of, small_client)
    assert len(search(top_k=2)["citations"]) == 2
    wider = search(top_k=2, budget={"max_chunks": 20})
    assert len(wider["citations"]) > 2
    for response in (wider, search(top_k=2)):
        added = [c for c in response["citations"] if c["source"] == "kg_expansion"]
        diagnostics = response["diagnostics"]
        assert diagnostics["kg_stats"]["chunks_added"] == len(added)
        unseen = [c["uuid"] for c in added if not c["channels"]]
        assert diagnostics["graph_gain"]["added"] == unseen
    off = search(kg_expansion={"enabled": False})["diagnostics"]["graph_gain"]
    assert (off["skipped"], off["added"]) == ("disabled", [])
    assert len(off["top_k_without"]) > 0


def test_losses_are_named_without_diagnostics(
    copied_store: Path, client_for: Callable[..., Any], tmp_path: Path
) -> None:
    client = client_for(copied_store, graph_url=f"sqlite:///{tmp_path / 'nowhere.sqlite'}")
    answer = search_of(client, diagnostics=False)
    assert answer["diagnostics"] is None
    assert "Degraded: kg_unavailable." in answer["warnings"]


def test_an_agent_reads_relations_in_their_direction(small_client: Any) -> None:
    response = search_of(small_client)
    ranks = {citation["doc_id"]: citation["rank"] for citation in response["citations"]}
    reasons = {
        citation["doc_id"]: citation["why"]
        for citation in compact_search(response, {})["citations"]
    }
    fact = f"Dravet syndrome -has_phenotype-> Seizure (stated in [{ranks['d-dravet']}])"
    assert fact in reasons["d-seizure"]
    alone = [citation for citation in response["citations"] if citation["doc_id"] == "d-seizure"]
    assert graph_facts(alone[0], {}) == ["Dravet syndrome -has_phenotype-> Seizure"]


def test_the_model_reads_relations_with_their_type(wiring: Wiring) -> None:
    grounded = stepped(wiring, "Which disease has seizures?")["grounded"]
    texts = [block_text(Block.model_validate(block)) for block in grounded["blocks"]]
    direct = next(text for text in texts if "Seizure (Phenotype) - direct mention" in text)
    related = next(line for line in direct.splitlines() if "Related:" in line)
    edge = next(block["rank"] for block in grounded["blocks"] if "Dravet" in block["document_name"])
    assert f"Dravet syndrome -has_phenotype-> Seizure (stated in [{edge}])" in related


def test_a_walk_without_question_follows_the_edge_weights(small_client: Any) -> None:
    request = {"seed_ids": ["MONDO:0100135"], "max_depth": 1}
    body = body_of(small_client.post("/v1/traverse", json=request))
    assert EDGE in edges_of(body)
    assert body["explain"]["scoring"]["formula"].startswith("weight of the heaviest relation")
    assert body["explain"]["scoring"]["embedding"] is None
    nothing = small_client.post("/v1/traverse", json={"max_depth": 1})
    assert nothing.status_code == 400
    assert nothing.json()["errors"][0]["path"] == "$.seed_ids"


def test_cursors_of_a_view_continue_where_it_ended(small_client: Any) -> None:
    whole = answer_of(small_client, **VIEW)["graph"]
    view = answer_of(small_client, limits={"graph": {"max_nodes_hard": 4}}, **VIEW)["graph"]
    cursor = view["budget"]["cursor"]
    assert cursor is not None
    assert (whole["budget"]["cursor"] is None) == (whole["budget"]["skipped"] == 0)
    second_page = small_client.post(
        "/v1/traverse", json={"namespace": "default", "cursor": cursor}
    ).json()
    node_ids = {node["id"] for node in view["nodes"]}
    further = {node["id"] for node in second_page["nodes"]}
    assert further
    assert not further & node_ids
    assert {node["id"] for node in whole["nodes"]} <= further | node_ids
    for forged in ("view.", "view.e30", cursor[:-9]):
        wrong = small_client.post("/v1/traverse", json={"cursor": forged})
        assert wrong.status_code == 400
        assert wrong.json()["errors"][0]["path"] == "$.cursor"

"""A question about two names that only a chain of stored relations joins."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docstokg.domain.answer.notices import is_abstention
from tests.builders import answer_request
from tests.conftest import store_of
from tests.model_server import serving

QUESTION = "How does Apple's supply chain depend on Taiwan?"
SUPPLY = "The company depends on TSMC for every processor in its phones."
PLACE = "All of its leading-edge fabs stand in Hsinchu and Tainan, both in Taiwan."
TEXTS = {
    "apple": ("Apple annual report", f"Apple reported record revenue from services. {SUPPLY}"),
    "tsmc": ("TSMC annual report", f"TSMC spent thirty billion dollars on equipment. {PLACE}"),
    "nvidia": ("NVIDIA annual report", "NVIDIA's risks include its suppliers in Taiwan."),
    "foxconn": ("Foxconn profile", "Foxconn assembles phones for Apple and moves lines to India."),
    "intel": ("Intel outlook", "The supply chain of advanced chips is to depend less on Asia."),
    "glossary": ("Glossary", "A supply chain is the network from raw material to customer."),
    "quake": ("Earthquake report", "An earthquake of magnitude 7.2 struck the east of Taiwan."),
}  # fmt: skip
ENTITIES = {
    **dict.fromkeys(("Apple", "TSMC", "NVIDIA", "Foxconn", "Intel"), "Organization"),
    **dict.fromkeys(("Taiwan", "India"), "Location"),
}
RELATIONS = (
    ("Apple", "supplied_by", "TSMC", "apple", SUPPLY),
    ("TSMC", "located_in", "Taiwan", "tsmc", PLACE),
    ("Apple", "supplied_by", "Foxconn", "foxconn", "Foxconn assembles phones for Apple"),
    ("Foxconn", "located_in", "India", "foxconn", "moves lines to India"),
)
FACTS = ("Apple -supplied_by-> TSMC", "TSMC -located_in-> Taiwan")


@pytest.fixture(scope="module")
def companies(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Path:
    relations = []
    for source, kind, target, stated_in, words in RELATIONS:
        start = TEXTS[stated_in][1].index(words)
        evidence = {"chunk_id": stated_in, "start": start, "end": start + len(words)}
        ends = {"source": f"C:{source}", "target": f"C:{target}"}
        relations.append({**ends, "type": kind, "evidence": evidence})
    corpus: dict[str, list[dict[str, Any]]] = {
        "chunks.jsonl": [
            {"id": name, "doc_id": name, "title": title, "text": text}
            for name, (title, text) in TEXTS.items()
        ],
        "entities.jsonl": [
            {"id": f"C:{name}", "name": name, "type": kind} for name, kind in ENTITIES.items()
        ],
        "relations.jsonl": relations,
    }
    return store_of(tmp_path_factory.mktemp("companies"), cache_dir, corpus)


@pytest.fixture
def client(companies: Path, client_for: Callable[..., Any]) -> Any:
    return client_for(companies)


def answer_of(client: Any, **fields: Any) -> dict[str, Any]:
    return client.post("/v1/answer", json=answer_request(QUESTION) | fields).json()


def test_answers_follow_stored_paths_and_cite_each_edge(client: Any) -> None:
    answer = answer_of(client)
    ranks = {citation["doc_id"]: citation["rank"] for citation in answer["citations"]}
    apple, tsmc = f" [{ranks['apple']}].", f" [{ranks['tsmc']}]."
    assert answer["answer"] == SUPPLY.replace(".", apple) + " " + PLACE.replace(".", tsmc)
    assert answer["grounding"]["grounded"] is True
    assert {citation["doc_id"] for citation in answer["citations"] if citation["cited"]} == {
        "apple",
        "tsmc",
    }
    ranked_facts = zip(FACTS, (ranks["apple"], ranks["tsmc"]), strict=True)
    assert answer["notes"] == [f"{fact} (stated in [{rank}])" for fact, rank in ranked_facts]


def test_without_graph_answers_say_less_and_responses_why(client: Any) -> None:
    answer = answer_of(client, kg_expansion={"enabled": False})
    assert "TSMC" not in answer["answer"]
    assert answer["notes"] == []
    assert answer["diagnostics"]["graph_gain"]["skipped"] == "disabled"
    assert answer["metadata"]["kg_expansion_enabled"] is False


def test_a_path_needs_each_of_its_relations(client: Any) -> None:
    answer = answer_of(client, kg_expansion={"relations": ["located_in"]})
    assert answer["notes"] == []
    assert SUPPLY[:-1] not in answer["answer"]


def test_a_path_never_replaces_an_answering_passage(client: Any) -> None:
    query = "Which risks does NVIDIA name about its suppliers in Taiwan?"
    answer = answer_of(client, query=query)
    assert answer["answer"].startswith("NVIDIA's risks include its suppliers in Taiwan")


@pytest.mark.parametrize(
    ("query", "names", "doc_ids"),
    [
        ("How does Intel depend on India?", "Intel and India", {"intel", "foxconn"}),
        ("What connects India with NVIDIA?", "India and NVIDIA", {"nvidia", "foxconn"}),
    ],
    ids=["verb", "connection"],
)
def test_two_names_without_a_connection_are_silent(
    client: Any, query: str, names: str, doc_ids: set[str]
) -> None:
    answer = answer_of(client, query=query)
    assert is_abstention(answer["answer"])
    (warning,) = answer["warnings"]
    assert warning.startswith(f"No connection found between {names}, ")
    assert doc_ids <= {citation["doc_id"] for citation in answer["citations"]}


@pytest.mark.parametrize(
    "fields",
    [{"relations": ["located_in"]}, {"concept_types": ["Organization"]}, {"enabled": False}],
    ids=["relations", "types", "off"],
)
def test_restricted_graphs_say_nothing_about_connections(
    client: Any, fields: dict[str, Any]
) -> None:
    answer = answer_of(client, query="What connects India with NVIDIA?", kg_expansion=fields)
    assert not [text for text in answer["warnings"] if "connection" in text]


def test_a_model_receives_every_passage_of_the_path(
    companies: Path, client_for: Callable[..., Any]
) -> None:
    with serving() as server:
        body = {"synthesis": {"enabled": True}, "budget": {"max_tokens_gen": 100, "timeout_s": 25}}
        answer_of(client_for(companies, llm_base_url=server.url), **body)
        ((_, sent),) = server.requests
    prompt = sent["messages"][1]["content"]
    assert SUPPLY in prompt
    assert PLACE in prompt

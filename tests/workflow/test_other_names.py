"""A question with another name of an entity finds the passages that use its preferred name."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docstokg.contracts.retrieval import ChannelQuery
from docstokg.domain.deadline import Deadline
from docstokg.errors import Unavailable
from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from tests.builders import body_of
from tests.conftest import load_folder, opened, store_of, write_corpus

ENTITIES = [
    {"id": "X:1", "name": "Sorrel gate", "type": "Place", "synonyms": ["Quintel arch"]},
    {"id": "X:2", "name": "Ostravel", "type": "Place"},
]
CHUNKS = [
    {"id": f"f{n}", "doc_id": f"f{n}", "title": "Notes", "text": f"An arch of brick, number {n}."}
    for n in range(2)
] + [{"id": "s", "doc_id": "s", "title": "Town", "text": "Sorrel gate was built in 1612."}]


CORPUS = {"chunks.jsonl": CHUNKS, "entities.jsonl": ENTITIES}


def sources(client: Any, name: str, **fields: Any) -> dict[str, str]:
    """Map each cited passage to what brought it: `hybrid` is retrieval itself."""
    body = {"query": f"What is the {name}?", "top_k": 3, **fields}
    citations = body_of(client.post("/v1/search", json=body))["citations"]
    return {citation["chunk_id"]: citation["source"] for citation in citations}


def test_other_names_reach_the_word_channels(
    tmp_path: Path, cache_dir: Path, client_for: Any
) -> None:
    store = store_of(tmp_path, cache_dir, CORPUS, embed=False)
    client = client_for(store, embed_provider="none")
    assert sources(client, "Quintel arch")["s"] == "hybrid"
    assert sources(client, "Harl tower").get("s") != "hybrid"
    off = sources(client, "Quintel arch", kg_expansion={"enabled": False})
    assert "s" not in off, "names belong to the graph"
    # A later list replaces the names.
    listed = [{**ENTITIES[0], "synonyms": ["Harl tower"]}]
    later = write_corpus(tmp_path / "later", {"entities.jsonl": listed})
    load_folder(later, store, cache_dir, embed=False)
    client = client_for(store, embed_provider="none")
    assert sources(client, "Harl tower")["s"] == "hybrid"


def test_dates_in_another_notation_reach_the_word_channels(
    tmp_path: Path, cache_dir: Path, client_for: Any
) -> None:
    days = [
        {"id": f"d{day}", "doc_id": f"d{day}", "title": "Log", "text": f"{day} October 2023: calm."}
        for day in range(1, 32)
    ]
    store = store_of(tmp_path, cache_dir, {"chunks.jsonl": days}, embed=False)
    client = client_for(store, embed_provider="none")
    body = {"query": "What was it like on 2023-10-05?", "top_k": 2}
    citations = body_of(client.post("/v1/search", json=body))["citations"]
    assert "d5" in {citation["chunk_id"] for citation in citations}


class GoneAfterNames:
    """A search index that is gone when the other names are searched."""

    def __init__(self, index: Any) -> None:
        self._index = index

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def search(self, queries: Sequence[ChannelQuery], scope: Any, deadline: Deadline) -> Any:
        if not any(query.names for query in queries):
            raise Unavailable("the index is gone")
        return self._index.search(queries, scope, deadline)


def test_a_lost_search_for_other_names_is_told(
    tmp_path: Path, cache_dir: Path, settings_for: Any
) -> None:
    store = store_of(tmp_path, cache_dir, CORPUS, embed=False)
    settings = settings_for(store, embed_provider="none")
    inner = Wiring(settings, Telemetry(level="ERROR"))
    ports = {"search_index": GoneAfterNames(inner.search_index())}
    with opened(settings, ports) as client:
        for name, reasons in (("brick", []), ("Quintel arch", ["bm25_unavailable"])):
            reply = client.post("/v1/search", json={"query": f"What is the {name}?", "top_k": 3})
            assert reply.status_code == 200 and reply.json()["citations"]
            degraded = reply.json()["diagnostics"]["degraded_reasons"]
            assert [reason for reason in degraded if reason == "bm25_unavailable"] == reasons
    inner.close()

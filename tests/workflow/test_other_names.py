"""A question with another name of an entity finds the passages that use its preferred name."""

from pathlib import Path
from typing import Any

from tests.conftest import load_folder, write_corpus

ENTITIES = [
    {"id": "X:1", "name": "Sorrel gate", "type": "Place", "synonyms": ["Quintel arch"]},
    {"id": "X:2", "name": "Ostravel", "type": "Place"},
]
CHUNKS = [
    {"id": f"f{n}", "doc_id": f"f{n}", "title": "Notes", "text": f"An arch of brick, number {n}."}
    for n in range(2)
] + [{"id": "s", "doc_id": "s", "title": "Town", "text": "Sorrel gate was built in 1612."}]


def sources(client: Any, name: str, **more: Any) -> dict[str, str]:
    """Map each cited passage to what brought it: `hybrid` is retrieval itself."""
    body = {"query": f"What is the {name}?", "top_k": 3, **more}
    reply = client.post("/v1/search", json=body)
    assert reply.status_code == 200, reply.text
    return {one["chunk_id"]: one["source"] for one in reply.json()["citations"]}


def test_other_names_reach_the_word_channels(
    tmp_path: Path, cache_dir: Path, client_for: Any
) -> None:
    folder = write_corpus(tmp_path / "in", {"chunks.jsonl": CHUNKS, "entities.jsonl": ENTITIES})
    store = tmp_path / "store.sqlite"
    load_folder(folder, store, cache_dir, embed=False)
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

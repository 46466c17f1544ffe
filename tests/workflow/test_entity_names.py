"""`docstokg entities`: a decision about two names holds through loads, and is taken back."""

from pathlib import Path
from typing import Any

import pytest
import typer

from docstokg.domain.graph.same_names import SAME_AS
from docstokg.wiring import Wiring
from docstokg_local.cli.entities import decide, print_pairs
from docstokg_local.loading.stores import stores_of
from tests.conftest import load_folder, store_of

PAGES = [
    {"id": "a", "doc_id": "a", "title": "Hof Bridge",
     "text": "Hof Bridge, also known as the Iron Gate, spans the Zell."},
    {"id": "b", "doc_id": "b", "title": "Tolls", "text": "A toll is due at the Iron Gate."},
    {"id": "c", "doc_id": "c", "title": "Old Arch", "text": "Old Arch fell in the flood."},
]  # fmt: skip
LISTED = [{"id": f"B:{i}", "name": name} for i, name in enumerate(("Rope Walk", "Rope Street"))]


@pytest.fixture
def town(tmp_path: Path, cache_dir: Path) -> Path:
    return store_of(tmp_path, cache_dir, {"chunks.jsonl": PAGES, "entities.jsonl": LISTED})


def named(client: Any, query: str) -> dict[str, Any]:
    citations = client.post("/v1/search", json={"query": query}).json()["citations"]
    return {c["chunk_id"]: c["kg_evidence"] for c in citations}


def test_names_tied_by_a_text_unite_until_split(
    town: Path, client_for: Any, settings_for: Any, cache_dir: Path, capsys: Any
) -> None:
    query = "What is due at Hof Bridge?"
    assert named(client_for(town), query)["b"]["matched_entity"] == "Iron Gate"
    wiring = Wiring(settings_for(town))
    stores = stores_of(wiring)
    decide(stores, "default", ("Iron Gate", "Hof Bridge"), same=False)
    evidence = named(client_for(town), query)["b"]
    assert evidence is None or SAME_AS not in {edge["type"] for edge in evidence["path"]}
    load_folder(town.parent / "corpus", town, cache_dir)
    again = named(client_for(town), query)["b"]
    assert again is None or again["match_type"] != "direct_mention"
    decide(stores, "default", ("Hof Bridge", "Iron Gate"), same=True)
    assert named(client_for(town), query)["b"]["match_type"] == "direct_mention"
    print_pairs(stores, "default")
    printed = capsys.readouterr().out
    assert "Hof Bridge = Iron Gate  (also called, " in printed
    assert "(by hand)" in printed
    wiring.close()


def test_two_listed_entities_are_never_merged(town: Path, settings_for: Any) -> None:
    wiring = Wiring(settings_for(town))
    stores = stores_of(wiring)
    for names in (("Rope Walk", "Rope Street"), ("Rope Walk", "B:0"), ("Rope Walk", "Nowhere")):
        with pytest.raises(typer.BadParameter):
            decide(stores, "default", names, same=True)
    wiring.close()

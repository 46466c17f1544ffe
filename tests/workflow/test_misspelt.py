"""Only words that no passage holds are read as names, and rarely: a wrong reading misleads."""

from pathlib import Path
from typing import Any

import pytest

from docstokg_local.cli.demo_corpus import write_corpus as write_demo
from tests.builders import body_of
from tests.conftest import load_folder, store_of

OUTSIDE = (
    "France", "Portugal", "Bangkok", "Kremlin", "Sahara", "Everest", "Toyota", "Airbus", "Tolstoy",
    "Mozart", "Hamlet", "Napoleon", "cricket", "saffron", "lasagne", "violin", "volcano", "comets",
    "Trance", "Bitcoin",
)  # fmt: skip
MISSPELT = {
    "Microcephally": "Microcephaly",
    "Hypotnia": "Hypotonia",
    "Nystagmis": "Nystagmus",
    "Strabissmus": "Strabismus",
    "Angleman syndrome": "Angelman syndrome",
}
LEAST_READ = 4


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    load_folder(write_demo(folder, False), folder / "store.sqlite", cache_dir, embed=False)
    return folder / "store.sqlite"


def read_as(client: Any, query: str, **fields: Any) -> list[str]:
    """Return the warnings that say how a name was read."""
    body = body_of(client.post("/v1/search", json={"query": query, **fields}))
    return [warning for warning in body["warnings"] if "was read as" in warning]


@pytest.mark.slow
def test_words_from_elsewhere_are_never_corrected(demo: Path, client_for: Any) -> None:
    client = client_for(demo, embed_provider="none")
    assert len(OUTSIDE) == 20
    for word in OUTSIDE:
        for query in (f"What is the capital of {word}?", f"Who knows {word}?"):
            assert read_as(client, query) == [], query


@pytest.mark.slow
def test_misspelt_demo_names_are_read_as_meant(demo: Path, client_for: Any) -> None:
    client = client_for(demo, embed_provider="none")
    warnings_by_name = {
        wrong: read_as(client, f"Which diseases show {wrong}?") for wrong in MISSPELT
    }
    for wrong, warnings in warnings_by_name.items():
        assert warnings in ([], [f"Nothing is called {wrong!r} here; it was read as"
                                 f" {MISSPELT[wrong]!r}."])  # fmt: skip
    assert sum(map(bool, warnings_by_name.values())) >= LEAST_READ, warnings_by_name


def test_a_word_of_a_passage_is_not_misspelt(
    tmp_path: Path, cache_dir: Path, client_for: Any
) -> None:
    entities = [
        {"id": "X:1", "name": "Krellin", "type": "Place", "synonyms": ["Zorwick fen"]},
        {"id": "X:2", "name": "Ostravel", "type": "Place"},
    ]
    chunks = [
        {"id": "a", "doc_id": "a", "title": "Krellin", "text": "Krellin is a town by the sea."},
        {"id": "b", "doc_id": "b", "title": "Fish", "text": "The krellon is a small grey fish."},
        {"id": "c", "doc_id": "c", "title": "Ostravel", "text": "Ostravel lies near Zorwick fen."},
        {"id": "d", "doc_id": "d", "title": "X", "text": "Secret: Ostrawel.", "acl": ["staff"]},
    ]
    corpus = {"chunks.jsonl": chunks, "entities.jsonl": entities}
    client = client_for(store_of(tmp_path, cache_dir, corpus))
    assert read_as(client, "Where is Krelin?")
    assert read_as(client, "Where is Ostravil?")
    # A passage holds the word, or may hold it beyond the filter.
    assert not read_as(client, "Where is Krellon?")
    assert not read_as(client, "Where is Ostrawel?")
    assert not read_as(client, "Where is Krelin?", filter={"doc_id": ["a"]})
    # The first letter differs; the name found is a synonym of a listed entity.
    assert not read_as(client, "Where is Grellin?")
    assert not read_as(client, "Where is Zorwikc fen?")

"""A stored answer is returned only for the same caller, store and load."""

import json

import pytest

from tests.builders import body_of, keyed, settings_at
from tests.conftest import load_folder, write_corpus
from tests.embedded_store import PLAIN

KEYS = {
    "red": {"sub": "same", "groups": ["red"]},
    "blue": {"sub": "same", "groups": ["blue"]},
    "none": {"sub": "same", "groups": []},
    "both": {"sub": "same", "groups": ["red", "blue"]},
}
QUESTION = {"query": "What does the valve report say?", "cache_key": "x"}


def rows(word: str, acl: list[str]) -> dict:
    lines = [
        {
            "id": f"{word}-{number}",
            "doc_id": f"{word}-{number}",
            "title": f"Valve report {number}",
            "text": f"The valve report number {number} says {word} in plain words, for page "
            f"{number}. " + f"Its {word} appendix repeats the finding. " * 4,
            "acl": acl,
        }
        for number in range(6)
    ]
    return {"chunks.jsonl": lines}


@pytest.fixture
def place(tmp_path, client_for):
    keys = keyed(tmp_path, KEYS)
    cache = tmp_path / "cache"

    def load(word: str, acl: list[str], store: str = "store"):
        folder = write_corpus(tmp_path / store / word, rows(word, acl))
        path = tmp_path / f"{store}.sqlite"
        load_folder(folder, path, cache, embed=False)
        return path

    def client(path):
        return client_for(path, cache_dir=str(cache), channels=("bm25",), **keys, **PLAIN)

    return load, client


def reply_to(client, key: str) -> dict:
    return body_of(client.post("/v1/search", json=QUESTION, headers={"X-Api-Key": key}))


def hit(body: dict) -> bool:
    return body["diagnostics"]["cache_hit"]


def test_other_groups_under_the_same_name_and_key(place) -> None:
    load, client = place
    load("crimson", ["red"])
    reader = client(load("azure", ["blue"]))
    assert "crimson" in json.dumps(reply_to(reader, "red"))
    again = reply_to(reader, "red")
    assert hit(again) and "crimson" in json.dumps(again)
    for key, seen in (("blue", {"azure"}), ("none", set()), ("both", {"crimson", "azure"})):
        body = reply_to(reader, key)
        assert not hit(body)
        text = json.dumps(body["citations"])
        assert {word for word in ("crimson", "azure") if word in text} == seen, key


def test_a_tightened_acl_a_removal_and_another_store(place) -> None:
    from docstokg.loading.write.removal import delete_namespace
    from docstokg.wiring import Wiring
    from docstokg_local.loading.stores import stores_of

    load, client = place
    path = load("crimson", [])
    reader = client(path)
    assert "crimson" in json.dumps(reply_to(reader, "blue"))
    assert hit(reply_to(reader, "blue"))
    load("crimson", ["red"])
    assert reply_to(reader, "blue")["citations"] == []
    assert "crimson" in json.dumps(reply_to(reader, "red"))
    elsewhere = client(load("azure", [], store="other"))
    body = reply_to(elsewhere, "red")
    assert not hit(body)
    assert "crimson" not in json.dumps(body)
    assert hit(reply_to(reader, "red"))
    wiring = Wiring(settings_at(path))
    assert delete_namespace(stores_of(wiring, False), "default") == 6
    wiring.close()
    assert reply_to(reader, "red")["citations"] == []

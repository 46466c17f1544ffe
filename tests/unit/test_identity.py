"""Ids of chunks and entities must never change, because stores are keyed by them."""

import pytest

from docstokg.contracts.records import RelationRecord
from docstokg.domain import identity
from docstokg.domain.visibility import facets, required


def test_the_keys_are_those_that_stores_hold() -> None:
    uuid = identity.chunk_uuid("default", "a1")
    assert uuid == "48a329ec-497b-51da-817f-99fe1894d49a"
    assert identity.chunk_key(uuid) == int(uuid.replace("-", "")[:16], 16) >> 1
    assert identity.chunk_key("no uuid") == 3035378598366666203
    assert identity.entity_key("default", "HP:0001250") == 332614153572664016
    assert identity.namespaced("a", "b") == "a/b"
    relation = RelationRecord(namespace="default", source="a", type="is_a", target="b")
    assert identity.relation_row(relation)["key"] == 3875994975283466006
    assert identity.entity_id("Seizure") == "ent:4b879e9f69bb529b"
    assert identity.entity_id("Ada  LOVELACE") == identity.entity_id("ada lovelace")


@pytest.mark.parametrize(
    ("text", "prefix", "curie", "is_own"),
    [
        ("HP:0001250", "hp", True, False), ("ent:0123456789abcdef", "", False, True),
        ("ent:short", "", False, True), ("Seizure", "", False, False),
        ("http://x", "http", False, False), ("mesh:amp-activated", "mesh", True, False),
        ("a b:c", "a b", False, False), (":x", "", False, False), ("x:", "x", False, False),
    ],
)  # fmt: skip
def test_kinds_of_ids_are_recognised(text: str, prefix: str, curie: bool, is_own: bool) -> None:
    assert identity.prefix_of(text) == prefix
    assert identity.is_curie(text) is curie
    assert identity.is_own_id(text) is is_own
    assert identity.is_id(text) is (curie or (is_own and len(text) == 20))


@pytest.mark.parametrize(
    ("stored", "requested", "matches"),
    [
        (2023, "2023", True),
        ("2023", 2023, True),
        ("2023", 2023.0, True),
        (2.5, "2.5", True),
        ("2.5", 2.5, True),
        (2023, "2023.0", False),
        ("02023", 2023, False),
        (True, "true", False),
        ("true", True, False),
        (1, True, False),
        (None, "null", False),
        ("NaN", "NaN", True),
    ],
)
def test_a_filter_number_matches_its_text(stored, requested, matches: bool) -> None:
    metadata = {} if stored is None else {"year": stored}
    (group,) = required({"year": [requested]})
    assert bool(set(group) & set(facets({}, (), metadata))) is matches

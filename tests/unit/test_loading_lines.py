"""Requirements on lines of a load, and messages for rejected ones."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.loading.read.raw_input import RawMention
from docstokg.loading.read.rejects import Rejected
from docstokg.loading.readers.chunks import read_chunk
from docstokg.loading.readers.entities import read_entity
from docstokg.loading.readers.lines import json_lines, parse_object
from docstokg.loading.readers.relations import read_relation
from docstokg.loading.readers.triples import read_triple

CHUNK = {"id": "a", "doc_id": "d", "text": "Seizures are events."}


def test_a_chunk_keeps_its_text_and_unknown_keys():
    line = {
        **CHUNK,
        "title": "Seizure",
        "page": "iv",
        "char_start": 7,
        "topics": ["t", "t"],
        "acl": ["g"],
        "metadata": {"year": 2020, "kept": 1},
        "kept": 2,
        "mesh": ["a", "b"],
        "mentions": [{"entity": "HP:0001250", "start": 0, "end": 8}],
        "embedding": [3, 4],
        "sparse": {"seizure": 1.5},
    }
    chunk = read_chunk(parse_object(json.dumps(line).encode()))
    assert (chunk.title, chunk.page, chunk.char_start) == ("Seizure", "iv", 7)
    assert (chunk.topics, chunk.acl) == (("t",), ("g",))
    assert chunk.metadata == {"year": 2020, "kept": 1, "mesh": ["a", "b"]}
    assert chunk.mentions == (RawMention("HP:0001250", 0, 8),)
    assert chunk.embedding is not None and len(chunk.embedding) == 8
    assert chunk.sparse == {"seizure": 1.5}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"{", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b'{"id": NaN}', "NaN is not a JSON number"),
        (b'{"id": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"weight": 1e999}', "too large"),
        (b'{"id": "\xff"}', "not UTF-8"),
        (b'{"id": "a\x00b"}', "not JSON"),
        (b'{"id": "a\\u0000b"}', "NUL"),
        (b'{"id": "\\ud800"}', "lone surrogate"),
        (b'{"\\uDC00": 1}', "lone surrogate"),
        (b'{"a": [{"b": "\\udfff"}]}', "lone surrogate"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"a": ' + b"1" * 5000 + b"}", "number is too long"),
    ],
)
def test_malformed_lines_are_refused_with_their_reason(raw: bytes, reason: str):
    with pytest.raises(Rejected, match=reason):
        parse_object(raw)


def test_a_surrogate_pair_is_a_character():
    assert parse_object(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("id", 1),
        ("id", ""),
        ("doc_id", None),
        ("text", " \n"),
        ("text", 5),
        ("page", True),
        ("page", 1.5),
        ("char_start", -1),
        ("char_start", "3"),
        ("topics", "one"),
        ("acl", [1]),
        ("metadata", []),
        ("mentions", [{"entity": "HP:1", "start": 3, "end": 99}]),
        ("mentions", [{"entity": "HP:1", "start": 3, "end": 3}]),
        ("mentions.0", [{"entity": "HP:1", "start": 3}]),
        ("mentions.0", [{"entity": "HP:1"}]),
        ("mentions.0.about", [{"entity": "HP:1", "about": "yes"}]),
        ("embedding", []),
        ("embedding", [0, 0]),
        ("embedding", ["1"]),
        ("sparse", {"a": 0}),
        ("sparse", {"a": "1"}),
    ],
)
def test_wrong_types_of_a_chunk_are_refused(place: str, value: object):
    line = {**CHUNK, place.partition(".")[0]: value}
    with pytest.raises(Rejected, match=place):
        read_chunk(parse_object(json.dumps(line).encode()))


def test_every_problem_of_a_line_is_named():
    with pytest.raises(Rejected) as refused:
        read_chunk({"id": 1, "text": ""})
    assert all(name in str(refused.value) for name in ("id:", "doc_id:", "text:"))


def test_relations_keep_their_properties_and_their_evidence():
    relation = read_relation(
        {
            "source": "OMIM:1",
            "type": "has_phenotype",
            "target": "HP:1",
            "frequency": "3/4",
            "evidence": {"chunk_id": "c", "start": 1, "end": 4},
        }
    )
    assert (relation.evidence, relation.start, relation.end) == ("c", 1, 4)
    assert relation.properties == {"frequency": "3/4"}


EDGE = {"source": "a", "type": "b", "target": "c"}


@pytest.mark.parametrize(
    ("read", "line", "place"),
    [
        (read_entity, {"id": "seizure", "name": "Seizure"}, "id"),
        (read_entity, {"id": "HP:1"}, "name"),
        (read_entity, {"id": "HP:1", "name": " "}, "name"),
        (read_entity, {"id": "HP:1", "name": "x", "synonyms": "y"}, "synonyms"),
        (read_entity, {"id": "HP:1", "name": "x", "obsolete": "yes"}, "obsolete"),
        (read_relation, {"source": "a", "type": "b"}, "target"),
        (read_relation, {**EDGE, "type": ""}, "type"),
        (read_relation, {**EDGE, "target": " "}, "target"),
        (read_relation, {**EDGE, "weight": "1"}, "weight"),
        (read_relation, {**EDGE, "evidence": {"chunk_id": "x", "start": 1}}, "evidence"),
        (read_relation, {**EDGE, "evidence": "x"}, "evidence"),
        (read_triple, {"subject": "a", "relation": "b", "object": "c"}, "doc_id or chunk_id"),
    ],
)
def test_wrong_lines_are_refused(
    read: Callable[[dict[str, Any]], object], line: dict[str, Any], place: str
):
    with pytest.raises(Rejected, match=place):
        read(line)


def test_only_line_feeds_count_and_split_lines(tmp_path):
    path = tmp_path / "chunks.jsonl"
    path.write_bytes('{"a": "x\u2028y"}\r\n\n[]\n{"b": 2}'.encode())
    rows = list(json_lines(path))
    assert [number for number, _ in rows] == [1, 3, 4]
    assert rows[0][1] == {"a": "x\u2028y"}
    assert isinstance(rows[1][1], Rejected)
    assert rows[2][1] == {"b": 2}


WORDS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*CHUNK, "title", "page", "acl", "mentions"]), JSON))
def test_any_json_is_taken_or_refused_without_crash(line: dict[str, object]):
    raw = json.dumps(line).encode()
    try:
        chunk = read_chunk(parse_object(raw))
    except Rejected:
        return
    assert isinstance(chunk.text, str) and chunk.text.strip()


@given(st.binary(max_size=200))
def test_any_bytes_are_taken_or_refused(raw: bytes):
    try:
        assert isinstance(parse_object(raw), dict)
    except Rejected as refused:
        assert str(refused)

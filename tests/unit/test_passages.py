"""A citation in its surrounding text: neighbours, access and position."""

import json
from pathlib import Path

import pytest

from docstokg.contracts.envelope import Caller
from docstokg.domain.identity import chunk_uuid
from docstokg.wiring import Wiring
from docstokg_functions.documents import handler as documents
from tests.conftest import load_folder, write_corpus
from tests.embedded_store import PLAIN, settings_at
from tests.envelopes import event
from tests.plans import logging

PARTS = [
    f"## Part {n}\n\n" + f"The lamp of part {n} is lit at {n} o'clock. " * 30 for n in range(5)
]
BOOK = "# The lamps\n\n" + "\n\n".join(PARTS) + "\n"
ALL = Caller(sub="a", namespaces=("*",), groups=("*",))


@pytest.fixture(scope="module")
def read_passage(tmp_path_factory, cache_dir):
    folder = tmp_path_factory.mktemp("passages")
    rows = [
        {"id": f"mixed#{n}", "doc_id": "mixed", "text": f"Sentence {n} of it.", "acl": acl}
        for n, acl in enumerate([[], ["staff"], [], []])
    ]
    source = write_corpus(folder / "in", {"chunks.jsonl": rows})
    (source / "book.md").write_text(BOOK)
    store = folder / "store.sqlite"
    load_folder(source, store, cache_dir, embed=False, names="rule")
    wiring = Wiring(settings_at(store, cache_dir=str(cache_dir), **PLAIN))
    handler = documents.build(wiring)

    def call(caller: Caller = ALL, **body):
        reply = handler(event(body, "passage", caller), None)
        return reply["statusCode"], json.loads(reply["body"])

    yield call
    wiring.close()


def test_a_passage_comes_with_the_text_around_it(read_passage) -> None:
    status, got = read_passage(uuid=chunk_uuid("default", "book.md#2"), context=400)
    assert status == 200
    start, end = got["char_start"], got["char_end"]
    assert (got["doc_id"], got["offset_base"]) == ("book.md", "document")
    assert BOOK[start:end] == got["text"]
    assert len(got["before"]) == len(got["after"]) == 400
    joined = " ".join((got["before"] + got["text"] + got["after"]).split())
    assert joined in " ".join(BOOK.split())


def test_the_cited_stretch_is_lit(read_passage) -> None:
    uuid = chunk_uuid("default", "book.md#1")
    _, whole = read_passage(uuid=uuid)
    start = whole["char_start"] + 7
    _, got = read_passage(uuid=uuid, char_start=start, char_end=start + 20)
    assert got["text"][slice(*got["lit"])] == BOOK[start : start + 20]
    status, refused = read_passage(uuid=uuid, char_start=0, char_end=5)
    assert status == 400
    assert refused["errors"][0]["path"] == "$.char_start"


def test_forbidden_text_is_neither_passage_nor_neighbour(read_passage) -> None:
    nobody = Caller(sub="b", namespaces=("default",))
    assert read_passage(nobody, uuid=chunk_uuid("default", "mixed#1"))[0] == 404
    assert read_passage(nobody, uuid=chunk_uuid("default", "absent"))[0] == 404
    assert read_passage(nobody, namespace="other", uuid="x")[0] == 403
    _, got = read_passage(nobody, uuid=chunk_uuid("default", "mixed#2"))
    assert (got["before"], got["after"]) == ("", "\n\nSentence 3 of it.")
    _, got = read_passage(uuid=chunk_uuid("default", "mixed#2"))
    assert got["before"] == "Sentence 0 of it.\n\nSentence 1 of it.\n\n"


def test_document_ends_have_nothing_beyond_them(read_passage) -> None:
    _, got = read_passage(uuid=chunk_uuid("default", "book.md#0"))
    assert got["before"] == ""
    assert BOOK[: got["char_start"]].strip() == "# The lamps"  # the title, which each chunk has


def test_an_index_that_is_gone_is_503(cache_dir, tmp_path: Path) -> None:
    lines: list[str] = []
    settings = settings_at(tmp_path / "none.sqlite", cache_dir=str(cache_dir))
    wiring = Wiring(settings, logging(lines))
    reply = documents.build(wiring)(event({"uuid": "x"}, "passage", ALL), None)
    wiring.close()
    assert reply["statusCode"] == 503
    assert any("passage_failed" in line for line in lines)

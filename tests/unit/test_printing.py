"""Nothing that a stranger wrote acts on the terminal that shows it."""

import io
import json
import re
import time
import unicodedata

import pytest

from docstokg.loading.context import LoadReport, TypeCount
from docstokg.loading.read.rejects import RejectLog
from docstokg_local.cli import display
from docstokg_local.cli.display import TerminalProgress, show_load
from docstokg_local.cli.draft_check import show_check
from docstokg_local.cli.printing import print_json, printable, printable_json
from tests.builders import eventually

NASTY = "\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b31m\u202egnp.exe\x08\x7f\r\u2066\u2028end"
TURNS = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
ACTING = {
    character
    for character in map(chr, range(0x110000))
    if unicodedata.category(character) == "Cc" or unicodedata.bidirectional(character) in TURNS
} - {"\t", "\n"}
CITATION = {
    "rank": 1, "doc_id": NASTY, "document_name": NASTY, "section": NASTY, "page": NASTY,
    "cited": True, "source": "kg_expansion", "score": 0.5, "char_start": 0, "char_end": 9,
    "offset_base": "chunk", "chunk_id": NASTY, "text_sha256": "0" * 64, "snippet": NASTY,
    "kg_path": [NASTY], "kg_evidence": None, "concepts_mentioned": [NASTY],
}  # fmt: skip
RESPONSE = {
    "query": NASTY, "answer": NASTY + " [1]", "confidence": 0.5, "confidence_level": "low",
    "grounding": None, "citations": [CITATION], "warnings": [NASTY], "diagnostics": None,
    "conflicts": [{"ranks": [2, 1], "spans": [], "kind": "superseded"}], "notes": [],
}  # fmt: skip
PROBLEM = {"status": 400, "title": NASTY, "code": NASTY, "detail": NASTY, "errors": []}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_every_acting_character_becomes_one_that_does_not() -> None:
    assert not ACTING & set(printable("".join(ACTING)))
    assert len(printable(NASTY)) == len(NASTY)
    assert printable("a\tb\nc é 中 \U0001f600") == "a\tb\nc é 中 \U0001f600"
    printed = printable_json({"a": ["".join(sorted(ACTING))]})
    assert not ACTING & set(printed)
    assert json.loads(printed) == {"a": ["".join(sorted(ACTING))]}


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_answers_and_checks_show_words_and_nothing_else(stream, monkeypatch) -> None:
    out, err = stream(), stream()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setenv("TERM", "xterm-256color")
    display.show_answer(RESPONSE, 1)
    display.show_problem(PROBLEM)
    print_json(RESPONSE)
    show_check(NASTY, 400, PROBLEM)
    printed = out.getvalue() + err.getvalue()
    assert "owned" in printed
    assert "replaced by [2]" in printed
    # The colours of our own are all that is left of escapes.
    assert not ACTING & set(re.sub(r"\x1b\[[0-9;]*m", "", printed))
    assert ("\x1b" in printed) is (stream is Terminal)


def cited(page: int | str) -> dict:
    citation = CITATION | {"document_name": "b.xlsx", "section": None, "page": page}
    return {"citations": [citation]}


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"answer": "A Mutex&lt;T> is locked [1]."}, "A Mutex<T> is locked [1]."),
        (cited(3), "b.xlsx, page 3  "),
        (cited("Prices"), "b.xlsx, Prices  "),
        (
            {"answer": "Van: A; Base: Ayr [1]. Van: B; Base: Ayr [1]."},
            "Van   A\nBase  Ayr [1]\n\nVan   B\nBase  Ayr [1]\n",
        ),
    ],
    ids=["no entity of Markdown", "a page", "a sheet is no page", "rows below each other"],
)
def test_an_answer_is_printed_for_a_reader(capsys, fields: dict, shown: str) -> None:
    display.show_answer(RESPONSE | fields, 1)
    assert shown in capsys.readouterr().out


def test_generated_ids_are_printed_as_names() -> None:
    bare = {"kg_path": ["ent:59a6a8ee10091653"], "kg_evidence": None}
    assert display.path_line(bare) == "found by the walk"
    assert display.path_line(bare | {"kg_path": []}) == ""
    evidence = {
        "matched_entity": "Paris",
        "entity_id": "ent:2",
        "related_to": "Curie",
        "match_type": "related_via",
        "path": [{"src": "ent:1", "type": "WORKED_IN", "dst": "ent:2"}],
    }
    line = display.path_line({"kg_path": ["ent:1", "ent:2"], "kg_evidence": evidence})
    assert line == "Paris: Curie -WORKED_IN-> Paris"


def test_a_long_step_logs_its_progress(monkeypatch, capsys) -> None:
    monkeypatch.setattr(display, "LINE_EVERY_S", 0.01)
    lines: list[str] = []

    def is_shown(wanted: str) -> bool:
        lines.extend(capsys.readouterr().err.splitlines())
        return any(re.fullmatch(wanted, line) for line in lines)

    def wait_for(wanted: str) -> None:
        assert eventually(lambda: is_shown(wanted), 120), lines[-5:]

    with TerminalProgress().stage("reading", 2_000) as advance:
        wait_for("reading: 0 of 2,000")
        advance(1_500)
        wait_for(r"reading: 1,500 of 2,000, [0-9.,]+/s, [0-9,]+ s left")
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""
    with TerminalProgress().stage("names", None) as advance:
        advance(3)
        wait_for("names: 3")


def test_one_hidden_note_is_singular(capsys) -> None:
    log = RejectLog(examples=1)
    log.notes = [f"{at}.pdf: contains no text" for at in range(display.NOTES + 1)]
    for line in (1, 2):
        log.add("a.jsonl", line, "not JSON")
    show_load(LoadReport("run-1", types={".jsonl": TypeCount(files=1)}), log)
    out, err = capsys.readouterr()
    assert "... and 1 more note\n" in err
    assert "... and 1 more reject\n" in err
    assert " 1 file " in out


@pytest.mark.parametrize(("seconds", "shown"), [(0.0, ""), (4.0, ""), (0.5, " (4 chunks/s)")])
def test_a_slow_load_shows_no_rate(capsys, seconds: float, shown: str) -> None:
    report = LoadReport("run-1", types={".md": TypeCount(files=1)}, chunks=2, seconds=seconds)
    show_load(report, RejectLog())
    assert f" in {seconds:.1f} s{shown}, run run-1" in capsys.readouterr().out

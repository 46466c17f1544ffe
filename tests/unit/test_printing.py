"""Nothing that a stranger wrote acts on the terminal that shows it."""

import io
import json
import re
import time
import unicodedata

import pytest
from rich.console import Console

from docstokg.loading.context import LoadReport, TypeCount
from docstokg.loading.read.rejects import RejectLog
from docstokg_local.cli import display
from docstokg_local.cli.display import TerminalProgress, show_load
from docstokg_local.cli.draft_check import show_check
from docstokg_local.cli.printing import printable, printable_json

NASTY = "\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b31m\u202egnp.exe\x08\x7f\r\u2066\u2028end"
ACTING = {chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cc"} - {
    "\t",
    "\n",
}
ACTING |= {
    c
    for c in map(chr, range(0x110000))
    if unicodedata.bidirectional(c)
    in {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
}
CITATION = {
    "rank": 1, "doc_id": NASTY, "document_name": NASTY, "section": NASTY, "page": NASTY,
    "cited": True, "source": "kg_expansion", "score": 0.5, "char_start": 0, "char_end": 9,
    "offset_base": "chunk", "chunk_id": NASTY, "text_sha256": "0" * 64, "snippet": NASTY,
    "kg_path": [NASTY], "kg_evidence": None, "concepts_mentioned": [NASTY],
}  # fmt: skip
RESPONSE = {
    "query": NASTY, "answer": NASTY + " [1]", "confidence": 0.5, "confidence_level": "low",
    "grounding": None, "citations": [CITATION], "warnings": [NASTY], "diagnostics": None,
    "conflicts": [{"ranks": [2, 1], "spans": [], "kind": "superseded"}],
}  # fmt: skip


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
    display.show_answer(RESPONSE)
    display.show_problem({"status": 400, "title": NASTY, "code": NASTY, "detail": NASTY})
    display.print_json(RESPONSE)
    show_check(NASTY, 400, {"title": NASTY, "detail": NASTY})
    printed = out.getvalue() + err.getvalue()
    assert "owned" in printed
    assert "replaced by [2]" in printed
    # The colours of our own are all that is left of escapes.
    ours = "\x1b["
    for start in range(len(printed)):
        if printed[start] in ACTING:
            assert printed.startswith(ours, start), printed[start : start + 20]
            assert printed[start + 2 :].lstrip("0123456789;")[0] == "m", printed[start : start + 20]
    assert "\x1b[2J" not in printed
    assert ("\x1b" in printed) is (stream is Terminal)


def test_a_terminal_shows_no_entity_of_markdown(monkeypatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    display.show_answer(RESPONSE | {"answer": "A Mutex&lt;T> is locked [1]."})
    assert "A Mutex<T> is locked [1]." in out.getvalue()


@pytest.mark.parametrize(("page", "place"), [(3, "b.xlsx, page 3"), ("Prices", "b.xlsx, Prices")])
def test_a_sheet_is_not_called_a_page(monkeypatch, page: int | str, place: str) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    citation = CITATION | {"document_name": "b.xlsx", "section": None, "page": page}
    display.show_answer(RESPONSE | {"citations": [citation]})
    assert f"{place}  " in out.getvalue()


def test_quoted_rows_are_printed_one_below_the_other(monkeypatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    display.show_answer(RESPONSE | {"answer": "Van: A; Base: Ayr [1]. Van: B; Base: Ayr [1]."})
    assert "Van   A\nBase  Ayr [1]\n\nVan   B\nBase  Ayr [1]\n" in out.getvalue()


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

    def wait_for(wanted: str) -> None:
        until = time.monotonic() + 120
        while not any(re.fullmatch(wanted, line) for line in lines):
            assert time.monotonic() < until, lines[-5:]
            time.sleep(0.01)
            lines.extend(capsys.readouterr().err.splitlines())

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


def test_one_hidden_note_is_singular(monkeypatch) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(display, "screen", lambda: Console(file=out, width=200))
    monkeypatch.setattr(display, "notes", lambda: Console(file=err, width=200))
    log = RejectLog(examples=1)
    log.notes = [f"{at}.pdf: contains no text" for at in range(display.NOTES + 1)]
    for line in (1, 2):
        log.add("a.jsonl", line, "not JSON")
    show_load(LoadReport("run-1", types={".jsonl": TypeCount(files=1)}), log)
    assert "... and 1 more note\n" in err.getvalue()
    assert "... and 1 more reject\n" in err.getvalue()
    assert " 1 file " in out.getvalue()


@pytest.mark.parametrize(("seconds", "shown"), [(0.0, ""), (4.0, ""), (0.5, " (4 chunks/s)")])
def test_a_slow_load_shows_no_rate(monkeypatch, seconds: float, shown: str) -> None:
    out = io.StringIO()
    monkeypatch.setattr(display, "screen", lambda *_: Console(file=out, width=200))
    report = LoadReport("run-1", types={".md": TypeCount(files=1)}, chunks=2, seconds=seconds)
    show_load(report, RejectLog())
    assert f" in {seconds:.1f} s{shown}, run run-1" in out.getvalue()

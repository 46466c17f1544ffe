"""Saved responses: another converter, a changed source, a response of an earlier build."""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from docstokg.adapters.conversion.parent import ChildConverter
from docstokg.contracts.outline import Outline
from docstokg.errors import LoadError
from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.cli.question import submit
from docstokg_local.cli.verify import verify_response
from docstokg_local.engine.workflow import LocalWorkflow
from tests.conftest import load_folder
from tests.embedded_store import PLAIN, settings_at

PAGE = "<html><body><h1>Valves</h1><p>Valve seven closes at 12 bar.</p></body></html>"


class Later(ChildConverter):
    """Another version of the converters, which writes a line above every text."""

    @property
    def versions(self):
        return {suffix: f"{reader}.later" for suffix, reader in super().versions.items()}

    def convert(self, suffix: str, raw: bytes) -> tuple[Outline, ...]:
        outlines = []
        for outline in super().convert(suffix, raw):
            blocks = tuple(replace(b, start=b.start + 6, end=b.end + 6) for b in outline.blocks)
            outlines.append(replace(outline, text="Later\n" + outline.text, blocks=blocks))
        return tuple(outlines)


@pytest.fixture
def folder(tmp_path: Path, cache_dir: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "valves.html").write_text(PAGE)
    load_folder(tmp_path / "in", tmp_path / "store.sqlite", cache_dir, embed=False, names="rule")
    return tmp_path


def wiring(folder: Path, cache_dir: Path, **ports: object) -> Wiring:
    store = folder / "store.sqlite"
    settings = settings_at(store, cache_dir=str(cache_dir), **PLAIN, names="rule")
    return Wiring(settings, Telemetry(level="ERROR"), ports)


@pytest.fixture
def saved(folder: Path, cache_dir: Path) -> dict[str, Any]:
    """A response to a question that the page answers with one quotation."""
    question = {
        "query": "At how many bar does valve seven close?",
        "synthesis": {"enabled": True, "model": "extractive"},
        "budget": {"max_tokens_gen": 100},
    }
    ports = wiring(folder, cache_dir)
    body = submit(LocalWorkflow(ports), question).body
    ports.close()
    assert body["grounding"]["sentences"][0]["decided_by"] == "rules"
    return body


def verified(
    body: dict[str, Any], folder: Path, cache_dir: Path, **ports: object
) -> tuple[list[str], int, list[str]]:
    """Return findings as text, number of proven citations, and notes."""
    notes: list[str] = []
    opened = wiring(folder, cache_dir, **ports)
    findings, proven = verify_response(body, folder / "in", lambda: opened, notes.append)
    opened.close()
    return [str(finding) for finding in findings], proven, notes


def edit(folder: Path, old: str, new: str) -> None:
    file = folder / "in" / "valves.html"
    file.write_text(file.read_text("utf-8").replace(old, new), encoding="utf-8")


def test_another_converter_is_noted_and_stored_text_counts(
    saved: dict[str, Any], folder: Path, cache_dir: Path
) -> None:
    assert verified(saved, folder, cache_dir) == ([], len(saved["citations"]), [])
    findings, proven, (note,) = verified(saved, folder, cache_dir, converter=Later())
    assert (findings, proven) == ([], len(saved["citations"]))
    assert "later produces a different text than selectolax" in note


def test_a_changed_source_is_reported(saved: dict[str, Any], folder: Path, cache_dir: Path) -> None:
    edit(folder, "12", "13")
    findings, proven, notes = verified(saved, folder, cache_dir)
    assert (proven, notes) == (0, [])
    assert any(text.startswith("$.citations[0].text_sha256") for text in findings)
    assert any(text.startswith("$.grounding.sentences[0].span") for text in findings)


def test_a_quote_missing_in_the_source_is_reported(
    saved: dict[str, Any], folder: Path, cache_dir: Path
) -> None:
    sentence = saved["grounding"]["sentences"][0]
    sentence["quote"] = "Valve seven closes at 14 bar."
    findings, _, _ = verified(saved, folder, cache_dir)
    assert findings == [
        "$.grounding.sentences[0].quote: is not in the sources that the sentence cites"
    ]


def test_a_sentence_that_is_no_quotation_is_reported(
    saved: dict[str, Any], folder: Path, cache_dir: Path
) -> None:
    saved["answer"] = saved["answer"].replace("12", "10")
    findings, _, _ = verified(saved, folder, cache_dir)
    assert [text for text in findings if "is not a quotation" in text]


def weak_verdict(body: dict[str, Any]) -> None:
    body["grounding"]["sentences"][0]["verdict"] = "weak"


def value_conflict(body: dict[str, Any]) -> None:
    body["conflicts"] = [{"ranks": [1, 2], "spans": [], "kind": "value"}]


@pytest.mark.parametrize("change", [weak_verdict, value_conflict])
def test_a_response_of_an_earlier_build_is_refused(
    saved: dict[str, Any],
    folder: Path,
    cache_dir: Path,
    change: Callable[[dict[str, Any]], None],
) -> None:
    body = copy.deepcopy(saved)
    change(body)
    with pytest.raises(LoadError, match="if an earlier build saved it, ask its question again"):
        verified(body, folder, cache_dir)
    with pytest.raises(LoadError, match=r"^not a RAGResponse: [^;]*$"):
        verified({"query": "x"}, folder, cache_dir)

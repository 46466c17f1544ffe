"""Saved responses: another converter, a changed source, a response of an earlier build."""

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
from tests.builders import answer_request, write_files
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
    files = write_files(tmp_path / "in", {"valves.html": PAGE})
    load_folder(files, tmp_path / "store.sqlite", cache_dir, embed=False, names="rule")
    return tmp_path


@pytest.fixture
def wiring(folder: Path, cache_dir: Path) -> Callable[..., Wiring]:
    store = folder / "store.sqlite"
    settings = settings_at(store, cache_dir=str(cache_dir), **PLAIN, names="rule")
    return lambda **ports: Wiring(settings, Telemetry(level="ERROR"), ports)


@pytest.fixture
def saved(wiring: Callable[..., Wiring]) -> dict[str, Any]:
    """A response to a question that the page answers with one quotation."""
    opened = wiring()
    question = answer_request("At how many bar does valve seven close?", 100)
    body = submit(LocalWorkflow(opened), question).body
    opened.close()
    assert body["grounding"]["sentences"][0]["decided_by"] == "rules"
    return body


Verified = Callable[..., tuple[list[str], int, list[str]]]


@pytest.fixture
def verified(folder: Path, wiring: Callable[..., Wiring]) -> Verified:
    """Return findings as text, number of proven citations, and notes."""

    def verify(body: dict[str, Any], **ports: object) -> tuple[list[str], int, list[str]]:
        notes: list[str] = []
        opened = wiring(**ports)
        findings, proven = verify_response(body, folder / "in", lambda: opened, notes.append)
        opened.close()
        return [str(finding) for finding in findings], proven, notes

    return verify


def test_another_converter_is_noted_and_stored_text_counts(
    saved: dict[str, Any], verified: Verified
) -> None:
    assert verified(saved) == ([], len(saved["citations"]), [])
    findings, proven, (note,) = verified(saved, converter=Later())
    assert (findings, proven) == ([], len(saved["citations"]))
    assert "later produces a different text than selectolax" in note


def test_a_changed_source_is_reported(
    saved: dict[str, Any], folder: Path, verified: Verified
) -> None:
    (folder / "in" / "valves.html").write_text(PAGE.replace("12", "13"))
    findings, proven, notes = verified(saved)
    assert (proven, notes) == (0, [])
    assert any(text.startswith("$.citations[0].text_sha256") for text in findings)
    assert any(text.startswith("$.grounding.sentences[0].span") for text in findings)


def test_a_quote_missing_in_the_source_is_reported(
    saved: dict[str, Any], verified: Verified
) -> None:
    saved["grounding"]["sentences"][0]["quote"] = "Valve seven closes at 14 bar."
    assert verified(saved)[0] == [
        "$.grounding.sentences[0].quote: is not in the sources that the sentence cites"
    ]


def test_a_sentence_that_is_no_quotation_is_reported(
    saved: dict[str, Any], verified: Verified
) -> None:
    saved["answer"] = saved["answer"].replace("12", "10")
    assert [text for text in verified(saved)[0] if "is not a quotation" in text]


def weak_verdict(body: dict[str, Any]) -> None:
    body["grounding"]["sentences"][0]["verdict"] = "weak"


def value_conflict(body: dict[str, Any]) -> None:
    body["conflicts"] = [{"ranks": [1, 2], "spans": [], "kind": "value"}]


@pytest.mark.parametrize("change", [weak_verdict, value_conflict])
def test_a_response_of_an_earlier_build_is_refused(
    saved: dict[str, Any], verified: Verified, change: Callable[[dict[str, Any]], None]
) -> None:
    change(saved)
    with pytest.raises(LoadError, match="if an earlier build saved it, ask its question again"):
        verified(saved)
    with pytest.raises(LoadError, match=r"^not a RAGResponse: [^;]*$"):
        verified({"query": "x"})

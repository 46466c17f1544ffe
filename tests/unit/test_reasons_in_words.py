"""A person reads words, at the shell and on the page, and both say the same."""

import re
from pathlib import Path
from typing import get_args

import pytest

from docstokg.contracts.response import DegradedReason
from docstokg_local.cli.causes import REASONS, VERDICTS
from docstokg_local.cli.checking import show_check

PAGE = Path(__file__).resolve().parents[2] / "functions" / "page" / "static" / "page.js"


def words_of(name: str) -> dict[str, str]:
    body = PAGE.read_text("utf-8").partition(f"const {name} = {{")[2].partition("};")[0]
    return dict(re.findall(r'(\w+): "([^"]*)"', body))


def test_every_degraded_reason_has_the_same_words_everywhere() -> None:
    assert set(REASONS) == set(get_args(DegradedReason))
    assert words_of("REASONS") == REASONS


def test_every_reason_of_a_verdict_has_the_same_words_everywhere() -> None:
    page = {code: said.replace("“", "").replace("”", "") for code, said in words_of("WHY").items()}
    assert page == VERDICTS


def test_a_check_prints_words(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = {"start": 0, "end": 4, "verdict": "unsupported", "support": 0.2}
    body = {
        "grounding": {
            "sentences": [{**sentence, "reasons": ["subject_mismatch", "number_not_in_source"]}],
            "invalid_citations": [],
            "coverage": 0.0,
            "grounded": False,
        },
        "consistency": {"ok": True, "issues": []},
        "diagnostics": {"degraded_reasons": ["kg_timeout"]},
    }
    show_check("It is so.", 200, body)
    said = capsys.readouterr().out
    assert "speaks of something else; a number the source does not have" in said
    assert "the knowledge graph took too long (give it more time" in said
    assert not re.search(r"[a-z]+_[a-z]+", said)

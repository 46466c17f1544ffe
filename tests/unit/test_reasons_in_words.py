"""A person reads words, at the shell and on the page, and both say the same."""

import re
from pathlib import Path
from typing import get_args

from docstokg.contracts.response import REASONS, DegradedReason
from docstokg_local.cli.causes import VERDICTS

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

"""The docs agree with the code: every decision is listed, the times are those in force."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from infra.specs import SPECS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def rows(text: str, columns: int) -> list[list[str]]:
    """Give the rows of a page's tables that have so many columns, without rules."""
    lines = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line] for line in lines if len(line) == columns]


def test_every_decision_is_listed() -> None:
    listed = re.findall(r"^- \[.*\]\(([\w-]+\.md)\)", page("decisions/README.md"), re.MULTILINE)
    files = {path.name for path in (DOCS / "decisions").glob("*.md")} - {"README.md"}
    assert sorted(listed) == sorted(files)


def test_the_glossary_is_sorted_and_short() -> None:
    words = [row[0] for row in rows(page("glossary.md"), 2)[1:]]
    assert words == sorted(words, key=str.casefold)
    assert 0 < len(words) <= 40


def test_the_times_of_the_map_are_those_in_force() -> None:
    table = rows(page("architecture.md"), 5)[1:]
    states = json.loads((ROOT / "statemachine" / "answer.asl.json").read_text("utf-8"))["States"]
    functions = {spec.name: spec.timeout_s for spec in SPECS}
    assert len(table) == 8
    for step, _, _, state, function in table:
        name = re.split(r"[:;]", step)[0]
        limit = states[name.title()]["TimeoutSeconds"]
        assert str(limit) == state or (isinstance(limit, str) and not state.isdigit()), step
        assert functions["expand" if name == "route" else name] == int(function), step


LEANING = re.compile(r"\b(?:DESIGN|SPEC|FACTS)(?:\.md| \d| asks| says)|\bissues? [A-L]\b")


@pytest.mark.parametrize("suffix", ["md", "py", "json", "cypher"])
def test_no_sentence_leans_on_a_text_outside_the_repository(suffix: str) -> None:
    listed = subprocess.run(
        ["git", "ls-files", f"*.{suffix}"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    for name in listed.stdout.split():
        if name != "tests/unit/test_map.py":
            found = LEANING.search((ROOT / name).read_text("utf-8"))
            assert found is None, f"{name}: {found and found.group()}"

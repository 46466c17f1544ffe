"""The map of the house is true: its files exist, its notes are listed, its times are in force."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from infra.specs import SPECS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LAYER = ROOT / "layers" / "common" / "python" / "docstokg"


def rows(page: str, columns: int) -> list[list[str]]:
    """Give the table rows of a page that have so many columns, without heads and rules."""
    lines = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line] for line in lines if len(line) == columns]


def test_every_decision_is_listed_with_its_standing() -> None:
    listed = rows((DOCS / "decisions" / "README.md").read_text("utf-8"), 5)[1:]
    names = {name for row in listed for name in re.findall(r"\]\(([\w-]+\.md)\)", row[0])}
    assert names == {path.name for path in (DOCS / "decisions").glob("*.md")} - {"README.md"}
    for row in listed:
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", row[3]), row
        assert re.match(r"holds$|open: |replaced by ", row[4]), row


def test_every_word_of_the_glossary_has_a_file() -> None:
    words = rows((DOCS / "glossary.md").read_text("utf-8"), 3)[1:]
    assert [row[0] for row in words] == sorted((row[0] for row in words), key=str.casefold)
    for word, _, owner in words:
        name = re.findall(r"`([^`]+)`", owner)[0]
        found = LAYER.glob(name[2:]) if name.startswith("D/") else DOCS.glob(name)
        assert list(found), f"{word}: {name}"


def test_the_times_of_the_map_are_those_in_force() -> None:
    table = rows((DOCS / "architecture.md").read_text("utf-8"), 5)[1:]
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

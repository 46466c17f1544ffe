"""docs/requirements.md names code and tests that exist, every row and every request field."""

import ast
import re
from functools import cache

import pytest

from benchmarks.requirements import ROW as CELLS
from benchmarks.requirements import carrier, rows
from docstokg.contracts.request import RAGRequest
from infra.specs import ROOT
from tests.workflow.test_request_fields import fields

PAGE = (ROOT / "docs" / "requirements.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`([a-z0-9_/]+\.py)::(test_\w+)`", PAGE)))
ROW = re.compile(r"^\| (\d+) \|.*(?:::test_|removed on \d{4}-)", re.MULTILINE)
ROWS = [int(number) for number in ROW.findall(PAGE)]
LAST_ROW = 101
CODE = re.findall(r"`([^`:]+)(?:::([^`]+))?`", "".join(code for _, code, _ in CELLS.findall(PAGE)))


@cache
def decorators_of(file: str) -> dict[str, list[str]]:
    """Return the test functions of a file with the text of their decorators."""
    tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return {
        function.name: [ast.unparse(mark) for mark in function.decorator_list]
        for function in functions
    }


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_a_named_test_exists_and_runs(file: str, test: str) -> None:
    assert test in decorators_of(file)
    assert not [
        mark for mark in decorators_of(file)[test] if re.search(r"mark\.(skip|xfail)\b", mark)
    ]


@pytest.mark.parametrize(("file", "function"), sorted(set(CODE)))
def test_named_code_exists(file: str, function: str) -> None:
    text = (ROOT / file).read_text("utf-8")
    if function:
        assert carrier(ast.parse(text), function)


def test_no_row_is_missing() -> None:
    assert list(range(1, LAST_ROW + 1)) == ROWS == [int(row) for row, _, _ in CELLS.findall(PAGE)]


def test_rows_of_code_are_tested_at_an_entry() -> None:
    """Tests of parts alone do not show that the parts are used."""
    parts = re.compile("unit/|contract/")
    assert [row for row, (_, tests) in rows().items() if all(map(parts.match, tests))] == []


def test_every_request_field_is_named() -> None:
    section = PAGE.split("## Request fields")[1]
    assert set(fields(RAGRequest)) <= set(re.findall(r"`([a-z_.]+)`", section))

"""docs/requirements.md names tests that exist and run, and misses no row and no request field."""

import ast
import re
from functools import cache

import pytest

from docstokg.contracts.request import RAGRequest
from infra.specs import ROOT
from tests.workflow.test_request_fields import fields

PAGE = (ROOT / "docs" / "requirements.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`([a-z0-9_/]+\.py)::(test_\w+)`", PAGE)))
ROW = re.compile(r"^\| (\d+) \|.*(?:::test_|removed on \d{4}-)", re.MULTILINE)
ROWS = [int(number) for number in ROW.findall(PAGE)]
LAST_ROW = 100


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


def test_no_row_is_missing() -> None:
    assert list(range(1, LAST_ROW + 1)) == ROWS


def test_every_request_field_is_named() -> None:
    section = PAGE.split("## Request fields")[1]
    assert set(fields(RAGRequest)) <= set(re.findall(r"`([a-z_.]+)`", section))

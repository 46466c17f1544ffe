"""An operator finds the cause of every failure in the log, as docs/failures.md says."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.record_responses import run, telling
from benchmarks.recorded_cases import CLOSED, Embedded, failure_cases
from benchmarks.recorded_real import real_failure_cases

PAGE = Path(__file__).resolve().parents[2] / "docs" / "failures.md"


def _rows(text: str) -> dict[str, list[str]]:
    return {
        cells[1]: cells
        for line in text.splitlines()
        if len(cells := [cell.strip() for cell in line.split("|")[1:-1]]) == 4
        and cells[1] not in ("made by", "---")
    }


EMBEDDED, _, SERVERS = PAGE.read_text("utf-8").partition("\n## With an OpenSearch")
ROWS = _rows(EMBEDDED)
ELSEWHERE = {"traces cannot be written"}
"""Its writer waits for the locked store three times, 45 s; docs/failures.md names the test."""
NO_CAUSE = {"abstention"}
"""No failure: the model says that the sources do not hold the answer."""
CASES = [case for case in failure_cases() if case.name not in ELSEWHERE]
STARTED = {"not_warm", "warm"}
"""Of the start of a server over a locked store, not of the request; it may come at any time."""


def test_the_page_lists_every_failure() -> None:
    embedded = {case.name for case in failure_cases()}
    assert ROWS.keys() == embedded
    assert _rows(SERVERS).keys() == {case.name for case in real_failure_cases()} - embedded


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_log_names_the_cause(case, copied_store, models, monkeypatch) -> None:
    # A call that is given up goes on in its thread: not to the network, also where keys are found.
    monkeypatch.setenv("AWS_ENDPOINT_URL", CLOSED)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    row = ROWS[case.name]
    if isinstance(case.body, dict) and len(case.body.get("query", "")) > 3:
        case = replace(case, body={**case.body, "query": "What are seizures?"})
    entry = run(case, Embedded(copied_store), models)
    lines = [line for line in telling(entry["log"]) if line["event"] not in STARTED]
    assert bool(lines) is (case.name not in NO_CAUSE), entry["log"]
    assert entry["status"] == int(row[2].split()[0])
    expected = set(re.findall(r"[A-Z]+ `(\w+)`", row[3]))
    # On a busy machine other steps may run out of time as well, and say so.
    assert all(line["event"] in expected or line.get("kind") == "Timeout" for line in lines), lines
    assert not expected - STARTED or {line["event"] for line in lines} & expected
    for line in lines:
        assert any(line.get(key) for key in ("error", "errors", "cause", "doubts")), line
        assert line.get("request_id") or "(no request id)" in row[3], line

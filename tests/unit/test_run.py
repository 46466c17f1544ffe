"""What every step relies on: its deadline, one line for each failure, each loss noted once."""

import json
from typing import Any

import pytest

from docstokg.contracts.records import Scope
from docstokg.errors import Timeout, Unavailable
from docstokg.usecases.run import Call, Run, graph_reason
from tests import plans


def call(log: list[str]) -> Call:
    return plans.call(log, request_id="r-1")


def fails(error: Exception) -> Any:
    def raise_error() -> None:
        raise error

    return raise_error


def test_step_takes_its_deadline_from_the_plan() -> None:
    plan = plans.plan(deadline_ms=110_000)
    run = Run(
        plan=plan, scope=Scope(namespace="n"), telemetry=plans.logging([]), clock=lambda: 107.0
    )
    assert run.deadline.remaining() == pytest.approx(3.0, abs=0.5)


def test_failures_log_id_step_kind_and_cause_once() -> None:
    log: list[str] = []
    run = call(log)
    error = Unavailable("the graph cannot be reached")
    error.__cause__ = OSError("connection to bolt://secret refused")
    for _ in range(2):
        assert run.attempt("graph_slice", fails(error), graph_reason) is None
    assert run.degraded == ["kg_unavailable"]
    line = json.loads(log[0])
    assert len(log) == 2
    del line["time_ms"]
    assert line == {
        "level": "WARNING",
        "event": "graph_slice_failed",
        "request_id": "r-1",
        "kind": "Unavailable",
        "reason": "kg_unavailable",
        "cause": "OSError",
        "error": "the graph cannot be reached",
    }
    assert "secret" not in log[0]


def test_harmless_failures_are_logged_and_not_noted() -> None:
    log: list[str] = []
    run = call(log)
    assert run.attempt("cache_write", fails(Timeout("late")), None) is None
    assert run.degraded == []
    assert json.loads(log[0])["kind"] == "Timeout"


def test_a_mistake_of_ours_is_not_swallowed() -> None:
    run = call([])
    with pytest.raises(KeyError):
        run.attempt("graph_slice", fails(KeyError("x")), graph_reason)
    assert run.degraded == []


def test_a_skipped_part_is_logged_and_degrades() -> None:
    log: list[str] = []
    run = call(log)
    run.skip("embed", "embedding_unavailable", "there is no such embedder here")
    line = json.loads(log[0])
    assert (line["event"], line["request_id"]) == ("embed_skipped", "r-1")
    assert run.degraded == ["embedding_unavailable"]

"""Additions of the local engine to sfnx, and the contract it relies on."""

import copy
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docstokg.domain.budget import STATE_LIMIT_BYTES
from docstokg.errors import NothingToCite, Timeout
from docstokg.wiring import Wiring
from docstokg_local.engine.engine import StateMachine
from docstokg_local.engine.workflow import DEFINITION, STEPS, LocalWorkflow
from tests.builders import ran
from tests.envelopes import envelope, event

ASL = json.loads(DEFINITION.read_text("utf-8"))


def states(catches: list[str], output: str = "late", **fields: Any) -> dict[str, Any]:
    """A task F, and what catches its errors."""
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Arguments": {"FunctionName": "${F}", "Payload": "{% $states.input %}"},
        "Catch": [{"ErrorEquals": catches, "Output": output, "Next": "Done"}],
        "End": True,
    }
    return {"T": task | fields, "Done": {"Type": "Pass", "End": True}}


def starting(start: str, states: dict[str, Any]) -> dict[str, Any]:
    return {"QueryLanguage": "JSONata", "StartAt": start, "States": states}


def machine(function, catch=True) -> StateMachine:
    fields = {"TimeoutSeconds": 1, "Output": "{% $states.result.Payload %}"}
    catches = ["States.Timeout", "NamedError"] if catch else ["Nothing"]
    task_states = states(catches, "{% {'caught': $states.errorOutput.Error} %}", **fields)
    return StateMachine(starting("T", task_states), {"F": function})


class NamedError(Exception):
    pass


def raises(payload, context):
    raise NamedError("no")


def test_result_and_sizes() -> None:
    done = machine(lambda payload, context: {"got": payload}).execute({"a": "ü"})
    assert (done.status, done.output) == ("SUCCEEDED", {"got": {"a": "ü"}})
    assert done.sizes[0][0] == "T"


def test_a_named_error_is_caught_by_its_class() -> None:
    assert machine(raises).execute({}).output == {"caught": "NamedError"}
    failed = machine(raises, catch=False).execute({})
    assert (failed.status, failed.error) == ("FAILED", "NamedError")


@pytest.mark.parametrize("over", [0, 1])
def test_results_are_measured_in_utf8_bytes(over: int) -> None:
    text = "\U0001f600" * ((STATE_LIMIT_BYTES - 8) // 4)
    padding = "x" * (STATE_LIMIT_BYTES - 8 - len(text.encode()) + over)
    done = machine(lambda p, c: {"a": text + padding}).execute({})
    assert done.status == ("FAILED" if over else "SUCCEEDED")
    assert done.error == ("States.DataLimitExceeded" if over else None)


def test_no_catch_sees_data_over_the_limit() -> None:
    """On AWS `States.ALL` does not catch it, so a branch that does would pass here alone."""
    definition = starting("T", states(["States.ALL"]))
    large = "x" * STATE_LIMIT_BYTES
    for payload, returned in (({"a": large[:-20]}, {}), ({}, {"a": large})):
        engine = StateMachine(definition, {"F": lambda payload, context, r=returned: r})
        done = engine.execute(payload)
        assert (done.status, done.error) == ("FAILED", "States.DataLimitExceeded")
        assert done.states == ("T",)


def test_a_missing_function_is_named() -> None:
    with pytest.raises(KeyError, match="F"):
        StateMachine({"States": {"x": "${F}"}}, {})


@pytest.mark.parametrize("branch", [False, True])
def test_task_times_may_be_read_from_a_variable(branch: bool) -> None:
    task_states = states(["States.Timeout"], TimeoutSeconds="{% $seconds %}")
    if branch:
        branches = [{"StartAt": "T", "States": task_states}]
        task_states = {"P": {"Type": "Parallel", "Branches": branches, "End": True}}
    first = {"Type": "Pass", "Assign": {"seconds": 1}, "Next": next(iter(task_states))}
    definition = starting("S", {"S": first, **task_states})
    done = StateMachine(definition, {"F": lambda p, c: time.sleep(3)}, 20).execute({})
    assert done.output == (["late"] if branch else "late")


def test_who_leaves_has_no_further_task_begun() -> None:
    done = machine(lambda p, c: {}).execute({}, is_disconnected=lambda: True)
    assert (done.status, done.sizes) == ("TIMED_OUT", ())


def test_a_disconnected_question_is_stopped(wiring: Wiring) -> None:
    question = envelope({"query": "What are seizures?"})
    reply = LocalWorkflow(wiring).run(question, is_disconnected=lambda: True)
    assert reply.statusCode == 504


def test_the_definition_has_every_safety_net() -> None:
    path = Path(__file__).resolve().parents[2] / "statemachine" / "answer.asl.json"
    text = path.read_text(encoding="utf-8")
    states = json.loads(text)["States"]
    for name, state in states.items():
        if state["Type"] == "Task":
            assert "TimeoutSeconds" in state, name
            assert state["Catch"], name
            assert "States.ALL" in state["Catch"][-1]["ErrorEquals"], name


Ask = Callable[[dict[str, Any]], tuple[tuple[str, ...], dict[str, Any]]]


@pytest.fixture
def handlers(wiring: Wiring) -> dict[str, Any]:
    return {name: module.build(wiring) for name, module in STEPS.items()}


@pytest.fixture
def run_question(handlers: dict[str, Any]) -> Ask:
    question = event({"query": "Which gene causes Dravet syndrome?", "top_k": 5})

    def run(definition: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
        done = StateMachine(definition, handlers).execute(question)
        return done.states, json.loads(done.output["body"])

    return run


def test_choices_changed_in_the_file_change_the_answer(run_question: Ask) -> None:
    states, whole = run_question(ASL)
    assert "Expand" in states
    assert any(citation["kg_evidence"] for citation in whole["citations"])

    changed = copy.deepcopy(ASL)
    changed["States"]["Expand?"]["Choices"][0]["Condition"] = "{% $not($plan.expansion.enabled) %}"
    states, without = run_question(changed)
    assert "Expand" not in states
    assert without["citations"]
    assert not any(citation.get("kg_evidence") for citation in without["citations"])

    refusing = copy.deepcopy(ASL)
    refusing["States"]["Refused?"]["Choices"][0] = {"Condition": "{% true %}", "Next": "Crashed"}
    assert run_question(refusing)[1]["code"] == "internal_error"


@pytest.mark.parametrize(
    ("error", "code", "reasons"),
    [
        (Timeout("late"), (504, "deadline_exceeded"), " Reasons: deadline_exceeded."),
        (NothingToCite("gone"), (503, "nothing_to_cite"), ""),
    ],
)
def test_a_passed_deadline_differs_from_a_broken_index(
    error: Exception,
    code: tuple[int, str],
    reasons: str,
    run_question: Ask,
    handlers: dict[str, Any],
) -> None:
    def fail(event: dict[str, Any], context: object) -> dict[str, Any]:
        raise error

    handlers["GroundFunction"] = fail
    _, body = run_question(ASL)
    assert (body["status"], body["code"]) == code
    assert body["detail"].endswith(f"read.{reasons}")


@pytest.mark.parametrize(("setting", "threads"), [(None, "1"), ("3", "3")])
def test_linear_algebra_stays_in_the_question_s_thread(
    setting: str | None, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two threads a question's sparse weights cost six times the processor time."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if setting is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", setting)
    code = (
        "import docstokg.domain.vectors, numpy, os; print(os.environ['OPENBLAS_NUM_THREADS'])\n"
        "import docstokg_functions.retrieve.handler"
    )
    output = ran(sys.executable, "-c", code, check=True)
    assert output.stdout.strip() == threads

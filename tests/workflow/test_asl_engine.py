import json
import time
from pathlib import Path

import pytest

from docstokg.domain.budget import STATE_LIMIT_BYTES
from docstokg_local.engine.engine import StateMachine


def machine(function, timeout_s=None, task_s=1, catch=True) -> StateMachine:
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Arguments": {"FunctionName": "${F}", "Payload": "{% $states.input %}"},
        "TimeoutSeconds": task_s,
        "Output": "{% $states.result.Payload %}",
        "End": True,
    }
    states: dict = {"T": task}
    if catch:
        states["Done"] = {"Type": "Pass", "End": True}
        task["Catch"] = [
            {
                "ErrorEquals": ["States.Timeout", "NamedError"],
                "Output": "{% {'caught': $states.errorOutput.Error} %}",
                "Next": "Done",
            }
        ]
    definition = {"QueryLanguage": "JSONata", "StartAt": "T", "States": states}
    return StateMachine(definition, {"F": function}, timeout_s)


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


def test_a_task_is_abandoned_at_its_timeout() -> None:
    assert machine(lambda p, c: time.sleep(3)).execute({}).output == {"caught": "States.Timeout"}


def test_a_machine_timeout_cannot_be_caught() -> None:
    slow = machine(lambda p, c: time.sleep(3), timeout_s=0.2)
    assert slow.execute({}).status == "TIMED_OUT"


@pytest.mark.parametrize("over", [0, 1])
def test_results_are_measured_in_utf8_bytes(over: int) -> None:
    text = "\U0001f600" * ((STATE_LIMIT_BYTES - 8) // 4)
    padding = "x" * (STATE_LIMIT_BYTES - 8 - len(text.encode()) + over)
    done = machine(lambda p, c: {"a": text + padding}).execute({})
    assert done.status == ("FAILED" if over else "SUCCEEDED")
    assert done.error == ("States.DataLimitExceeded" if over else None)


def test_no_catch_sees_data_over_the_limit() -> None:
    """On AWS `States.ALL` does not catch it, so a branch that does would pass here alone."""
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Arguments": {"FunctionName": "${F}", "Payload": "{% $states.input %}"},
        "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Done"}],
        "End": True,
    }
    states = {"T": task, "Done": {"Type": "Pass", "End": True}}
    definition = {"QueryLanguage": "JSONata", "StartAt": "T", "States": states}
    large = "x" * STATE_LIMIT_BYTES
    for given, returned in (({"a": large[:-20]}, {}), ({}, {"a": large})):
        engine = StateMachine(definition, {"F": lambda payload, context, r=returned: r})
        done = engine.execute(given)
        assert (done.status, done.error) == ("FAILED", "States.DataLimitExceeded")
        assert done.states == ("T",)


def test_large_arguments_are_refused() -> None:
    done = machine(lambda p, c: {}).execute({"a": "x" * (STATE_LIMIT_BYTES - 20)})
    assert done.error == "States.DataLimitExceeded"


def test_a_missing_function_is_named() -> None:
    with pytest.raises(KeyError, match="F"):
        StateMachine({"States": {"x": "${F}"}}, {})


def test_the_definition_has_every_safety_net() -> None:
    path = Path(__file__).resolve().parents[2] / "statemachine" / "answer.asl.json"
    text = path.read_text(encoding="utf-8")
    states = json.loads(text)["States"]
    for name, state in states.items():
        if state["Type"] == "Task":
            assert "TimeoutSeconds" in state, name
            assert state["Catch"], name
            assert "States.ALL" in state["Catch"][-1]["ErrorEquals"], name

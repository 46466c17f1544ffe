"""Parallel, inline Map, Wait, Fail and Retry, in a Standard machine; what no Catch may see."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sfnx.testing import Unsupported

from docstokg.domain.budget import STATE_LIMIT_BYTES
from docstokg_local.engine.engine import StateMachine
from tests.workflow.machines import definition, mapped, run, task

PASS = {"Type": "Pass", "End": True}
CATCH_ALL = [{"ErrorEquals": ["States.ALL"], "Next": "Caught"}]
CAUGHT = {"Type": "Pass", "Output": "{% {'caught': $states.input.Error} %}", "End": True}
LARGE = "x" * STATE_LIMIT_BYTES


def parallel(*branches: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Branches of one state each; their names are told apart by number."""
    listed = [{"StartAt": f"B{n}", "States": {f"B{n}": one}} for n, one in enumerate(branches)]
    return {"Type": "Parallel", "Branches": listed, "End": True, **fields}


def inline(state: dict[str, Any], **fields: Any) -> dict[str, Any]:
    processor = {"StartAt": "I", "States": {"I": state}}
    return {"Type": "Map", "ItemProcessor": processor, "End": True, **fields}


def test_branches_run_at_the_same_time_and_answer_in_their_order() -> None:
    meeting = threading.Barrier(2, timeout=20)
    done = run(
        {"P": parallel(task("A"), task("B"))},
        {
            "A": lambda _: ("a", meeting.wait())[0],
            "B": lambda _: ("b", meeting.wait())[0],
        },
    )
    assert done.output == ["a", "b"]


def test_a_branch_reads_the_variables_outside_and_sets_its_own() -> None:
    sets = {"Type": "Pass", "Assign": {"w": 2}, "Output": "{% $v %}", "End": True}
    after = "{% {'branches': $states.result, 'w': $exists($w)} %}"
    states = {
        "V": {"Type": "Pass", "Assign": {"v": 1}, "Next": "P"},
        "P": parallel(sets, PASS, Arguments={"in": "{% $v %}"}, Output=after),
    }
    assert run(states).output == {"branches": [1, {"in": 1}], "w": False}


def test_a_failed_branch_fails_the_parallel_and_begins_nothing_more_beside_it() -> None:
    second, begun = threading.Event(), []

    def fails(_: Any) -> None:
        second.wait(20)
        raise ValueError

    branches = [
        {"StartAt": "A", "States": {"A": task("A")}},
        {
            "StartAt": "B",
            "States": {"B": {**task("B"), "Next": "C"}, "C": task("C")},
        },
    ]
    del branches[1]["States"]["B"]["End"]
    states = {
        "P": {"Type": "Parallel", "Branches": branches, "End": True, "Catch": CATCH_ALL},
        "Caught": CAUGHT,
    }
    left = threading.Event()

    def slow(_: Any) -> None:
        second.set()
        left.wait(0.3)

    done = run(states, {"A": fails, "B": slow, "C": begun.append})
    assert done.output == {"caught": "ValueError"}
    assert not begun


def test_a_parallel_is_tried_again_as_a_whole() -> None:
    calls: list[str] = []

    def once(name: str) -> Any:
        def call(_: Any) -> str:
            calls.append(name)
            if calls.count("A") == 1 and name == "A":
                raise ValueError
            return name

        return call

    retry = [{"ErrorEquals": ["ValueError"], "MaxAttempts": 1}]
    done = run({"P": parallel(task("A"), task("B"), Retry=retry)}, {n: once(n) for n in "AB"})
    assert done.output == ["A", "B"]
    assert calls.count("A") == 2


@pytest.mark.parametrize("limit", [0, 2])
def test_an_inline_map_reads_variables_and_keeps_the_order(limit: int) -> None:
    added = {"Type": "Pass", "Output": "{% $v + $states.input %}", "End": True}
    states = {
        "V": {"Type": "Pass", "Assign": {"v": 10}, "Next": "M"},
        "M": inline(added, Items="{% [1..20] %}", MaxConcurrency=limit),
    }
    assert run(states).output == list(range(11, 31))
    states["M"] = inline(PASS)
    assert run(states, execution_input=[]).output == []


def test_a_failed_iteration_fails_an_inline_map_with_its_own_error() -> None:
    states = {"M": inline(task(), Items=[1, 2], Catch=CATCH_ALL), "Caught": CAUGHT}
    assert run(states, {"F": lambda n: 1 // (n - 2)}).output == {"caught": "ZeroDivisionError"}


@pytest.mark.parametrize("field", ["ItemReader", "ItemBatcher", "ToleratedFailureCount"])
def test_an_inline_map_has_nothing_of_a_distributed_one(field: str) -> None:
    with pytest.raises(Unsupported, match=field):
        run({"M": inline(PASS, **{field: 1 if field[0] == "T" else {}})})


def test_an_items_field_that_is_no_array_can_be_caught() -> None:
    states = {"M": mapped({"P": PASS}, Items="{% 1 %}", Catch=CATCH_ALL), "Caught": CAUGHT}
    assert run(states).output == {"caught": "States.QueryEvaluationError"}


def test_wait_waits_what_it_says() -> None:
    waited: list[float] = []
    soon = (datetime.now(UTC) + timedelta(seconds=90)).isoformat()
    for fields in ({"Seconds": "{% 3 * 2 %}"}, {"Timestamp": soon}):
        done = run({"W": {"Type": "Wait", **fields, "End": True}}, pause=waited.append)
        assert done.status == "SUCCEEDED"
    assert waited[0] == 6
    assert 80 < waited[1] <= 90
    for fields in ({"Seconds": "{% 0.5 %}"}, {"Seconds": -1}, {"Timestamp": "soon"}):
        done = run({"W": {"Type": "Wait", **fields, "End": True}}, pause=waited.append)
        assert done.error == "States.QueryEvaluationError"


def test_a_try_waits_longer_each_time_up_to_its_limit() -> None:
    waited: list[float] = []
    retry = {"ErrorEquals": ["ValueError"], "IntervalSeconds": 3, "MaxAttempts": 4}
    retry |= {"BackoffRate": 2, "MaxDelaySeconds": 10, "JitterStrategy": "FULL"}

    def fails(_: Any) -> None:
        raise ValueError

    done = run({"T": task(Retry=[retry])}, {"F": fails}, pause=waited.append)
    assert done.error == "ValueError"
    assert waited == [3, 6, 10, 10]


def test_fail_names_its_error_and_only_a_state_around_it_catches_it() -> None:
    fail = {"Type": "Fail", "Error": "{% $states.input %}", "Cause": "because"}
    failed = run({"F": fail}, execution_input="Mine")
    assert (failed.status, failed.error, failed.cause) == ("FAILED", "Mine", "because")
    states = {"P": parallel(fail, Catch=CATCH_ALL), "Caught": CAUGHT}
    assert run(states, execution_input="Mine").output == {"caught": "Mine"}


@pytest.mark.parametrize(
    "state",
    [
        parallel(task(), task("G"), Catch=CATCH_ALL),
        inline(task(), Items=[1, 2], Catch=CATCH_ALL),
        task(Catch=CATCH_ALL),
        {"Type": "Pass", "Output": "{% $states.input & $states.input %}", "Next": "Caught"},
    ],
)
def test_no_catch_sees_too_much_data(state: dict[str, Any]) -> None:
    states = {"S": state, "Caught": CAUGHT}
    half = LARGE[: STATE_LIMIT_BYTES // 2 + 10]
    text = LARGE if state["Type"] == "Task" else half
    done = run(states, {"F": lambda _: text, "G": lambda _: text}, half)
    assert (done.status, done.error) == ("FAILED", "States.DataLimitExceeded")


def test_a_machine_that_goes_round_is_ended() -> None:
    states = {
        "A": {"Type": "Pass", "Next": "B"},
        "B": {
            "Type": "Choice",
            "Choices": [{"Condition": "{% true %}", "Next": "A"}],
            "Default": "C",
        },
        "C": {"Type": "Succeed"},
    }
    assert run(states).error == "States.Runtime"


def test_a_standard_machine_without_a_time_of_its_own_has_a_year() -> None:
    assert run({"T": task(TimeoutSeconds=900)}, {"F": lambda n: n}, 5).output == 5


def test_waiting_is_refused_where_nobody_waits() -> None:
    with pytest.raises(Unsupported, match="nobody waits"):
        StateMachine(definition(W={"Type": "Wait", "Seconds": 1, "End": True}), {})

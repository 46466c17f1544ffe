"""One table of seconds: the state machine, the functions and infra keep it, inside out."""

import ast
import json
from pathlib import Path

import pytest

from docstokg.domain import time_budget as budget
from docstokg.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
ASL = json.loads((ROOT / "statemachine" / "answer.asl.json").read_text("utf-8"))
TASKS = {name: state for name, state in ASL["States"].items() if state["Type"] == "Task"}
CALLS = {
    "retrieve": [budget.RETRIEVE], "route": [budget.EXPAND], "expand": [budget.EXPAND],
    "condense": [budget.CONDENSE],
    "ground": [budget.HYDRATE, budget.RERANK], "traverse": [budget.GRAPH_VIEW],
    "respond": [budget.CHECK_ANSWER, budget.VERIFY, budget.FULL_TEXT],
}  # fmt: skip


def test_the_state_machine_keeps_the_table() -> None:
    limits = {name.lower(): state["TimeoutSeconds"] for name, state in TASKS.items()}
    computed = {name for name, limit in limits.items() if isinstance(limit, str)}
    assert computed == {"synthesize"}
    assert {name: limit for name, limit in limits.items() if name not in computed} == {
        name: net.state_s for name, net in budget.NETS.items() if net.state_s is not None
    }
    assert ASL["TimeoutSeconds"] == budget.EXECUTION_S


@pytest.mark.parametrize("step", CALLS)
def test_calls_end_before_their_function_and_functions_before_their_state(step: str) -> None:
    state_s, function_s = budget.NETS[step]
    assert state_s is not None
    first, then = sorted((function_s, state_s))
    assert max(share.cap_s for share in CALLS[step]) < first < then
    # Condense is the same function as Synthesize, which may take the whole deadline.
    assert (first == function_s) == (step != "condense")


def test_respond_has_time_for_all_its_calls() -> None:
    assert sum(share.cap_s for share in CALLS["respond"]) < budget.NETS["respond"].function_s


@pytest.mark.parametrize(("left_s", "kept_s"), [(12.0, 3.0), (4.0, 3.0), (3.9, 1.0), (0.5, 1.0)])
def test_an_earlier_step_leaves_time_to_the_verifier(left_s: float, kept_s: float) -> None:
    assert budget.kept_for_verifier_s(left_s) == kept_s
    # What synthesize leaves is what the verifier may take.
    assert budget.VERIFY.reserve_s == budget.SYNTHESIZE.reserve_s


def test_the_deadline_ends_before_the_execution_and_that_before_the_route() -> None:
    assert Settings().max_timeout_s == budget.LONGEST_DEADLINE_S
    # Synthesize gives its model the rest of the deadline and one second to say so.
    assert budget.LONGEST_DEADLINE_S + 1 < budget.EXECUTION_S < budget.ROUTE_S
    waited_for = {name: net for name, net in budget.NETS.items() if name != "record"}
    assert all(net.function_s < budget.ROUTE_S for net in waited_for.values())
    assert budget.NETS["check"].function_s > budget.CHECK_S
    assert budget.NETS["traverse"].function_s > budget.TRAVERSE_S
    assert budget.NETS["health"].function_s > budget.HEALTH_S
    assert max(budget.WRITE_TRACES_S, budget.REMOVE_TRACES_S) < budget.NETS["record"].function_s


def test_no_step_writes_seconds_of_its_own() -> None:
    constants = [
        f"{path.name}: {target.id}"
        for path in (ROOT / "functions").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.endswith("_S")
    ]
    # How long something is kept, a minute of calls, when a full queue may be asked again, and a
    # period without changes before a load are no limits of a step's time.
    allowed = ["handler.py: KEPT_S", "respond.py: CACHE_TTL_S", "source_loads.py: QUIET_S"]
    assert sorted(constants) == ["call_budget.py: WINDOW_S", "changing.py: RETRY_S", *allowed]

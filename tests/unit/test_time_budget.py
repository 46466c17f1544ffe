"""One table of seconds: the state machine, the functions and infra keep it, inside out."""

import ast
import json
from pathlib import Path

import pytest
from jsonata import Jsonata

from docstokg.domain import time_budget as budget
from docstokg.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
ASL = json.loads((ROOT / "statemachine" / "answer.asl.json").read_text("utf-8"))
TASKS = {name: state for name, state in ASL["States"].items() if state["Type"] == "Task"}
CALLS = {
    "retrieve": [budget.RETRIEVE], "route": [budget.EXPAND], "expand": [budget.EXPAND],
    "ground": [budget.HYDRATE, budget.RERANK], "traverse": [budget.GRAPH_VIEW],
}  # fmt: skip
RESPOND_S = sum(call.cap_s for call in (budget.CHECK_ANSWER, budget.CONSISTENCY, budget.FULL_TEXT))
SECONDS = [1.0, 6.0, 10.0, 12.0, 25.0, 60.0]


def test_the_state_machine_keeps_the_table() -> None:
    limits = {name.lower(): state["TimeoutSeconds"] for name, state in TASKS.items()}
    computed = {name for name, limit in limits.items() if isinstance(limit, str)}
    assert computed == {"condense", "respond", "synthesize"}
    assert {name: limit for name, limit in limits.items() if name not in computed} == {
        name: net.state_s for name, net in budget.NETS.items() if net.state_s is not None
    }
    assert ASL["TimeoutSeconds"] == budget.EXECUTION_S


@pytest.mark.parametrize("step", CALLS)
def test_calls_end_before_functions_and_functions_before_states(step: str) -> None:
    state_s, function_s = budget.NETS[step]
    assert state_s is not None
    assert max(share.cap_s for share in CALLS[step]) < function_s < state_s


def state_seconds(state: str, request_s: float) -> float:
    plan = {"started_ms": 5000, "deadline_ms": 5000 + request_s * 1000}
    code = TASKS[state]["TimeoutSeconds"].removeprefix("{%").removesuffix("%}")
    expression = Jsonata(code)
    expression.assign("plan", plan)
    return float(expression.evaluate(None))


@pytest.mark.parametrize("request_s", SECONDS)
def test_states_with_shares_outlast_their_calls(request_s: float) -> None:
    condense_s = budget.CONDENSE.of(request_s).cap_s
    assert 1 <= state_seconds("Condense", request_s) - condense_s < 2
    calls_s = RESPOND_S + budget.WORDS_S + budget.VERIFY.of(request_s).cap_s
    assert 1 <= state_seconds("Respond", request_s) - calls_s < 3


@pytest.mark.parametrize(
    ("request_s", "rewrite_s", "verifier_s"),
    [(1, 1.5, 3), (10, 1.5, 3), (12, 1.8, 3), (25, 3.75, 6.25), (60, 9, 15), (600, 9, 15)],
)
def test_models_get_shares_of_the_request(
    request_s: float, rewrite_s: float, verifier_s: float
) -> None:
    assert budget.CONDENSE.of(request_s) == (pytest.approx(rewrite_s), 2.5)
    assert budget.VERIFY.of(request_s) == (pytest.approx(verifier_s), 0.3)


def test_respond_ends_before_its_state() -> None:
    longest_s = budget.LONGEST_DEADLINE_S
    function_s = budget.NETS["respond"].function_s
    calls_s = RESPOND_S + budget.WORDS_S + budget.VERIFY.of(longest_s).cap_s
    assert calls_s < function_s < state_seconds("Respond", longest_s)


@pytest.mark.parametrize(
    ("remaining_s", "request_s", "reserved_s"),
    [
        (12.0, 12.0, 3.0), (4.0, 12.0, 3.0), (3.9, 12.0, 1.0), (0.5, 12.0, 1.0),
        (50.0, 60.0, 15.0), (15.9, 60.0, 3.0), (7.3, 25.0, 6.25),
    ],
)  # fmt: skip
def test_synthesis_reserves_time_for_a_verifier(
    remaining_s: float, request_s: float, reserved_s: float
) -> None:
    assert budget.reserved_for_verifier_s(remaining_s, request_s) == reserved_s
    # What synthesize leaves is what the verifier may take.
    assert budget.VERIFY.reserve_s == budget.SYNTHESIZE.reserve_s


def test_deadlines_end_before_executions_and_executions_before_routes() -> None:
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

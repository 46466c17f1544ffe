"""Loading on a small account: simulated with the machine's own Retry beside questions.

A task that finds no free execution waits as the definition says and is lost when its attempts are
over; a run whose task is lost fails. A question's step finds one at once or waits too.
"""

import heapq
import json
import random
from dataclasses import replace
from typing import Any

import pytest

from infra.readiness import obstacles
from infra.settings import ENVIRONMENTS, Environment
from tests.infra.conftest import ROOT, Template

THROTTLED = "Lambda.TooManyRequestsException"
QUOTAS = (10, 100, 1_000)
QUESTION_S, STEPS = 2.0, 7
"""A question holds one execution at a time, seven after each other."""
PER_S = 0.2
"""Questions a second beside the load: 17,000 a day, much for an account of ten executions."""
RUNS = 20


def machine(name: str) -> dict[str, Any]:
    text = (ROOT / "statemachine" / f"{name}.asl.json").read_text("utf-8")
    states: dict[str, Any] = json.loads(text)["States"]
    return states


def retry_of(name: str, state: str) -> dict[str, Any]:
    """The Retry that a throttled task of the loading machine, or of the answering one, gets."""
    found = [task for key, task in _tasks(machine(name)) if key == state]
    (task,) = found
    return next(entry for entry in task["Retry"] if THROTTLED in entry["ErrorEquals"])


def _tasks(states: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for key, state in states.items():
        if state["Type"] == "Task":
            found.append((key, state))
        inner = [state["ItemProcessor"]] if "ItemProcessor" in state else []
        for branch in [*inner, *state.get("Branches", ())]:
            found += _tasks(branch["States"])
    return found


def wait(retry: dict[str, Any], attempt: int, chance: random.Random) -> float | None:
    """Seconds until the next attempt, jitter FULL; None when there is none left."""
    if attempt >= retry["MaxAttempts"]:
        return None
    longest = retry["IntervalSeconds"] * retry.get("BackoffRate", 2.0) ** attempt
    return chance.uniform(0, min(longest, retry.get("MaxDelaySeconds", longest)))


def simulate(
    target: Environment, shards: int, task_s: float, per_s: float, seed: int
) -> tuple[bool, float, float]:
    """Whether the run's shards all came through, the longest question's wait, the run's length."""
    chance = random.Random(seed)
    patience, hurry = retry_of("ingest", "Encode"), retry_of("answer", "Validate")
    beside = max(1, target.loading // 2)
    busy, todo, parts, longest, ended = 0, shards, {}, 0.0, 0.0
    events: list[tuple[float, int, str, int, int, float]] = []
    number = 0

    def at(time: float, kind: str, who: int, attempt: int = 0, waited: float = 0.0) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (time, number, kind, who, attempt, waited))

    def begin(time: float) -> None:
        nonlocal todo
        if todo:
            todo -= 1
            parts[todo] = 2
            for _ in range(2):
                at(time, "task", todo)

    for _ in range(beside):
        begin(0.0)
    at(chance.expovariate(per_s), "ask", STEPS)
    while parts or todo:
        now, _, kind, who, attempt, waited = heapq.heappop(events)
        match kind:
            case "task" if busy < target.function_quota:
                busy += 1
                at(now + task_s * chance.uniform(0.8, 1.2), "done", who)
            case "task":
                pause = wait(patience, attempt, chance)
                if pause is None:
                    return False, longest, now
                at(now + pause, "task", who, attempt + 1)
            case "done":
                busy -= 1
                parts[who] -= 1
                if not parts[who]:
                    del parts[who]
                    begin(now)
                ended = now
            case "ask":
                at(now + chance.expovariate(per_s), "ask", STEPS)
                at(now, "step", STEPS)
            case "step" if busy < target.function_quota:
                busy += 1
                longest = max(longest, waited)
                at(now + QUESTION_S / STEPS, "free", who - 1, 0, waited)
            case "step":
                pause = wait(hurry, attempt, chance)
                if pause is None:  # the caller is told to come back
                    longest = float("inf")
                else:
                    at(now + pause, "step", who, attempt + 1, waited + pause)
            case "free":
                busy -= 1
                if who:
                    at(now, "step", who, 0, waited)
    return True, longest, ended


def account(quota: int) -> Environment:
    return replace(ENVIRONMENTS["dev"], function_quota=quota, concurrency={})


@pytest.mark.parametrize("quota", QUOTAS)
@pytest.mark.parametrize("shards", [10, 25, 50])
def test_every_run_ends_whole_whatever_the_account_allows(quota: int, shards: int) -> None:
    for task_s in (20.0, 60.0, 180.0):
        for seed in range(RUNS):
            whole, longest, _ = simulate(account(quota), shards, task_s, PER_S, seed)
            assert whole, (task_s, seed)
            assert longest <= 2.0, (task_s, seed, longest)


def test_without_the_bound_a_small_account_loses_runs_or_keeps_questions_waiting() -> None:
    """The simulation can fail: fifty shards at once, as it was, leave nothing for a question."""
    greedy = replace(account(10), load_tasks=100)
    ends = [simulate(greedy, 50, 60.0, PER_S, seed) for seed in range(5)]
    assert all(longest > 2.0 for _, longest, _ in ends)


@pytest.mark.xdist_group("synth")
@pytest.mark.timeout(900)
def test_the_machine_is_deployed_with_that_bound(template: Template) -> None:
    target = ENVIRONMENTS[template.name]
    (text,) = (
        given["DefinitionString"]
        for name, given in template.all("AWS::StepFunctions::StateMachine").items()
        if name.startswith("Ingestion")
    )
    states = json.loads(text)["States"]
    assert states["Read"]["MaxConcurrency"] <= target.loading
    assert 2 * states["Compute"]["MaxConcurrency"] <= target.loading
    assert target.loading <= (target.function_quota - target.reserved) // 2


def test_a_new_account_can_be_deployed_to() -> None:
    """Nothing is reserved there, so its quota of ten stands in nobody's way."""
    assert not [told for told in obstacles(account(10)) if "quota" in told]


def test_each_task_of_a_load_waits_out_a_full_account() -> None:
    for state, task in _tasks(machine("ingest")):
        if not task["Resource"].endswith("lambda:invoke"):
            continue
        (entry,) = (e for e in task["Retry"] if THROTTLED in e["ErrorEquals"])
        assert entry["MaxAttempts"] * entry["MaxDelaySeconds"] / 2 >= 45 * 60, state

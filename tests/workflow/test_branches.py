"""Each failure of each step takes the branch that the state machine's file has for it."""

import copy
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from docstokg_local.engine.engine import StateMachine
from docstokg_local.engine.workflow import DEFINITION

ASL = json.loads(DEFINITION.read_text("utf-8"))
SLOW_S = 1.4
STEPS = ("Validate", "Expand", "Retrieve", "Ground", "Traverse", "Synthesize", "Respond")

Step = Callable[[dict[str, Any]], dict[str, Any]]


def fails(name: str) -> Step:
    def step(_: dict[str, Any]) -> dict[str, Any]:
        raise type(name, (Exception,), {})("secret detail")

    return step


@dataclass(frozen=True)
class slow:  # noqa: N801 - reads as the verbs beside it
    answer: dict[str, Any]

    def __call__(self, _: dict[str, Any]) -> dict[str, Any]:
        time.sleep(SLOW_S)
        return self.answer


def gives(answer: dict[str, Any]) -> Step:
    return lambda _: copy.deepcopy(answer)


def once(error: str, then: Step) -> Callable[[], Step]:
    """Fail at the first call of an execution."""

    def make() -> Step:
        calls: list[int] = []

        def step(payload: dict[str, Any]) -> dict[str, Any]:
            calls.append(1)
            return fails(error)(payload) if len(calls) == 1 else then(payload)

        return step

    return make


def validated(
    *,
    kg: bool = True,
    synthesis: bool = True,
    route: bool = False,
    deadline_s: float = 20.0,
    verbosity: str = "snippet",
) -> dict[str, Any]:
    return {
        "plan": {
            "expansion": {"enabled": kg, "restrict": route},
            "verbosity": verbosity,
            "synthesis": {"model": "extractive"} if synthesis else None,
            "deadline_ms": int((time.time() + deadline_s) * 1000),
        },
        "scope": {"namespace": "default"},
        "reply": None,
    }


def condensing(condense: Step) -> dict[str, Step]:
    """A plan with a follow-up, and the synthesize function in both of its modes."""
    plan = validated()
    plan["plan"] |= {"condense": "m", "query": "why?"}

    def synthesize(payload: dict[str, Any]) -> dict[str, Any]:
        if payload.get("mode") == "condense":
            return condense(payload)
        return {"degraded": [], "outcome": "answered", "answer": payload["plan"]["query"]}

    return {"Validate": lambda _: plan, "Synthesize": synthesize}


def expand(payload: dict[str, Any]) -> dict[str, Any]:
    assert payload["mode"] in ("route", "expand")
    return {"degraded": [], "ranking": ["a", "b"], "mode": payload["mode"]}


def respond(payload: dict[str, Any]) -> dict[str, Any]:
    """Show what arrived, so that equal outputs mean equal data."""
    visible = {key: value for key, value in payload.items() if key != "plan"}
    failure = payload.get("failure") or {}
    return {"statusCode": failure.get("status", 200), "body": json.dumps(visible, sort_keys=True)}


HEALTHY: dict[str, Step] = {
    "Validate": lambda _: validated(),
    "Expand": expand,
    "Retrieve": gives({"degraded": [], "pool": ["a"]}),
    "Ground": gives({"degraded": [], "citations": [1], "blocks": ["x"], "relevant": True}),
    "Traverse": gives({"degraded": [], "graph": {"nodes": []}, "took_ms": 1.0}),
    "Synthesize": gives({"degraded": [], "outcome": "answered", "answer": "It is [1]."}),
    "Respond": respond,
}


@dataclass(frozen=True)
class Scenario:
    name: str
    status: int | None
    """What the reply says; None when the execution itself fails."""
    degraded: tuple[str, ...] = ()
    steps: dict[str, Step] = field(default_factory=dict)
    fresh: dict[str, Callable[[], Step]] = field(default_factory=dict)
    machine_s: int = 27
    outcome: str = "SUCCEEDED"


THROTTLED = "Lambda.TooManyRequestsException"
BIG = {"degraded": [], "pool": ["\U0001f600" * 70_000]}
TWICE = {"degraded": ["bm25_unavailable", "dense_unavailable"], "pool": []}
ONCE = {"degraded": ["splade_unavailable"], "pool": []}
REFUSAL = {"statusCode": 400, "body": "{}"}
NO_VIEW: dict[str, Any] = {"graph": None, "degraded": [], "took_ms": 1.0}
SPENT = {"statusCode": 429, "body": "{}", "headers": {"Retry-After": "7"}}
PLAIN = lambda _: validated(kg=False, synthesis=False)  # noqa: E731
ROUTED = lambda _: validated(route=True)  # noqa: E731
VIEWED: Step = lambda _: validated(verbosity="graph")  # noqa: E731 - as the steps beside it


def case(name: str, status: int | None, *degraded: str, **steps: Step) -> Scenario:
    """Answer `status` with these reasons, where these steps do otherwise than the healthy ones."""
    return Scenario(name, status, degraded, steps)


LATE: Step = lambda _: validated(deadline_s=-1)  # noqa: E731
HANGS = slow({"degraded": []})
LOST = {name: fails("Unavailable") for name in ("Retrieve", "Expand", "Synthesize")}
TRANSIENT = {
    "Retrieve": "ServiceException",
    "Expand": "AWSLambdaException",
    "Ground": "SdkClientException",
    "Traverse": "TooManyRequestsException",
    "Synthesize": "ServiceException",
    "Respond": "SdkClientException",
}
SCENARIOS = [
    case("everything works", 200),
    case("neither graph nor model wanted", 200, Validate=PLAIN),
    case("graph without a model", 200, Validate=lambda _: validated(synthesis=False)),
    case("routed by seeds", 200, Validate=ROUTED),
    case("graph view", 200, Validate=VIEWED),
    case("graph view fails", 200, "kg_unavailable", Validate=VIEWED, Traverse=fails("Unavailable")),
    case("graph view hangs", 200, "kg_timeout", Validate=VIEWED, Traverse=HANGS),
    case("condensed", 200, **condensing(gives({"query": "Why is it so?"}))),
    case("condense fails", 200, **condensing(fails("Unavailable"))),
    case("refused", 400, Validate=gives({"plan": None, "scope": None, "reply": REFUSAL})),
    case("validate crashes", 500, Validate=fails("KeyError")),
    case("validate hangs", 500, Validate=slow(validated())),
    Scenario("validate throttled once", 200, fresh={"Validate": once(THROTTLED, PLAIN)}),
    case("view refused", 429, Validate=VIEWED, Traverse=gives({**NO_VIEW, "reply": SPENT})),
    Scenario(
        *("route fails", 200, ("kg_unavailable",), {"Validate": ROUTED}),
        fresh={"Expand": once("Unavailable", expand)},
    ),
    case("route and expand hang", 200, *["kg_timeout"] * 2, Validate=ROUTED, Expand=HANGS),
    case("retrieve crashes", 200, "retrieval_unavailable", Retrieve=fails("OSError")),
    case("retrieve hangs", 200, "retrieval_timeout", Retrieve=slow(ONCE)),
    case("retrieve's sandbox", 200, "retrieval_timeout", Retrieve=fails("Sandbox.Timedout")),
    case("one channel lost", 200, "splade_unavailable", Retrieve=gives(ONCE)),
    case("two channels lost", 200, *TWICE["degraded"], Retrieve=gives(TWICE)),
    case("expand crashes", 200, "kg_unavailable", Expand=fails("PlanRejected")),
    case("expand hangs", 200, "kg_timeout", Expand=HANGS),
    case("three lost", 200, "retrieval_unavailable", "kg_unavailable", "llm_unavailable", **LOST),
    case("nothing to cite", 503, Ground=fails("NothingToCite")),
    case("ground is late", 504, "deadline_exceeded", Ground=fails("Timeout")),
    case("ground hangs", 504, "deadline_exceeded", Ground=HANGS),
    case("ground's sandbox", 504, "deadline_exceeded", Ground=fails("Sandbox.Timedout")),
    case("model crashes", 200, "llm_unavailable", Synthesize=fails("MemoryError")),
    case("model hangs", 200, "llm_timeout", Validate=LATE, Synthesize=HANGS),
    case("respond crashes", 500, Respond=fails("ValidationError")),
    case("respond hangs", 500, Respond=slow({"statusCode": 200, "body": "{}"})),
    *(
        Scenario(
            *(f"{name}: {error} once", 200, (), {"Validate": VIEWED}),
            fresh={name: once(f"Lambda.{error}", HEALTHY[name])},
        )
        for name, error in TRANSIENT.items()
    ),
    Scenario(
        *("the machine's own time is over", None, ()),
        steps={"Retrieve": slow(ONCE), "Ground": slow(ONCE)},
        machine_s=1,
        outcome="TIMED_OUT",
    ),
]
TOO_MUCH = Scenario("a step's result is over 262,144 bytes", None, steps={"Retrieve": gives(BIG)})


def definition(scenario: Scenario, asl: dict[str, Any]) -> dict[str, Any]:
    """A definition; a state that hangs gets a limit of one second, so that hanging takes one.

    Synthesize keeps its own expression: there the deadline is what makes it one second.
    """
    machine = copy.deepcopy(asl)
    for state in machine["States"].values():
        if state["Type"] == "Task" and "$millis()" not in str(state["TimeoutSeconds"]):
            name = state["Arguments"]["FunctionName"].removeprefix("${").removesuffix("Function}")
            hangs = isinstance(scenario.steps.get(name), slow) and scenario.machine_s > 1
            state["TimeoutSeconds"] = 1 if hangs else 20
    machine["TimeoutSeconds"] = scenario.machine_s
    return machine


def functions(scenario: Scenario) -> dict[str, Step]:
    fresh_steps = {name: make() for name, make in scenario.fresh.items()}
    return HEALTHY | scenario.steps | fresh_steps


@dataclass(frozen=True)
class Outcome:
    status: str
    output: Any


def ours(scenario: Scenario, asl: dict[str, Any] = ASL) -> Outcome:
    steps = functions(scenario)
    table = {f"{name}Function": (lambda p, _, s=steps[name]: s(p)) for name in STEPS}
    execution = StateMachine(definition(scenario, asl), table).execute(ENVELOPE)
    return Outcome(execution.status, execution.output)


ENVELOPE = {"route": "answer", "request_id": "req-1", "caller": {"sub": "x"}, "body_b64": "e30="}


def as_expected(scenario: Scenario, outcome: Outcome) -> None:
    assert outcome.status == scenario.outcome
    if scenario.status is None:
        return
    assert outcome.output["statusCode"] == scenario.status
    assert "secret detail" not in json.dumps(outcome.output)
    body = json.loads(outcome.output["body"])
    if scenario.status == 500:
        assert (body["code"], body["request_id"]) == ("internal_error", "req-1")
    elif scenario.status not in (400, 429):
        assert body["degraded"] == list(scenario.degraded)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_each_failure_takes_its_branch(scenario: Scenario) -> None:
    as_expected(scenario, ours(scenario))


REFUSED_AT_ONCE: tuple[str, ...] = ("Validate", "Recall", "Ground", "Respond")
CARRIED_ON: Mapping[str, tuple[str, ...]] = {
    "Condense": (),
    "Route": ("kg_unavailable",),
    "Retrieve": ("retrieval_unavailable",),
    "Expand": ("kg_unavailable",),
    "Traverse": ("kg_unavailable",),
    "Synthesize": ("llm_unavailable",),
}


def throttled_at(state: str) -> Scenario:
    """Ask a question that visits all ten states, one of which Lambda refuses for good."""
    plan = validated(route=True, verbosity="graph")
    plan["plan"] |= {"condense": "m", "query": "why?", "recalls": True, "namespace": "default"}
    recalled = {"reply": None, "failure": None, "cache": None, "namespace": "default"}
    special = {"Recall": recalled, "Condense": {"query": "Why is it so?"}}
    mode_of = {"Recall": "recall", "Condense": "condense", "Route": "route", "Expand": "expand"}

    def step(function: str) -> Step:
        def call(payload: dict[str, Any]) -> dict[str, Any]:
            mode = payload.get("mode")
            chosen = next((name for name in mode_of if mode_of[name] == mode), function)
            if chosen == state:
                return fails(THROTTLED)(payload)
            return (
                copy.deepcopy(special[chosen]) if chosen in special else HEALTHY[function](payload)
            )

        return call

    steps = {name: step(name) for name in STEPS}
    if state != "Validate":
        steps["Validate"] = lambda _: plan
    status = 429 if state in REFUSED_AT_ONCE else 200
    return Scenario(f"throttled at {state}", status, CARRIED_ON.get(state, ()), steps)


@pytest.mark.parametrize("state", [*REFUSED_AT_ONCE, *CARRIED_ON])
def test_a_throttled_state_refuses_or_degrades(state: str) -> None:
    """An answer that cannot go on is 429 with Retry-After, and no answer counts as crashed."""
    asl = json.loads(DEFINITION.read_text("utf-8"))
    tasks = {name for name, definition in asl["States"].items() if definition["Type"] == "Task"}
    assert tasks == {*REFUSED_AT_ONCE, *CARRIED_ON}
    scenario = throttled_at(state)
    outcome = ours(scenario)
    as_expected(scenario, outcome)
    if scenario.status == 429:
        body = json.loads(outcome.output["body"])
        assert (body["code"], body["request_id"]) == ("throttled", "req-1")
        assert int(outcome.output["headers"]["Retry-After"]) >= 1


def test_a_result_over_the_limit_passes_no_state() -> None:
    """AWS's documents disagree on whether States.ALL catches it; it accepts only less data."""
    assert "\U0001f600" not in json.dumps(ours(TOO_MUCH).output, ensure_ascii=False)


NOTHING = {"reply": None, "failure": None, "cache": None}
NAMED = {"status": 400, "code": "namespace_required", "detail": "Name one."}


@pytest.mark.parametrize(
    ("recalled", "fallback", "status", "searched"),
    [
        ({"namespace": "alpha"}, "", 200, {"alpha"}),
        ({"namespace": "default"}, "default", 200, {"default"}),
        ({"namespace": "", "failure": NAMED}, "", 400, set()),
        ({"namespace": "alpha", "reply": REFUSAL}, "", 400, set()),
        (None, "default", 200, {"default"}),
        (None, "", 500, set()),
    ],
)
def test_the_recall_step_chooses_a_missing_namespace(
    recalled: dict[str, Any] | None, fallback: str, status: int, searched: set[str]
) -> None:
    plan, seen = validated(), set[str]()
    recall = fails("X") if recalled is None else gives({**NOTHING, **recalled})
    plan["plan"] |= {"recalls": True, "namespace": fallback, "choices": ["*"]}
    plan["scope"] = {"namespace": fallback, "groups": []}

    def retrieve(payload: dict[str, Any]) -> dict[str, Any]:
        if payload.get("mode") == "recall":
            return recall(payload)
        seen.update((payload["plan"]["namespace"], payload["scope"]["namespace"]))
        return {"degraded": [], "pool": ["a"]}

    outcome = ours(case("recall", status, Validate=lambda _: plan, Retrieve=retrieve))
    assert (outcome.output["statusCode"], seen) == (status, searched)

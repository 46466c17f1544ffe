"""The walk from state to state, through branches and iterations, as JSONata mode has it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from sfnx.testing import Failure, is_number, offset_date_time

from docstokg_local.engine.endings import Halted, hold_limit
from docstokg_local.engine.expressions import Values
from docstokg_local.engine.items import Buckets
from docstokg_local.engine.journal import Journal
from docstokg_local.engine.maps import Iterating, Progress, run_map
from docstokg_local.engine.states import Effect, State, States, first_naming
from docstokg_local.engine.threads import Halt, side_by_side

Call = Callable[[str, Any, float | None], Any]
"""Runs the task of a state (its name) with arguments within seconds; raises `Failure`."""

MOST_STATES = 5_000
"""In one execution: its history ends at 25,000 events, and a task with its choice is about ten."""

_ATTEMPTED = ("Task", "Parallel", "Map")


@dataclass(frozen=True)
class Host:
    """What the executions of a machine run on; `strict` measures the output of every state."""

    call: Call
    buckets: Buckets
    pause: Callable[[float], None]
    progress: Progress
    at_once: int
    strict: bool
    journal: Journal | None = None


class Walk:
    """One execution, branch or iteration: its variables, and the states it has entered."""

    def __init__(
        self,
        host: Host,
        context: Mapping[str, Any],
        variables: Mapping[str, Any],
        halted: Callable[[], bool],
        entered: list[str] | None = None,
    ) -> None:
        self._host = host
        self._context = context
        self._variables = dict(variables)
        self._halted = halted
        self.entered: list[str] = [] if entered is None else entered

    def run(self, states: States, state_input: Any) -> Any:
        """Go from state to state; give the last one's output. Raises `Failure`."""
        name: str | None = states.first
        steps = 0
        while name is not None:
            steps += 1
            if steps > MOST_STATES:
                raise Failure("States.Runtime", "the execution does not end")
            if self._halted():
                raise Halted
            self.entered.append(name)
            state = states.by_name[name]
            assigned, state_input, name = self._step(state, state_input)
            if self._host.strict:
                hold_limit(state_input, f"the output of {state.name}")
            self._variables.update(assigned)
        return state_input

    def _step(self, state: State, state_input: Any) -> tuple[dict[str, Any], Any, str | None]:
        if state.kind in _ATTEMPTED:
            return self._attempted(state, state_input)
        values = self._values(state, state_input)
        taken = state.effect
        if state.kind == "Choice":
            taken = _chosen(state, values)
        elif state.kind == "Fail":
            failure = state.special(values)
            raise Failure(str(failure.get("Error", "")), str(failure.get("Cause", "")))
        elif state.kind == "Wait":
            self._host.pause(_waiting_s(state.special(values)))
        return (*taken.apply(values, state_input), taken.next_state)

    def _attempted(self, state: State, state_input: Any) -> tuple[dict[str, Any], Any, str | None]:
        tries = [0] * len(state.retriers)
        while True:
            values = self._values(state, state_input, sum(tries))
            try:
                result = self._result(state, values)
                values["states"]["result"] = result
                return (*state.effect.apply(values, result), state.effect.next_state)
            except Failure as failure:
                place = first_naming(failure.error, (r.errors for r in state.retriers))
                if place is not None and tries[place] < state.retriers[place].attempts:
                    self._host.pause(state.retriers[place].delay_s(tries[place]))
                    tries[place] += 1
                    if self._halted():
                        raise Halted from failure
                    continue
                place = first_naming(failure.error, (errors for errors, _ in state.catchers))
                if place is None:
                    raise
                effect = state.catchers[place][1]
                error = {"Error": failure.error, "Cause": failure.cause}
                values["states"].pop("result", None)
                values["states"]["errorOutput"] = error
                return (*effect.apply(values, error), effect.next_state)

    def _result(self, state: State, values: Values) -> Any:
        if state.kind == "Map":
            return self._map(state, values)
        arguments = None if state.arguments is None else state.arguments(values)
        if state.kind == "Parallel":
            return self._parallel(
                state, values["states"]["input"] if arguments is None else arguments
            )
        timeout_s = None if state.timeout is None else float(state.timeout(values))
        return self._host.call(state.name, arguments, timeout_s)

    def _parallel(self, state: State, branch_input: Any) -> list[Any]:
        hold_limit(branch_input, f"the input of {state.name}")
        halt = Halt(self._halted)
        jobs = [partial(self._beside, states, branch_input, halt) for states in state.inner]
        ended = dict(side_by_side(jobs, len(jobs), halt))
        results = [ended[place] for place in range(len(jobs))]
        hold_limit(results, f"the result of {state.name}")
        return results

    def _map(self, state: State, values: Values) -> Any:
        assert state.map is not None
        around = Iterating(
            buckets=self._host.buckets,
            at_once=self._host.at_once,
            progress=self._host.progress,
            halted=self._halted,
            inline=partial(self._beside, state.inner[0]),
            child=partial(self._child, state.inner[0], state.map.label),
            journal=self._host.journal,
        )
        return run_map(state.map, values, around)

    def _beside(self, states: States, branch_input: Any, halt: Halt) -> Any:
        """Run a branch or an inline iteration: it reads the variables here and sets its own."""
        return Walk(self._host, self._context, self._variables, halt, self.entered).run(
            states, branch_input
        )

    def _child(self, states: States, label: str, name: str, branch_input: Any, halt: Halt) -> Any:
        """Run a child execution: its input is all it knows."""
        machine = self._context["StateMachine"]
        execution = self._context["Execution"]
        path = f"{machine['Name']}/{label}"
        arn = machine["Id"].rsplit(":stateMachine:", 1)[0]
        own = {"Id": f"{arn}:execution:{path}:{name}", "Name": name, "Input": branch_input}
        context = {
            **self._context,
            "Execution": {**execution, **own},
            "StateMachine": {"Id": f"{arn}:stateMachine:{path}", "Name": path},
        }
        return Walk(self._host, context, {}, halt).run(states, branch_input)

    def _values(self, state: State, state_input: Any, retries: int | None = None) -> dict[str, Any]:
        about = {"EnteredTime": self._context["Execution"]["StartTime"], "Name": state.name}
        if retries is not None:
            about["RetryCount"] = retries
        context = {**self._context, "State": about}
        return {**self._variables, "states": {"input": state_input, "context": context}}


def _chosen(state: State, values: Values) -> Effect:
    for condition, effect in state.choices:
        met = condition(values)
        if not isinstance(met, bool):
            raise Failure("States.QueryEvaluationError", f"{met!r} is not a boolean")
        if met:
            return effect
    if state.effect.next_state is None:
        raise Failure("States.NoChoiceMatched")
    return state.effect


def _waiting_s(special: Mapping[str, Any]) -> float:
    """Give the seconds a Wait waits; what AWS cannot read fails as it does there."""
    if "Seconds" in special:
        seconds = special["Seconds"]
        if not is_number(seconds) or seconds < 0 or seconds != int(seconds):
            raise Failure("States.QueryEvaluationError", f"Seconds is {seconds!r}")
        return float(seconds)
    until = special["Timestamp"]
    if not isinstance(until, str) or not offset_date_time(until):
        raise Failure("States.QueryEvaluationError", f"Timestamp is {until!r}")
    return max(0.0, datetime.fromisoformat(until.upper()).timestamp() - time.time())

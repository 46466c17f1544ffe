"""The states of a definition, prepared once, and the walk from one to the next.

Task, Choice, Pass and Succeed as Step Functions runs them in JSONata mode, without waiting between
tries. Parallel, Map, Wait and Fail are refused: the machine has none.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sfnx.testing import Failure, Unsupported

from docstokg_local.asl_expressions import Template, Values, template

Call = Callable[[str, Any, float | None], Any]
"""Runs the task of a state (its name) with arguments within seconds; raises `Failure`."""

MOST_STATES = 1000
_KINDS = ("Task", "Choice", "Pass", "Succeed")
_DEFAULT_ATTEMPTS = 3


@dataclass(frozen=True)
class Effect:
    """What leaving a state does: variables to assign, the next state's input, where to go.

    `next_state` None ends the execution.
    """

    assign: Mapping[str, Template]
    output: Template | None
    next_state: str | None

    @classmethod
    def of(cls, fields: Mapping[str, Any], next_state: str | None) -> "Effect":
        """Prepare the Assign and Output of a state, a rule or a catcher."""
        assign = {name: template(field) for name, field in fields.get("Assign", {}).items()}
        output = template(fields["Output"]) if "Output" in fields else None
        return cls(assign, output, next_state)

    def apply(self, values: Values, default: Any) -> tuple[dict[str, Any], Any]:
        """Give the variables and the output; both read the variables from before."""
        assigned = {name: field(values) for name, field in self.assign.items()}
        return assigned, default if self.output is None else self.output(values)


@dataclass(frozen=True)
class State:
    """One state: `choices` are its rules in order, `catchers` and `retriers` by their errors."""

    name: str
    kind: str
    timeout: Template | None
    arguments: Template
    effect: Effect
    choices: tuple[tuple[Template, Effect], ...]
    retriers: tuple[tuple[tuple[str, ...], int], ...]
    catchers: tuple[tuple[tuple[str, ...], Effect], ...]

    @classmethod
    def of(cls, name: str, fields: Mapping[str, Any]) -> "State":
        """Prepare a state of the definition."""
        if fields["Type"] not in _KINDS:
            raise Unsupported(f"{name}: the state type {fields['Type']} is not run here")
        ends = fields.get("End") or fields["Type"] == "Succeed"
        following = None if ends else fields.get("Next", fields.get("Default"))
        return cls(
            name=name,
            kind=fields["Type"],
            timeout=template(fields["TimeoutSeconds"]) if "TimeoutSeconds" in fields else None,
            arguments=template(fields.get("Arguments")),
            effect=Effect.of(fields, following),
            choices=tuple(
                (template(rule["Condition"]), Effect.of(rule, rule["Next"]))
                for rule in fields.get("Choices", ())
            ),
            retriers=tuple(
                (tuple(retrier["ErrorEquals"]), retrier.get("MaxAttempts", _DEFAULT_ATTEMPTS))
                for retrier in fields.get("Retry", ())
            ),
            catchers=tuple(
                (tuple(catcher["ErrorEquals"]), Effect.of(catcher, catcher["Next"]))
                for catcher in fields.get("Catch", ())
            ),
        )


class Walk:
    """One execution: its variables, and the states it has entered."""

    def __init__(self, context: Mapping[str, Any], call: Call) -> None:
        self._context = context
        self._call = call
        self._variables: dict[str, Any] = {}
        self.entered: list[str] = []

    def run(self, states: Mapping[str, State], first: str, state_input: Any) -> Any:
        """Go from state to state; give the last one's output. Raises `Failure`."""
        name: str | None = first
        while name is not None:
            self.entered.append(name)
            if len(self.entered) > MOST_STATES:
                raise Failure("States.Runtime", "the execution does not end")
            assigned, state_input, name = self._step(states[name], state_input)
            self._variables.update(assigned)
        return state_input

    def _step(self, state: State, state_input: Any) -> tuple[dict[str, Any], Any, str | None]:
        if state.kind == "Task":
            return self._task(state, state_input)
        values = self._values(state, state_input)
        taken = self._chosen(state, values) if state.kind == "Choice" else state.effect
        return (*taken.apply(values, state_input), taken.next_state)

    def _chosen(self, state: State, values: Values) -> Effect:
        for condition, effect in state.choices:
            met = condition(values)
            if not isinstance(met, bool):
                raise Failure("States.QueryEvaluationError", f"{met!r} is not a boolean")
            if met:
                return effect
        if state.effect.next_state is None:
            raise Failure("States.NoChoiceMatched")
        return state.effect

    def _task(self, state: State, state_input: Any) -> tuple[dict[str, Any], Any, str | None]:
        tries = [0] * len(state.retriers)
        while True:
            values = self._values(state, state_input, sum(tries))
            try:
                arguments = state.arguments(values)
                timeout_s = None if state.timeout is None else float(state.timeout(values))
                result = self._call(state.name, arguments, timeout_s)
                values["states"]["result"] = result
                return (*state.effect.apply(values, result), state.effect.next_state)
            except Failure as failure:
                place = _first(failure.error, (errors for errors, _ in state.retriers))
                if place is not None and tries[place] < state.retriers[place][1]:
                    tries[place] += 1
                    continue
                place = _first(failure.error, (errors for errors, _ in state.catchers))
                if place is None:
                    raise
                effect = state.catchers[place][1]
                error = {"Error": failure.error, "Cause": failure.cause}
                values["states"].pop("result", None)
                values["states"]["errorOutput"] = error
                return (*effect.apply(values, error), effect.next_state)

    def _values(self, state: State, state_input: Any, retries: int | None = None) -> dict[str, Any]:
        about = {"EnteredTime": self._context["Execution"]["StartTime"], "Name": state.name}
        if state.kind == "Task":
            about["RetryCount"] = retries or 0
        context = {**self._context, "State": about}
        return {**self._variables, "states": {"input": state_input, "context": context}}


def _first(error: str, listed: Iterable[tuple[str, ...]]) -> int | None:
    """Find who names an error: States.ALL names all but States.Runtime."""
    if error == "States.Runtime":
        return None
    untold = error in ("States.Timeout", "States.QueryEvaluationError")
    for place, errors in enumerate(listed):
        if error in errors or "States.ALL" in errors:
            return place
        if "States.TaskFailed" in errors and not untold:
            return place
    return None

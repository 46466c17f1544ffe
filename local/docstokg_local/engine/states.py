"""The states of a definition, prepared once: every field of JSONata mode that is run here.

A kind or a field that would be run otherwise than AWS runs it is refused when the machine is made.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sfnx.testing import Unsupported

from docstokg_local.engine.expressions import Template, Values, template

_KINDS = ("Task", "Choice", "Pass", "Succeed", "Fail", "Wait", "Parallel", "Map")
_DISTRIBUTED_ONLY = (
    *("ItemReader", "ItemBatcher", "ResultWriter"),
    *("ToleratedFailureCount", "ToleratedFailurePercentage", "Label"),
)
_READERS = {"listObjectsV2": (None,), "getObject": ("JSON", "JSONL")}
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
        return cls(assign, _optional(fields, "Output"), next_state)

    def apply(self, values: Values, default: Any) -> tuple[dict[str, Any], Any]:
        """Give the variables and the output; both read the variables from before."""
        assigned = {name: field(values) for name, field in self.assign.items()}
        return assigned, default if self.output is None else self.output(values)


@dataclass(frozen=True)
class Retrier:
    """Which errors are tried again, how often, and after how many seconds."""

    errors: tuple[str, ...]
    attempts: int
    interval_s: float
    backoff: float
    longest_s: float

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "Retrier":
        """Prepare a retrier; jitter is left out, it only spreads what many executions do."""
        return cls(
            errors=tuple(fields["ErrorEquals"]),
            attempts=fields.get("MaxAttempts", _DEFAULT_ATTEMPTS),
            interval_s=fields.get("IntervalSeconds", 1),
            backoff=fields.get("BackoffRate", 2.0),
            longest_s=fields.get("MaxDelaySeconds", float("inf")),
        )

    def delay_s(self, tries: int) -> float:
        """Give the seconds before a try, where `tries` were made again already."""
        return float(min(self.interval_s * self.backoff**tries, self.longest_s))


@dataclass(frozen=True)
class MapFields:
    """What a Map has beside the fields of every state; a template is None when it is absent."""

    distributed: bool
    label: str
    reader: Template | None
    items: Template | None
    selector: Template | None
    batcher: Template | None
    writer: Template | None
    concurrency: Template
    tolerated: Template

    @classmethod
    def of(cls, name: str, fields: Mapping[str, Any]) -> "MapFields":
        """Prepare a Map; one that is inline may have nothing of a distributed one."""
        config = fields["ItemProcessor"].get("ProcessorConfig", {})
        distributed = config.get("Mode", "INLINE") == "DISTRIBUTED"
        wrong = [field for field in _DISTRIBUTED_ONLY if field in fields and not distributed]
        if wrong:
            raise Unsupported(f"{name}: an inline Map has no {wrong[0]}")
        _hold_reader(name, fields.get("ItemReader"))
        writer = fields.get("ResultWriter")
        if writer is not None and {"Resource", "Arguments"} != set(writer):
            raise Unsupported(f"{name}: a ResultWriter has Resource and Arguments here")
        tolerated = {
            "count": fields.get("ToleratedFailureCount", 0),
            "percentage": fields.get("ToleratedFailurePercentage", 0),
        }
        return cls(
            distributed=distributed,
            label=fields.get("Label", name.replace(" ", "")),
            reader=_optional(fields, "ItemReader"),
            items=_optional(fields, "Items"),
            selector=_optional(fields, "ItemSelector"),
            batcher=_optional(fields, "ItemBatcher"),
            writer=_optional(fields, "ResultWriter"),
            concurrency=template(fields.get("MaxConcurrency", 0)),
            tolerated=template(tolerated),
        )


@dataclass(frozen=True)
class State:
    """One state: `choices` are its rules in order, `catchers` and `retriers` by their errors.

    `inner` are the branches of a Parallel or the one processor of a Map; `special` the fields only
    its kind has (Seconds, Error, ...), filled in when it is entered.
    """

    name: str
    kind: str
    timeout: Template | None
    arguments: Template | None
    effect: Effect
    choices: tuple[tuple[Template, Effect], ...]
    retriers: tuple[Retrier, ...]
    catchers: tuple[tuple[tuple[str, ...], Effect], ...]
    special: Template
    inner: tuple["States", ...]
    map: MapFields | None

    @classmethod
    def of(cls, name: str, fields: Mapping[str, Any]) -> "State":
        """Prepare a state of the definition."""
        kind = fields["Type"]
        if kind not in _KINDS:
            raise Unsupported(f"{name}: the state type {kind} is not run here")
        ends = fields.get("End") or kind in ("Succeed", "Fail")
        following = None if ends else fields.get("Next", fields.get("Default"))
        inner = [*fields.get("Branches", ())]
        inner += [fields["ItemProcessor"]] if kind == "Map" else []
        special = {key: fields[key] for key in _SPECIAL.get(kind, ()) if key in fields}
        return cls(
            name=name,
            kind=kind,
            timeout=_optional(fields, "TimeoutSeconds"),
            arguments=_optional(fields, "Arguments"),
            effect=Effect.of(fields, following),
            choices=tuple(
                (template(rule["Condition"]), Effect.of(rule, rule["Next"]))
                for rule in fields.get("Choices", ())
            ),
            retriers=tuple(Retrier.of(retrier) for retrier in fields.get("Retry", ())),
            catchers=tuple(
                (tuple(catcher["ErrorEquals"]), Effect.of(catcher, catcher["Next"]))
                for catcher in fields.get("Catch", ())
            ),
            special=template(special),
            inner=tuple(States.of(branch) for branch in inner),
            map=MapFields.of(name, fields) if kind == "Map" else None,
        )


_SPECIAL: Mapping[str, tuple[str, ...]] = {
    "Wait": ("Seconds", "Timestamp"),
    "Fail": ("Error", "Cause"),
}


@dataclass(frozen=True)
class States:
    """The states of a machine, a branch or a Map's processor, and where it starts."""

    first: str
    by_name: Mapping[str, State]

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "States":
        """Prepare each state."""
        by_name = {name: State.of(name, state) for name, state in fields["States"].items()}
        return cls(fields["StartAt"], by_name)


def first_naming(error: str, listed: Iterable[tuple[str, ...]]) -> int | None:
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


def _hold_reader(name: str, reader: Mapping[str, Any] | None) -> None:
    """Refuse what is read otherwise than as a list of objects, JSON or JSON lines."""
    if reader is None:
        return
    action = reader["Resource"].removeprefix("arn:aws:states:::s3:")
    config = reader.get("ReaderConfig", {})
    if config.get("InputType") not in _READERS.get(action, ()):
        raise Unsupported(f"{name}: an ItemReader of {action} {config} is not run here")
    if set(config) - {"InputType", "MaxItems"}:
        raise Unsupported(f"{name}: a ReaderConfig has InputType and MaxItems here")


def _optional(fields: Mapping[str, Any], name: str) -> Template | None:
    return template(fields[name]) if name in fields else None

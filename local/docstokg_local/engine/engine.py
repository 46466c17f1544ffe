"""Execute a state machine locally, with the limits and timeouts AWS would apply.

The definition is checked by sfnx and the JSONata means what sfnx makes of it, but it is read once:
`asl_states` prepares, `asl_walk` walks, `asl_expressions` evaluates. Added here: the calls of the
functions, with 262,144 bytes of input and output and TimeoutSeconds of tasks and of the machine.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from sfnx.testing import Failure, Unsupported, check, every_state, execution_context

from docstokg.domain.budget import STATE_LIMIT_BYTES
from docstokg.workers import Workers
from docstokg_local.engine.endings import (
    DataLimitExceeded,
    MachineTimedOut,
    hold_limit,
    returned,
    sent,
)
from docstokg_local.engine.items import Buckets
from docstokg_local.engine.journal import Journal
from docstokg_local.engine.maps import Progress
from docstokg_local.engine.states import States
from docstokg_local.engine.walk import Host, Walk

TaskFunction = Callable[[dict[str, Any], object], dict[str, Any]]
_SUBSTITUTION = re.compile(r"\$\{(\w+)\}")
_TASKS_AT_ONCE = 64
_YEAR_S = 365 * 24 * 3600.0


@dataclass(frozen=True)
class Execution:
    """How one execution ended, in the words of StartSyncExecution."""

    status: Literal["SUCCEEDED", "FAILED", "TIMED_OUT"]
    output: Any = None
    error: str | None = None
    cause: str | None = None
    states: tuple[str, ...] = ()
    sizes: tuple[tuple[str, int, int], ...] = ()
    """(state, argument bytes, result bytes) of every task, in order."""


def never() -> bool:
    """Somebody waits to the end."""
    return False


def _quiet(label: str, ended: int, failed: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Standard:
    """What a Standard machine has and an Express one lacks: distributed Maps, and time to wait.

    `buckets` by name for readers and writers; `pause` waits seconds, between tries too; `at_once`
    bounds every Map, whose own MaxConcurrency is meant for the cloud; a `journal` lets a run that
    died go on. Every output is measured.
    """

    buckets: Buckets = field(default_factory=dict)
    pause: Callable[[float], None] = time.sleep
    progress: Progress = _quiet
    at_once: int = 8
    journal: Journal | None = None


class StateMachine:
    """One definition with a Python function per `${...Function}` substitution."""

    def __init__(
        self,
        definition: Mapping[str, Any],
        functions: Mapping[str, TaskFunction],
        timeout_s: float | None = None,
        standard: Standard | None = None,
    ) -> None:
        """`timeout_s` replaces the definition's own TimeoutSeconds; Express unless `standard`."""
        text = json.dumps(definition)
        names = set(_SUBSTITUTION.findall(text))
        if missing := sorted(names - set(functions)):
            raise KeyError(f"no function for {', '.join(missing)}")
        read = json.loads(_SUBSTITUTION.sub(lambda match: match.group(1), text))
        check(read)
        self._states = States.of(read)
        if standard is None:
            _hold_express(read)
        self._standard = standard
        self._functions = dict(functions)
        longest_s = 300 if standard is None else _YEAR_S
        self._timeout_s = timeout_s or float(read.get("TimeoutSeconds", longest_s))
        self._pool = Workers(_TASKS_AT_ONCE, "task")

    @classmethod
    def from_file(
        cls,
        path: Path,
        functions: Mapping[str, TaskFunction],
        timeout_s: float | None = None,
        standard: Standard | None = None,
    ) -> "StateMachine":
        """Read a definition file."""
        return cls(json.loads(path.read_text(encoding="utf-8")), functions, timeout_s, standard)

    def execute(
        self,
        execution_input: Any,
        started: float | None = None,
        gone: Callable[[], bool] = never,
        name: str = "execution",
    ) -> Execution:
        """Run one execution to its end; never raises for what the machine did.

        `started`: epoch seconds the execution counts as begun at, now by default. Once `gone`
        is true no task is begun: the execution ends as if its time were over. `name` is what the
        machine reads of itself.
        """
        sizes: list[tuple[str, int, int]] = []
        begun = time.time() if started is None else started
        ends = time.monotonic() - (time.time() - begun) + self._timeout_s
        at = datetime.fromtimestamp(begun, UTC)
        start_time = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

        def task(state: str, arguments: Any, own_s: float | None) -> object:
            if gone():
                raise MachineTimedOut
            result, input_bytes, returned = self._task(state, arguments, own_s, ends)
            sizes.append((state, input_bytes, returned))
            return result

        context = execution_context(execution_input, start_time)
        whole = context["Execution"]["Id"].rpartition(":")[0]
        execution = {**context["Execution"], "Name": name, "Id": f"{whole}:{name}"}
        walk = Walk(self._host(task), {**context, "Execution": execution}, {}, never)
        try:
            hold_limit(execution_input, "the execution input")
            output = walk.run(self._states, execution_input)
            hold_limit(output, "the output")
        except MachineTimedOut:
            return Execution("TIMED_OUT", states=tuple(walk.entered), sizes=tuple(sizes))
        except DataLimitExceeded as over:
            error = "States.DataLimitExceeded"
            return Execution("FAILED", None, error, str(over), tuple(walk.entered), tuple(sizes))
        except Failure as failure:
            return Execution(
                "FAILED", None, failure.error, failure.cause, tuple(walk.entered), tuple(sizes)
            )
        return Execution("SUCCEEDED", output, None, None, tuple(walk.entered), tuple(sizes))

    def _host(self, call: Callable[[str, Any, float | None], object]) -> Host:
        kind = self._standard
        if kind is None:
            # A question's deadline leaves no time to wait between tries.
            return Host(call, {}, lambda _: None, _quiet, at_once=1, strict=False)
        at_once, journal = kind.at_once, kind.journal
        return Host(call, kind.buckets, kind.pause, kind.progress, at_once, True, journal)

    def _task(
        self, state: str, arguments: Any, own_s: float | None, ends: float
    ) -> tuple[object, int, int]:
        """Call a function as Lambda is called; give result, bytes of arguments and of result."""
        assert isinstance(arguments, dict)
        arrived, size = sent(arguments)
        if size > STATE_LIMIT_BYTES:
            raise DataLimitExceeded(f"arguments of {state}")
        function = self._functions[str(arguments["FunctionName"])]
        future: Future[dict[str, Any]] = self._pool.submit(function, arrived["Payload"], None)
        own_s = self._timeout_s if own_s is None else own_s
        left_s = ends - time.monotonic()
        try:
            result = future.result(timeout=max(0.0, min(own_s, left_s)))
        except NotYet:
            if future.done() and future.exception() is not None:
                raise _failure(future.exception()) from None
            if left_s <= own_s:
                raise MachineTimedOut from None
            raise Failure("States.Timeout", "") from None
        except Exception as exc:
            raise _failure(exc) from exc
        payload, result_size = returned(result)
        if result_size > STATE_LIMIT_BYTES:
            raise DataLimitExceeded(f"result of {state}")
        reply = {"ExecutedVersion": "$LATEST", "Payload": payload, "StatusCode": 200}
        return reply, size, result_size


def _failure(exc: BaseException | None) -> Failure:
    """Name an exception as the Lambda runtime would."""
    cause = {"errorMessage": str(exc), "errorType": type(exc).__name__}
    return Failure(type(exc).__name__, json.dumps(cause))


def _hold_express(definition: Mapping[str, Any]) -> None:
    """Refuse what Step Functions runs in a Standard machine only."""
    for name, state in every_state(definition):
        processor: Any = state.get("ItemProcessor", {})
        if processor.get("ProcessorConfig", {}).get("Mode") == "DISTRIBUTED":
            raise Unsupported(f"{name}: an Express machine has no distributed Map")
        if state["Type"] == "Wait":
            raise Unsupported(f"{name}: nobody waits in an Express machine here")

"""Execute a state machine locally, with the limits and timeouts AWS would apply.

The definition is checked by sfnx and the JSONata means what sfnx makes of it, but it is read once:
`asl_states` walks, `asl_expressions` evaluates. Added here: the 262,144-byte check on every input
and output, TimeoutSeconds of tasks and of the machine.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from sfnx.testing import Failure, check, execution_context

from docstokg.domain.budget import STATE_LIMIT_BYTES, json_bytes
from docstokg_local.asl_states import State, Walk

TaskFunction = Callable[[dict[str, Any], object], dict[str, Any]]
_SUBSTITUTION = re.compile(r"\$\{(\w+)\}")
_TASKS_AT_ONCE = 64


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


class MachineTimedOut(BaseException):
    """Ends an execution past its own TimeoutSeconds; no Catch may see it."""


class DataLimitExceeded(BaseException):
    """Ends an execution whose data grew too large at a task.

    AWS lets no `States.ALL` catch it (Step Functions guide, error names), so no Catch sees it here.
    """


class StateMachine:
    """One definition with a Python function per `${...Function}` substitution."""

    def __init__(
        self,
        definition: Mapping[str, Any],
        functions: Mapping[str, TaskFunction],
        timeout_s: float | None = None,
    ) -> None:
        """`timeout_s` replaces the definition's own TimeoutSeconds."""
        text = json.dumps(definition)
        names = set(_SUBSTITUTION.findall(text))
        if missing := sorted(names - set(functions)):
            raise KeyError(f"no function for {', '.join(missing)}")
        read = json.loads(_SUBSTITUTION.sub(lambda match: match.group(1), text))
        check(read)
        self._first: str = read["StartAt"]
        self._states = {name: State.of(name, fields) for name, fields in read["States"].items()}
        self._functions = dict(functions)
        self._timeout_s = timeout_s or float(read.get("TimeoutSeconds", 300))
        self._pool = ThreadPoolExecutor(_TASKS_AT_ONCE, thread_name_prefix="task")

    @classmethod
    def from_file(
        cls, path: Path, functions: Mapping[str, TaskFunction], timeout_s: float | None = None
    ) -> "StateMachine":
        """Read a definition file."""
        return cls(json.loads(path.read_text(encoding="utf-8")), functions, timeout_s)

    def execute(
        self,
        execution_input: Any,
        started: float | None = None,
        gone: Callable[[], bool] = never,
    ) -> Execution:
        """Run one execution to its end; never raises for what the machine did.

        `started`: epoch seconds the execution counts as begun at, now by default. Once `gone`
        is true no task is begun: the execution ends as if its time were over.
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

        walk = Walk(execution_context(execution_input, start_time), task)
        try:
            if json_bytes(execution_input) > STATE_LIMIT_BYTES:
                raise Failure("States.DataLimitExceeded", "the execution input is too large")
            output = walk.run(self._states, self._first, execution_input)
            if json_bytes(output) > STATE_LIMIT_BYTES:
                raise Failure("States.DataLimitExceeded", "the output is too large")
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

    def _task(
        self, state: str, arguments: Any, own_s: float | None, ends: float
    ) -> tuple[object, int, int]:
        """Call a function as Lambda is called; give result, bytes of arguments and of result."""
        assert isinstance(arguments, dict)
        input_text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        size = len(input_text.encode("utf-8", "surrogatepass"))
        if size > STATE_LIMIT_BYTES:
            raise DataLimitExceeded(f"arguments of {state}")
        function = self._functions[str(arguments["FunctionName"])]
        payload = json.loads(input_text)["Payload"]
        future: Future[dict[str, Any]] = self._pool.submit(function, payload, None)
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
        text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
        result_size = len(text.encode("utf-8", "surrogatepass"))
        if result_size > STATE_LIMIT_BYTES:
            raise DataLimitExceeded(f"result of {state}")
        reply = {"ExecutedVersion": "$LATEST", "Payload": json.loads(text), "StatusCode": 200}
        return reply, size, result_size


def _failure(exc: BaseException | None) -> Failure:
    """Name an exception as the Lambda runtime would."""
    cause = {"errorMessage": str(exc), "errorType": type(exc).__name__}
    return Failure(type(exc).__name__, json.dumps(cause))

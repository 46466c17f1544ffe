"""Local state machine with AWS's limits.

See docs/decisions/0002-local-engine.md.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager
from contextvars import copy_context
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from jsonata import Jsonata
from jsonata.parser import Parser
from sfnx.testing import Call, Failure, Record, check, every_state, execution_context, scope

from docstokg.contracts import Json
from docstokg.domain.deadline import Deadline
from docstokg_local.engine.limits import DataLimitExceeded, measured, transferred

TaskFunction = Callable[[Json, object], Json]
_SUBSTITUTION = re.compile(r"\$\{(\w+)\}")
_TASKS_AT_ONCE = 64
_LONGEST_EXPRESS_S = 300.0
_TASK_LIMIT = "TimeoutSeconds"

Status = Literal["SUCCEEDED", "FAILED", "TIMED_OUT"]


class MachineTimedOut(BaseException):
    """Ends an execution past its TimeoutSeconds; Catch does not handle it."""


class Execution(NamedTuple):
    """Result of one execution, in the terms of StartSyncExecution."""

    status: Status
    output: Any = None
    error: str | None = None
    cause: str | None = None
    states: tuple[str, ...] = ()
    # (state, argument bytes, result bytes) of every task, in order.
    sizes: tuple[tuple[str, int, int], ...] = ()


class Listener(Protocol):
    """Receives events of a running execution."""

    def after(self, state: str, payload: Json, result: Json) -> None:
        """Receive the payload and result of a task."""
        ...


def never() -> bool:
    """Return False: the client still waits."""
    return False


class StateMachine:
    """One Express definition, with a function per `${...Function}` substitution."""

    def __init__(
        self,
        definition: Json,
        functions: Mapping[str, TaskFunction],
        longest_s: float | None = None,
    ) -> None:
        self._definition = read_definition(definition, functions)
        self._functions = dict(functions)
        self._longest_s = longest_s or float(
            self._definition.get("TimeoutSeconds", _LONGEST_EXPRESS_S)
        )
        self._pool = ThreadPoolExecutor(_TASKS_AT_ONCE, thread_name_prefix="task")
        self._parser = _caching_parser()

    @classmethod
    def from_file(
        cls, path: Path, functions: Mapping[str, TaskFunction], longest_s: float | None = None
    ) -> "StateMachine":
        """Return the state machine of a file; raise KeyError for a missing function."""
        return cls(json.loads(path.read_text(encoding="utf-8")), functions, longest_s)

    def execute(
        self,
        execution_input: Any,
        started: float | None = None,
        is_disconnected: Callable[[], bool] = never,
        listener: "Listener | None" = None,
    ) -> Execution:
        """Run one execution to its end; errors of the machine are in the result.

        `started`: epoch seconds of its start, default now. Once `is_disconnected` returns true
        no task is started and the execution times out.
        """
        sizes: list[tuple[str, int, int]] = []
        begun = time.time() if started is None else started
        deadline = Deadline.after(begun + self._longest_s - time.time())
        at = datetime.fromtimestamp(begun, UTC)
        start_time = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

        def task(call: Call) -> object:
            if is_disconnected():
                raise MachineTimedOut
            result, *size = self._task(call, deadline, listener)
            sizes.append((call.state, *size))
            if listener is not None:
                listener.after(call.state, call.arguments["Payload"], result["Payload"])
            return result

        record = Record(task)

        def execution(
            status: Status, output: Any = None, error: str | None = None, cause: str | None = None
        ) -> Execution:
            return Execution(status, output, error, cause, tuple(record.states), tuple(sizes))

        try:
            measured(execution_input, "the execution input")
            context = execution_context(execution_input, start_time)
            with _parsing_by(self._parser):
                output = scope(self._definition, {}, execution_input, context, record)
            measured(output, "the output")
        except MachineTimedOut:
            return execution("TIMED_OUT")
        except DataLimitExceeded as over:
            return execution("FAILED", None, "States.DataLimitExceeded", str(over))
        except Failure as failure:
            return execution("FAILED", None, failure.error, failure.cause)
        return execution("SUCCEEDED", output)

    def _task(self, call: Call, deadline: Deadline, context: object) -> tuple[Json, int, int]:
        assert isinstance(call.arguments, dict)
        arguments = dict(call.arguments)
        state_s = float(arguments.pop(_TASK_LIMIT, self._longest_s))
        arrived, size = transferred(arguments, f"arguments of {call.state}")
        function = self._functions[str(arguments["FunctionName"])]
        future: Future[Json] = self._pool.submit(
            copy_context().run, function, arrived["Payload"], context
        )
        left_s = deadline.remaining()
        try:
            result = future.result(timeout=min(state_s, left_s))
        except NotYet:
            if future.done() and (error := future.exception()):
                raise failure_of(error) from None
            if left_s <= state_s:
                raise MachineTimedOut from None
            raise Failure("States.Timeout", "") from None
        except Exception as error:
            raise failure_of(error) from error
        payload, result_size = transferred(result, f"result of {call.state}")
        reply = {"ExecutedVersion": "$LATEST", "Payload": payload, "StatusCode": 200}
        return reply, size, result_size


def _caching_parser() -> Any:
    """Return a JSONata parser that keeps the syntax trees of a definition's expressions."""
    parser = Parser()
    parser.parse = cache(lambda code, *options: Parser().parse(code, *options))
    return parser


@contextmanager
def _parsing_by(parser: Any) -> Iterator[None]:
    """Let this thread's JSONata expressions be parsed by `parser` during a block."""
    before = Jsonata.get_parser()
    Jsonata.PARSER.parser = parser
    try:
        yield
    finally:
        Jsonata.PARSER.parser = before


def read_definition(definition: Json, functions: Mapping[str, object]) -> Json:
    """Check a definition and fill in its functions; raise `KeyError` if one is missing.

    TimeoutSeconds of tasks is copied into their Arguments.
    """
    text = json.dumps(definition)
    names = set(_SUBSTITUTION.findall(text))
    if missing := sorted(names - set(functions)):
        raise KeyError(f"no function for {', '.join(missing)}")
    machine: Json = json.loads(_SUBSTITUTION.sub(lambda match: match.group(1), text))
    check(machine)
    for _, state in every_state(machine):
        if state["Type"] == "Task" and _TASK_LIMIT in state:
            state["Arguments"][_TASK_LIMIT] = state[_TASK_LIMIT]
    return machine


def failure_of(error: BaseException) -> Failure:
    """Return an exception as the Lambda runtime reports it."""
    cause = {"errorMessage": str(error), "errorType": type(error).__name__}
    return Failure(type(error).__name__, json.dumps(cause))

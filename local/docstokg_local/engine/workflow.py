"""Local `Workflow` over Lambda's handlers."""

import math
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

from docstokg.contracts import Json
from docstokg.contracts.envelope import Envelope, Reply
from docstokg.errors import DocsToKGError
from docstokg.observability import Telemetry, traced
from docstokg.usecases.problems import problem_reply
from docstokg.wiring import Handler, Wiring
from docstokg_functions import __name__ as package
from docstokg_functions.record import handler as record
from docstokg_local.engine.engine import Execution, Listener, StateMachine, never
from docstokg_local.engine.trace_queue import LocalTraceQueue
from docstokg_local.server.lease import Lease

FRAMES_TOLD = 3
# In a wheel; a checkout has its own folder `statemachine`.
INSTALLED = Path(__file__).with_name("statemachine")

DEFINITION = (
    INSTALLED if INSTALLED.is_dir() else Path(__file__).resolve().parents[3] / "statemachine"
) / "answer.asl.json"
STEPS: Mapping[str, ModuleType] = {
    f"{step.title()}Function": import_module(f"{package}.{step}.handler")
    for step in ("validate", "retrieve", "expand", "ground", "traverse", "synthesize", "respond")
}


def logging_crashes(name: str, handler: Handler, telemetry: Telemetry) -> Handler:
    """Return the handler, traced; it logs the places of unexpected errors, and raises all.

    Their messages are not logged.
    """
    step = name.removesuffix("Function").lower()

    def call(event: Json, context: object) -> Json:
        try:
            with traced(step):
                return handler(event, context)
        except DocsToKGError:
            raise
        except Exception as crash:
            frames = traceback.extract_tb(crash.__traceback__)[-FRAMES_TOLD:]
            lines = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
            telemetry.log("ERROR", "crash", function=name, error=type(crash).__name__, where=lines)
            raise

    return call


class LocalWorkflow:
    """Runs questions through `statemachine/answer.asl.json`, in process."""

    def __init__(self, wiring: Wiring) -> None:
        if wiring.settings.traces == "local" and wiring.trace_sink() is None:
            shared = wiring.settings.process_dir
            alone = Lease(Path(shared) / "background.lock").acquire if shared else lambda: True
            queue = LocalTraceQueue(record.build(wiring), wiring.telemetry, is_the_one=alone)
            wiring.override("trace_sink", queue)
        handlers: dict[str, Handler] = {
            name: logging_crashes(name, module.build(wiring), wiring.telemetry)
            for name, module in STEPS.items()
        }
        self._telemetry = wiring.telemetry
        longest_s = math.ceil(wiring.settings.max_timeout_s) + 2
        wiring.make_stored_encoders()
        wiring.warm()
        self._machine = StateMachine.from_file(DEFINITION, handlers, longest_s)
        self._listeners: dict[str, Listener] = {}

    @contextmanager
    def listening(self, request_id: str, listener: Listener) -> Iterator[None]:
        """Send the events of a request's execution to a listener."""
        self._listeners[request_id] = listener
        try:
            yield
        finally:
            del self._listeners[request_id]

    def run(
        self,
        envelope: Envelope,
        *,
        arrived: float | None = None,
        is_disconnected: Callable[[], bool] = never,
    ) -> Reply:
        """Run one execution and return its reply; a failure or timeout is problem+json.

        `arrived`: epoch seconds of its arrival, default now. `is_disconnected` stops it before the
        next step.
        """
        execution = self.execute(envelope, arrived=arrived, is_disconnected=is_disconnected)
        if execution.status == "SUCCEEDED":
            return Reply.model_validate(execution.output)
        self._telemetry.log(
            "ERROR",
            "execution_failed",
            request_id=envelope.request_id,
            status=execution.status,
            error=execution.error,
        )
        late = execution.status == "TIMED_OUT"
        status, code = (504, "workflow_timeout") if late else (500, "workflow_failed")
        detail = "The workflow ran out of time." if late else "The workflow failed."
        return problem_reply(status, code, detail, envelope.request_id)

    def execute(
        self,
        envelope: Envelope,
        *,
        arrived: float | None = None,
        is_disconnected: Callable[[], bool] = never,
    ) -> Execution:
        """Run one execution and return its result, state by state."""
        listener = self._listeners.get(envelope.request_id)
        return self._machine.execute(
            envelope.model_dump(mode="json"), arrived, is_disconnected, listener
        )

"""Loads a bucket on this machine: `ingest.asl.json` over the functions that AWS runs."""

import importlib
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from docstokg.ports import ObjectStore
from docstokg.wiring import Handler, Wiring
from docstokg_local.engine.engine import Execution, Standard, StateMachine
from docstokg_local.engine.journal import Journal
from docstokg_local.engine.workflow import DEFINITION, logging_crashes

STAGES = ("read", "encode", "names", "book", "write", "close")
TOLD_EACH_S = 2.0

Say = Callable[[str], object]


def stage_functions(wiring: Wiring) -> dict[str, Handler]:
    """Give the handlers under the names the definition has for them.

    They are imported here: a server that loads nothing needs none of what they need.
    """
    functions: dict[str, Handler] = {}
    for stage in STAGES:
        module = importlib.import_module(f"docstokg_functions.ingest.{stage}.handler")
        name = f"Ingest{stage.title()}Function"
        functions[name] = logging_crashes(name, module.build(wiring), wiring.telemetry)
    return functions


class ProgressLines:
    """Says when each Map begins, at most every other second how far it is, and how it ended."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._line = ""
        self._said_at = 0.0

    def __call__(self, label: str, ended: int, failed: int) -> None:
        """Note one more batch, or with none that a Map begins."""
        if ended == 0:
            self.close()
            self._say(f"{label.lower()} begins")
            return
        noun = "batch" if ended == 1 else "batches"
        self._line = f"{label.lower()}: {ended} {noun}" + (f", {failed} failed" if failed else "")
        if time.monotonic() - self._said_at >= TOLD_EACH_S:
            self.close()

    def close(self) -> None:
        """Say what was not said yet."""
        if self._line:
            self._say(self._line)
        self._line, self._said_at = "", time.monotonic()


class IngestMachine:
    """Runs of the loading machine over one bucket.

    A run that died goes on when it is run again under its own id: batches that were done are not
    begun again. `at_once` batches run side by side, as many as there are processors by default.
    """

    def __init__(
        self,
        functions: Mapping[str, Handler],
        bucket: ObjectStore,
        say: Say,
        at_once: int | None = None,
    ) -> None:
        """`functions`: see `stage_functions`; `say` gets lines of progress."""
        self._functions, self._bucket, self._say = functions, bucket, say
        self._at_once = at_once or os.process_cpu_count() or 1

    def run(self, arguments: Mapping[str, Any]) -> Execution:
        """Load what is below `arguments["prefix"]`; see the definition for the others."""
        lines = ProgressLines(self._say)
        standard = Standard(
            buckets={arguments["bucket"]: self._bucket},
            pause=self._pause,
            progress=lines,
            at_once=self._at_once,
            journal=Journal(self._bucket, f"runs/{arguments['run_id']}/journal/"),
        )
        definition = DEFINITION.with_name("ingest.asl.json")
        machine = StateMachine.from_file(definition, self._functions, standard=standard)
        try:
            return machine.execute(dict(arguments), name=arguments["run_id"])
        finally:
            lines.close()

    def _pause(self, seconds: float) -> None:
        """Wait before a try, and say so: another load may hold the store for minutes."""
        self._say(f"something is away or in use; the next try is in {seconds:.0f} s")
        time.sleep(seconds)

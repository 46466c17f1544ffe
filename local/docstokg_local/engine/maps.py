"""A Map's iterations: inline ones in the execution itself, distributed ones as its children."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sfnx.testing import EXCEEDED, Failure, exceeds, is_number

from docstokg_local.engine.endings import DataLimitExceeded, Halted, hold_limit
from docstokg_local.engine.expressions import Values
from docstokg_local.engine.items import Buckets, child_inputs
from docstokg_local.engine.journal import UNKNOWN, Journal
from docstokg_local.engine.results import Child, ResultFiles
from docstokg_local.engine.states import MapFields
from docstokg_local.engine.threads import Halt, side_by_side

Progress = Callable[[str, int, int], None]
"""Called with a Map's label, the children that ended and those that failed; first with none."""


@dataclass(frozen=True)
class Iterating:
    """What a Map gets from the walk it is a state of.

    `inline` runs one iteration (input, halt), `child` one child execution (name, input, halt).
    A child the journal knows is not begun again.
    """

    buckets: Buckets
    at_once: int
    progress: Progress
    halted: Callable[[], bool]
    inline: Callable[[Any, Halt], Any]
    child: Callable[[str, Any, Halt], Any]
    journal: Journal | None


def run_map(fields: MapFields, values: Values, around: Iterating) -> Any:
    """Run every iteration; give the list of results, or where the ResultWriter wrote them."""
    concurrency = fields.concurrency(values)
    if not is_number(concurrency) or concurrency < 0:
        raise Failure("States.QueryEvaluationError", f"MaxConcurrency is {concurrency!r}")
    at_once = min(int(concurrency) or around.at_once, around.at_once)
    halt = Halt(around.halted)
    if fields.distributed:
        return _Distributed(fields, values, around, halt).run(at_once)
    inputs = child_inputs(fields, values, around.buckets)
    jobs = (partial(around.inline, child_input, halt) for child_input, _ in inputs)
    results = [result for _, result in sorted(side_by_side(jobs, at_once, halt), key=_place)]
    hold_limit(results, "the result of a Map")
    return results


class _Distributed:
    """One Map run."""

    def __init__(self, fields: MapFields, values: Values, around: Iterating, halt: Halt) -> None:
        self._fields, self._values = fields, values
        self._around, self._halt = around, halt
        machine = values["states"]["context"]["StateMachine"]["Name"]
        self._tolerated: Mapping[str, Any] = fields.tolerated(values)
        if not all(is_number(limit) for limit in self._tolerated.values()):
            raise Failure("States.QueryEvaluationError", "a tolerated failure is no number")
        self._files = (
            None
            if fields.writer is None
            else ResultFiles(
                fields.writer(values),
                (f"{machine}/{fields.label}", str(uuid.uuid4())),
                around.buckets,
            )
        )
        self._ended = self._failed = self._items = self._failed_items = 0

    def run(self, at_once: int) -> Any:
        """Run the children; raise `Failure` when more failed than is tolerated."""
        listed: list[tuple[int, Any]] = []
        self._around.progress(self._fields.label, 0, 0)
        for place, child in side_by_side(self._jobs(), at_once, self._halt):
            self._count(child)
            if self._files is None:
                listed.append((place, child.result()))
            else:
                self._files.add(child)
        written = None if self._files is None else self._files.close()
        if self._around.halted():
            raise Halted
        count, percentage = self._tolerated["count"], self._tolerated["percentage"]
        if self._failed and exceeds(self._failed_items, self._items, count, percentage):
            raise Failure("States.ExceedToleratedFailureThreshold", EXCEEDED)
        if written is not None:
            return written
        results = [result for _, result in sorted(listed, key=_place)]
        hold_limit(results, "the result of a Map")
        return results

    def _jobs(self) -> Iterator[Callable[[], Child]]:
        for child_input, taken in child_inputs(self._fields, self._values, self._around.buckets):
            if self._halt():
                return
            yield partial(self._child, child_input, taken)

    def _child(self, child_input: Any, taken: int) -> Child:
        """Run one child execution; its failure is a result, not an error of the Map's."""
        name, started = str(uuid.uuid4()), time.time()
        ended = partial(Child, name, child_input, taken)
        try:
            output = self._output(name, child_input)
        except Failure as failure:
            stopped = time.time()
            return ended("FAILED", started, stopped, error=failure.error, cause=failure.cause)
        except DataLimitExceeded as over:
            error = "States.DataLimitExceeded"
            return ended("FAILED", started, time.time(), error=error, cause=str(over))
        except Halted:
            return ended("PENDING", started, time.time())
        return ended("SUCCEEDED", started, time.time(), output)

    def _output(self, name: str, child_input: Any) -> Any:
        journal, label = self._around.journal, self._fields.label
        output = UNKNOWN if journal is None else journal.output(label, child_input)
        if output is not UNKNOWN:
            return output
        output = self._around.child(name, child_input, self._halt)
        hold_limit(output, "the output of a child execution")
        if journal is not None:
            journal.note(label, child_input, output)
        return output

    def _count(self, child: Child) -> None:
        if child.status == "PENDING":
            return
        self._ended += 1
        self._items += child.taken
        if child.status == "FAILED":
            self._failed += 1
            self._failed_items += child.taken
        # A share can only be told from all items, so only a count ends a Map before its end.
        count, percentage = self._tolerated["count"], self._tolerated["percentage"]
        if self._failed_items > count and (count or not percentage):
            self._halt.set()
        self._around.progress(self._fields.label, self._ended, self._failed)


def _place(pair: tuple[int, Any]) -> int:
    return pair[0]

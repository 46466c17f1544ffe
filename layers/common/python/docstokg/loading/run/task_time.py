"""Time limit of a task of a run: Lambda ends a function without a warning."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from docstokg.errors import LoadError

KEPT_S = 180.0
"""Seconds of a function's time that are kept for the batch under way and the answer."""


class TaskTime:
    """The time of one task."""

    def __init__(self, end_s: float = math.inf) -> None:
        """`end_s`: seconds until the task has to stop by itself; without end on a laptop."""
        self._end = time.monotonic() + end_s

    @classmethod
    def of(cls, context: object) -> "TaskTime":
        """Return the remaining time in Lambda's context of an invocation."""
        left: Callable[[], int] | None = getattr(context, "get_remaining_time_in_millis", None)
        return cls() if left is None else cls(left() / 1000 - KEPT_S)

    def is_over(self) -> bool:
        """Return whether the task has to stop."""
        return time.monotonic() >= self._end

    @contextmanager
    def stage(self, title: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """Begin a stage of a task that cannot stop half way, as of `Progress`.

        Each advance may raise `LoadError`: tried again, it would take as long.
        """
        yield self._advance

    def _advance(self, steps: int) -> None:
        if self.is_over():
            raise LoadError(
                "deciding who is named in these documents takes longer than one task of `resolve`"
                " may: load them into several namespaces, or once with `docstokg load`"
            )

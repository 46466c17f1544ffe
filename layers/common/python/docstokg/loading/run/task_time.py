"""Time limit of a task."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from docstokg.errors import LoadError

# Seconds reserved for the current batch and the answer.
KEPT_S = 180.0


class TaskTime:
    """The time limit of one task."""

    def __init__(self, end_s: float = math.inf) -> None:
        self._end = time.monotonic() + end_s

    @classmethod
    def of(cls, context: object) -> "TaskTime":
        """Return the time of Lambda's `context` less KEPT_S; unlimited for others."""
        remaining_ms: Callable[[], int] | None = getattr(
            context, "get_remaining_time_in_millis", None
        )
        return cls() if remaining_ms is None else cls(remaining_ms() / 1000 - KEPT_S)

    def is_over(self) -> bool:
        """Return whether the task has to stop."""
        return time.monotonic() >= self._end

    @contextmanager
    def stage(self, title: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """Start a stage of a task that cannot stop half way, as in `Progress`.

        Each advance may raise `LoadError`.
        """
        yield self._advance

    def _advance(self, steps: int) -> None:
        if self.is_over():
            raise LoadError(
                "resolving the entities of these documents exceeds the time limit of one `resolve`"
                " task; load them into several namespaces, or with `docstokg load`"
            )

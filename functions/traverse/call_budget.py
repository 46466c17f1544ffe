"""Rate limit for walks."""

import threading
from collections import OrderedDict, deque

from docstokg.domain import time_budget
from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, cause
from docstokg.observability import Telemetry
from docstokg.ports import CallCounter
from docstokg.usecases.refusals import caller_hash

WINDOW_S = 60
MAX_CALLERS = 10_000


class CallBudget:
    """A sliding window of calls per caller.

    `shared` counts the walks of all processes per calendar minute, while it works.
    """

    def __init__(
        self, per_minute: int, shared: CallCounter | None = None, telemetry: Telemetry | None = None
    ) -> None:
        self._limit = per_minute
        self._shared, self._telemetry = shared, telemetry
        self._lock = threading.Lock()
        self._calls: OrderedDict[str, deque[float]] = OrderedDict()

    def spend(self, caller: str, now_s: float, request_id: str) -> float:
        """Count one call; return 0.0, or the seconds to wait if the limit is reached.

        A failing shared counter is ignored.
        """
        return self._spend_here(caller, now_s) or self._spend_everywhere(caller, now_s, request_id)

    def _spend_here(self, caller: str, now_s: float) -> float:
        with self._lock:
            calls = self._calls.setdefault(caller, deque())
            self._calls.move_to_end(caller)
            while calls and now_s - calls[0] >= WINDOW_S:
                calls.popleft()
            if len(calls) >= self._limit:
                return WINDOW_S - (now_s - calls[0])
            calls.append(now_s)
            if len(self._calls) > MAX_CALLERS:
                self._calls.popitem(last=False)
            return 0.0

    def _spend_everywhere(self, caller: str, now_s: float, request_id: str) -> float:
        if self._shared is None:
            return 0.0
        window = int(now_s // WINDOW_S)
        key = f"walks-{caller_hash(caller)}-{window}"
        try:
            taken = self._shared.add(key, 2 * WINDOW_S, Deadline.after(time_budget.COUNTER_S))
        except DocsToKGError as exc:
            if self._telemetry:
                self._telemetry.log(
                    "WARNING", "call_counter_lost", request_id=request_id, **cause(exc)
                )
            return 0.0
        return 0.0 if taken <= self._limit else (window + 1) * WINDOW_S - now_s

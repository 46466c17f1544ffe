"""How many walks one caller may start in a minute, counted in this process."""

import threading
from collections import OrderedDict, deque

WINDOW_S = 60.0
MAX_CALLERS = 10_000


class CallBudget:
    """A sliding window per caller; the least recently seen callers are forgotten first."""

    def __init__(self, per_minute: int) -> None:
        self._limit = per_minute
        self._lock = threading.Lock()
        self._calls: OrderedDict[str, deque[float]] = OrderedDict()

    def spend(self, caller: str, now_s: float) -> float:
        """Take one call; give 0.0, or the seconds to wait when none is left."""
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

"""Admission control before any work."""

import asyncio
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from docstokg.domain.deadline import Deadline

# Less than the five seconds for which validate accepts an arrival time.
LONGEST_WAIT_S = 4.0

# Seconds after its deadline when a request is answered.
LATE_ANSWER_S = 0.2

# Seconds reserved by the steps of an answer; with less, it is degraded.
STEP_MARGIN_S = 0.35

# Share of its time that a request may wait if its caller has others queued.
# One caller fills at most half of the queue.
CALLER_SHARE = 0.5

FIRST_ESTIMATE_S = 0.2
LEARNING_RATE = 0.1


class Overloaded(Exception):
    """The deadline cannot be met; `retry_after_s` is in whole seconds."""

    def __init__(self, wait_s: float) -> None:
        super().__init__("the deadline cannot be met at the present queue")
        self.retry_after_s = max(1, math.ceil(wait_s))


class TooLate(Exception):
    """The work did not finish in time."""


class ClientGone(Exception):
    """The client closed the connection."""


class Admission:
    """Runs at most `slots` tasks at once in threads; queues or refuses others."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="request")
        self._lock = threading.Lock()
        self._admitted: Counter[str] = Counter()
        # Seconds per unit of work, and the units that were admitted and have not ended.
        self._mean_s = FIRST_ESTIMATE_S
        self._units = 0.0

    async def run[Answer](
        self,
        work: Callable[[], Answer],
        *,
        caller: str,
        deadline: Deadline,
        hang_up: Callable[[], Coroutine[Any, Any, None]],
        units: float = 1.0,
    ) -> Answer:
        """Run `work` in a thread before `deadline`; refuse it once it can no longer start in time.

        `hang_up` returns when the client disconnects. `units`: size of the work. Raises
        `Overloaded` (not started), `TooLate` (not finished), `ClientGone`.
        """
        wait_s, latest_start = self._admit(caller, deadline, units)
        future = self._pool.submit(copy_context().run, self._timed, work, latest_start, units)
        future.add_done_callback(lambda _: self._leave(caller, units))
        answer = asyncio.wrap_future(future)
        disconnect = asyncio.create_task(hang_up())
        either: list[asyncio.Future[Any]] = [answer, disconnect]
        limits = [Deadline.after(deadline.remaining() + LATE_ANSWER_S)]
        if latest_start:
            limits.insert(0, latest_start)
        try:
            for limit in limits:
                await asyncio.wait(
                    either, timeout=limit.remaining(), return_when=asyncio.FIRST_COMPLETED
                )
                if answer.done():
                    return answer.result()
                if disconnect.done():
                    raise ClientGone
                if future.cancel():
                    raise Overloaded(wait_s)
            raise TooLate
        finally:
            answer.cancel()  # cancels queued work; running work is not awaited
            disconnect.cancel()

    def _admit(
        self, caller: str, deadline: Deadline, units: float
    ) -> tuple[float, Deadline | None]:
        with self._lock:
            admitted = self._admitted.total()
            ahead = max(0, admitted - self._slots + 1)
            mean_units = self._units / admitted if admitted else units
            wait_s = ahead * mean_units * self._mean_s / self._slots
            work_s = units * self._mean_s + STEP_MARGIN_S
            spare_s = deadline.remaining() - work_s
            share = CALLER_SHARE if self._admitted[caller] else 1.0
            if wait_s and wait_s > share * min(LONGEST_WAIT_S, spare_s):
                raise Overloaded(wait_s)
            self._admitted[caller] += 1
            self._units += units
        return wait_s, deadline.limit(LONGEST_WAIT_S, work_s) if wait_s else None

    def _timed[Answer](
        self, work: Callable[[], Answer], latest_start: Deadline | None, units: float
    ) -> Answer:
        began = time.monotonic()
        if latest_start and latest_start.is_over():
            raise Overloaded(self._mean_s)
        try:
            return work()
        finally:
            with self._lock:
                unit_s = (time.monotonic() - began) / units
                self._mean_s += LEARNING_RATE * (unit_s - self._mean_s)

    def _leave(self, caller: str, units: float) -> None:
        with self._lock:
            self._units -= units
            self._admitted[caller] -= 1
            self._admitted += Counter()  # drops callers without requests

    def close(self) -> None:
        """Start no more work."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class CoalescedCall:
    """Coalesce concurrent calls and cache the result for `fresh_s` seconds."""

    def __init__(self, work: Callable[[], object], fresh_s: float) -> None:
        self._work, self._fresh_s = work, fresh_s
        self._pool = ThreadPoolExecutor(1)
        self._begun = -math.inf
        self._running: Future[object] | None = None

    async def __call__(self) -> object:
        """Return the result of an active run, or of one within `fresh_s`."""
        running, now = self._running, time.monotonic()
        if running is None or (running.done() and now - self._begun > self._fresh_s):
            self._begun = now
            running = self._running = self._pool.submit(self._work)
        return await asyncio.shield(asyncio.wrap_future(running))

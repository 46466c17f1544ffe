"""Who is answered when not everybody can be: the gate between the event loop and the threads.

A request waits here for one of few threads, knows from its arrival on when it has to be answered,
and is refused at once when that cannot be: work that nobody can use any more is never begun.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from docstokg.workers import Workers

Answer = TypeVar("Answer")

SLOTS = 3
"""Requests one process works on at once. Python computes on one core: more only wait inside, and
each takes the interpreter away from the loop that refuses: with four it said no later."""

MOST_WAITING = 64
LONGEST_WAIT_S = 4.0
"""Below the five seconds for which validate trusts an arrival; see `validate`."""

LATEST_S = 0.2
"""After its deadline a request is answered by the gate, whatever its thread still does."""

SPARE_S = 0.35
"""What the steps of an answer keep back for those after them: begun with less left than the work
takes and this, an answer loses the graph, or every passage."""

_FIRST_GUESS_S = 0.2
_LEARNING = 0.1
_CAUTION = 2.0


class Overloaded(Exception):
    """The deadline cannot be met at the present queue; `retry_after_s` is a whole second."""

    def __init__(self, wait_s: float) -> None:
        super().__init__("the deadline cannot be met at the present queue")
        self.retry_after_s = max(1, math.ceil(wait_s))


class TooLate(Exception):
    """The work was begun in time and did not end in time."""


class Gone(Exception):
    """The client hung up; nobody waits for the answer."""


class Patience:
    """How long a kind of work takes: mean and mean deviation, the latest counting most."""

    def __init__(self) -> None:
        self.mean_s, self._deviation_s = _FIRST_GUESS_S, 0.0

    def learn(self, took_s: float) -> None:
        """Move towards what one piece of work took."""
        off = took_s - self.mean_s
        self.mean_s += _LEARNING * off
        self._deviation_s += _LEARNING * (abs(off) - self._deviation_s)

    @property
    def likely_s(self) -> float:
        """What few pieces of work take longer than."""
        return self.mean_s + _CAUTION * self._deviation_s


@dataclass(eq=False)
class Ticket:
    """One waiting request; `turn` is given a result when a slot is its own, or is cancelled."""

    caller: str
    kind: str
    ends: float
    turn: asyncio.Future[None] = field(repr=False)


class Gate:
    """At most `slots` pieces of work in threads; the callers that wait take turns.

    One caller alone may use every slot and the whole queue; while several wait, each gets one
    slot in turn, and the longest queue gives way to a caller that has none.
    """

    def __init__(self, slots: int = SLOTS, most_waiting: int = MOST_WAITING) -> None:
        self._slots, self._most_waiting = slots, most_waiting
        self._pool = Workers(slots, "request")
        self._waiting: dict[str, deque[Ticket]] = {}
        self._running: dict[Ticket, float] = {}
        self._patience: dict[str, Patience] = {}

    def expect(self, *, caller: str, kind: str, ends: float) -> None:
        """Raise `Overloaded` when `run` would, before anything is prepared for it.

        A server that is asked far too much says little else, so it has to be cheap.
        """
        if self.is_taken():
            self._hopeful(caller, kind, ends)

    def is_taken(self) -> bool:
        """Tell whether whoever comes now has to wait."""
        return len(self._running) >= self._slots or bool(self._waiting)

    async def run(
        self,
        work: Callable[[], Answer],
        *,
        caller: str,
        kind: str,
        ends: float,
        gone: asyncio.Task[None],
    ) -> Answer:
        """Do `work` in a thread before `ends` (of `time.monotonic`), or say at once why not.

        `kind` names work that takes about as long. Raises `Overloaded`, `TooLate`, `Gone`.
        """
        loop = asyncio.get_running_loop()
        ticket = Ticket(caller, kind, ends, loop.create_future())
        await self._admit(ticket, gone)
        began = time.monotonic()
        done = loop.run_in_executor(self._pool, work)
        done.add_done_callback(lambda _: self._finish(ticket, began))
        left = ends + LATEST_S - began
        both: list[asyncio.Future[Any]] = [done, gone]
        await asyncio.wait(both, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if done.done():
            return done.result()
        done.add_done_callback(_seen)
        raise Gone if gone.done() else TooLate

    async def _admit(self, ticket: Ticket, gone: asyncio.Task[None]) -> None:
        if not self.is_taken():
            self._running[ticket] = time.monotonic()
            return
        wait_s = self._hopeful(ticket.caller, ticket.kind, ticket.ends)
        if self._is_full():
            self._make_room()
        self._waiting.setdefault(ticket.caller, deque()).append(ticket)
        left_s = ticket.ends - time.monotonic()
        try:
            await asyncio.wait(
                [ticket.turn, gone],
                timeout=min(LONGEST_WAIT_S, left_s - self._needs_s(ticket)),
                return_when=asyncio.FIRST_COMPLETED,
            )
        except asyncio.CancelledError:
            if ticket in self._running:
                self._free(ticket)
            self._leave(ticket)
            raise
        if ticket not in self._running:
            self._leave(ticket)
            raise Gone if gone.done() else Overloaded(wait_s)

    def _hopeful(self, caller: str, kind: str, ends: float) -> float:
        """Give the seconds it will wait; `Overloaded` when too long, or nobody makes room."""
        wait_s = self._wait_s(caller)
        needed_s = wait_s + self._of(kind).likely_s + SPARE_S
        if needed_s > ends - time.monotonic() or wait_s > LONGEST_WAIT_S:
            raise Overloaded(wait_s)
        if self._is_full() and len(self._longest()) <= len(self._waiting.get(caller, ())) + 1:
            raise Overloaded(wait_s)
        return wait_s

    def _is_full(self) -> bool:
        return sum(map(len, self._waiting.values())) >= self._most_waiting

    def _longest(self) -> deque[Ticket]:
        return max(self._waiting.values(), key=len)

    def _needs_s(self, ticket: Ticket) -> float:
        """What has to be left when it is begun, if it is to become a whole answer."""
        return self._of(ticket.kind).mean_s + SPARE_S

    def _wait_s(self, caller: str) -> float:
        """How long until a slot is free for it, when everybody takes as long as usual."""
        now = time.monotonic()
        ahead = sum(self._of(other.kind).mean_s for other in self._ahead_of(caller))
        running = sum(
            max(0.1 * mean, mean - (now - began))
            for other, began in self._running.items()
            for mean in (self._of(other.kind).mean_s,)
        )
        return (ahead + running) / self._slots

    def _ahead_of(self, caller: str) -> Iterator[Ticket]:
        """Those whose turn comes before the one that `caller` would queue now."""
        place = len(self._waiting.get(caller, ()))
        for queue in self._waiting.values():
            for at, ticket in enumerate(queue):
                if at > place:
                    break
                yield ticket

    def _make_room(self) -> None:
        last = self._longest()[-1]
        last.turn.cancel()
        self._leave(last)

    def _leave(self, ticket: Ticket) -> None:
        queue = self._waiting.get(ticket.caller)
        if queue is not None and ticket in queue:
            queue.remove(ticket)
            if not queue:
                del self._waiting[ticket.caller]

    def _finish(self, ticket: Ticket, began: float) -> None:
        self._of(ticket.kind).learn(time.monotonic() - began)
        self._free(ticket)

    def _free(self, ticket: Ticket) -> None:
        """Give a slot to whose turn it is, passing over who could not be answered in time."""
        del self._running[ticket]
        while self._waiting and len(self._running) < self._slots:
            caller, queue = next(iter(self._waiting.items()))
            following = queue.popleft()
            del self._waiting[caller]
            if queue:
                self._waiting[caller] = queue  # behind the others: it has had its turn
            left_s = following.ends - time.monotonic()
            if following.turn.done():
                continue
            if left_s < self._needs_s(following):
                following.turn.cancel()  # it would be begun and abandoned, or answered in part
                continue
            self._running[following] = time.monotonic()
            following.turn.set_result(None)

    def _of(self, kind: str) -> Patience:
        return self._patience.setdefault(kind, Patience())

    def close(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _seen(done: asyncio.Future[Any]) -> None:
    """Look at what nobody waits for any more, so that no error counts as overlooked."""
    if not done.cancelled():
        done.exception()


class Shared:
    """One piece of work for all who ask at the same time, and for who asks soon after."""

    def __init__(self, work: Callable[[], Answer], fresh_s: float, name: str) -> None:
        self._work: Callable[[], object] = work
        self._fresh_s = fresh_s
        self._pool = Workers(1, name)
        self._begun = -math.inf
        self._result: asyncio.Future[object] | None = None

    async def __call__(self) -> object:
        """Give the result of a run that began at most `fresh_s` ago, or is still under way."""
        result = self._result
        if result is None or (result.done() and time.monotonic() - self._begun > self._fresh_s):
            loop = asyncio.get_running_loop()
            self._begun = time.monotonic()
            result = self._result = loop.run_in_executor(self._pool, self._work)
        return await asyncio.shield(result)

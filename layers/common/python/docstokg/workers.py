"""Threads for calls that take turns: the one used last is used first, and the idle ones end."""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

IDLE_S = 10.0
"""Seconds without a call after which a thread ends."""

Answer = TypeVar("Answer")
Parameters = ParamSpec("Parameters")
Task = tuple[Future[Any], Callable[[], Any]]


@dataclass(eq=False)
class _Thread:
    """One thread, as a pool of one: at exit the interpreter waits for what it works on."""

    pool: ThreadPoolExecutor
    idle_from: float = 0.0


class Workers(Executor):
    """At most `most` threads, made when called for, that end after `idle_s` seconds without a call.

    What a thread holds ends with it: a connection, its pages in memory, its descriptors. A pool
    as large as the busiest second made it would hold them to the end of the process. Of the idle
    ones the thread used last is taken, whose pages are the warmest; so the others become idle.
    After `shutdown` it begins anew with the next call.
    """

    def __init__(self, most: int, name: str, idle_s: float = IDLE_S) -> None:
        self._most, self._name, self._idle_s = most, name, idle_s
        self._lock = threading.Lock()
        self._threads: set[_Thread] = set()
        self._idle: list[_Thread] = []  # the last one was used last
        self._waiting: deque[Task] = deque()
        self._ends = threading.Event()

    def submit(
        self,
        task: Callable[Parameters, Answer],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Future[Answer]:
        """Begin a task in a thread, or when one is free; see `Executor`."""
        future: Future[Answer] = Future()
        begun: Task = (future, lambda: task(*args, **kwargs))
        with self._lock:
            if self._idle:
                thread = self._idle.pop()
            elif len(self._threads) < self._most:
                thread = self._another()
            else:
                self._waiting.append(begun)
                return future
            thread.pool.submit(self._serve, thread, begun)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads when they have done what waits, or cancel that; see `Executor`."""
        with self._lock:
            waiting = list(self._waiting) if cancel_futures else []
            threads, self._threads = self._threads, set()
            self._idle.clear()
            self._ends.set()
        for future, _ in waiting:
            future.cancel()
        for thread in threads:
            thread.pool.shutdown(wait=wait)

    def _another(self) -> _Thread:
        """Make a thread; the first one is watched, by a daemon that no exit waits for."""
        if not self._threads:
            self._ends = threading.Event()
            watch = threading.Thread(target=self._watch, args=(self._ends,), daemon=True)
            watch.name = f"{self._name} watch"
            watch.start()
        thread = _Thread(ThreadPoolExecutor(1, thread_name_prefix=self._name))
        self._threads.add(thread)
        return thread

    def _serve(self, thread: _Thread, begun: Task) -> None:
        """Work until nothing waits.

        A thread is free again before it tells its result: who calls next finds it.
        """
        task: Task | None = begun
        while task is not None:
            future, call = task
            result, error = None, None
            is_wanted = future.set_running_or_notify_cancel()
            if is_wanted:
                try:
                    result = call()
                except BaseException as exc:  # noqa: BLE001 - raised again by `result`, never lost
                    error = exc
            with self._lock:
                task = self._waiting.popleft() if self._waiting else None
                if task is None and thread in self._threads:
                    thread.idle_from = time.monotonic()
                    self._idle.append(thread)
            if error is not None:
                future.set_exception(error)
            elif is_wanted:
                future.set_result(result)
            del future, call, result, error

    def _watch(self, ends: threading.Event) -> None:
        """End the threads that nobody used for long enough, until there is none."""
        while not ends.wait(self._idle_s / 4):
            with self._lock:
                if ends.is_set():
                    return
                before = time.monotonic() - self._idle_s
                old = [thread for thread in self._idle if thread.idle_from <= before]
                del self._idle[: len(old)]
                self._threads.difference_update(old)
                if not self._threads:
                    ends.set()
            for thread in old:
                thread.pool.shutdown(wait=False)

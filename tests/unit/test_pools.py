"""Threads that end when nobody calls, and take what they hold with them."""

import threading
import time
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from docstokg.workers import Workers

PATIENT_S = 60.0
NEVER_S = 10_000.0


def threads(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(name)]


def gone(name: str) -> bool:
    until = time.monotonic() + PATIENT_S
    while threads(name) and time.monotonic() < until:
        time.sleep(0.01)
    return not threads(name)


class Held:
    """What a thread keeps for itself, as a connection to a file."""

    def __init__(self, closed: list[int]) -> None:
        self._closed = closed

    def __del__(self) -> None:
        self._closed.append(1)


def test_idle_threads_end_and_what_they_held_is_closed() -> None:
    workers, local, closed = Workers(4, "idle-end", idle_s=0.05), threading.local(), []
    all_in = threading.Barrier(4)

    def hold() -> None:
        local.held = Held(closed)
        all_in.wait(PATIENT_S)

    for future in [workers.submit(hold) for _ in range(4)]:
        future.result(PATIENT_S)
    assert gone("idle-end")
    assert len(closed) == 4
    assert workers.submit(lambda: "again").result(PATIENT_S) == "again"
    workers.shutdown()


def test_the_thread_used_last_is_used_first_so_that_the_others_become_idle() -> None:
    workers = Workers(8, "last-first", idle_s=NEVER_S)
    both = threading.Barrier(2)
    for future in [workers.submit(both.wait, PATIENT_S) for _ in range(2)]:
        future.result(PATIENT_S)
    names = {workers.submit(threading.get_ident).result(PATIENT_S) for _ in range(50)}
    assert len(names) == 1
    workers.shutdown()
    assert gone("last-first")


def test_no_more_than_most_and_what_waits_is_done_in_order() -> None:
    workers, done, begin = Workers(2, "most", idle_s=NEVER_S), [], threading.Event()
    busy = [workers.submit(begin.wait, PATIENT_S) for _ in range(2)]
    later = [workers.submit(done.append, number) for number in range(20)]
    assert len([t for t in threads("most") if "watch" not in t.name]) == 2
    assert not any(future.done() for future in later)
    begin.set()
    for future in (*busy, *later):
        future.result(PATIENT_S)
    assert sorted(done) == list(range(20))
    workers.shutdown()


def test_errors_and_cancelled_calls_are_told_to_who_asked() -> None:
    workers, begin = Workers(1, "told", idle_s=NEVER_S), threading.Event()

    def fail() -> None:
        raise KeyError("lost")

    busy: Future[Any] = workers.submit(begin.wait, PATIENT_S)
    wrong, never = workers.submit(fail), workers.submit(begin.set)
    assert never.cancel()
    begin.set()
    busy.result(PATIENT_S)
    with pytest.raises(KeyError, match="lost"):
        wrong.result(PATIENT_S)
    with pytest.raises(CancelledError):
        never.result(PATIENT_S)
    workers.shutdown()


def test_shutdown_finishes_what_waits_or_cancels_it() -> None:
    for cancel in (False, True):
        workers, begin = Workers(1, "shut", idle_s=NEVER_S), threading.Event()
        busy = workers.submit(begin.wait, PATIENT_S)
        waiting = workers.submit(lambda: "done")
        workers.shutdown(wait=False, cancel_futures=cancel)
        begin.set()
        busy.result(PATIENT_S)
        if cancel:
            assert waiting.cancelled()
        else:
            assert waiting.result(PATIENT_S) == "done"
        assert gone("shut")


def test_calls_from_many_threads_are_all_done_while_idle_ones_end() -> None:
    workers = Workers(3, "many", idle_s=0.001)
    total: list[int] = []

    def ask(first: int) -> None:
        for number in range(first, first + 200):
            total.append(workers.submit(lambda n=number: n).result(PATIENT_S))
            if number % 40 == 0:
                time.sleep(0.003)

    askers = [threading.Thread(target=ask, args=(1000 * n,)) for n in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(PATIENT_S)
    assert sorted(total) == sorted(1000 * n + i for n in range(4) for i in range(200))
    assert gone("many")

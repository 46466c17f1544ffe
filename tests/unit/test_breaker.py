"""A dependency that fails is left alone, is asked in the background, and comes back by itself."""

import threading
import time
from collections.abc import Callable

import pytest

from docstokg.adapters import breaker
from docstokg.adapters.bounded import within
from docstokg.adapters.breaker import Breaker
from docstokg.domain.circuit import Circuit
from docstokg.domain.deadline import Deadline
from docstokg.errors import CircuitOpen, Misconfigured, Timeout, Unavailable, WrongAnswer
from docstokg.observability import Telemetry
from tests.plans import soon


def raising(exc: Exception) -> Callable[[], None]:
    def request() -> None:
        raise exc

    return request


def fail(breaker: Breaker, exc: Exception | None = None, timeout_s: float = 1.0) -> None:
    exc = exc or Unavailable("refused")
    with pytest.raises(type(exc)):
        breaker.call(raising(exc), Deadline.after(timeout_s))


def eventually(truth: Callable[[], bool], seconds: float = 5.0) -> bool:
    until = time.monotonic() + seconds
    while not truth() and time.monotonic() < until:
        time.sleep(0.01)
    return truth()


class Others:
    """What other processes know, as a table would tell it."""

    def __init__(self) -> None:
        self.known = False

    def is_open(self) -> bool:
        return self.known

    def open(self) -> None:
        self.known = True


def test_a_request_is_the_trial_where_nothing_probes() -> None:
    now = [0.0]
    breaker = Breaker("model", circuit=Circuit(failures=2, recovery_s=10.0), clock=lambda: now[0])
    fail(breaker)
    fail(breaker)
    with pytest.raises(CircuitOpen):
        breaker.call(lambda: 1, soon())
    now[0] = 11.0
    assert breaker.call(lambda: 1, soon()) == 1
    assert breaker.call(lambda: 2, soon()) == 2


def test_what_speaks_for_a_dependency_closes_its_circuit() -> None:
    breaker = Breaker("graph", circuit=Circuit(failures=2))
    for exc in (WrongAnswer("no"), Timeout("late")):
        fail(breaker)
        fail(breaker, exc, timeout_s=0.1)  # too short to say anything of the other side
        assert breaker.call(lambda: 1, soon()) == 1
    fail(breaker, Misconfigured("refused"))
    fail(breaker, Timeout("late"), timeout_s=0.5)
    with pytest.raises(CircuitOpen):
        breaker.call(lambda: 1, soon())


def test_a_probe_closes_the_circuit_without_a_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(breaker, "PROBE_EVERY_S", 0.01)
    back, probes, lines = threading.Event(), [0], list[str]()

    def probe() -> None:
        probes[0] += 1
        if not back.is_set():
            raise Unavailable("still down")

    guard = Breaker(
        "graph",
        circuit=Circuit(failures=2, recovery_s=0.0),
        probe=probe,
        telemetry=Telemetry(write=lines.append),
    )
    fail(guard)
    fail(guard, Unavailable("connection refused"))
    assert eventually(lambda: probes[0] >= 3)
    with pytest.raises(CircuitOpen):
        guard.call(lambda: 1, soon())
    assert "circuit_open" in lines[0] and "connection refused" in lines[0]
    back.set()
    assert eventually(lambda: len(lines) == 2)
    assert "circuit_closed" in lines[1]
    assert guard.call(lambda: 1, soon()) == 1
    guard.close()


def test_a_wrong_password_is_not_tried_every_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaker, "PROBE_EVERY_S", 0.01)
    probes = [0]

    def probe() -> None:
        probes[0] += 1
        raise Misconfigured("refused the credentials")

    guard = Breaker("graph", circuit=Circuit(failures=1), probe=probe)
    fail(guard)
    assert eventually(lambda: probes[0] == 1)
    time.sleep(0.1)
    assert probes[0] == 1
    guard.close()


def test_an_open_circuit_is_shared_between_processes() -> None:
    others = Others()
    local = Breaker("graph", circuit=Circuit(failures=1), shared=others)
    remote = Breaker("graph", shared=others)
    fail(local)
    assert others.known
    with pytest.raises(CircuitOpen, match="elsewhere"):
        remote.call(lambda: 1, soon())
    assert remote.call(lambda: 1, soon(), alone=True) == 1


def test_a_call_that_never_ends_is_left_behind() -> None:
    ends = threading.Event()
    with pytest.raises(Timeout, match=r"the model did not answer in 0\.05 s"):
        within(ends.wait, Deadline.after(0.05), "the model")
    ends.set()
    assert within(lambda: 3, soon(), "it") == 3


def test_errors_of_a_call_pass_through() -> None:
    with pytest.raises(TimeoutError, match="between two bytes"):
        within(raising(TimeoutError("between two bytes")), Deadline.after(5.0), "it")
    with pytest.raises(KeyError):
        within(raising(KeyError("x")), Deadline.after(5.0), "it")

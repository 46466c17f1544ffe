"""Circuit breaker."""

import threading
import time
from collections.abc import Callable
from typing import Protocol

from docstokg.domain.circuit import Circuit
from docstokg.domain.deadline import Deadline
from docstokg.errors import (
    CircuitOpen,
    DocsToKGError,
    Misconfigured,
    Permanent,
    Timeout,
    Unavailable,
)
from docstokg.observability import Telemetry

# A timeout of a shorter call does not count as a failure of the dependency.
SHORTEST_S = 0.25

PROBE_EVERY_S = 1.0
SLOWEST_PROBE_S = 30.0


class SharedCircuit(Protocol):
    """Circuit state shared with other processes."""

    def is_open(self) -> bool:
        """Return whether another process has opened the circuit, without waiting."""

    def open(self) -> None:
        """Publish the open circuit, without waiting."""


class Breaker:
    """A `Circuit` shared by threads, and optionally by processes.

    `counts`: errors that count as failures. `probe`: called in the background while the circuit is
    open; only its success closes it. Without it, a request is the trial.
    """

    def __init__(  # noqa: PLR0913 - all have defaults
        self,
        dependency: str,
        *,
        circuit: Circuit | None = None,
        counts: tuple[type[DocsToKGError], ...] = (Unavailable, Timeout, Misconfigured),
        probe: Callable[[], object] | None = None,
        shared: SharedCircuit | None = None,
        telemetry: Telemetry | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dependency = dependency
        self._circuit = circuit or Circuit()
        self._counts = counts
        self._probe = probe
        self._shared = shared
        self._telemetry = telemetry or Telemetry()
        self._clock = clock
        self._lock = threading.Lock()
        self._prober: threading.Thread | None = None
        self._closing = threading.Event()

    def call[Answer](
        self, request: Callable[[], Answer], deadline: Deadline, *, alone: bool = False
    ) -> Answer:
        """Return the result of `request`, or raise `CircuitOpen`, without a call, while it is open.

        `deadline`: of `request`; a `Timeout` in less than 0.25 s is not counted. `alone`: ignore
        other processes.
        """
        self._begin(alone)
        granted_s = deadline.remaining()
        try:
            answer = request()
        except self._counts as exc:
            if not isinstance(exc, Timeout) or granted_s >= SHORTEST_S:
                self.failed(exc)
            raise
        except DocsToKGError:
            self.succeeded()  # it is reachable
            raise
        self.succeeded()
        return answer

    def _begin(self, alone: bool) -> None:
        if self._shared and not alone and self._shared.is_open():
            raise CircuitOpen(
                f"{self._dependency} failed repeatedly elsewhere; it is not called for a while"
            )
        with self._lock:
            now = self._clock()
            is_free = self._circuit.allows(now)
            if self._probe is not None and self._circuit.opened_at is not None:
                is_free = False
                self._start_probing()
            if not is_free:
                raise CircuitOpen(
                    f"{self._dependency} failed repeatedly; it is not called for a while"
                )
            self._circuit = self._circuit.called(now)

    def succeeded(self) -> None:
        """Close the circuit."""
        with self._lock:
            was_open = self._circuit.opened_at is not None
            self._circuit = self._circuit.succeeded()
        if was_open:
            self._telemetry.log("INFO", "circuit_closed", dependency=self._dependency)

    def failed(self, exc: DocsToKGError) -> None:
        """Count a failure of any class; the circuit may open."""
        with self._lock:
            was_open = self._circuit.opened_at is not None
            self._circuit = self._circuit.failed(self._clock())
            opened = self._circuit.opened_at is not None and not was_open
            if opened and self._probe:
                self._start_probing()
        if opened:
            self._telemetry.count("circuit_open_total", dependency=self._dependency)
            self._telemetry.log(
                "WARNING", "circuit_open", dependency=self._dependency, error=str(exc)
            )
            if self._shared:
                self._shared.open()

    def close(self) -> None:
        """Stop probing."""
        self._closing.set()

    def _start_probing(self) -> None:
        if self._prober is None or not self._prober.is_alive():
            self._prober = threading.Thread(
                target=self._probing, name=f"probe {self._dependency}", daemon=True
            )
            self._prober.start()

    def _probing(self) -> None:
        assert self._probe is not None
        pause = PROBE_EVERY_S
        while not self._closing.wait(pause):
            try:
                self._probe()
            except Permanent:  # a wrong password must not be tried every second
                pause = SLOWEST_PROBE_S
            except DocsToKGError:
                pause = min(2 * pause, SLOWEST_PROBE_S / 10)
            else:
                self.succeeded()
                return

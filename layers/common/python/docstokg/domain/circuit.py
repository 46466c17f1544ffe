"""When to stop calling a dependency that keeps failing, and when to try it again."""

from dataclasses import dataclass, replace
from typing import Literal

State = Literal["closed", "open", "half_open"]


@dataclass(frozen=True)
class Circuit:
    """A circuit breaker as a value: every event gives the next one (Nygard, Release It!, 2007).

    Closed until `failures` calls in a row failed; then open for `recovery_s` seconds, in which no
    call is allowed; then half open: one trial call closes or reopens it. Times are in seconds of
    one monotonic clock.
    """

    failures: int = 5
    recovery_s: float = 30.0
    failed_in_row: int = 0
    opened_at: float | None = None
    trial_at: float | None = None

    def state(self, now: float) -> State:
        """Give the state at `now`."""
        if self.opened_at is None:
            return "closed"
        return "open" if now - self.opened_at < self.recovery_s else "half_open"

    def allows(self, now: float) -> bool:
        """Tell whether a call may be made; a trial that never ended is forgotten in time."""
        state = self.state(now)
        if state == "half_open":
            return self.trial_at is None or now - self.trial_at >= self.recovery_s
        return state == "closed"

    def called(self, now: float) -> "Circuit":
        """Note that an allowed call begins: in half open it is the one trial."""
        return replace(self, trial_at=now) if self.state(now) == "half_open" else self

    def succeeded(self) -> "Circuit":
        """Close it."""
        return Circuit(self.failures, self.recovery_s)

    def failed(self, now: float) -> "Circuit":
        """Count a failure; open at the limit, reopen after a failed trial."""
        count = self.failed_in_row + 1
        opens = self.opened_at is not None or count >= self.failures
        return replace(self, failed_in_row=count, opened_at=now if opens else None, trial_at=None)

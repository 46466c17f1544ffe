"""Circuit breaker."""

from dataclasses import dataclass, replace
from typing import Literal

State = Literal["closed", "open", "half_open"]


@dataclass(frozen=True)
class Circuit:
    """An immutable circuit breaker; every event returns the next state (Nygard, Release It!, 2007).

    Closed until `failures` consecutive failures; open for `recovery_s` seconds; then half open: one
    trial call closes or reopens it. Times are monotonic seconds.
    """

    failures: int = 5
    recovery_s: float = 30.0
    failed_in_row: int = 0
    opened_at: float | None = None
    trial_at: float | None = None

    def state(self, now: float) -> State:
        """Return the state at `now`."""
        if self.opened_at is None:
            return "closed"
        return "open" if now - self.opened_at < self.recovery_s else "half_open"

    def allows(self, now: float) -> bool:
        """Return whether a call is allowed; an unfinished trial expires after `recovery_s`."""
        state = self.state(now)
        if state == "half_open":
            return self.trial_at is None or now - self.trial_at >= self.recovery_s
        return state == "closed"

    def called(self, now: float) -> "Circuit":
        """Return the state after an allowed call begins: in half open its trial, else unchanged."""
        return replace(self, trial_at=now) if self.state(now) == "half_open" else self

    def succeeded(self) -> "Circuit":
        """Return the closed circuit."""
        return Circuit(self.failures, self.recovery_s)

    def failed(self, now: float) -> "Circuit":
        """Count a failure; open at the limit, or for another `recovery_s` if not closed."""
        count = self.failed_in_row + 1
        opens = self.opened_at is not None or count >= self.failures
        return replace(self, failed_in_row=count, opened_at=now if opens else None, trial_at=None)

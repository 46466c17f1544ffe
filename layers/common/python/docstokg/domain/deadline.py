"""One absolute deadline from validate to respond; every step asks it before it starts anything."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Deadline:
    """A moment in epoch milliseconds; `now_ms` is always passed in, so the rule stays pure."""

    at_ms: int

    def remaining_s(self, now_ms: float) -> float:
        """Seconds left, never below 0."""
        return max(0.0, (self.at_ms - now_ms) / 1000)

    def share_s(self, now_ms: float, cap_s: float, reserve_s: float = 0.0) -> float:
        """Seconds one call may take: at most `cap_s`, leaving `reserve_s` for what follows."""
        return max(0.0, min(cap_s, self.remaining_s(now_ms) - reserve_s))

    def allows(self, now_ms: float, needs_s: float) -> bool:
        """Tell whether something that needs `needs_s` seconds can still finish."""
        return self.remaining_s(now_ms) >= needs_s

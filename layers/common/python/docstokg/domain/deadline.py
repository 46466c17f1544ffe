"""End of a time limit."""

import time
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, order=True)
class Deadline:
    """The end of a time limit, in seconds of the monotonic clock.

    It is made once, where a request or command enters, and passed down to every call.
    """

    at: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        """Return the deadline `seconds` from now."""
        return cls(time.monotonic() + seconds)

    def remaining(self) -> float:
        """Return the seconds left, at least 0."""
        return max(0.0, self.at - time.monotonic())

    def is_over(self) -> bool:
        """Return whether no time is left."""
        return self.at <= time.monotonic()

    def limit(self, seconds: float, reserve_s: float = 0.0) -> "Deadline":
        """Return `seconds` from now, at most this deadline less `reserve_s` for later steps."""
        return Deadline(min(time.monotonic() + seconds, self.at - reserve_s))

    def share(self, part: float) -> "Deadline":
        """Return the end of a part (0 to 1) of the remaining time."""
        return Deadline.after(part * self.remaining())

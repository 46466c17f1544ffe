"""How the workers behind one port share its connections: each knows what the others hold.

The kernel wakes every worker for a connection and the quickest takes it, so an idle machine gives
eight clients that connect at once to one worker of two, and half of the machine stays idle.
"""

import contextlib
import fcntl
import mmap
import os
import time
from pathlib import Path

FILE = "connections"
MOST_WORKERS = 256
GIVES_WAY_S = 0.001
"""Long enough for a worker that waits to be woken and to take the next connection."""

_BYTES = 4


class Shares:
    """Counts of open connections, one place a worker, in a file all of them map.

    A place belongs to who holds the lock on it, so a new worker gets that of a dead one. It holds
    one more than the connections; 0 is a place nobody ever had.
    """

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o600)
        os.truncate(self._file, MOST_WORKERS * _BYTES)
        self._counts = memoryview(mmap.mmap(self._file, MOST_WORKERS * _BYTES)).cast("I")
        self._place = self._claimed()
        self.hold(0)

    def hold(self, connections: int) -> None:
        """Say how many are open here."""
        self._counts[self._place] = connections + 1

    def take(self, connections: int) -> None:
        """Say how many are open with the one just taken; give way to who has fewer for the next."""
        self.hold(connections)
        others = [
            count - 1 for place, count in enumerate(self._counts) if count and place != self._place
        ]
        if others and connections > min(others):
            time.sleep(GIVES_WAY_S)

    def _claimed(self) -> int:
        for place in range(MOST_WORKERS):
            with contextlib.suppress(OSError):
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                return place
        raise RuntimeError(f"more than {MOST_WORKERS} workers")

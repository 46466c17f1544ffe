"""File lock."""

import fcntl
from pathlib import Path
from typing import IO


class Lease:
    """Held by one process; the system releases it when that process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def acquire(self) -> bool:
        """Return whether this process has the lease, taking it if it is free."""
        if self._file is None:
            file = self._path.open("ab")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                return False
            self._file = file
        return True

    def close(self) -> None:
        """Release the lease."""
        if self._file:
            self._file.close()
            self._file = None

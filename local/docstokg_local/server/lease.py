"""Work that exactly one process of a server does: whoever holds the lease."""

import fcntl
import os
from pathlib import Path


class Lease:
    """A lock on a file; the system takes it back when its holder ends, however it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def held(self) -> bool:
        """Tell whether this process is the one, taking the lease when it is free."""
        if self._file is not None:
            return True
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return False
        self._file = file
        return True

    def close(self) -> None:
        """Give the lease back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

"""Reading a SQLite file under a deadline, while another process may load, lock or break it."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from docstokg.adapters.sqlite_index_schema import SCHEMA_VERSION, translated
from docstokg.errors import Misconfigured, Timeout, Unavailable

STEPS_BETWEEN_CLOCK_READS = 20_000
HOW = "run `docstokg load SOURCE` or `docstokg demo` first"


class Sessions:
    """One read connection per thread; it is replaced when the file is not the one it opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()

    @contextmanager
    def use(self, deadline: float) -> Iterator[sqlite3.Connection]:
        """Lend this thread's connection until `deadline` (monotonic seconds).

        `Unavailable` when there is no index to read, `Timeout` when it is locked or too slow.
        """
        left = deadline - time.monotonic()
        if left <= 0:
            raise Timeout(f"no time was left to read {self._path}")
        try:
            session = self._session(deadline)
            session.clock.deadline = deadline
            # The lock is given up a little before the deadline: the caller has to be told, too.
            session.connection.execute(f"PRAGMA busy_timeout = {max(1, int(left * 950) - 5)}")
            yield session.connection
        except sqlite3.Error as exc:
            if getattr(exc, "sqlite_errorcode", None) != sqlite3.SQLITE_INTERRUPT:
                self._local.session = None
            raise translated(exc, self._path) from exc

    def _session(self, deadline: float) -> "_Session":
        known: _Session | None = getattr(self._local, "session", None)
        try:
            seen = self._path.stat()
        except OSError as exc:
            self._local.session = None
            raise Unavailable(f"there is no index at {self._path}: {HOW}") from exc
        # Pages that a connection remembers would hide that the file was overwritten in place.
        identity = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns)
        if known is None or known.identity != identity:
            self._local.session = None
            known = _Session(self._path, identity, deadline)
            self._local.session = known
        if seen.st_size < known.floor:
            self._local.session = None
            raise Unavailable(f"{self._path} was cut short: load it again, or bring it back")
        return known


class _Clock:
    """What SQLite asks while it works; apart from the session, so that nothing is a cycle."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline

    def late(self) -> bool:
        """Tell SQLite to stop."""
        return time.monotonic() > self.deadline


class _Session:
    """A connection with the deadline it obeys; it closes itself when nobody needs it."""

    def __init__(self, path: Path, identity: tuple[int, ...], deadline: float) -> None:
        self.identity = identity
        self.clock = _Clock(deadline)
        self.connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode=rw",
            uri=True,
            timeout=max(0.001, (deadline - time.monotonic()) * 0.95),
            isolation_level=None,
            check_same_thread=False,
        )
        self.connection.row_factory = sqlite3.Row
        self.connection.set_progress_handler(self.clock.late, STEPS_BETWEEN_CLOCK_READS)
        self.floor = self._checked(path)

    def __del__(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()

    def _checked(self, path: Path) -> int:
        """Refuse what is no index of this version; give the size the file had after a load."""
        tables = "SELECT count(*) FROM sqlite_master WHERE name = 'index_meta'"
        if not self.connection.execute(tables).fetchone()[0]:
            raise Unavailable(f"{path} holds no index: {HOW}")
        noted = dict(self.connection.execute("SELECT key, value FROM index_meta").fetchall())
        if noted.get("schema") != SCHEMA_VERSION:
            raise Misconfigured(
                f"{path} was written by another version (schema {noted.get('schema')}, this one "
                f"reads {SCHEMA_VERSION}): load its sources again"
            )
        return int(noted.get("bytes", 0))

"""SQLite sessions."""

# ruff: noqa: S608 - table names are constants

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, Misconfigured, NotLoaded, Timeout, Unavailable

HOW = "run `docstokg load SOURCE` or `docstokg demo` first"


# A load pauses so long after so much time.
WRITING_S, PAUSE_S = 2.0, 0.15

Execute = Callable[..., sqlite3.Cursor]
# Raises an error for another layout; returns the size after the last load, in bytes.
Check = Callable[[sqlite3.Connection, Path], int]


class Reading(NamedTuple):
    """How a kind of file is read.

    `what`: its content, for messages. `steps`: virtual machine steps between deadline checks.
    `cache_kib`: page cache per connection. `columns`: rows have column names.
    """

    content: str
    check: Check
    steps: int
    cache_kib: int
    columns: bool


class Sessions:
    """One read connection per thread, replaced when the file changes."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self._path, self._reading = path, reading
        self._local = threading.local()

    @contextmanager
    def use(self, deadline: Deadline) -> Iterator[sqlite3.Connection]:
        """Yield this thread's connection until `deadline`.

        Raises `Unavailable` for a missing or unreadable file, `Timeout` for a locked or slow one,
        and errors of `Reading.check`.
        """
        left_ms = int(deadline.remaining() * 1000)
        if deadline.is_over():
            raise Timeout(f"no time was left to read {self._path}")
        try:
            session = self._session(deadline)
            session.clock.deadline = deadline
            # Lock waits end before the deadline, so that the error arrives in time.
            session.connection.execute(f"PRAGMA busy_timeout = {max(1, int(left_ms * 0.95) - 5)}")
            yield session.connection
        except sqlite3.Error as exc:
            if getattr(exc, "sqlite_errorcode", None) != sqlite3.SQLITE_INTERRUPT:
                self._local.session = None
            raise translated(exc, self._path) from exc

    def close(self) -> None:
        """Close this thread's connection; the next use opens another."""
        self._local.session = None

    def _session(self, deadline: Deadline) -> "_Session":
        session: _Session | None = getattr(self._local, "session", None)
        try:
            seen = self._path.stat()
        except FileNotFoundError as exc:
            self._local.session = None
            raise NotLoaded(f"there is no {self._reading.content} at {self._path}: {HOW}") from exc
        except OSError as exc:
            self._local.session = None
            raise Unavailable(f"{self._path} cannot be read: {exc}") from exc
        # Cached pages would hide an overwritten file.
        identity = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns)
        if session is None or session.identity != identity:
            self._local.session = None
            session = _Session(self._path, identity, deadline, self._reading)
            session.floor = self._reading.check(session.connection, self._path)
            self._local.session = session
        if seen.st_size < session.floor:
            self._local.session = None
            raise Unavailable(f"{self._path} was cut short: load it again, or bring it back")
        return session


class _Clock:
    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline

    def late(self) -> bool:
        return self.deadline.is_over()


class Closing(sqlite3.Connection):
    """A connection that closes with its thread or owner. `paused`: end of its last pause."""

    paused = 0.0

    def __del__(self) -> None:
        self.close()


def opened(path: Path, wait_s: float) -> Closing:
    """Open a file, created if missing, for writing in WAL mode; wait `wait_s` for locks."""
    connection = sqlite3.connect(
        path, timeout=wait_s, isolation_level=None, check_same_thread=False, factory=Closing
    )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.paused = time.monotonic()
    return connection


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Let the block read one state of the file, whatever others write meanwhile."""
    connection.execute("BEGIN")
    try:
        yield connection
    finally:
        connection.rollback()


@contextmanager
def immediate(connection: Closing) -> Iterator[sqlite3.Connection]:
    """Run the block as one transaction, rolled back on errors; pause now and then for others."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    except BaseException:
        connection.rollback()
        raise
    connection.execute("COMMIT")
    if time.monotonic() - connection.paused >= WRITING_S:
        # SQLite has no queue: a waiting process looks every 100 ms.
        time.sleep(PAUSE_S)
        connection.paused = time.monotonic()


def prepared(path: Path, wait_s: float, tables: str, notes: str, version: str) -> Closing:
    """Open a store's file for a load; create its `tables` and store their `version` if new.

    Raises `Misconfigured` for another version.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = opened(path, wait_s)
    try:
        connection.execute("PRAGMA cache_size = -65536")
        with immediate(connection):
            query = "SELECT 1 FROM sqlite_master WHERE name = ?"
            if connection.execute(query, (notes,)).fetchone() is None:
                for statement in tables.split(";"):
                    connection.execute(statement)
                connection.execute(f"INSERT INTO {notes} VALUES ('schema', ?)", (version,))
            row = connection.execute(f"SELECT value FROM {notes} WHERE key = 'schema'").fetchone()
        if row is None or row[0] != version:
            raise Misconfigured(
                f"{path} was written by another version (layout {row and row[0]}, this one writes "
                f"{version}): load into a new file"
            )
    except BaseException:
        connection.close()
        raise
    return connection


class _Session:
    def __init__(
        self, path: Path, identity: tuple[int, ...], deadline: Deadline, reading: Reading
    ) -> None:
        self.identity = identity
        self.floor = 0
        self.clock = _Clock(deadline)
        self.connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode=rw",
            uri=True,
            timeout=max(0.001, deadline.remaining() * 0.95),
            isolation_level=None,
            check_same_thread=False,
            factory=Closing,
        )
        self.connection.row_factory = sqlite3.Row if reading.columns else None
        self.connection.execute(f"PRAGMA cache_size = -{reading.cache_kib}")
        self.connection.set_progress_handler(self.clock.late, reading.steps)

    def __del__(self) -> None:
        self.connection.close()


@contextmanager
def transaction(
    path: Path, tables: str, wait_s: float, *, write: bool = True, make: bool = True
) -> Iterator[sqlite3.Connection]:
    """Yield a new connection in one transaction, after creating the tables; roll back on errors.

    Without `make` the file must exist. Raises `Timeout` if it is locked, `Unavailable` for other
    errors of SQLite or the file, also in the block.
    """
    address = f"file:{quote(str(path))}?mode={'rwc' if make else 'rw'}"
    try:
        if make:
            path.parent.mkdir(parents=True, exist_ok=True)
        with closing(
            sqlite3.connect(address, uri=True, timeout=wait_s, isolation_level=None)
        ) as db:
            db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            for statement in filter(str.strip, tables.split(";")):
                db.execute(statement)
            yield db
            db.execute("COMMIT")  # closing rolls back uncommitted changes
    except sqlite3.Error as exc:
        raise translated(exc, path) from exc
    except OSError as exc:
        raise Unavailable(f"{path} cannot be read or written: {exc}") from exc


def insert(run: Execute, table: str, how: str = "INSERT", **row: object) -> int:
    """Insert a row by column names; return its rowid, if it has one.

    `how`: `UPSERT` replaces one with its key.
    """
    return int(run(_insertion(table, how, *row), row).lastrowid or 0)


@cache
def _insertion(table: str, how: str, *names: str) -> str:
    values = ", ".join(f":{name}" for name in names)
    return f"{how} INTO {table} ({', '.join(names)}) VALUES ({values})"


UPSERT = "INSERT OR REPLACE"


def translated(exc: sqlite3.Error, path: object) -> DocsToKGError:
    """Return `Timeout` for interrupted or locked access, `Unavailable` for other SQLite errors."""
    code = getattr(exc, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    if primary == sqlite3.SQLITE_INTERRUPT:
        return Timeout(f"{path} did not answer in the time it was given")
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Timeout(f"{path} was locked by another process for all the time there was")
    return Unavailable(f"{path} cannot be read or written: {exc}")

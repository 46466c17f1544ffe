"""What the processes of one server agree on: counts per caller, and circuits that are open.

One small SQLite file that lives as long as the server; its loss costs agreement, never an answer.
"""

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from docstokg.errors import Unavailable

Answer = TypeVar("Answer")
OPEN_S = 10
"""How long one process's word keeps the others from trying; each that fails says it again."""

REFRESH_S = 0.5
TABLE_TIME_S = 0.05
_TABLES = """
CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, taken INTEGER, until REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS circuits (name TEXT PRIMARY KEY, until REAL) WITHOUT ROWID;
"""


class SqliteShared:
    """One file; every call opens it, so that threads and processes need no care."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def call(self, ask: Callable[[sqlite3.Connection], Answer], timeout_s: float) -> Answer:
        """Run `ask` in one writing transaction; `Unavailable` when the file does not allow it."""
        try:
            with closing(sqlite3.connect(self._path, timeout=timeout_s, autocommit=True)) as db:
                if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'circuits'").fetchone():
                    db.executescript(_TABLES)
                db.execute("BEGIN IMMEDIATE")
                answer = ask(db)
                db.execute("COMMIT")
                return answer
        except sqlite3.Error as exc:
            raise Unavailable(f"{self._path}: {exc}") from exc


class SqliteCounter:
    """The CallCounter port between the processes of one machine."""

    def __init__(self, path: Path) -> None:
        self._file = SqliteShared(path)

    def add(self, key: str, ttl_s: int, timeout_s: float) -> int:
        """Add one to a count that is kept for `ttl_s` seconds; the new count."""
        now = time.time()

        def ask(db: sqlite3.Connection) -> int:
            db.execute("DELETE FROM counts WHERE until <= ?", (now,))
            row = db.execute(
                "INSERT INTO counts VALUES (?, 1, ?) "
                "ON CONFLICT (name) DO UPDATE SET taken = taken + 1 RETURNING taken",
                (key, now + ttl_s),
            ).fetchone()
            return int(row[0])

        return self._file.call(ask, timeout_s)


class SqliteCircuit:
    """Until when (epoch seconds) a dependency is known to be down; see `shared_circuit`."""

    def __init__(self, path: Path, name: str) -> None:
        self._file, self._name = SqliteShared(path), name
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._open_until = 0.0

    def is_open(self) -> bool:
        """Tell what the file said at most REFRESH_S ago; without it, what was known last."""
        with self._lock:
            if time.monotonic() - self._asked_at >= REFRESH_S:
                self._asked_at = time.monotonic()
                self._open_until = self._read()
            return time.time() < self._open_until

    def open(self, seconds: int = OPEN_S) -> None:
        """Tell the others."""
        until = time.time() + seconds
        with self._lock:
            if until - self._open_until < 1.0:
                return
            self._open_until = until

        def ask(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR REPLACE INTO circuits VALUES (?, ?)", (self._name, until))

        try:
            self._file.call(ask, TABLE_TIME_S)
        except Unavailable:
            return

    def _read(self) -> float:
        def ask(db: sqlite3.Connection) -> float:
            query = "SELECT until FROM circuits WHERE name = ?"
            row = db.execute(query, (self._name,)).fetchone()
            return 0.0 if row is None else float(row[0])

        try:
            return self._file.call(ask, TABLE_TIME_S)
        except Unavailable:
            return self._open_until

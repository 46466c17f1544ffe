"""What the processes of one server agree on: counts per caller, and circuits that are open.

One small SQLite file that lives as long as the server; its loss costs agreement, never an answer.
"""

import logging
import threading
import time
from pathlib import Path

from docstokg.adapters.sqlite.session import transaction
from docstokg.errors import Retryable

_log = logging.getLogger(__name__)
OPEN_S = 10
"""How long one process's word keeps the others from trying; each that fails says it again."""

REFRESH_S = 0.5
TABLE_TIME_S = 0.05
_TABLES = """
CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, taken INTEGER, until REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS circuits (name TEXT PRIMARY KEY, until REAL) WITHOUT ROWID;
"""


class SqliteCounter:
    """The CallCounter port between the processes of one machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, key: str, ttl_s: int, timeout_s: float) -> int:
        """Add one to a count that is kept for `ttl_s` seconds; the new count."""
        now = time.time()

        with transaction(self._path, _TABLES, timeout_s) as db:
            db.execute("DELETE FROM counts WHERE until <= ?", (now,))
            row = db.execute(
                "INSERT INTO counts VALUES (?, 1, ?) "
                "ON CONFLICT (name) DO UPDATE SET taken = taken + 1 RETURNING taken",
                (key, now + ttl_s),
            ).fetchone()
        return int(row[0])


class SqliteCircuit:
    """Until when (epoch seconds) a dependency is known to be down; see `shared_circuit`."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name
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

        try:
            with transaction(self._path, _TABLES, TABLE_TIME_S) as db:
                db.execute("INSERT OR REPLACE INTO circuits VALUES (?, ?)", (self._name, until))
        except Retryable as exc:
            _log.warning("circuit_not_written: %s", exc)

    def _read(self) -> float:
        query = "SELECT until FROM circuits WHERE name = ?"
        try:
            with transaction(self._path, _TABLES, TABLE_TIME_S, write=False) as db:
                row = db.execute(query, (self._name,)).fetchone()
        except Retryable as exc:
            _log.warning("circuit_not_read: %s", exc)
            return self._open_until
        return 0.0 if row is None else float(row[0])

"""Finished responses in one SQLite file, for a laptop."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from docstokg.errors import Unavailable


class SqliteCache:
    """The ResponseCache port on SQLite; each call opens its own short connection."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _open(self, timeout_s: float) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self._path, timeout=timeout_s, isolation_level=None)
        try:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS response "
                "(key TEXT PRIMARY KEY, request_hash TEXT, body TEXT, expires REAL)"
            )
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def get(self, key: str, timeout_s: float) -> tuple[str, str] | None:
        """Return (request hash, body) of an entry that has not expired, or None."""
        try:
            with closing(self._open(timeout_s)) as connection:
                row = connection.execute(
                    "SELECT request_hash, body FROM response WHERE key = ? AND expires > ?",
                    (key, time.time()),
                ).fetchone()
        except (sqlite3.Error, OSError) as exc:
            raise Unavailable(f"response cache {self._path}: {exc}") from exc
        return None if row is None else (row[0], row[1])

    def put(self, key: str, request_hash: str, body: str, ttl_s: int, timeout_s: float) -> None:
        """Keep a body for `ttl_s` seconds and drop what has expired."""
        now = time.time()
        try:
            with closing(self._open(timeout_s)) as connection:
                connection.execute("DELETE FROM response WHERE expires <= ?", (now,))
                connection.execute(
                    "INSERT OR REPLACE INTO response VALUES (?, ?, ?, ?)",
                    (key, request_hash, body, now + ttl_s),
                )
        except (sqlite3.Error, OSError) as exc:
            raise Unavailable(f"response cache {self._path}: {exc}") from exc

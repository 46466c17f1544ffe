"""SQLite response cache."""

import time

from docstokg.adapters.sqlite.file_store import FileStore
from docstokg.domain.deadline import Deadline


class SqliteCache(FileStore):
    """A `ResponseCache` on SQLite."""

    tables = (
        "CREATE TABLE IF NOT EXISTS response "
        "(key TEXT PRIMARY KEY, request_hash TEXT, body TEXT, expires REAL)"
    )

    def get(self, key: str, deadline: Deadline) -> tuple[str, str] | None:
        """Return (request hash, body) of an unexpired entry, or None."""
        with self._transaction(deadline.remaining(), write=False) as db:
            row = db.execute(
                "SELECT request_hash, body FROM response WHERE key = ? AND expires > ?",
                (key, time.time()),
            ).fetchone()
        return None if row is None else (row[0], row[1])

    def put(self, key: str, request_hash: str, body: str, ttl_s: int, deadline: Deadline) -> None:
        """Store a body for `ttl_s` seconds, replacing by key, and delete expired entries."""
        now = time.time()
        with self._transaction(deadline.remaining()) as db:
            db.execute("DELETE FROM response WHERE expires <= ?", (now,))
            db.execute(
                "INSERT OR REPLACE INTO response VALUES (?, ?, ?, ?)",
                (key, request_hash, body, now + ttl_s),
            )

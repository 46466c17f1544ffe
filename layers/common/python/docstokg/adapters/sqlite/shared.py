"""Call counts."""

import time

from docstokg.adapters.sqlite.file_store import FileStore
from docstokg.domain.deadline import Deadline


class SqliteCounter(FileStore):
    """A `CallCounter` for one machine."""

    tables = (
        "CREATE TABLE IF NOT EXISTS counts "
        "(name TEXT PRIMARY KEY, taken INTEGER, until REAL) WITHOUT ROWID"
    )

    def add(self, key: str, ttl_s: int, deadline: Deadline) -> int:
        """Add one to a count that expires `ttl_s` seconds after its first call; return it."""
        now = time.time()
        with self._transaction(deadline.remaining()) as db:
            db.execute("DELETE FROM counts WHERE until <= ?", (now,))
            row = db.execute(
                "INSERT INTO counts VALUES (?, 1, ?) "
                "ON CONFLICT (name) DO UPDATE SET taken = taken + 1 RETURNING taken",
                (key, now + ttl_s),
            ).fetchone()
        return int(row[0])

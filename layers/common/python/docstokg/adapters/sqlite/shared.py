"""Call counts."""

import time
from pathlib import Path

from docstokg.adapters.sqlite.session import transaction
from docstokg.domain.deadline import Deadline

_TABLE = (
    "CREATE TABLE IF NOT EXISTS counts "
    "(name TEXT PRIMARY KEY, taken INTEGER, until REAL) WITHOUT ROWID"
)


class SqliteCounter:
    """A `CallCounter` for one machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, key: str, ttl_s: int, deadline: Deadline) -> int:
        """Add one to a count that expires `ttl_s` seconds after its first call; return it."""
        now = time.time()
        with transaction(self._path, _TABLE, deadline.remaining()) as db:
            db.execute("DELETE FROM counts WHERE until <= ?", (now,))
            row = db.execute(
                "INSERT INTO counts VALUES (?, 1, ?) "
                "ON CONFLICT (name) DO UPDATE SET taken = taken + 1 RETURNING taken",
                (key, now + ttl_s),
            ).fetchone()
        return int(row[0])

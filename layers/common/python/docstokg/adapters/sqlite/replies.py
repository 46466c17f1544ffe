"""Replies of language models to loads, kept for good: they were paid for."""

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from docstokg.errors import Unavailable

_LOOK_UP = 500
_BUSY_S = 30.0


class SqliteReplies:
    """A `ReplyStore` in one SQLite file that only its owner can read (mode 0600).

    Replies tell what passages say, so the file is as private as the passages. Each `put` is on
    disk when it returns: what a killed load has paid for is not asked again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """Find what is kept."""
        replies: dict[str, str] = {}
        try:
            with closing(self._opened()) as connection:
                for start in range(0, len(keys), _LOOK_UP):
                    rows = connection.execute(
                        "SELECT key, reply FROM replies"
                        " WHERE key IN (SELECT value FROM json_each(?))",
                        (json.dumps(list(keys[start : start + _LOOK_UP])),),
                    )
                    replies.update(rows)
        except (sqlite3.Error, OSError) as broken:
            raise Unavailable(f"{self._path} cannot be read: {broken}") from broken
        return replies

    def put(self, replies: Mapping[str, str]) -> None:
        """Keep replies."""
        try:
            with closing(self._opened()) as connection, connection:
                connection.executemany(
                    "INSERT OR REPLACE INTO replies (key, reply) VALUES (?, ?)",
                    sorted(replies.items()),
                )
        except (sqlite3.Error, OSError) as broken:
            raise Unavailable(f"{self._path} cannot be written: {broken}") from broken

    def _opened(self) -> sqlite3.Connection:
        """Open the file, made with its mode before anything is in it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        self._path.chmod(0o600)
        connection = sqlite3.connect(self._path, timeout=_BUSY_S)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS replies"
            " (key TEXT PRIMARY KEY, reply TEXT NOT NULL) WITHOUT ROWID"
        )
        return connection

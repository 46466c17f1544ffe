"""Model replies."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from docstokg.adapters.sqlite.session import transaction
from docstokg.errors import Unavailable

_BUSY_S = 30.0
_TABLE = "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT) WITHOUT ROWID"


class SqliteReplies:
    """A `ReplyStore` in one SQLite file with mode 0600."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """Map stored keys to their replies; raise `Unavailable` if the file is not writable."""
        query = "SELECT key, reply FROM replies WHERE key IN (SELECT value FROM json_each(?))"
        with transaction(self._private(), _TABLE, _BUSY_S) as db:
            return dict(db.execute(query, (json.dumps(list(keys)),)).fetchall())

    def put(self, replies: Mapping[str, str]) -> None:
        """Store replies, replacing by key; raise `Unavailable` if the file is not writable."""
        rows = sorted(replies.items())
        with transaction(self._private(), _TABLE, _BUSY_S) as db:
            db.executemany("INSERT OR REPLACE INTO replies (key, reply) VALUES (?, ?)", rows)

    def _private(self) -> Path:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            self._path.chmod(0o600)
        except OSError as broken:
            raise Unavailable(f"{self._path} cannot be written: {broken}") from broken
        return self._path

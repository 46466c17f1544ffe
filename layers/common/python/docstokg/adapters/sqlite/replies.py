"""Model replies."""

import json
from collections.abc import Mapping, Sequence

from docstokg.adapters.sqlite.file_store import FileStore
from docstokg.errors import Unavailable


class SqliteReplies(FileStore):
    """A `ReplyStore` in one SQLite file with mode 0600."""

    tables = "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT) WITHOUT ROWID"
    busy_s = 30.0

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """Map stored keys to their replies; raise `Unavailable` if the file is not writable."""
        query = "SELECT key, reply FROM replies WHERE key IN (SELECT value FROM json_each(?))"
        self._protect()
        with self._transaction() as db:
            return dict(db.execute(query, (json.dumps(list(keys)),)).fetchall())

    def put(self, replies: Mapping[str, str]) -> None:
        """Store replies, replacing by key; raise `Unavailable` if the file is not writable."""
        rows = sorted(replies.items())
        self._protect()
        with self._transaction() as db:
            db.executemany("INSERT OR REPLACE INTO replies (key, reply) VALUES (?, ?)", rows)

    def _protect(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch(mode=0o600)
            self.path.chmod(0o600)
        except OSError as broken:
            raise Unavailable(f"{self.path} cannot be written: {broken}") from broken

"""Stores that open their SQLite file for each call."""

import sqlite3
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from docstokg.adapters.sqlite.session import transaction


class FileStore:
    """Rows in one SQLite file, created by the first change.

    `tables`: statements that create them. `busy_s`: seconds to wait for another process.
    """

    tables: str
    busy_s: float

    def __init__(self, path: Path) -> None:
        self.path = path

    def _transaction(
        self, wait_s: float | None = None, *, write: bool = True
    ) -> AbstractContextManager[sqlite3.Connection]:
        limit_s = self.busy_s if wait_s is None else wait_s
        return transaction(self.path, self.tables, limit_s, write=write)

    def _change(self, statement: str, values: tuple[object, ...]) -> None:
        with self._transaction() as db:
            db.execute(statement, values)

    def _rows(self, query: str, values: tuple[object, ...] = ()) -> list[Any]:
        if not self.path.exists():
            return []
        with self._transaction(write=False) as db:
            return db.execute(query, values).fetchall()

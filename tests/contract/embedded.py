"""Embedded stores for unit tests: both sides at once, in a file that goes with its owner."""

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from docstokg.adapters.sqlite.graph import SqliteGraph
from docstokg.adapters.sqlite.graph_writer import SqliteGraphWriter
from docstokg.adapters.sqlite.index import SqliteIndex
from docstokg.adapters.sqlite.index_writer import SqliteIndexWriter


def place_of(owner: object) -> Path:
    """A file in a folder that goes with its owner."""
    folder = tempfile.mkdtemp(prefix="docstokg-test-")
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return Path(folder, "store.sqlite")


class EmbeddedGraph(SqliteGraph):
    """Chunks are readable immediately after `put`."""

    def __init__(self) -> None:
        super().__init__(path := place_of(self))
        self.writer = SqliteGraphWriter(path)
        self.writer.close_load()

    def __getattr__(self, name: str) -> Any:
        side = getattr(self.__dict__["writer"], name)
        if not name.startswith("put_") and name != "delete":
            return side

        def changed(*arguments: Any, **options: Any) -> Any:
            done = side(*arguments, **options)
            self.writer.close_load()
            return done

        return changed


class EmbeddedIndex(SqliteIndex):
    """Chunks are searchable after the load is closed."""

    def __init__(self) -> None:
        super().__init__(path := place_of(self))
        self.writer = SqliteIndexWriter(path)
        self.writer.open_load("first", None, None, None)
        self.writer.close_load()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["writer"], name)

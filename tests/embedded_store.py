"""An embedded store of one test: loads and its contents."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from docstokg.loading.context import LoadOptions, LoadReport
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.source_registry import document_rows
from docstokg.loading.transfer.contents import graph_rows, index_rows
from docstokg.ports import NameFinder
from docstokg.wiring import Wiring
from docstokg_local.loading.stores import stores_of
from tests.builders import settings_at

NS = "default"
PLAIN = {"embed_provider": "none", "sparse": "none"}


class EmbeddedStore:
    """A store without encoders; without `names`, the rule of capitals finds names."""

    def __init__(self, path: Path, names: NameFinder | None = None, **fields: Any) -> None:
        self.path = path
        self.wiring = Wiring(settings_at(path, **PLAIN, **fields))
        self.stores = replace(stores_of(self.wiring, embed=False), names=names)
        self.rejects = RejectLog()

    def load(self, *folders: Path, **options: Any) -> LoadReport:
        self.rejects = RejectLog()
        return load(folders, LoadOptions(embed=False, **options), self.stores, self.rejects)

    def content(self) -> list[str]:
        """Return the rows of index and graph."""
        graph = list(graph_rows(self.stores.graph_writer, NS))
        return [*index_rows(self.stores.index_writer, NS), *graph]

    def rows(self) -> list[str]:
        """Return the rows of index, graph and register."""
        return [*self.content(), *document_rows(self.stores.register, NS)]

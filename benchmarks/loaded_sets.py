"""How a benchmark is told which sets are loaded where: FOLDER=STORE[:NAMESPACE]."""

from pathlib import Path
from typing import NamedTuple

WRITTEN = "FOLDER=STORE[:NAMESPACE]"


class LoadedSet(NamedTuple):
    """A folder with questions, and the store its documents are loaded into."""

    folder: Path
    store: Path
    namespace: str

    @classmethod
    def read(cls, argument: str) -> "LoadedSet":
        """Read one argument; the namespace is `default` where none is given."""
        folder, _, place = argument.partition("=")
        store, _, namespace = place.partition(":")
        return cls(Path(folder), Path(store), namespace or "default")

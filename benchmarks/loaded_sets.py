"""Command line arguments for loaded sets: FOLDER=STORE[:NAMESPACE]."""

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
        """Read one argument; the default namespace is `default`."""
        folder, _, place = argument.partition("=")
        store, _, namespace = place.partition(":")
        return cls(Path(folder), Path(store), namespace or "default")

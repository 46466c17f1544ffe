"""Stores of a command."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from docstokg_local.cli.printing import echo

if TYPE_CHECKING:
    from docstokg.settings import Settings

INDEX, GRAPH = "DOCSTOKG_INDEX_URL", "DOCSTOKG_GRAPH_URL"
FOLDER = ".docstokg"
FILE = "store.sqlite"


def settings_of(index: str | None, graph: str | None, *, name_store: bool = False) -> "Settings":
    """Return the settings of environment and options; raise `Misconfigured` if invalid.

    A single sqlite URL applies to index and graph. Otherwise `default_store` replaces a missing
    one; `name_store` prints it.
    """
    from docstokg.settings import Settings

    environment = dict(os.environ)
    urls = {INDEX: index, GRAPH: graph}
    environment.update({name: url for name, url in urls.items() if url is not None})
    for name, other in ((INDEX, GRAPH), (GRAPH, INDEX)):
        url = environment.get(name, "")
        if url.startswith("sqlite:///") and not environment.get(other):
            environment[other] = url
    missing = [name for name in (INDEX, GRAPH) if not environment.get(name)]
    if missing:
        store, whose = default_store(environment)
        environment.update(dict.fromkeys(missing, f"sqlite:///{store}"))
        if name_store:
            echo(f"store {short(store)} ({whose})", err=True)
    return Settings.from_environment(environment)


def default_store(environment: Mapping[str, str]) -> tuple[Path, str]:
    """Return the path of the default store, and "this folder's" or "yours".

    A `.docstokg/` in the current folder takes precedence over the user's data folder.
    """
    folder = Path(FOLDER)
    if folder.is_dir():
        return folder / FILE, "this folder's"
    return data_folder(environment) / "docstokg" / FILE, "yours"


def data_folder(environment: Mapping[str, str]) -> Path:
    """Return XDG_DATA_HOME, else the folder where this system keeps a user's data."""
    if chosen := environment.get("XDG_DATA_HOME"):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path.home() / ".local" / "share"


def short(path: Path) -> str:
    """Return a path, with the home folder as `~` if inside it."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except ValueError:
        return str(path)

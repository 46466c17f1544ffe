"""`docstokg load --watch`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from docstokg.loading.read.sources import is_passed_over
from docstokg_local.cli.printing import echo

if TYPE_CHECKING:
    from docstokg.wiring import Wiring

# Quiet time before a load: editors save in several steps, copies take time.
QUIET_MS = 1000

# Longest time of continuous changes before a load.
LONGEST_MS = 30_000


def changes(sources: Sequence[Path], wiring: "Wiring", rejects: Path | None) -> Iterator[None]:
    """Yield None at once, then after each change that is followed by `QUIET_MS`; never end.

    `rejects`: a file to ignore.
    """
    from watchfiles import Change, watch

    from docstokg.wiring import sqlite_path

    stores = (wiring.settings.index_url, wiring.settings.graph_url)
    stored = [path.resolve() for path in (*map(sqlite_path, stores), rejects) if path]
    roots = [source.resolve() for source in sources]

    def is_news(_: Change, name: str) -> bool:
        path = Path(name)
        if any(name.startswith(str(file)) for file in stored):
            return False
        root = next((root for root in roots if path.is_relative_to(root)), path.parent)
        return not is_passed_over(path.relative_to(root))

    watching = watch(
        *roots,
        watch_filter=is_news,
        debounce=LONGEST_MS,
        step=QUIET_MS,
        rust_timeout=QUIET_MS,
        yield_on_timeout=True,
    )
    next(watching)  # start watching before the first load
    echo("watching for changes; press Ctrl-C to stop", err=True)
    yield None
    yield from (None for changed in watching if changed)

"""Namespace export and import."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

from docstokg.errors import LoadError
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.transfer.export_file import MANIFEST, load_export
from docstokg.loading.transfer.exporting import export
from docstokg.wiring import Wiring
from docstokg_local.cli.display import TerminalProgress, show_load
from docstokg_local.cli.printing import echo
from docstokg_local.loading.stores import stores_of


def write_export(wiring: Wiring, namespace: str, target: Path) -> None:
    """Write a namespace to a file, print counts and size; `LoadError` if empty or not writable."""
    try:
        counts = export(stores_of(wiring, embed=False), namespace, target)
    except OSError as broken:
        raise LoadError(f"cannot write {target}: {broken.strerror}") from broken
    parts = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    echo(f"{target}: {parts}; {target.stat().st_size / 1e6:,.1f} MB")


def is_export(sources: Sequence[Path]) -> bool:
    """Return whether the sources are one zip file, of any name, with an export's manifest."""
    if len(sources) != 1 or not sources[0].is_file() or not zipfile.is_zipfile(sources[0]):
        return False
    with zipfile.ZipFile(sources[0]) as file:
        return MANIFEST in file.namelist()


def read_export(
    wiring: Wiring, source: Path, namespace: str | None, replace_docs: bool, rejects: Path | None
) -> bool:
    """Load an export into its own or another namespace; return whether no line was rejected.

    Raises `LoadError` if it is no export.
    """
    stores = stores_of(wiring)
    with RejectLog(rejects) as log:
        report = load_export(source, namespace, stores, log, replace_docs, TerminalProgress())
    show_load(report, log)
    return not log.count

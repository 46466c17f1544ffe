"""Which files a load reads, and as what: the beginning of a name says its kind."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from docstokg.errors import LoadError

Kind = Literal["chunks", "entities", "relations", "triples", "obo", "document", "questions"]

PREFIXES: tuple[tuple[str, Kind], ...] = (
    ("chunks", "chunks"),
    ("passages", "chunks"),
    ("entities", "entities"),
    ("relations", "relations"),
    ("triples", "triples"),
    ("questions", "questions"),
)
EXPECTED = (
    "chunks*.jsonl, passages*.jsonl, entities*.jsonl, relations*.jsonl, triples*.jsonl, "
    "*.obo, *.md, *.txt"
)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to load; `doc_id` is its path relative to the given folder, or its name."""

    path: Path
    kind: Kind
    doc_id: str


def kind_of(path: Path) -> Kind | None:
    """Tell what a file is by its name, or None."""
    name, suffix = path.name.lower(), path.suffix.lower()
    if suffix == ".jsonl":
        return next((kind for prefix, kind in PREFIXES if name.startswith(prefix)), None)
    if suffix == ".obo":
        return "obo"
    return "document" if suffix in (".md", ".txt") else None


def find_files(sources: Iterable[Path]) -> tuple[SourceFile, ...]:
    """List the loadable files of files and folders, folders whole, each once, in path order.

    `questions*.jsonl` and hidden files are passed over. `LoadError` when a source is not there,
    a named file is of no known kind, or nothing is left.
    """
    found: dict[Path, SourceFile] = {}
    for source in sources:
        if source.is_dir():
            for path in sorted(source.rglob("*"), key=lambda path: path.as_posix()):
                inner = path.relative_to(source)
                kind = kind_of(path)
                hidden = any(part.startswith(".") for part in inner.parts)
                if kind not in (None, "questions") and not hidden and path.is_file():
                    found.setdefault(path.resolve(), SourceFile(path, kind, inner.as_posix()))
            continue
        if not source.is_file():
            raise LoadError(f"{source} is not there")
        kind = kind_of(source)
        if kind is None:
            raise LoadError(f"{source} is of no known kind; expected {EXPECTED}")
        if kind != "questions":
            found.setdefault(source.resolve(), SourceFile(source, kind, source.name))
    if not found:
        raise LoadError(f"nothing to load: expected {EXPECTED}")
    return tuple(found.values())

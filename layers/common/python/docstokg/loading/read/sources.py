"""Files of a load."""

# ruff: noqa: PTH113, PTH114 - these return False for paths that no system call accepts

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from os.path import isfile, islink
from pathlib import Path, PurePath
from typing import Literal, NamedTuple

from docstokg.contracts import Json
from docstokg.contracts.file_types import skipped
from docstokg.errors import LoadError
from docstokg.loading.read.rejects import RejectLog, Unreadable, type_of

Kind = Literal[
    "chunks",
    "entities",
    "relations",
    "triples",
    "documents",
    "obo",
    "document",
    "questions",
    "answers",
]

# Kinds of JSON lines files, by the prefix of their name.
LINES: tuple[Kind, ...] = ("chunks", "entities", "relations", "triples", "questions", "answers")

NO_NAME = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
ODD_NAME = "the file name is not UTF-8 or contains a control character"
# Type under which unread folders are counted.
FOLDERS = "folders"

# Kinds for `docstokg eval`; `load` skips them.
EVALUATION = ("questions", "answers")

EXPECTED = (
    "chunks*.jsonl, passages*.jsonl, entities*.jsonl, relations*.jsonl, triples*.jsonl, *.obo, "
    "or documents: docs/loading.md lists their formats"
)


class Posted(NamedTuple):
    """A document that was sent instead of read from a file.

    `fields` (title, acl, document_name) and `metadata` override those in the document. `groups`: of
    the sender, None for all.
    """

    raw: bytes
    fields: Json
    metadata: Json
    groups: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to load; `doc_id` is its path relative to the source folder `root`, or its name.

    `inner`: that path without a prefix. `posted`: its bytes if there is no file; then `path` only
    determines its format. `version`: of the object in a bucket, "" if unknown.
    """

    path: Path
    kind: Kind
    doc_id: str
    root: Path
    inner: str = ""
    posted: Posted | None = None
    version: str = ""

    @property
    def name(self) -> str:
        """Return the name to display for a document without a title."""
        return self.path.name if self.posted is None else self.posted.fields["document_name"]

    @property
    def type(self) -> str:
        """Return its type in a summary: its suffix."""
        return type_of(self.path)


def kind_of(path: PurePath) -> Kind | None:
    """Return a file's kind by its name, or None if it is `skipped`."""
    name, suffix = path.name.lower(), path.suffix.lower()
    if suffix == ".jsonl":
        passages: Kind | None = "chunks" if name.startswith("passages") else None
        if lines := next((kind for kind in LINES if name.startswith(kind)), passages):
            return lines
    if suffix == ".obo":
        return "obo"
    return None if skipped(PurePath(path.name)) else "document"


def is_passed_over(inner: PurePath) -> bool:
    """Return whether a load ignores a file: hidden, or for evaluation."""
    hidden = any(part.startswith(".") for part in inner.parts)
    return hidden or kind_of(inner) in EVALUATION


def find_files(  # noqa: C901 - one branch a reason to leave a file out
    sources: Iterable[Path], rejects: RejectLog, may_be_empty: bool = False
) -> tuple[SourceFile, ...]:
    """Return the loadable files of files and folders, each once, in path order.

    Rejected: unreadable folders, links that leave their folder. Skipped with a note: hidden files,
    pictures, keys. Raises `LoadError` for a missing or unreadable source, a given file that is
    skipped, or if no file remains (unless `may_be_empty`).
    """
    files: dict[Path, SourceFile] = {}
    for source in sources:
        if source.is_dir():
            for path in _below(source, rejects):
                inner = path.relative_to(source)
                if is_passed_over(inner):
                    continue
                kind, name = kind_of(path), inner.as_posix()
                if real := _readable(path, kind, source, rejects):
                    assert kind is not None
                    first = files.setdefault(real, SourceFile(path, kind, name, source, name))
                    if first.path != path and (islink(path) or islink(first.path)):
                        rejects.notes.append(f"{path}: the same file as {first.path}, read once")
            continue
        if not source.is_file():
            raise LoadError(f"{source} does not exist")
        kind = kind_of(source)
        if kind is None:
            raise LoadError(f"{source} has an unsupported format; expected {EXPECTED}")
        if NO_NAME.search(source.name):
            raise LoadError(f"{source.name!a}: {ODD_NAME}")
        if kind not in EVALUATION:
            check_readable(source)
            file = SourceFile(source, kind, source.name, source.parent, source.name)
            files.setdefault(source.resolve(), file)
    if not files and not may_be_empty:
        raise LoadError(f"nothing to load: expected {EXPECTED}")
    return tuple(files.values())


def check_readable(path: Path) -> None:
    """Raise `Unreadable` for a file that cannot be opened."""
    try:
        path.open("rb").close()
    except OSError as broken:
        raise Unreadable(path, broken) from broken


def _below(source: Path, rejects: RejectLog) -> list[Path]:
    def unlisted(broken: OSError) -> None:
        path = Path(broken.filename)
        rejects.unlisted.add(source)
        rejects.add_file(path, f"cannot list the folder: {broken.strerror}", FOLDERS)

    paths: list[Path] = []
    for folder, inner, names in os.walk(source, onerror=unlisted):
        hidden = (Path(folder, name) for name in (*inner, *names) if name.startswith("."))
        rejects.notes += [f"{path}: hidden, not read" for path in hidden]
        inner[:] = [name for name in inner if not name.startswith(".")]
        paths += [Path(folder, name) for name in names]
        for link in (Path(folder, name) for name in inner if islink(Path(folder, name))):
            target, top = link.resolve(), source.resolve()
            if not target.is_relative_to(top):
                rejects.add_file(link, "link to a target outside the folder", FOLDERS)
            elif is_passed_over(target.relative_to(top)):
                rejects.add_file(link, "link to a hidden folder", FOLDERS)
            else:
                rejects.notes.append(f"{link}: link to a folder that is also read directly")
    return sorted(paths, key=lambda path: path.as_posix())


def _readable(path: Path, kind: Kind | None, source: Path, rejects: RejectLog) -> Path | None:
    real = path.resolve()
    if NO_NAME.search(path.relative_to(source).as_posix()):
        reason = ODD_NAME
    elif not isfile(path):  # also if no system call accepts the path
        reason = "broken link" if islink(path) else "not a regular file"
    elif not real.is_relative_to(source.resolve()):
        reason = "link to a target outside the folder"
    elif kind is not None:
        return real
    else:
        rejects.skip(path, skipped(PurePath(path.name)))
        return None
    rejects.add_file(path, reason)
    return None

"""Rejects of invalid lines."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import IO, NamedTuple, Self

from docstokg.errors import LoadError

EXAMPLES = 20
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Rejected(LoadError):
    """One line or document cannot be loaded; `str()` is the reason."""


class Unreadable(LoadError):
    """A file cannot be read; `str()` names the file, `reason` does not."""

    def __init__(self, path: Path, broken: OSError) -> None:
        self.reason = f"cannot be read: {broken.strerror}"
        super().__init__(f"{path} cannot be read: {broken.strerror}")


class Rejection(NamedTuple):
    """Place and reason of a rejection; `line` counts from 1, 0 is the whole file."""

    file: str
    line: int
    reason: str

    @property
    def where(self) -> str:
        """Return file and line."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def __str__(self) -> str:
        return harmless(f"{self.where}: {self.reason}")


def fault(error: Exception) -> Rejected:
    """Return the reject for an unexpected error: its place in our code, or lack of memory."""
    if isinstance(error, MemoryError):
        return Rejected("reading the file needs more memory than this process has")
    place, frame = "", error.__traceback__
    while frame is not None:
        place = f" at {Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}"
        frame = frame.tb_next
    return Rejected(
        f"reading the file failed ({type(error).__name__}{place}); this is a bug in docstokg;"
        " please report it"
    )


def type_of(path: Path) -> str:
    """Return a file's type in a summary: its suffix."""
    return path.suffix.lower() or "without ending"


def harmless(text: str) -> str:
    """Return a text with escaped control characters, safe for terminals."""
    return _CONTROLS.sub(lambda control: repr(control[0])[1:-1], text)


class RejectLog:
    """Counts rejections, keeps the first `examples`, writes each as a JSON line."""

    def __init__(self, path: Path | None = None, examples: int = EXAMPLES) -> None:
        self._examples = examples
        self.count = 0
        self.first: list[Rejection] = []
        self.by_file: Counter[str] = Counter()
        self.unread: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.notes: list[str] = []
        # Source folders with a subfolder that cannot be listed.
        self.unlisted: set[Path] = set()
        self._path = path
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        if self._path:
            self._file = self._path.open("w", encoding="utf-8", errors="backslashreplace")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()
            self._file = None

    def add_file(self, path: Path, reason: str, kind: str = "") -> None:
        """Reject a whole file, counted by `kind` or its suffix."""
        self.unread[kind or type_of(path)] += 1
        self.add(str(path), 0, reason)

    def skip(self, path: Path, reason: str) -> None:
        """Record a skipped file, which is not a rejection."""
        self.skipped[type_of(path)] += 1
        self.notes.append(f"{path}: {reason}, not read")
        self._write(Rejection(str(path), 0, reason))

    def add(self, file: str, line: int, reason: str) -> None:
        """Record one rejection."""
        rejection = Rejection(file, line, reason)
        self.count += 1
        self.by_file[file] += 1
        if len(self.first) < self._examples:
            self.first.append(rejection)
        self._write(rejection)

    def _write(self, rejection: Rejection) -> None:
        if self._file:
            row = {"where": rejection.where, **rejection._asdict()}
            self._file.write(json.dumps(row, ensure_ascii=False) + "\n")

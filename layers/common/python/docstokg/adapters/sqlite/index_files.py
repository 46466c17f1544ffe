"""Memory-mapped arrays in `<path>.d/<generation>/`; the index stores the generation."""

import fcntl
import json
import os
import secrets
import shutil
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from docstokg.domain.deadline import Deadline
from docstokg.errors import Timeout, Unavailable

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Acls = dict[str | None, int]

MANIFEST = "manifest.json"
SECTIONS = ("dense", "sparse")
READ_BYTES = 1 << 22
FETCH = 2000
LOCK_POLL_S = 0.1


def arrays_folder(path: Path) -> Path:
    """Return the folder of an index file's arrays."""
    return path.with_name(f"{path.name}.d")


class LoadLock:
    """Lock of a namespace of an index file against other loads; released when killed."""

    def __init__(self, path: Path, namespace: str) -> None:
        self._target = f"namespace {namespace!r} of {path}"
        self._path = arrays_folder(path) / f"{namespace}.load.lock"
        self._file: IO[bytes] | None = None

    def acquire(self, deadline: Deadline, waiting: Callable[[int], None] | None = None) -> None:
        """Wait until no other process loads; raise `Timeout` after `deadline`.

        `waiting` is called every second with the seconds since its last call.
        """
        if self._file:
            return
        reported_at = time.monotonic()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("ab")
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as taken:
                if deadline.is_over():
                    file.close()
                    raise Timeout(f"another load into {self._target} does not end") from taken
                time.sleep(LOCK_POLL_S)
                if waiting and time.monotonic() - reported_at >= 1:
                    reported_at += 1
                    waiting(1)
            else:
                self._file = file
                return

    def is_held(self) -> bool:
        """Return whether a load of any process holds the lock."""
        try:
            with self._path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as taken:
            return isinstance(taken, BlockingIOError)
        return False

    def release(self) -> None:
        """Release the lock."""
        if self._file:
            self._file.close()
            self._file = None


@contextmanager
def rebuilding(path: Path) -> Iterator[None]:
    """Let no other thread or process rebuild or remove arrays until the block ends."""
    folder = arrays_folder(path)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "arrays.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Rows(NamedTuple):
    """The rows of one namespace in a section: positions [start, stop), ordered by uuid.

    `ids`: row -> index_rows.id; `acl`: row -> position in the section's list of access lists.
    """

    start: int
    stop: int
    ids: Ints
    acl: NDArray[np.int32]


@dataclass(frozen=True)
class Section:
    """One channel's arrays as opened and checked."""

    arrays: Mapping[str, NDArray[Any]]
    namespaces: Mapping[str, tuple[int, int]]
    acls: tuple[tuple[str, ...], ...]
    seen: Mapping[str, tuple[int, int, int]]
    folder: Path

    def rows(self, ns: int) -> Rows:
        """Return the rows of a namespace, empty if it has none."""
        start, stop = self.namespaces.get(str(ns), (0, 0))
        return Rows(start, stop, self.arrays["ids"][start:stop], self.arrays["acl"][start:stop])

    def unchanged(self) -> bool:
        """Return whether the files are still those that were checked.

        Reading a truncated mapped file would crash the process.
        """
        try:
            return all(_signature(self.folder / name) == sign for name, sign in self.seen.items())
        except OSError:
            return False


class ArrayFiles:
    """The arrays of the current generation, checked before every use."""

    def __init__(self, path: Path) -> None:
        self._folder = arrays_folder(path)
        self._locks: dict[str, threading.Lock] = {}
        self._open: dict[str, tuple[str, Section]] = {}

    def section(self, name: str, generation: str, deadline: Deadline) -> Section:
        """Return a section of a generation; raise `Unavailable` if damaged, or not open in time."""
        lock = self._locks.setdefault(name, threading.Lock())
        if not lock.acquire(timeout=deadline.remaining()):
            raise Unavailable(f"the {name} arrays are still being opened")
        try:
            open_file = self._open.get(name)
            if open_file is not None and open_file[0] == generation and open_file[1].unchanged():
                return open_file[1]
            self._open.pop(name, None)
            opened = self._opened(name, generation)
            self._open[name] = (generation, opened)
            return opened
        finally:
            lock.release()

    def _opened(self, name: str, generation: str) -> Section:
        folder = self._folder / generation
        try:
            notes = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["sections"][name]
            seen = {file: _signature(folder / file) for file in notes["files"]}
            arrays: dict[str, NDArray[Any]] = {}
            for file, about in notes["files"].items():
                if seen[file][0] != about["bytes"] or _checksum(folder / file) != about["crc"]:
                    raise Unavailable(f"{folder / file} is damaged: load again to rebuild it")
                arrays[about["name"]] = _mapped(folder / file, about["dtype"], about["shape"])
        except (OSError, ValueError, KeyError, TypeError) as exc:
            raise Unavailable(
                f"the {name} arrays in {folder} cannot be read; load again to rebuild them: {exc}"
            ) from exc
        return Section(
            arrays=arrays,
            namespaces={ns: (start, stop) for ns, (start, stop) in notes["namespaces"].items()},
            acls=tuple(tuple(acl) for acl in notes["acls"]),
            seen=seen,
            folder=folder,
        )


class GenerationWriter:
    """A new folder of arrays, unused until the index stores its name."""

    def __init__(self, path: Path) -> None:
        self._root = arrays_folder(path)
        self.name = f"gen-{secrets.token_hex(8)}"
        self.folder = self._root / self.name
        self.folder.mkdir(parents=True)
        self._sections: dict[str, dict[str, Any]] = {}

    def begin(
        self,
        section: str,
        namespaces: Mapping[int, tuple[int, int]],
        acls: Sequence[Sequence[str]],
    ) -> None:
        """Start a section: row ranges by namespace, and the distinct access lists."""
        self._sections[section] = {
            "namespaces": {str(ns): list(bounds) for ns, bounds in namespaces.items()},
            "acls": [list(acl) for acl in acls],
            "files": {},
        }

    def array(self, section: str, name: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return a new memory-mapped array of zeros.

        Raise KeyError before `begin` of its section.
        """
        file = f"{section}-{name}.bin"
        self._sections[section]["files"][file] = {"name": name, "dtype": dtype, "shape": shape}
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        with (self.folder / file).open("wb") as out:
            out.truncate(size)
        if not size:
            return np.zeros(shape, dtype)
        return np.memmap(self.folder / file, dtype=dtype, mode="r+", shape=shape)

    def finish(self) -> str:
        """Write the manifest, sync to disk, return the generation's name."""
        for section in self._sections.values():
            for file, about in section["files"].items():
                path = self.folder / file
                about |= {"bytes": path.stat().st_size, "crc": _checksum(path)}
        path = self.folder / MANIFEST
        path.write_text(json.dumps({"sections": self._sections}), encoding="utf-8")
        for file in (*self.folder.iterdir(), self.folder, self._root):
            handle = os.open(file, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        return self.name

    def discard(self) -> None:
        """Remove a folder that will not be used."""
        shutil.rmtree(self.folder, ignore_errors=True)


def remove_other_generations(path: Path, generations: set[str]) -> None:
    """Remove all generations of the index file `path` except `generations` (names)."""
    root = arrays_folder(path)
    if root.is_dir():
        for folder in root.iterdir():
            if folder.name.startswith("gen-") and folder.name not in generations:
                shutil.rmtree(folder, ignore_errors=True)


def _mapped(path: Path, dtype: str, shape: Sequence[int]) -> NDArray[Any]:
    if not int(np.prod(shape)):
        return np.zeros(shape, dtype=dtype)
    # Slicing a memmap costs microseconds more than slicing a plain view.
    return np.memmap(path, dtype=dtype, mode="r", shape=tuple(shape)).view(np.ndarray)


def _signature(path: Path) -> tuple[int, int, int]:
    seen = path.stat()
    return seen.st_size, seen.st_mtime_ns, seen.st_ino


def _checksum(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while block := file.read(READ_BYTES):
            crc = zlib.crc32(block, crc)
    return crc


def _write_rows(
    db: sqlite3.Connection, files: GenerationWriter, section: str, query: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ids: list[int] = []
    spaces: list[int] = []
    lists: list[int] = []
    acls: Acls = {None: 0}
    bounds: dict[int, tuple[int, int]] = {}
    for row_id, ns, acl in db.execute(query):
        start, _ = bounds.get(ns, (len(ids), 0))
        ids.append(row_id)
        spaces.append(ns)
        lists.append(acls.setdefault(acl, len(acls)))
        bounds[ns] = (start, len(ids))
    distinct = [[] if acl is None else json.loads(acl) for acl in acls]
    files.begin(section, bounds, distinct)
    _save(files, section, "ids", np.array(ids, dtype="<i8"))
    _save(files, section, "acl", np.array(lists, dtype="<i4"))
    return np.array(ids, dtype=np.int64), np.array(spaces, dtype=np.int64)


def _save(files: GenerationWriter, section: str, name: str, values: NDArray[Any]) -> None:
    files.array(section, name, values.dtype.str, values.shape)[...] = values


def dense_section(size: int, dimension: int) -> str:
    """Return the section name of vectors of a size; `dense` for the index's own dimension."""
    return "dense" if size == dimension else f"dense-{size}"


def write_dense(db: sqlite3.Connection, files: GenerationWriter, dimension: int) -> None:
    """Write chunk vectors in order of namespace and uuid, a matrix for each dimension."""
    sizes = db.execute("SELECT DISTINCT length(vector) / 4 FROM index_vectors").fetchall()
    for size in {dimension, *(row[0] for row in sizes)}:
        tail = (
            "FROM index_rows r JOIN index_vectors v ON v.chunk = r.id "
            f"WHERE length(v.vector) = {4 * size:d} ORDER BY r.ns, r.uuid"
        )
        name = dense_section(size, dimension)
        ids, _ = _write_rows(db, files, name, f"SELECT r.id, r.ns, r.acl {tail}")
        matrix, done = files.array(name, "matrix", "<f4", (len(ids), size)), 0
        vectors = db.execute(f"SELECT v.vector {tail}")
        while rows := vectors.fetchmany(FETCH):
            joined = b"".join(row[0] for row in rows)
            matrix[done : done + len(rows)] = np.frombuffer(joined, "<f4").reshape(-1, size)
            done += len(rows)


def write_sparse(db: sqlite3.Connection, files: GenerationWriter) -> None:
    """Convert rows of (tokens, weights) to postings ordered by namespace, token and row.

    `keys`: sorted namespace << 32 | token; `starts`: start of each key's postings, and end of the
    last; `rows`, `weights`: the postings; `ids`, `acl`: of the rows.
    """
    tail = "FROM index_rows r JOIN index_sparse s ON s.chunk = r.id ORDER BY r.ns, r.uuid"
    ids, spaces = _write_rows(db, files, "sparse", f"SELECT r.id, r.ns, r.acl {tail}")
    tokens: list[NDArray[np.int32]] = []
    weights: list[NDArray[np.float32]] = []
    for token_bytes, weight_bytes in db.execute(f"SELECT s.tokens, s.weights {tail}"):
        tokens.append(np.frombuffer(token_bytes, dtype="<i4"))
        weights.append(np.frombuffer(weight_bytes, dtype="<f4"))
    counts = np.array([len(part) for part in tokens], dtype=np.int64)
    all_tokens = np.concatenate(tokens) if tokens else np.zeros(0, dtype=np.int32)
    all_weights = np.concatenate(weights) if weights else np.zeros(0, dtype=np.float32)
    del tokens, weights
    rows = np.repeat(np.arange(len(ids), dtype=np.int32), counts)
    keys = np.repeat(spaces << 32, counts) | all_tokens
    # Stable: postings of a key stay in row order.
    order = np.argsort(keys, kind="stable")
    distinct, starts = np.unique(keys[order], return_index=True)
    _save(files, "sparse", "keys", distinct.astype("<i8"))
    _save(files, "sparse", "starts", np.append(starts, len(order)).astype("<i8"))
    _save(files, "sparse", "rows", rows[order].astype("<i4"))
    _save(files, "sparse", "weights", all_weights[order].astype("<f4"))

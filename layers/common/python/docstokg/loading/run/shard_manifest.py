"""The manifest of a run: what its shards hold and its prefix lists, on disk for any number."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from docstokg.contracts.records import FoundName
from docstokg.loading.run.rows import Part

_SCHEMA = """
CREATE TABLE listed (inner TEXT PRIMARY KEY, etag TEXT) WITHOUT ROWID;
CREATE TABLE part (inner TEXT, number INTEGER, etag TEXT, shard TEXT, position INTEGER,
    last INTEGER, unread TEXT, PRIMARY KEY (inner, etag, number, shard, position)) WITHOUT ROWID;
CREATE TABLE name (key TEXT PRIMARY KEY, names TEXT) WITHOUT ROWID;
"""

NOT_READ = "it was not read to its end: run the load again"


class PartRef(NamedTuple):
    """The shard that holds some rows of an object, and the place of the part in it."""

    shard: str
    position: int


class Entry(NamedTuple):
    """An object as it is listed now: where its rows stand, or why it was not read."""

    inner: str
    parts: tuple[PartRef, ...]
    unread: str


class ShardManifest:
    """A temporary file of parts, and of the names found in each text."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        self._db.executescript(_SCHEMA)
        self._db.execute("BEGIN")

    def close(self) -> None:
        """Close and remove the file."""
        self._db.close()

    def list(self, objects: Iterable[tuple[str, str]]) -> None:
        """Note the objects that are there now: (path below the prefix, etag)."""
        self._db.executemany("INSERT OR REPLACE INTO listed VALUES (?, ?)", objects)

    def add(self, shard: str, parts: Iterable[Part]) -> None:
        """Note what a shard holds."""
        self._db.executemany(
            "INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (part.inner, part.number, part.etag, shard, position, part.last, part.unread)
                for position, part in enumerate(parts)
            ),
        )

    def add_names(self, rows: Iterable[tuple[str, tuple[FoundName, ...]]]) -> None:
        """Note which names were found in texts."""
        self._db.executemany(
            "INSERT OR IGNORE INTO name VALUES (?, ?)",
            ((key, json.dumps([list(name) for name in names])) for key, names in rows),
        )

    def entries(self) -> Iterator[Entry]:
        """Yield every object that is listed, by path, as it is now.

        Read twice, in two batches, it stands in two shards with equal rows; one of them is taken.
        What was read of it before it changed is passed over.
        """
        rows = self._db.execute(
            "SELECT l.inner, p.number, p.shard, p.position, p.last, p.unread FROM listed l"
            " LEFT JOIN part p ON p.inner = l.inner AND p.etag = l.etag"
            " ORDER BY l.inner, p.number, p.shard, p.position"
        )
        for inner, some in groupby(rows, key=lambda row: row[0]):
            yield _entry(inner, list(some))

    def get(self, key: str, /) -> tuple[FoundName, ...] | None:
        """Give the names found in a text, None where nobody has read it."""
        row = self._db.execute("SELECT names FROM name WHERE key = ?", (key,)).fetchone()
        return None if row is None else tuple(FoundName(*name) for name in json.loads(row[0]))


def _entry(inner: str, rows: list[tuple[str, int | None, str, int, int, str]]) -> Entry:
    parts: dict[int, PartRef] = {}
    complete, unread = False, ""
    for _, number, shard, position, last, reason in rows:
        if number is None:
            continue
        if reason:
            unread = reason
            continue
        parts.setdefault(number, PartRef(shard, position))
        complete = complete or bool(last)
    if complete and len(parts) == max(parts) + 1:
        return Entry(inner, tuple(parts[number] for number in sorted(parts)), "")
    return Entry(inner, (), unread or NOT_READ)

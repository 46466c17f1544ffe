"""The manifest of a run."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from docstokg.loading.run.rows import Part

NOT_READ = "not read completely; run the load again"


class PartRef(NamedTuple):
    """The shard of some rows of an object, and the part's position in it."""

    shard: str
    position: int


# A part of an object: see `Part`.
type _Read = tuple[int, PartRef, bool, str]


class Entry(NamedTuple):
    """A listed object: the places of its rows, or why it was not read."""

    inner: str
    parts: tuple[PartRef, ...]
    unread: str


class ShardManifest:
    """Listed objects by path, with etag and the parts read."""

    def __init__(self, listed: Iterable[tuple[str, str]]) -> None:
        self._objects: dict[str, tuple[str, list[_Read]]] = {i: (etag, []) for i, etag in listed}

    def add(self, shard: str, parts: Iterable[Part]) -> None:
        """Add a shard's parts, except those of changed or unlisted objects."""
        for position, part in enumerate(parts):
            etag, read = self._objects.get(part.inner, ("", []))
            if etag == part.etag:
                read.append((part.number, PartRef(shard, position), part.last, part.unread))

    def entries(self) -> Iterator[Entry]:
        """Yield every listed object, by path; of equal rows in two shards, the first."""
        for inner, (_, read) in sorted(self._objects.items()):
            yield _entry(inner, sorted(read))


def _entry(inner: str, read: list[_Read]) -> Entry:
    parts: dict[int, PartRef] = {}
    complete, unread = False, ""
    for number, place, last, reason in read:
        if reason:
            unread = reason
            continue
        parts.setdefault(number, place)
        complete = complete or last
    if complete and len(parts) == max(parts) + 1:
        return Entry(inner, tuple(parts[number] for number in sorted(parts)), "")
    return Entry(inner, (), unread or NOT_READ)

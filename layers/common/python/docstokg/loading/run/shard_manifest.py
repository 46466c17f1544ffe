"""The manifest of a run: the objects that its prefix lists, and the shards that hold their rows."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from docstokg.loading.run.rows import Part

NOT_READ = "it was not read to its end: run the load again"


class PartRef(NamedTuple):
    """The shard that holds some rows of an object, and the place of the part in it."""

    shard: str
    position: int


class Entry(NamedTuple):
    """An object as it is listed now: the places of its rows, or the reason why it was not read."""

    inner: str
    parts: tuple[PartRef, ...]
    unread: str


class ShardManifest:
    """Objects by (path below the prefix, etag), with the parts that were read of them."""

    def __init__(self, listed: Iterable[tuple[str, str]]) -> None:
        self._listed = sorted(listed)
        self._parts: dict[tuple[str, str], list[tuple[PartRef, Part]]] = defaultdict(list)

    def add(self, shard: str, parts: Iterable[Part]) -> None:
        """Note the parts of a shard."""
        for position, part in enumerate(parts):
            self._parts[part.inner, part.etag].append((PartRef(shard, position), part))

    def entries(self) -> Iterator[Entry]:
        """Yield every listed object, by path, as it is now.

        An object that was read twice, in two batches, has equal rows in two shards; the first
        shard is taken. Rows that were read before the object changed are ignored.
        """
        for key in self._listed:
            yield _entry(key[0], sorted(self._parts.get(key, ())))


def _entry(inner: str, read: list[tuple[PartRef, Part]]) -> Entry:
    parts: dict[int, PartRef] = {}
    complete, unread = False, ""
    for place, part in read:
        if part.unread:
            unread = part.unread
            continue
        parts.setdefault(part.number, place)
        complete = complete or part.last
    if complete and len(parts) == max(parts) + 1:
        return Entry(inner, tuple(parts[number] for number in sorted(parts)), "")
    return Entry(inner, (), unread or NOT_READ)

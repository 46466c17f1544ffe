"""Row shards of a run."""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from docstokg.contracts.ingest import IngestObject, IngestRun
from docstokg.domain.identity import text_sha256
from docstokg.errors import WrongAnswer
from docstokg.loading.read.raw_input import ROW, RawChunk, RawRecord, adapter
from docstokg.loading.read.reading import Row
from docstokg.loading.read.rejects import Rejected
from docstokg.ports import ObjectStore, StoredObject

# Size of a shard's rows as text after which a new shard starts.
SHARD_BYTES = 8_000_000

ENDING = ".jsonl.gz"


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of an object in one shard; `number` counts the parts of a large object.

    `last`: the object ends here. `unread`: why it was not read at all. `version`: see
    `unchanged.py`; `is_known`: the register has it, so it was not read.
    """

    inner: str
    etag: str
    number: int
    rows: int
    last: bool
    unread: str = ""
    version: str = ""
    is_known: bool = False


def shard_name(items: Sequence[IngestObject]) -> str:
    """Return the name of a batch's shards, derived from its content."""
    lines = "\n".join(f"{item.key} {item.etag}" for item in items)
    return text_sha256(lines)[:32]


class ShardWriter:
    """Writes shards of rows, one at a time."""

    def __init__(self, run: IngestRun, objects: ObjectStore, name: str) -> None:
        self._run, self._objects, self._name = run, objects, name
        self._parts: list[Part] = []
        self._lines: list[str] = []
        self._size = 0
        self.shards: list[str] = []

    def add(self, inner: str, etag: str, version: str, rows: Iterable[Row]) -> int:
        """Collect an object's rows and write full shards; return the number of its chunks."""
        number = begin = chunks = 0
        begin = len(self._lines)
        for line, record in rows:
            chunks += isinstance(record, RawChunk)
            value = str(record) if isinstance(record, Rejected) else record
            text = adapter(ROW).dump_json((line, value)).decode()
            self._lines.append(text)
            self._size += len(text)
            if self._size >= SHARD_BYTES:
                count = len(self._lines) - begin
                self._parts.append(Part(inner, etag, number, count, False, version=version))
                self.flush()
                number, begin = number + 1, 0
        count = len(self._lines) - begin
        self._parts.append(Part(inner, etag, number, count, True, version=version))
        return chunks

    def refuse(self, inner: str, etag: str, reason: str) -> None:
        """Record an unread object with the reason."""
        self._parts.append(Part(inner, etag, 0, 0, True, reason))

    def note_known(self, inner: str, etag: str, version: str) -> None:
        """Record an object that the register has in this version."""
        self._parts.append(Part(inner, etag, 0, 0, True, version=version, is_known=True))

    def flush(self) -> None:
        """Write the collected rows as a shard."""
        if self._parts:
            name = f"{self._name}-{len(self.shards):05}"
            head = json.dumps([asdict(part) for part in self._parts], separators=(",", ":"))
            body = packed([head, *self._lines])
            self._objects.put(self._run.key("rows", name + ENDING), body)
            self.shards.append(name)
        self._parts, self._lines, self._size = [], [], 0


class Shard:
    """Rows of a shard, parsed lazily. `output`: a line of model output for each."""

    def __init__(self, body: bytes) -> None:
        self._lines = unpacked(body)
        self.parts = tuple(Part(**part) for part in json.loads(self._lines[0]))
        self.output: Sequence[str] = ["null"] * len(self._lines)

    @classmethod
    def fetched(cls, run: IngestRun, objects: ObjectStore, name: str) -> "Shard":
        """Fetch a shard; raise `KeyError` if it is missing, `WrongAnswer` if broken."""
        return cls(objects.get(run.key("rows", name + ENDING)))

    def rows(self, position: int) -> Iterator[tuple[int, RawRecord | Rejected, Any]]:
        """Yield (line, record, its model output) for the part at `position`."""
        begin = 1 + sum(part.rows for part in self.parts[:position])
        for at in range(begin, begin + self.parts[position].rows):
            yield *row_of(self._lines[at]), json.loads(self.output[at])

    def every(self) -> Iterator[tuple[Part, RawRecord | Rejected]]:
        """Yield every record with its part."""
        for position, part in enumerate(self.parts):
            for _, record, _ in self.rows(position):
                yield part, record


def row_of(line: str) -> Row:
    """Parse a line of a shard: line number, and record or reject."""
    number, record = adapter(ROW).validate_json(line)
    return number, Rejected(record) if isinstance(record, str) else record


def packed(lines: Iterable[str]) -> bytes:
    """Compress lines deterministically."""
    return gzip.compress("\n".join(lines).encode(), 6, mtime=0)


def unpacked(body: bytes) -> list[str]:
    """Return the lines that `packed` compressed; raise `WrongAnswer` otherwise."""
    try:
        return gzip.decompress(body).decode().split("\n")
    except (OSError, EOFError, ValueError, zlib.error) as broken:
        raise WrongAnswer("run object is truncated or has an unknown format") from broken


def every_object(objects: ObjectStore, prefix: str) -> Iterator[StoredObject]:
    """Yield all objects below a prefix, sorted by key."""
    after = ""
    while page := objects.list(prefix, after):
        yield from page
        after = page[-1].key


def shard_names(run: IngestRun, objects: ObjectStore) -> list[str]:
    """Return the run's shards, sorted."""
    prefix = run.key("rows")
    keys = (entry.key for entry in every_object(objects, prefix))
    return [shard_of(key) for key in keys if key.endswith(ENDING)]


def shard_of(key: str) -> str:
    """Return the name of the shard in an object's key."""
    return key.rpartition("/")[2].removesuffix(ENDING)

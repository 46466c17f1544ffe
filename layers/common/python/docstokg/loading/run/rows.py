"""What a run's `read` leaves for its other stages: shards of rows, the same bytes every time."""

import base64
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from docstokg.contracts.ingest import IngestObject, IngestRun
from docstokg.errors import WrongAnswer
from docstokg.loading.read.raw_input import (
    RawChunk,
    RawDocument,
    RawEntity,
    RawRecord,
    RawRelation,
    record_of,
)
from docstokg.loading.read.reading import Row
from docstokg.loading.read.rejects import Rejected
from docstokg.ports import ObjectStore, StoredObject

SHARD_BYTES = 8_000_000
"""Of rows as text, after which a shard is written and another one begun."""

ENDING = ".jsonl.gz"
KINDS: dict[str, type[RawRecord]] = {
    "chunk": RawChunk,
    "entity": RawEntity,
    "relation": RawRelation,
    "document": RawDocument,
}
NAMES = {kind: name for name, kind in KINDS.items()}


@dataclass(frozen=True, slots=True)
class Part:
    """One object's rows in one shard; of an object whose rows fill several, the number of it.

    `last`: nothing of the object follows. `unread`: why it was not read at all.
    """

    inner: str
    etag: str
    number: int
    rows: int
    last: bool
    unread: str = ""


def shard_name(items: Sequence[IngestObject]) -> str:
    """Name a batch's shards after what it holds, so that reading it again writes over them."""
    lines = "\n".join(f"{item.key} {item.etag}" for item in items)
    return hashlib.sha256(lines.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class ShardWriter:
    """Writes rows into as many shards as they need, one in memory at a time."""

    def __init__(self, run: IngestRun, objects: ObjectStore, name: str) -> None:
        self._run, self._objects, self._name = run, objects, name
        self._parts: list[Part] = []
        self._lines: list[str] = []
        self._size = 0
        self.shards: list[str] = []

    def add(self, inner: str, etag: str, rows: Iterable[Row]) -> int:
        """Write an object's rows; count its chunks."""
        number = begin = chunks = 0
        begin = len(self._lines)
        for line, record in rows:
            chunks += isinstance(record, RawChunk)
            text = json.dumps(row_of(line, record), separators=(",", ":"))
            self._lines.append(text)
            self._size += len(text)
            if self._size >= SHARD_BYTES:
                self._parts.append(Part(inner, etag, number, len(self._lines) - begin, False))
                self.flush()
                number, begin = number + 1, 0
        self._parts.append(Part(inner, etag, number, len(self._lines) - begin, True))
        return chunks

    def refuse(self, inner: str, etag: str, reason: str) -> None:
        """Note an object that is not read, with the reason."""
        self._parts.append(Part(inner, etag, 0, 0, True, reason))

    def flush(self) -> None:
        """Write what is there as a shard."""
        if self._parts:
            name = f"{self._name}-{len(self.shards):05}"
            head = json.dumps([asdict(part) for part in self._parts], separators=(",", ":"))
            body = packed_lines([head, *self._lines])
            self._objects.put(self._run.key("rows", name + ENDING), body)
            self.shards.append(name)
        self._parts, self._lines, self._size = [], [], 0


class Shard:
    """Rows of a shard, parsed when they are read. `output`: a line of model output for each."""

    def __init__(self, body: bytes) -> None:
        self._lines = list(each_line(body))
        self.parts = tuple(Part(**part) for part in json.loads(self._lines[0]))
        self.output: Sequence[str] = ["null"] * len(self._lines)

    @classmethod
    def fetched(cls, run: IngestRun, objects: ObjectStore, name: str) -> "Shard":
        """Fetch a shard; `KeyError` if it is missing."""
        return cls(objects.get(run.key("rows", name + ENDING)))

    def rows(self, position: int) -> Iterator[tuple[int, RawRecord | Rejected, Any]]:
        """Yield (line, record, its model output) for the part at `position`."""
        begin = 1 + sum(part.rows for part in self.parts[:position])
        for at in range(begin, begin + self.parts[position].rows):
            yield *row_from(json.loads(self._lines[at])), json.loads(self.output[at])

    def every(self) -> Iterator[RawRecord | Rejected]:
        """Yield every record."""
        for line in self._lines[1:]:
            yield row_from(json.loads(line))[1]


def row_of(line: int, record: RawRecord | Rejected) -> list[Any]:
    """Write a row as JSON can hold it."""
    if isinstance(record, Rejected):
        return [line, "rejected", str(record)]
    fields = asdict(record)
    fields.pop("original", None)  # it is in the bucket already
    if fields.get("embedding") is not None:
        fields["embedding"] = base64.b64encode(fields["embedding"]).decode()
    return [line, NAMES[type(record)], fields]


def row_from(row: Sequence[Any]) -> Row:
    """Read a row as `row_of` writes it."""
    line, kind, fields = row
    if kind == "rejected":
        return line, Rejected(fields)
    if fields.get("embedding") is not None:
        fields["embedding"] = base64.b64decode(fields["embedding"])
    return line, record_of(KINDS[kind], fields)


def packed_lines(lines: Iterable[str]) -> bytes:
    """Compress lines, none empty, as they come; see `compressed`."""
    texts = (f"\n{line}" if number else line for number, line in enumerate(lines))
    return compressed(text.encode("utf-8", "surrogatepass") for text in texts)


def compressed(pieces: Iterable[bytes]) -> bytes:
    """Compress a piece at a time, without a time: the same content, the same bytes."""
    body = io.BytesIO()
    with gzip.GzipFile("", "wb", compresslevel=6, fileobj=body, mtime=0) as file:
        for piece in pieces:
            file.write(piece)
    return body.getvalue()


def each_line(body: bytes) -> Iterator[str]:
    """Yield the lines that `packed_lines` wrote; `WrongAnswer` for anything else."""
    try:
        with (
            gzip.GzipFile(fileobj=io.BytesIO(body)) as packed,
            io.TextIOWrapper(packed, "utf-8", "surrogatepass", newline="\n") as text,
        ):
            for line in text:
                yield line.removesuffix("\n")
    except (OSError, EOFError, ValueError, zlib.error) as broken:
        raise WrongAnswer("an object of this run is cut short or is none of ours") from broken


def every_object(objects: ObjectStore, prefix: str) -> Iterator[StoredObject]:
    """Yield all objects below a prefix, sorted by key."""
    after = ""
    while page := objects.list(prefix, after):
        yield from page
        after = page[-1].key


def shard_names(run: IngestRun, objects: ObjectStore) -> list[str]:
    """List the run's shards."""
    prefix = run.key("rows")
    keys = (entry.key for entry in every_object(objects, prefix))
    return [shard_of(key) for key in keys if key.endswith(ENDING)]


def shard_of(key: str) -> str:
    """Name the shard that an object's key is of."""
    return key.rpartition("/")[2].removesuffix(ENDING)

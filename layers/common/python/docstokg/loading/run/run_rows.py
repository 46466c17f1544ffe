"""The rows of a run's shards as files of a load."""

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path, PurePath
from typing import NamedTuple

from docstokg.contracts.file_types import skipped
from docstokg.contracts.ingest import IngestRun
from docstokg.contracts.records import FoundName
from docstokg.errors import LoadError, Unavailable, WrongAnswer
from docstokg.loading.context import Progress, RecordedModel, Stores
from docstokg.loading.read.raw_input import RawChunk
from docstokg.loading.read.reading import Row
from docstokg.loading.read.rejects import Rejected, RejectLog
from docstokg.loading.read.sources import SourceFile
from docstokg.loading.read.staging import Place, Staging
from docstokg.loading.run.model_output import Models, models_of, shard_with
from docstokg.loading.run.rows import Part, Shard, every_object, shard_names, shard_of
from docstokg.loading.run.sources import RunSources
from docstokg.loading.write.chunk_writing import prefetched
from docstokg.ports import ObjectStore

NAMES = "names"
# Where the state machine records shards that crashed their reader.
LOST = "lost"
SHARDS_AT_HAND = 4
AHEAD = 8
NOT_READ = "not read completely; run the load again"


class PartRef(NamedTuple):
    """The shard of some rows of an object, and the part's position in it."""

    shard: str
    position: int


# A part of an object: see `Part`.
type _PartRead = tuple[int, PartRef, bool, str]


class Entry(NamedTuple):
    """A listed object: the places of its rows, or why it was not read."""

    inner: str
    parts: tuple[PartRef, ...]
    unread: str


class ShardManifest:
    """Listed objects by path, with etag and the parts read."""

    def __init__(self, listed: Iterable[tuple[str, str]]) -> None:
        self._objects: dict[str, tuple[str, list[_PartRead]]] = {
            i: (etag, []) for i, etag in listed
        }

    def add(self, shard: str, parts: Iterable[Part]) -> None:
        """Add a shard's parts, except those of changed or unlisted objects."""
        for position, part in enumerate(parts):
            etag, parts_read = self._objects.get(part.inner, ("", []))
            if etag == part.etag:
                parts_read.append((part.number, PartRef(shard, position), part.last, part.unread))

    def entries(self) -> Iterator[Entry]:
        """Yield every listed object, by path; of equal rows in two shards, the first."""
        for inner, (_, parts_read) in sorted(self._objects.items()):
            yield _entry(inner, sorted(parts_read))


def _entry(inner: str, parts_read: list[_PartRead]) -> Entry:
    parts: dict[int, PartRef] = {}
    complete, unread = False, ""
    for number, place, last, reason in parts_read:
        if reason:
            unread = reason
            continue
        parts.setdefault(number, place)
        complete = complete or last
    if complete and len(parts) == max(parts) + 1:
        return Entry(inner, tuple(parts[number] for number in sorted(parts)), "")
    return Entry(inner, (), unread or NOT_READ)


@dataclass
class RunRows:
    """The rows of a run in path order; `count`: listed objects, `models`: those that read them."""

    run: IngestRun
    objects: ObjectStore
    staging: Staging
    rejects: RejectLog
    progress: Progress
    count: int = 0
    models: Models | None = None
    sources: RunSources = field(init=False)

    def __post_init__(self) -> None:
        self.sources = RunSources.of(self.run, self.objects)
        # Rows of an object in several shards may revisit one.
        self._shard = lru_cache(SHARDS_AT_HAND)(partial(shard_with, self.run, self.objects, NAMES))

    def survey(self, stores: Stores) -> Stores:
        """List the objects and shards; return the stores with the models that read them.

        Raises `Unavailable` before all shards are encoded, `LoadError` for two models.
        """
        run, objects = self.run, self.objects
        self._manifest = ShardManifest(
            (inner, entry.etag)
            for entry in every_object(objects, self.sources.prefix)
            if self.sources.counts(inner := self.sources.inner(entry.key))
        )
        self._lost = {shard_of(e.key): e.key for e in every_object(objects, run.key(LOST))}
        shards = shard_names(run, objects)
        with self.progress.stage("shards", None) as advance, ThreadPoolExecutor(AHEAD) as pool:
            for shard, (parts, models) in prefetched(pool, self._parts, shards, AHEAD):
                self._manifest.add(shard, parts)
                advance(1)
                self.models = self.models or models
                if models not in (None, self.models):
                    raise LoadError(
                        "chunks of this run were encoded by two models; start a new run"
                    )
        if self.models is None:
            return stores
        embedder = stores.embedder if self.models["dense"] is not None else None
        recogniser, names = self.models["names"], stores.names
        if recogniser is None or names is None or names.model != recogniser:
            names = None if recogniser is None else RecordedModel(recogniser)
        return replace(stores, embedder=embedder, names=names)

    def _parts(self, shard: str) -> tuple[Sequence[Part], Models | None]:
        models = models_of(self.run, self.objects, shard)
        if {"dense", "names"} <= models.keys():
            return Shard.fetched(self.run, self.objects, shard).parts, models
        if shard not in self._lost:
            raise Unavailable("some chunks have not been encoded or searched for names yet")
        crash = json.loads(self.objects.get(self._lost[shard]))
        reason = f"encoding failed with {crash['Error']}; run the load again"
        parts: Sequence[Part] = ()
        with suppress(WrongAnswer):  # the content of a broken shard is unknown
            parts = Shard.fetched(self.run, self.objects, shard).parts
        return [replace(part, rows=0, unread=reason) for part in parts], None

    def files(self) -> Iterator[tuple[SourceFile, Iterable[Row]]]:
        """Yield every listed object with its rows, or with the reject of an unread one."""
        for inner, parts, unread in self._manifest.entries():
            self.count += 1
            path = Path(inner)
            if not unread:
                yield self.sources.file(inner), self._rows(parts)
            elif not self.run.posted and skipped(PurePath(path.name)):
                self.rejects.skip(path, unread)
            else:
                file = SourceFile(path, "document", inner, self.sources.root, inner)
                yield file, [(1, Rejected(unread))]

    def _rows(self, parts: Iterable[PartRef]) -> Iterator[Row]:
        for shard, position in parts:
            for line, record, names in self._shard(shard).rows(position):
                self.staging.place = Place(shard, position, line)
                if isinstance(record, RawChunk):
                    recognised = tuple(FoundName(*name) for name in names)
                    yield line, replace(record, recognised=recognised)
                else:
                    yield line, record

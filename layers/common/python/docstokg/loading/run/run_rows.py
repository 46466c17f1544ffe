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
from docstokg.loading.run.erasure import ERASED
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


type _Parts = list[tuple[Part, PartRef]]


class Entry(NamedTuple):
    """A listed object: the places of its rows, or why it was not read; `is_known`: see `Part`."""

    inner: str
    parts: tuple[PartRef, ...]
    unread: str
    version: str = ""
    is_known: bool = False


class ShardManifest:
    """Listed objects by path, with etag and the parts read."""

    def __init__(self, listed: Iterable[tuple[str, str]]) -> None:
        self._objects: dict[str, tuple[str, _Parts]] = {i: (etag, []) for i, etag in listed}

    def add(self, shard: str, parts: Iterable[Part]) -> None:
        """Add a shard's parts, except those of changed or unlisted objects."""
        for position, part in enumerate(parts):
            etag, parts_read = self._objects.get(part.inner, ("", []))
            if etag == part.etag:
                parts_read.append((part, PartRef(shard, position)))

    def entries(self) -> Iterator[Entry]:
        """Yield every listed object, by path; of equal rows in two shards, the first."""
        for inner, (_, parts_read) in sorted(self._objects.items()):
            yield _entry(inner, sorted(parts_read, key=lambda row: (row[0].number, row[1])))


def _entry(inner: str, parts_read: _Parts) -> Entry:
    parts: dict[int, PartRef] = {}
    complete, unread, version, is_known = False, "", "", False
    for part, place in parts_read:
        version = part.version
        if part.unread:
            unread = part.unread
        elif part.is_known:
            is_known = True
        else:
            parts.setdefault(part.number, place)
            complete = complete or part.last
    if complete and len(parts) == max(parts) + 1:
        return Entry(inner, tuple(parts[number] for number in sorted(parts)), "", version)
    if is_known and not (parts or unread):
        return Entry(inner, (), "", version, True)
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

    def paths(self) -> Iterator[str]:
        """Yield the path of every listed object."""
        return (entry.inner for entry in self._manifest.entries())

    def unchanged(self) -> dict[str, str]:
        """Return the versions of the objects that were not read, by path."""
        return {e.inner: e.version for e in self._manifest.entries() if e.is_known}

    def files(self) -> Iterator[tuple[SourceFile, Iterable[Row]]]:
        """Yield every listed object with its rows, or with the reject of an unread one."""
        for inner, parts, unread, version, is_known in self._manifest.entries():
            self.count += 1
            path = Path(inner)
            if is_known:
                continue
            if not unread:
                yield replace(self.sources.file(inner), version=version), self._rows(parts)
            elif not self.run.posted and (unread == ERASED or skipped(PurePath(path.name))):
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

"""The six repeatable stages of a bucket load.

See docs/decisions/cloud-ingestion.md.
"""

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path, PurePath
from typing import Any

from docstokg.contracts.file_types import skipped
from docstokg.contracts.ingest import IngestCursor, IngestObject, IngestRun, IngestTask
from docstokg.contracts.records import FoundName
from docstokg.domain.text.sentences import sentence_spans
from docstokg.errors import LoadError, Unavailable, WrongAnswer
from docstokg.loading.context import (
    Context,
    Encoding,
    LoadOptions,
    LoadReport,
    Progress,
    Readers,
    Stores,
)
from docstokg.loading.names.candidates import found_names
from docstokg.loading.pipeline import (
    Mark,
    begin,
    finishing,
    gone_documents,
    plan,
    read_files,
    removals,
)
from docstokg.loading.prefetch import prefetched
from docstokg.loading.read.raw_input import RawChunk
from docstokg.loading.read.reading import Row, rows_of
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.source_registry import SourceRegistry
from docstokg.loading.read.sources import SourceFile
from docstokg.loading.read.staging import Place, Staging
from docstokg.loading.run.erasure import erase
from docstokg.loading.run.lease import CLOSED, check_turn, end_turns, give_back, is_closed, turn
from docstokg.loading.run.model_output import (
    AbsentNames,
    Models,
    encoding_of,
    models_of,
    put_output,
    shard_with,
    written,
)
from docstokg.loading.run.refusal import reason_kept, refusal
from docstokg.loading.run.resolved import RESOLVED, ResolvedRun, ResolverCache, put_resolved
from docstokg.loading.run.rows import (
    Part,
    Shard,
    ShardWriter,
    every_object,
    shard_name,
    shard_names,
    shard_of,
)
from docstokg.loading.run.shard_manifest import Entry, ShardManifest
from docstokg.loading.run.sources import RunSources
from docstokg.loading.run.task_time import TaskTime
from docstokg.loading.write.chunk_writing import encodings, write_chunks
from docstokg.ports import Embedder, NameFinder, ObjectStore, SparseEncoder

# Maximum bytes of an object, which is held in memory.
LARGEST_OBJECT = 500_000_000

# Maximum rejections in a report; `rejects/resolve.jsonl` has all.
MOST_NAMED = 1000

SHARDS_AT_HAND = 4
AHEAD = 8
CLOSING = "closing.json"
VECTORS, NAMES = "vectors", "names"
# Where the state machine records shards that crashed their reader.
LOST = "lost"

Answer = dict[str, Any]


def read(task: IngestTask, objects: ObjectStore, readers: Readers) -> Answer:
    """Write the rows of objects into shards, with reasons for unreadable ones.

    Returns numbers: `chunks` and `rejected` objects. A task without items, here and in the other
    stages, works on all of its run.
    """
    run = task.run
    sources = RunSources.of(run, objects)
    items = task.items or [
        IngestObject(Key=entry.key, Size=entry.size, ETag=entry.etag)
        for entry in every_object(objects, sources.prefix)
    ]
    writer = ShardWriter(run, objects, shard_name(items))
    chunks = rejected = 0
    for item in items:
        inner = sources.inner(item.key)
        if not sources.counts(inner):
            continue
        try:
            if task.crashed is not None:
                error = task.crashed.get("Error", "a crash")
                raise LoadError(f"reading failed with {error}")
            chunks += _read_object(sources, item, objects, readers, writer)
        except KeyError:  # deleted since it was listed, like its document
            continue
        except LoadError as refused:
            writer.refuse(inner, item.etag, str(refused))
            rejected += 1
    writer.flush()
    return {"chunks": chunks, "rejected": rejected}


def _read_object(
    sources: RunSources,
    item: IngestObject,
    objects: ObjectStore,
    readers: Readers,
    writer: ShardWriter,
) -> int:
    inner = sources.inner(item.key)
    if item.size > LARGEST_OBJECT:
        raise LoadError(f"{item.size:,} bytes are more than {LARGEST_OBJECT:,}")
    if reason := sources.unread(inner):
        raise LoadError(reason)
    raw = objects.get(item.key)
    file = sources.file(inner, raw)
    if file.posted is not None:
        return writer.add(inner, item.etag, list(rows_of(file, readers)))
    with tempfile.TemporaryDirectory(prefix="docstokg-read-") as folder:
        path = Path(folder, Path(inner).name)
        try:
            path.write_bytes(raw)
        except OSError as refused:
            raise LoadError(f"invalid file name: {refused.strerror}") from refused
        rows = rows_of(replace(file, path=path), readers)
        return writer.add(inner, item.etag, list(rows) if file.kind == "document" else rows)


def encode(
    task: IngestTask, objects: ObjectStore, embedder: Embedder | None, sparse: SparseEncoder | None
) -> Answer:
    """Encode the chunks of shards; return `chunks`: their number."""
    models = {
        "dense": embedder.model if embedder else None,
        "sparse": sparse.model if sparse else None,
    }

    def ask(chunks: Sequence[RawChunk]) -> Iterator[Any]:
        sentences = [tuple(sentence_spans(chunk.text)) for chunk in chunks]
        made = encodings(embedder, sparse, chunks, sentences, [""] * len(chunks))
        return map(written, made)

    return _put_output(task, objects, VECTORS, models, ask)


def names(task: IngestTask, objects: ObjectStore, finder: NameFinder | None) -> Answer:
    """Find the names in the chunks of shards; return `chunks`: their number."""
    models = {"names": finder.model if finder else None}
    return _put_output(task, objects, NAMES, models, partial(found_names, finder))


def _put_output(
    task: IngestTask,
    objects: ObjectStore,
    kind: str,
    models: Models,
    ask: Callable[[Sequence[RawChunk]], Iterable[Any]],
) -> Answer:
    with reason_kept(task, objects):
        shards = _shards(task, objects)
        return {"chunks": sum(put_output(task.run, objects, kind, s, models, ask) for s in shards)}


def _shards(task: IngestTask, objects: ObjectStore) -> Sequence[str]:
    return [shard_of(item.key) for item in task.items] or shard_names(task.run, objects)


def resolve(
    task: IngestTask,
    objects: ObjectStore,
    stores: Stores,
    time: TaskTime | None = None,
    most: int | None = None,
) -> Answer:
    """Stage every row in path order, and write the plan of the load.

    After a kill it starts again. `most`: see `turn`. Raises `LoadError` if its `time` is not
    enough, `Locked` during another load, `Unavailable` before all shards are encoded.
    """
    run = task.run
    if is_closed(run, objects):
        return {"done": True}
    with (
        turn(run, objects, stores.index_writer, most),
        tempfile.TemporaryDirectory(prefix="docstokg-resolve-") as folder,
        closing(Staging(Path(folder, "staging.sqlite"))) as staging,
    ):
        with RejectLog(Path(folder, "rejects.jsonl"), examples=MOST_NAMED) as rejects:
            maker = _Resolution(run, objects, staging, rejects, time or TaskTime())
            summary = maker.make(stores, Path(folder, "staging.sqlite"))
        objects.put(run.key("rejects", "resolve.jsonl"), Path(folder, "rejects.jsonl").read_bytes())
    return {"done": True, "documents": summary["loaded"], "rejected": rejects.count}


@dataclass
class _Resolution:
    run: IngestRun
    objects: ObjectStore
    staging: Staging
    rejects: RejectLog
    progress: Progress

    def __post_init__(self) -> None:
        self.sources = RunSources.of(self.run, self.objects)
        self.files = 0
        self.models: Models | None = None
        self.paths: dict[str, str] = {}
        # Rows of an object in several shards may revisit one.
        self._shard = lru_cache(SHARDS_AT_HAND)(partial(shard_with, self.run, self.objects, NAMES))

    def make(self, stores: Stores, file: Path) -> dict[str, Any]:
        run = self.run
        options = LoadOptions(
            run.namespace,
            replace_docs=run.replace,
            sync=run.sync,
            agree=lambda gone: len(gone) <= run.max_removed,
            run_id=run.run_id,
            remove=run.remove,
            groups=run.groups,
            again=_is_there(self.objects, run.key("resolved", RESOLVED)),
        )
        stores, report = self._survey(stores), LoadReport(run_id=run.run_id)
        context, before, registry = begin(
            options, stores, self.staging, self.rejects, self.progress, report
        )
        if self.models is not None:
            report.sparse_model = self.models["sparse"]
        registry.write_key()
        context = read_files(context, self._files(), None, registry)
        removed = removals(options, context, registry)
        gone = sorted({*removed, *(self._gone(options, context, registry) if run.sync else ())})
        load_plan = plan(context, bool(before.open_run(context.namespace)), gone)
        documents = sum(1 for _ in self.staging.origins())
        summary = {
            "loaded": self.files - len(self.paths) if run.posted else documents,
            "removed": len(gone),
            "kept_back": report.kept_back[:MOST_NAMED],
            "kept_back_count": len(report.kept_back),
            "warnings": report.warnings,
            "rejected_count": self.rejects.count,
            "rejected": self._rejected(),
            "notes": self.rejects.notes[:MOST_NAMED],
        }
        put_resolved(run, self.objects, context, load_plan, file, summary)
        return summary

    def _survey(self, stores: Stores) -> Stores:
        run, objects = self.run, self.objects
        self.manifest = ShardManifest(
            (inner, entry.etag)
            for entry in every_object(objects, self.sources.prefix)
            if self.sources.counts(inner := self.sources.inner(entry.key))
        )
        self._lost = {shard_of(e.key): e.key for e in every_object(objects, run.key(LOST))}
        shards = shard_names(run, objects)
        with self.progress.stage("shards", None) as advance, ThreadPoolExecutor(AHEAD) as pool:
            for shard, (parts, models) in prefetched(pool, self._read, shards, AHEAD):
                self.manifest.add(shard, parts)
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
            names = None if recogniser is None else AbsentNames(recogniser)
        return replace(stores, embedder=embedder, names=names)

    def _read(self, shard: str) -> tuple[Sequence[Part], Models | None]:
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

    def _files(self) -> Iterator[tuple[SourceFile, Iterable[Row]]]:
        for entry in self.manifest.entries():
            self.files += 1
            if entry.unread:
                self.paths[entry.inner] = entry.inner
                nobodys = not self.run.posted and skipped(PurePath(PurePath(entry.inner).name))
                put_aside = self.rejects.skip if nobodys else self.rejects.add_file
                put_aside(Path(entry.inner), entry.unread)
                continue
            file = self.sources.file(entry.inner)
            yield file, self._rows(entry)
            if self.rejects.by_file[str(file.path)]:
                self.paths[str(file.path)] = entry.inner

    def _rows(self, entry: Entry) -> Iterator[Row]:
        for part in entry.parts:
            for line, record, found in self._shard(part.shard).rows(part.position):
                self.staging.place = Place(part.shard, part.position, line)
                if isinstance(record, RawChunk):
                    names = tuple(FoundName(*name) for name in found)
                    yield line, replace(record, found=names)
                else:
                    yield line, record

    def _gone(self, options: LoadOptions, context: Context, registry: SourceRegistry) -> list[str]:
        root = self.sources.root
        if self.sources.prefix != self.run.sources:
            context.report.warnings.append(
                f"removal requires a load of all of {self.run.sources}; nothing is removed"
            )
            return []
        rejected = {(registry.root(root), inner) for inner in self.paths.values()}
        return gone_documents([root], rejected, options, context, registry, empty=not self.files)

    def _rejected(self) -> list[dict[str, str]]:
        reasons: dict[str, str] = {}
        for rejection in self.rejects.first:
            reasons.setdefault(self.paths.get(rejection.file, rejection.file), rejection.reason)
        return [{"doc_id": place, "reason": reason} for place, reason in reasons.items()]


def write(
    task: IngestTask, objects: ObjectStore, stores: Stores, resolvers: ResolverCache
) -> Answer:
    """Write the documents that begin in the task's shards, with their mentions.

    Returns the numbers of chunks and of those written, 0 for a closed run. Raises `Locked` during
    another load of the namespace, `LoadError` after one.
    """
    run = task.run
    written = chunks = 0
    if is_closed(run, objects):
        return {"chunks": 0, "written": 0}
    with reason_kept(task, objects), turn(run, objects, stores.index_writer):
        check_turn(run, stores.search_index)
        with resolvers.lent(run, objects) as resolved:
            for shard in _shards(task, objects):
                context = _write_shard(run, objects, stores, resolved, shard)
                written += context.report.written
                chunks += context.report.chunks
    return {"chunks": chunks, "written": written}


def _write_shard(
    run: IngestRun, objects: ObjectStore, stores: Stores, resolved: ResolvedRun, shard: str
) -> Context:
    staging = resolved.staging
    documents = set(staging.documents_beginning(shard))
    shards = staging.shards_of(documents)
    recorded: dict[str, Encoding] = {}
    for name in shards:
        rows = shard_with(run, objects, VECTORS, name)
        for position in range(len(rows.parts)):
            for line, record, encoding in rows.rows(position):
                staging.place = Place(name, position, line)
                if not isinstance(record, RawChunk) or record.doc_id not in documents:
                    continue  # it stays empty for a later task of this process
                if staging.fill(record):
                    recorded[record.id] = encoding_of(encoding)
    context = resolved.context(stores, recorded)
    load_plan = resolved.plan(context)
    write_chunks(load_plan.resolver, load_plan.finder, shard)
    staging.empty(documents)
    return context


def store(
    task: IngestTask,
    objects: ObjectStore,
    stores: Stores,
    resolvers: ResolverCache,
    time: TaskTime,
    most: int | None = None,
) -> Answer:
    """Encode, resolve, write and close a small run; raise `Unavailable` if it needs more tasks."""
    encode(task, objects, stores.embedder, stores.sparse_encoder)
    resolve(task, objects, stores, time, most)
    write(task, objects, stores, resolvers)
    closed = close(task, objects, stores, time)
    if not closed["done"]:
        raise Unavailable("this run needs more than one task")
    return closed


def close(
    task: IngestTask, objects: ObjectStore, stores: Stores, time: TaskTime | None = None
) -> Answer:
    """Write edges, remove documents, relink stored chunks, end the load and report.

    If its `time` ends first, the next task continues from the returned `cursor`. A failed task is
    only reported and released. Raises `Locked` and `LoadError` like `write`.
    """
    run = task.run
    if task.failed:
        return _give_up(task, objects, stores)
    if is_closed(run, objects):
        _clear(run, objects)
        give_back(run, objects)
        return {"done": True}
    with turn(run, objects, stores.index_writer):
        closing_before = _is_there(objects, run.key("resolved", CLOSING))
        check_turn(run, stores.search_index, closing_before)
        with closing(ResolvedRun(run, objects)) as resolved:
            objects.put(run.key("resolved", CLOSING), b"{}")
            context = resolved.context(stores, {})
            stopped = _finish(task, context, resolved, time or TaskTime())
            if stopped is not None:
                return {"done": False, "cursor": stopped.model_dump()}
            report = {
                "run_id": run.run_id,
                "namespace": run.namespace,
                **resolved.head["summary"],
                "relations": context.report.relations,
                "relinked": context.report.relinked,
            }
        objects.put(f"runs/{run.run_id}/{CLOSED}", _json(report))
        _clear(run, objects)
        give_back(run, objects)
    end_turns(run, stores.index_writer)
    return {"done": True, **{key: report[key] for key in ("loaded", "removed", "kept_back_count")}}


def _clear(run: IngestRun, objects: ObjectStore) -> None:
    report = json.loads(objects.get(f"runs/{run.run_id}/{CLOSED}"))
    rejected = {one["doc_id"] for one in report["rejected"]}
    erase(run, objects, {*run.remove} - rejected, rejected)


def _finish(
    task: IngestTask, context: Context, resolved: ResolvedRun, time: TaskTime
) -> IngestCursor | None:
    run, begun, report = task.run, None, context.report
    if task.cursor is not None:
        begun = Mark(task.cursor.step, task.cursor.after)
        report.relations, report.relinked = task.cursor.relations, task.cursor.relinked
    registry = SourceRegistry(context.stores.register, run.namespace, run.replace, run.run_id)
    for mark in finishing(context, resolved.plan(context), registry, begun):
        if time.is_over():
            return IngestCursor(
                **mark._asdict(), relations=report.relations, relinked=report.relinked
            )
    return None


def _give_up(task: IngestTask, objects: ObjectStore, stores: Stores) -> Answer:
    error = task.error or {}
    reason = f"{error.get('Error', 'Failed')}: {error.get('Cause', '')}"
    if kept_reason := refusal(task.run, objects):
        reason = f"{kept_reason} ({reason})"
    reason = reason[:1000]
    report = {
        "run_id": task.run.run_id,
        "namespace": task.run.namespace,
        "loaded": 0,
        "removed": 0,
        "rejected": [],
        "reason": reason,
    }
    if not is_closed(task.run, objects):
        objects.put(f"runs/{task.run.run_id}/{CLOSED}", _json(report))
    give_back(task.run, objects)
    end_turns(task.run, stores.index_writer)
    return {"done": True, "reason": reason}


def _is_there(objects: ObjectStore, key: str) -> bool:
    return any(entry.key == key for entry in objects.list(key))


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")

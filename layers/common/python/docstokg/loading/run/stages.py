"""The six repeatable stages of a bucket load.

See docs/decisions/cloud-ingestion.md.
"""

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import filterfalse
from pathlib import Path
from typing import Any

from docstokg.contracts import Json
from docstokg.contracts.ingest import IngestCursor, IngestObject, IngestRun, IngestTask
from docstokg.domain.text.sentences import sentence_spans
from docstokg.errors import LoadError, Permanent, Unavailable
from docstokg.loading.context import LoadOptions, LoadReport, Readers, Stores
from docstokg.loading.names.candidates import RULE, found_names
from docstokg.loading.pipeline import begin, info_before, read_files, removals
from docstokg.loading.read.raw_input import RawChunk
from docstokg.loading.read.reading import Row, rows_of
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.source_registry import AGAIN
from docstokg.loading.read.staging import Place, Staging
from docstokg.loading.resolve.load_plan import Linking
from docstokg.loading.resolve.planning import plan_load
from docstokg.loading.run.erasure import ERASED, erase, erasure_mark, put_marks, stored_marks
from docstokg.loading.run.lease import CLOSED, check_turn, end_turns, give_back, is_closed, turn
from docstokg.loading.run.model_output import (
    Models,
    encoding_of,
    encoding_value,
    put_output,
    shard_with,
)
from docstokg.loading.run.output_cache import forget_outputs, sweep_outputs
from docstokg.loading.run.resolved import RESOLVED, ResolvedRun, ResolverCache, put_resolved
from docstokg.loading.run.rows import ShardWriter, every_object, shard_name, shard_names, shard_of
from docstokg.loading.run.run_rows import NAMES, RunRows
from docstokg.loading.run.sources import RunSources
from docstokg.loading.run.task_time import TaskTime
from docstokg.loading.run.unchanged import (
    forget_versions,
    known_versions,
    put_versions,
    version_of,
)
from docstokg.loading.write.chunk_writing import encodings, write_chunks
from docstokg.loading.write.closing import close_load
from docstokg.ports import Embedder, NameFinder, ObjectStore, SparseEncoder

# Maximum bytes of an object, which is held in memory.
LARGEST_OBJECT = 500_000_000

# Maximum rejections in a report; `rejects/resolve.jsonl` has all.
MAX_NAMED = 1000

CLOSING = "closing.json"
VECTORS = "vectors"
# Where stages store the reason of a failure.
REFUSED = "refused"


def read(task: IngestTask, objects: ObjectStore, readers: Readers) -> Json:
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
    versions = known_versions(run, objects)
    if not run.posted:
        sources = replace(sources, marks=stored_marks(run.namespace, objects))
    chunks = rejected = 0
    for item in items:
        inner = sources.inner(item.key)
        if not sources.counts(inner):
            continue
        version = version_of(item, readers)
        if versions.get(inner) == version:
            writer.note_known(inner, item.etag, version)
            continue
        try:
            if task.crashed is not None:
                error = task.crashed.get("Error", "a crash")
                raise LoadError(f"reading failed with {error}")
            chunks += _read_object(sources, item, version, objects, readers, writer)
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
    version: str,
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
        return writer.add(inner, item.etag, "", list(rows_of(file, readers)))
    with tempfile.TemporaryDirectory(prefix="docstokg-read-") as folder:
        path = Path(folder, Path(inner).name)
        try:
            path.write_bytes(raw)
        except OSError as refused:
            raise LoadError(f"invalid file name: {refused.strerror}") from refused
        rows = rows_of(replace(file, path=path), readers)
        is_erased = partial(_is_erased, sources.marks, inner, item.etag)
        if file.kind != "document":
            return writer.add(inner, item.etag, version, filterfalse(is_erased, rows))
        whole = list(rows)
        if whole and all(map(is_erased, whole)):
            raise LoadError(ERASED)
        return writer.add(inner, item.etag, version, filterfalse(is_erased, whole))


def _is_erased(marks: Collection[str], inner: str, etag: str, row: Row) -> bool:
    doc_id = getattr(row[1], "doc_id", None) or ""
    return bool(marks) and erasure_mark(inner, etag, doc_id) in marks


def encode(
    task: IngestTask, objects: ObjectStore, embedder: Embedder | None, sparse: SparseEncoder | None
) -> Json:
    """Encode the chunks of shards; return `chunks`: their number."""
    models = {
        "dense": embedder.model if embedder else None,
        "sparse": sparse.model if sparse else None,
    }

    def compute(chunks: Sequence[RawChunk]) -> Iterator[Any]:
        sentences = [tuple(sentence_spans(chunk.text)) for chunk in chunks]
        outputs = encodings(embedder, sparse, chunks, sentences, [""] * len(chunks))
        return map(encoding_value, outputs)

    return _put_output(task, objects, VECTORS, models, compute)


def names(task: IngestTask, objects: ObjectStore, finder: NameFinder | None) -> Json:
    """Find the names in the chunks of shards; return `chunks`: their number."""
    models = {"names": finder.model if finder else None}
    return _put_output(task, objects, NAMES, models, partial(found_names, finder))


def _put_output(
    task: IngestTask,
    objects: ObjectStore,
    kind: str,
    models: Models,
    compute: Callable[[Sequence[RawChunk]], Iterable[Any]],
) -> Json:
    with reason_kept(task, objects):
        shards = _shards(task, objects)
        return {
            "chunks": sum(put_output(task.run, objects, kind, s, models, compute) for s in shards)
        }


def _shards(task: IngestTask, objects: ObjectStore) -> Sequence[str]:
    return [shard_of(item.key) for item in task.items] or shard_names(task.run, objects)


def resolve(
    task: IngestTask,
    objects: ObjectStore,
    stores: Stores,
    time: TaskTime | None = None,
    max_loads: int | None = None,
) -> Json:
    """Stage every row in path order, and write the plan of the load.

    After a kill it starts again. `max_loads`: see `turn`. Raises `LoadError` if its `time` is not
    enough, `Locked` during another load, `Unavailable` before all shards are encoded.
    """
    run = task.run
    if is_closed(run, objects):
        return {"done": True}
    with (
        turn(run, objects, stores.index_writer, max_loads),
        tempfile.TemporaryDirectory(prefix="docstokg-resolve-") as folder,
        closing(Staging(Path(folder, "staging.sqlite"))) as staging,
    ):
        with RejectLog(Path(folder, "rejects.jsonl"), examples=MAX_NAMED) as rejects:
            # Only what a load leaves at its end is known to the next one.
            forget_versions(run.namespace, objects)
            rows = RunRows(run, objects, staging, rejects, time or TaskTime())
            linking, summary = _resolve(rows, stores)
            put_resolved(run, objects, linking, Path(folder, "staging.sqlite"), summary)
        objects.put(run.key("rejects", "resolve.jsonl"), Path(folder, "rejects.jsonl").read_bytes())
    return {"done": True, "documents": summary["loaded"], "rejected": rejects.count}


def _resolve(rows: RunRows, stores: Stores) -> tuple[Linking, Json]:
    run, report = rows.run, LoadReport(run_id=rows.run.run_id)
    options = LoadOptions(
        run.namespace,
        replace_docs=run.replace,
        sync=run.sync,
        agree=lambda doc_ids: len(doc_ids) <= run.max_removed,
        run_id=run.run_id,
        remove=run.remove,
        groups=run.groups,
        again=_is_there(rows.objects, run.key("resolved", RESOLVED)),
    )
    stores = rows.survey(stores)
    context = begin(options, stores, rows.staging, rows.rejects, rows.progress, report)
    if rows.models is not None:
        report.sparse_model = rows.models["sparse"]
    context.registry.write_key()
    if unchanged := rows.unchanged():
        _check_outputs(rows, stores)
        context.registry.leave(rows.sources.root, unchanged)
    context = read_files(context, rows.files(), None)
    if not run.posted:
        stored = context.registry.stored.values()
        sources = {*rows.paths(), *(record.path for record in stored)}
        sweep_outputs(rows.objects, run.namespace, sources, time.time())
    folders = [rows.sources.root]
    if run.sync and rows.sources.prefix != run.sources:
        report.warnings.append(
            f"removal requires a load of all of {run.sources}; nothing is removed"
        )
        folders = []
    removed = removals(context, folders, not rows.count)
    linking = plan_load(context, removed)
    rejected = context.registry.rejected
    documents = sum(1 for _ in rows.staging.origins())
    reasons: dict[str, str] = {}
    for rejection in rows.rejects.first:
        file = rejected.get(rejection.file)
        reasons.setdefault(file.inner if file else rejection.file, rejection.reason)
    summary = {
        "loaded": rows.count - len(rejected) if run.posted else documents + len(unchanged),
        "unchanged": len(unchanged),
        "removed": len(removed),
        "kept_back": report.kept_back[:MAX_NAMED],
        "kept_back_count": len(report.kept_back),
        "warnings": report.warnings,
        "rejected_count": rows.rejects.count,
        "rejected": [{"doc_id": place, "reason": reason} for place, reason in reasons.items()],
        "notes": rows.rejects.notes[:MAX_NAMED],
    }
    return linking, summary


def _check_outputs(rows: RunRows, stores: Stores) -> None:
    before, namespace, models = info_before(stores.search_index), rows.run.namespace, rows.models
    recogniser = stores.graph_writer.recogniser(namespace)
    stored = (before.space_of(namespace)[0], before.sparse_model, recogniser)
    current = stored
    if models:
        current = (models["dense"] or stored[0], models["sparse"], models["names"] or RULE)
    if current != stored:
        raise LoadError(f"the models are {current}, but the stored ones {stored}; {AGAIN}")
    if before.open_run(namespace) not in ("", rows.run.run_id):
        raise LoadError(f"another load of this namespace did not end; {AGAIN}")


def write(task: IngestTask, objects: ObjectStore, stores: Stores, resolvers: ResolverCache) -> Json:
    """Write the documents that begin in the task's shards, with their mentions.

    Returns the numbers of chunks and of those written, 0 for a closed run. Raises `Locked` during
    another load of the namespace, `LoadError` after one.
    """
    run = task.run
    counts = Counter(chunks=0, written=0)
    if is_closed(run, objects):
        return counts
    with reason_kept(task, objects), turn(run, objects, stores.index_writer):
        check_turn(run, stores.search_index)
        with resolvers.lent(run, objects) as resolved:
            for shard in _shards(task, objects):
                report = _write_shard(run, objects, stores, resolved, shard)
                counts.update(chunks=report.chunks, written=report.written)
    return counts


def _write_shard(
    run: IngestRun, objects: ObjectStore, stores: Stores, resolved: ResolvedRun, shard: str
) -> LoadReport:
    staging = resolved.staging
    documents = set(staging.documents_beginning(shard))
    for name in staging.shards_of(documents):
        rows = shard_with(run, objects, VECTORS, name)
        for position in range(len(rows.parts)):
            for line, record, encoding in rows.rows(position):
                staging.place = Place(name, position, line)
                if not isinstance(record, RawChunk) or record.doc_id not in documents:
                    continue  # it stays empty for a later task of this process
                if staging.fill(record):
                    staging.add_encoding(record.id, encoding_of(encoding))
    linking = resolved.linking(stores)
    write_chunks(linking, shard)
    staging.empty(documents)
    return linking.context.report


def store(
    task: IngestTask,
    objects: ObjectStore,
    stores: Stores,
    resolvers: ResolverCache,
    time: TaskTime,
    max_loads: int,
) -> Json:
    """Encode, resolve, write and close a small run; raise `Unavailable` if it needs more tasks."""
    encode(task, objects, stores.embedder, stores.sparse_encoder)
    resolve(task, objects, stores, time, max_loads)
    write(task, objects, stores, resolvers)
    closed = close(task, objects, stores, time)
    if not closed["done"]:
        raise Unavailable("this run needs more than one task")
    return closed


def close(
    task: IngestTask, objects: ObjectStore, stores: Stores, time: TaskTime | None = None
) -> Json:
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
            put_marks(run.namespace, objects, resolved.head["marks"])
            objects.put(run.key("resolved", CLOSING), b"{}")
            linking = resolved.linking(stores)
            stopped = _finish(task, linking, time or TaskTime())
            if stopped:
                return {"done": False, "cursor": stopped.model_dump()}
            report = {
                "run_id": run.run_id,
                "namespace": run.namespace,
                **resolved.head["summary"],
                "relations": linking.context.report.relations,
                "relinked": linking.context.report.relinked,
            }
            forget_outputs(objects, run.namespace, resolved.head["removed_sources"])
            put_versions(run, objects, linking)
        objects.put(f"runs/{run.run_id}/{CLOSED}", _json(report))
        _clear(run, objects)
        give_back(run, objects)
    end_turns(run, stores.index_writer)
    return {"done": True, **{key: report[key] for key in ("loaded", "removed", "kept_back_count")}}


def _clear(run: IngestRun, objects: ObjectStore) -> None:
    report = json.loads(objects.get(f"runs/{run.run_id}/{CLOSED}"))
    rejected = {rejection["doc_id"] for rejection in report["rejected"]}
    erase(run, objects, {*run.remove} - rejected, rejected)


def _finish(task: IngestTask, linking: Linking, time: TaskTime) -> IngestCursor | None:
    report, cursor = linking.context.report, task.cursor
    if cursor:
        report.relations, report.relinked = cursor.relations, cursor.relinked
    begin = ("stale", "") if cursor is None else (cursor.step, cursor.after)
    for step, after in close_load(linking, begin):
        if time.is_over():
            counts = {"relations": report.relations, "relinked": report.relinked}
            return IngestCursor(step=step, after=after, **counts)
    return None


def _give_up(task: IngestTask, objects: ObjectStore, stores: Stores) -> Json:
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


@contextmanager
def reason_kept(task: IngestTask, objects: ObjectStore) -> Iterator[None]:
    """Store the reason of a `Permanent` failure for the report of the run; raise it again."""
    try:
        yield
    except Permanent as error:
        line = {"error": type(error).__name__, "reason": str(error)}
        objects.put(task.run.key(REFUSED, f"{task.stage}.json"), json.dumps(line).encode())
        raise


def refusal(run: IngestRun, objects: ObjectStore) -> str:
    """Return the reason stored last, or ""."""
    newest = max(objects.list(run.key(REFUSED)), key=lambda entry: entry.modified, default=None)
    if newest is None:
        return ""
    refused = json.loads(objects.get(newest.key))
    return f"{refused['error']}: {refused['reason']}"


def _is_there(objects: ObjectStore, key: str) -> bool:
    return any(entry.key == key for entry in objects.list(key))


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")

"""The six stages of a load over a bucket: each may run twice, in any number of processes.

They end in the content that `pipeline.load` gives of the same files, because they call what it
calls: `read` takes each object's rows, `encode` and `names` ask the models about them, `book`
stages all rows in the order of their paths and decides, `write` writes one shard's documents,
`close` does the rest.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import batched
from pathlib import Path
from typing import Any, NamedTuple

from docstokg.contracts.ingest import IngestCursor, IngestObject, IngestRun, IngestTask
from docstokg.domain.visibility import may_see
from docstokg.errors import LoadError, Unavailable
from docstokg.loading.context import (
    CHUNK_BATCH,
    Context,
    LoadOptions,
    LoadReport,
    Progress,
    Readers,
    Stores,
)
from docstokg.loading.names.candidates import RULE, find_names, has_given_mentions
from docstokg.loading.pipeline import (
    NO_EMBEDDER,
    Beginning,
    Mark,
    context_of,
    count_unread,
    decide,
    finishing,
    gone_documents,
    info_before,
    stage_file,
)
from docstokg.loading.read.given import GivenChunk
from docstokg.loading.read.origins import Origins
from docstokg.loading.read.reading import Row, rows_of
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.staging import Place, Staging
from docstokg.loading.run.book import DECISIONS, RunBook, WarmBooks, put_book
from docstokg.loading.run.lease import CLOSED, check_turn, end_turns, give_back, is_closed, turn
from docstokg.loading.run.ledger import Entry, Ledger
from docstokg.loading.run.readings import (
    Answers,
    RecalledNames,
    RecalledSparse,
    RecordingEmbedder,
    RecordingNames,
    RecordingSparse,
    answers_of,
    put_names,
    put_readings,
)
from docstokg.loading.run.refusal import reason_kept, refusal
from docstokg.loading.run.rows import (
    Part,
    Shard,
    ShardWriter,
    ahead,
    every_object,
    read_shard,
    shard_name,
    shard_names,
    shard_of,
)
from docstokg.loading.run.sources import RunSources
from docstokg.loading.run.task_time import InTime, TaskTime
from docstokg.loading.write.chunk_writing import encoder_input, vectors_of, weights_of, write_chunks
from docstokg.ports import Embedder, NameFinder, ObjectStore, SparseEncoder

LARGEST_OBJECT = 500_000_000
"""Bytes: the whole of an object is in memory while its rows are read."""

MOST_NAMED = 1000
"""Rejections that a run's report names; all of them are in `rejects/book.jsonl`."""

SHARDS_AT_HAND = 4
CLOSING = "closing.json"

Answer = dict[str, Any]


def read(task: IngestTask, objects: ObjectStore, readers: Readers) -> Answer:
    """Take the rows of some objects into a shard; what cannot be read is noted with its reason."""
    run = task.run
    sources = RunSources.of(run, objects)
    writer = ShardWriter(run, objects, shard_name(task.items))
    chunks, reasons = 0, []
    for item in task.items:
        inner = sources.inner(item.key)
        if not sources.counts(inner):
            continue
        reason = sources.unread(inner)
        if task.crashed is not None:
            reason = f"reading it ended with {task.crashed.get('Error', 'a crash')}"
        elif item.size > LARGEST_OBJECT:
            reason = f"{item.size:,} bytes are more than {LARGEST_OBJECT:,}"
        if not reason:
            try:
                chunks += _read_object(sources, item, objects, readers, writer)
            except KeyError:  # it is gone since it was listed, and so is its document
                continue
            except LoadError as refused:
                reason = str(refused)
        if reason:
            writer.refuse(inner, item.etag, reason)
            reasons.append(f"{inner}: {reason}"[:300])
    writer.flush()
    return {
        "shard": shard_name(task.items),
        "documents": len(task.items) - len(reasons),
        "chunks": chunks,
        "rejected": len(reasons),
        "reasons": reasons[:5],
    }


def _read_object(
    sources: RunSources,
    item: IngestObject,
    objects: ObjectStore,
    readers: Readers,
    writer: ShardWriter,
) -> int:
    """Write one object's rows; `LoadError` when it holds none that could be read."""
    inner = sources.inner(item.key)
    raw = objects.get(item.key)
    file = sources.file(inner, raw)
    if file.posted is not None:
        return writer.add(inner, item.etag, list(rows_of(file, readers)))
    with tempfile.TemporaryDirectory(prefix="docstokg-read-") as folder:
        path = Path(folder, Path(inner).name)
        try:
            path.write_bytes(raw)
        except OSError as refused:
            raise LoadError(f"its name cannot be a file's: {refused.strerror}") from refused
        here = replace(file, path=path)
        if file.kind != "document":
            return writer.add(inner, item.etag, rows_of(here, readers))
        try:
            rows = list(rows_of(here, readers))
        except (ValueError, RecursionError, MemoryError, ArithmeticError, LookupError) as broken:
            # What no reader foresaw of one document costs that document, not its batch.
            raise LoadError(f"it could not be read ({type(broken).__name__})") from broken
        return writer.add(inner, item.etag, rows)


def encode(
    task: IngestTask,
    objects: ObjectStore,
    embedder: Embedder | None,
    sparse: SparseEncoder | None,
) -> Answer:
    """Ask the encoders about the chunks of some shards."""
    count = 0
    with reason_kept(task, objects):
        for shard, rows in _shards(task, objects):
            dense_notes = RecordingEmbedder(embedder) if embedder is not None else None
            sparse_notes = RecordingSparse(sparse) if sparse is not None else None
            for chunks in batched(rows.chunks(), CHUNK_BATCH, strict=False):
                texts, borders = encoder_input(chunks)
                vectors_of(dense_notes, chunks, texts, borders)
                weights_of(sparse_notes, chunks, texts)
                count += len(chunks)
            put_readings(task.run, objects, shard, dense_notes, sparse_notes)
    return {"chunks": count}


def names(task: IngestTask, objects: ObjectStore, finder: NameFinder | None) -> Answer:
    """Ask the recogniser about the chunks of some shards."""
    count = 0
    with reason_kept(task, objects):
        for shard, rows in _shards(task, objects):
            notes = RecordingNames(finder) if finder is not None else None
            linked = (chunk for chunk in rows.chunks() if not has_given_mentions(chunk))
            for chunks in batched(linked, CHUNK_BATCH, strict=False):
                find_names(notes, [chunk.text for chunk in chunks])
                count += len(chunks)
            put_names(task.run, objects, shard, notes)
    return {"chunks": count}


def _shards(task: IngestTask, objects: ObjectStore) -> Iterator[tuple[str, Shard]]:
    for item in task.items:
        shard = shard_of(item.key)
        yield shard, read_shard(task.run, objects, shard)


def book(
    task: IngestTask, objects: ObjectStore, stores: Stores, time: TaskTime | None = None
) -> Answer:
    """Stage every row, in the order of the paths, decide who is named, and keep that.

    Killed, it begins anew; `LoadError` when it does not end in its `time`.
    """
    run = task.run
    if is_closed(run, objects):
        return {"done": True}
    with (
        turn(run, objects, stores.index_writer),
        tempfile.TemporaryDirectory(prefix="docstokg-book-") as folder,
        closing(Ledger()) as ledger,
        closing(Staging(Path(folder, "staging.sqlite"))) as staging,
    ):
        with RejectLog(Path(folder, "rejects.jsonl"), examples=MOST_NAMED) as rejects:
            desk = _Desk(ledger, staging, rejects, InTime(time or TaskTime()))
            maker = _BookMaker(run, objects, stores, desk)
            report = maker.make(Path(folder, "staging.sqlite"))
        objects.put(run.key("rejects", "book.jsonl"), Path(folder, "rejects.jsonl").read_bytes())
    return {"done": True, "documents": report["loaded"], "rejected": rejects.count}


class _Desk(NamedTuple):
    """What a book is made with."""

    ledger: Ledger
    staging: Staging
    rejects: RejectLog
    progress: Progress


class _BookMaker:
    """One making of a run's book."""

    def __init__(self, run: IngestRun, objects: ObjectStore, stores: Stores, desk: _Desk) -> None:
        self._run, self._objects = run, objects
        self._ledger, self._staging, self._rejects, self._progress = desk
        self._sources = RunSources.of(run, objects)
        self._before = info_before(stores.search_index)
        self._origins = Origins(stores.register, run.namespace, run.replace, run.run_id)
        self._at_hand: dict[str, Shard] = {}
        self._came: set[str] = set()
        self._unread: list[str] = []
        self._paths: dict[str, str] = {}
        self._files = 0
        self._stores = self._survey(stores)

    def make(self, file: Path) -> dict[str, Any]:
        """Make the book and keep it; what the run's report will tell."""
        run, origins = self._run, self._origins
        again = _is_there(self._objects, run.key("book", DECISIONS))
        origins.write_key()
        options = LoadOptions(
            run.namespace,
            embed=self._stores.embedder is not None,
            replace_docs=run.replace,
            sync=run.sync,
            agree=lambda gone: len(gone) <= run.max_removed,
            run_id=run.run_id,
        )
        context = self._stage(options)
        asked_for, refused = self._removals(again)
        gone = sorted({*asked_for, *(self._gone(options, context) if run.sync else ())})
        decisions = decide(context, self._before.unfinished_load, gone)
        summary = {
            "loaded": self._files - len(self._paths) if run.posted else self._documents(),
            "removed": len(gone),
            "kept_back": context.report.kept_back[:MOST_NAMED],
            "warnings": context.report.warnings,
            "rejected_count": self._rejects.count + len(refused),
            "rejected": [
                *({"doc_id": doc_id, "reason": refused[doc_id]} for doc_id in sorted(refused)),
                *self._rejected(),
            ],
        }
        put_book(run, self._objects, context, decisions, file, summary)
        return summary

    def _survey(self, stores: Stores) -> Stores:
        """Note what is listed and what was read, and let the models' answers be recalled."""
        run, objects, ledger = self._run, self._objects, self._ledger
        listed = (
            (inner, etag)
            for key, etag in every_object(objects, self._sources.prefix)
            if self._sources.counts(inner := self._sources.inner(key))
        )
        ledger.list(listed)
        models: dict[str, str | None] | None = None
        with self._progress.stage("shards", None) as advance:
            for shard, (parts, answers) in ahead(self._read, shard_names(run, objects)):
                ledger.add(shard, parts)
                ledger.add_names(answers.names)
                if not {"dense", "model"} <= answers.models.keys():
                    raise Unavailable("some chunks were not encoded or read for names yet")
                models = models or answers.models
                if answers.models != models:
                    raise LoadError("two models have read this run's chunks: begin it again")
                advance(1)
        self._coming = ahead(lambda name: read_shard(run, objects, name), ledger.shards())
        if models is None:
            return self._without_rows(stores)
        sparse, recogniser = models["sparse"], models["model"]
        recalled = RecalledNames(recogniser, ledger) if recogniser is not None else None
        if recalled is not None:
            recalled.inner = stores.names
        return replace(
            stores,
            embedder=stores.embedder if models["dense"] is not None else None,
            sparse_encoder=None if sparse is None else RecalledSparse(sparse, {}),
            names=recalled,
        )

    def _read(self, shard: str) -> tuple[Sequence[Part], Answers]:
        run, objects = self._run, self._objects
        return read_shard(run, objects, shard).parts, answers_of(run, objects, shard)

    def _without_rows(self, stores: Stores) -> Stores:
        """Keep the store's recogniser where nothing was read: another would name all anew."""
        recogniser = (
            stores.graph_writer.recogniser(self._run.namespace) if self._before.chunks else None
        )
        if recogniser == RULE:
            return replace(stores, names=None)
        if recogniser:
            recalled = RecalledNames(recogniser, self._ledger)
            recalled.inner = stores.names
            return replace(stores, names=recalled)
        return stores

    def _stage(self, options: LoadOptions) -> Context:
        dense = self._stores.embedder
        dimension = dense.dimension if dense is not None else self._before.dimension
        report = LoadReport(run_id=self._run.run_id)
        if dense is None:
            report.warnings.append(NO_EMBEDDER)
        with self._progress.stage("reading", None) as advance:
            for entry in self._ledger.entries():
                self._files += 1
                if entry.unread:
                    self._unread.append(entry.inner)
                    self._paths[entry.inner] = entry.inner
                    self._rejects.add_file(Path(entry.inner), entry.unread)
                    continue
                file = self._sources.file(entry.inner)
                rows, before = self._rows(entry), self._rejects.count
                dimension = stage_file(
                    file, rows, self._staging, self._rejects, report, dimension, self._origins
                )
                if self._rejects.count > before:
                    self._paths[str(file.path)] = entry.inner
                advance(1)
        count_unread(report, self._rejects)
        beginning = Beginning(self._before, self._origins, dimension)
        return context_of(
            options, self._stores, self._staging, self._rejects, self._progress, report, beginning
        )

    def _rows(self, entry: Entry) -> Iterator[Row]:
        for stretch in entry.stretches:
            for line, record in self._shard(stretch.shard).rows(stretch.position):
                self._staging.place = Place(stretch.shard, stretch.position, line)
                yield line, record

    def _shard(self, name: str) -> Shard:
        """Give a shard: one of the last, the next one, or one that is needed again, fetched."""
        while name not in self._at_hand:
            if name in self._came:
                came = name, read_shard(self._run, self._objects, name)
            else:
                came = next(self._coming)
            if len(self._at_hand) >= SHARDS_AT_HAND:
                del self._at_hand[next(iter(self._at_hand))]
            self._at_hand[came[0]] = came[1]
            self._came.add(came[0])
        return self._at_hand[name]

    def _gone(self, options: LoadOptions, context: Context) -> list[str]:
        run, origins, root = self._run, self._origins, self._sources.root
        if self._sources.prefix != run.sources:
            context.report.warnings.append(
                f"only all of {run.sources} can be made the same: nothing is removed"
            )
            return []
        rejected = {(origins.root(root), inner) for inner in self._paths.values()}
        empty = not self._files
        return gone_documents([root], rejected, options, context, origins, empty)

    def _removals(self, again: bool) -> tuple[list[str], dict[str, str]]:
        """Tell which of the named documents go, and why others do not."""
        gone, refused = [], {}
        for doc_id in self._run.remove:
            record = self._origins.stored.get(doc_id)
            if record is not None and may_see(record.acl, self._run.groups):
                gone.append(doc_id)
            elif record is not None or not again:
                refused[doc_id] = "there is no document of this id that the sender may read"
        return gone, refused

    def _documents(self) -> int:
        return sum(1 for _ in self._staging.origins())

    def _rejected(self) -> list[dict[str, str]]:
        """Give the first reason of each object that was rejected, or had a row that was."""
        reasons: dict[str, str] = {}
        for rejection in self._rejects.first:
            place = self._paths.get(rejection.file, rejection.file)
            reasons.setdefault(place, rejection.reason)
        return [{"doc_id": place, "reason": reason} for place, reason in reasons.items()]


def write(task: IngestTask, objects: ObjectStore, stores: Stores, books: WarmBooks) -> Answer:
    """Write the documents that begin in some shards, with what they mention.

    Any number of tasks may do so at once, each for other shards. `books`: of this process.
    """
    run = task.run
    written = chunks = 0
    if is_closed(run, objects):
        return {"chunks": 0, "written": 0}
    with reason_kept(task, objects), turn(run, objects, stores.index_writer):
        check_turn(run, stores.search_index)
        with books.lent(run, objects) as run_book:
            for item in task.items:
                context = _write_shard(run, objects, stores, run_book, shard_of(item.key))
                written += context.report.written
                chunks += context.report.chunks
    return {"chunks": chunks, "written": written}


def _write_shard(
    run: IngestRun, objects: ObjectStore, stores: Stores, run_book: RunBook, shard: str
) -> Context:
    staging = run_book.staging
    documents = staging.documents_beginning(shard)
    shards = staging.shards_of(documents)
    for name in shards:
        rows = read_shard(run, objects, name)
        for position in range(len(rows.parts)):
            for line, record in rows.rows(position):
                staging.place = Place(name, position, line)
                if isinstance(record, GivenChunk):
                    staging.fill(record)
    context = run_book.context(stores, tuple(shards))
    decisions = run_book.decisions(context)
    write_chunks(context, decisions.book, decisions.finder, shard)
    staging.empty(documents)
    return context


def close(
    task: IngestTask, objects: ObjectStore, stores: Stores, time: TaskTime | None = None
) -> Answer:
    """Write edges, remove what is gone, link earlier chunks, end the load and report.

    What does not fit into its `time` the next task does, from the `cursor` of the answer.
    """
    run = task.run
    if task.failed:
        return _give_up(task, objects)
    if is_closed(run, objects):
        give_back(run, objects)
        return {"done": True}
    with turn(run, objects, stores.index_writer):
        closing_before = _is_there(objects, run.key("book", CLOSING))
        check_turn(run, stores.search_index, closing_before)
        with closing(RunBook(run, objects)) as run_book:
            objects.put(run.key("book", CLOSING), b"{}")
            context = run_book.context(stores)
            stopped = _finish(task, context, run_book, time or TaskTime())
            if stopped is not None:
                return {"done": False, "cursor": stopped.model_dump()}
            report = {
                "run_id": run.run_id,
                "namespace": run.namespace,
                **run_book.head["said"],
                "relations": context.report.relations,
                "relinked": context.report.relinked,
            }
        objects.put(f"runs/{run.run_id}/{CLOSED}", _json(report))
        give_back(run, objects)
    end_turns(run, stores.index_writer)
    return {"done": True, "loaded": report["loaded"], "removed": report["removed"]}


def _finish(
    task: IngestTask, context: Context, run_book: RunBook, time: TaskTime
) -> IngestCursor | None:
    """Go on with a load's end; where it stopped, None when all is done."""
    run, begun, report = task.run, None, context.report
    if task.cursor is not None:
        begun = Mark(task.cursor.step, task.cursor.after)
        report.relations, report.relinked = task.cursor.relations, task.cursor.relinked
    origins = Origins(context.stores.register, run.namespace, run.replace, run.run_id)
    for mark in finishing(context, run_book.decisions(context), origins, begun):
        if time.is_over():
            return IngestCursor(
                **mark._asdict(), relations=report.relations, relinked=report.relinked
            )
    return None


def _give_up(task: IngestTask, objects: ObjectStore) -> Answer:
    """Report why, and let others begin; the load stays unfinished, to be gone on with."""
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
    return {"done": True, "reason": reason}


def _is_there(objects: ObjectStore, key: str) -> bool:
    return any(entry.key == key for entry in objects.list(key))


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")

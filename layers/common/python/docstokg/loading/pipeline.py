"""A load, repeatable after any interruption."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from ulid import ULID

from docstokg.contracts.records import IndexInfo
from docstokg.domain import supersedes
from docstokg.domain.deadline import Deadline
from docstokg.domain.visibility import may_see
from docstokg.errors import Misconfigured, NotLoaded
from docstokg.loading.context import (
    READ_S,
    Context,
    LoadOptions,
    LoadReport,
    NullProgress,
    Progress,
    Stores,
    TypeCount,
)
from docstokg.loading.read.reading import Row, read_rows, stage
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.source_registry import SourceRegistry, needs_consent
from docstokg.loading.read.sources import SourceFile, find_files
from docstokg.loading.read.staging import Staging
from docstokg.loading.resolve.planning import plan_load
from docstokg.loading.write.chunk_writing import language_of, write_chunks
from docstokg.loading.write.closing import close_load
from docstokg.loading.write.removal import exclusive_load
from docstokg.ports import SearchIndex, encoder_of

# Model name of vectors from files if no embedder is configured.
UPSTREAM = "upstream"

NO_EMBEDDER = "no encoder is installed or configured; these chunks are found by word search only"

UNKNOWN_DOCUMENT = "no document with this id is visible to the sender"

LANGUAGE_SAMPLE = 1000
# Share of passages in other languages above which the multilingual encoder is used.
OTHER_SHARE = 0.2


def load(
    sources: Sequence[Path | SourceFile],
    options: LoadOptions,
    stores: Stores,
    rejects: RejectLog,
    progress: Progress | None = None,
) -> LoadReport:
    """Load files, folders and posted documents into both stores; invalid ones are rejected.

    Raises `LoadError` for an unreadable source or nothing to load, `Timeout` or `Locked` during
    another load.
    """
    started = time.monotonic()
    paths = [source for source in sources if isinstance(source, Path)]
    files = [source for source in sources if isinstance(source, SourceFile)]
    files += [
        replace(file, doc_id=options.prefix + file.doc_id)
        for file in find_files(
            paths, rejects, may_be_empty=options.sync or bool(files or options.remove)
        )
    ]
    report = LoadReport(run_id=options.run_id or str(ULID()), files=len(files))
    timed = _Timed(progress or NullProgress(), report.stages)
    with (
        exclusive_load(stores.index_writer, options.namespace, timed, options.wait_s),
        closing(Staging()) as staging,
    ):
        context = begin(options, stores, staging, rejects, timed, report)
        context = read_files(context, read_rows(files, stores.readers), len(files))
        if options.extract:
            report.extraction = options.extract(context)
        removed = removals(context, [path for path in paths if path.is_dir()], not files)
        if removed or not options.remove:
            linking = plan_load(context, removed)
            write_chunks(linking)
            for _ in close_load(linking):
                pass
    report.rejected = rejects.count
    report.seconds = time.monotonic() - started
    return report


def delete_document(stores: Stores, namespace: str, doc_id: str) -> int:
    """Remove a document and data that only it supports; return its number of chunks (or 0).

    Raises `Timeout` during another load.
    """
    return load([], LoadOptions(namespace, remove=(doc_id,)), stores, RejectLog()).removed


@dataclass
class _Timed:
    _inner: Progress
    _seconds: dict[str, float]

    @contextmanager
    def stage(self, title: str, total: int | None) -> Iterator[Callable[[int], None]]:
        begun = time.monotonic()
        with self._inner.stage(title, total) as advance:
            yield advance
        self._seconds[title] = self._seconds.get(title, 0.0) + time.monotonic() - begun


def info_before(index: SearchIndex) -> IndexInfo:
    """Return the content of the index before a load, empty if there is none yet."""
    try:
        # A reused process caches older content.
        return index.info(Deadline.after(READ_S), refresh=True)
    except NotLoaded:
        # The writer creates it. Other errors are raised: it may have a model.
        return IndexInfo()


def begin(
    options: LoadOptions,
    stores: Stores,
    staging: Staging,
    rejects: RejectLog,
    progress: Progress,
    report: LoadReport,
) -> Context:
    """Return a load's context, without the vector space of its files."""
    before = info_before(stores.search_index)
    is_unfinished = bool(before.open_run(options.namespace))
    registry = SourceRegistry(
        stores.register, options.namespace, options.replace_docs, report.run_id
    )
    model, dimension = before.space_of(options.namespace)
    encoder = encoder_of(stores.embedder, model)
    # A process that only removes may have another encoder.
    encodes = options.embed and not (options.remove and encoder is None)
    dense = encoder or stores.embedder if encodes else None
    sparse = stores.sparse_encoder if encodes else None
    if encodes and dense is None:
        report.warnings.append(NO_EMBEDDER)
    report.sparse_model = sparse.model if sparse else None
    return Context(
        options=options,
        stores=stores,
        staging=staging,
        registry=registry,
        rejects=rejects,
        progress=progress,
        report=report,
        model=model if dense is None else dense.model,
        dimension=dimension if dense is None else dense.dimension,
        dense=dense,
        sparse=sparse,
        # The register lacks documents of an unfinished load.
        earlier=None
        if is_unfinished or (before.chunks and not registry.stored)
        else frozenset(registry.stored),
        generation=str(ULID()),
        is_new=options.namespace not in before.namespaces
        and not (before.is_one_space and before.embedding_model),
        is_unfinished=is_unfinished,
    )


def read_files(
    context: Context, files: Iterable[tuple[SourceFile, Iterable[Row]]], total: int | None
) -> Context:
    """Stage the rows of all files; return the context with the load's vector space."""
    report, rejects, staging, registry = (
        context.report,
        context.rejects,
        context.staging,
        context.registry,
    )
    dimension = context.dimension
    for type_, unread in rejects.unread.items():
        report.types[type_] = TypeCount(files=unread, rejected=unread)
    for type_, skipped in rejects.skipped.items():
        count = report.types.setdefault(type_, TypeCount())
        count.files, count.skipped = count.files + skipped, skipped
    with context.progress.stage("reading", total) as advance:
        for file, rows in files:
            count = report.types.setdefault(file.type, TypeCount())
            chunks = staging.count("chunk")
            dimension = stage(file, rows, staging, rejects, dimension, registry)
            count.files += 1
            count.chunks += staging.count("chunk") - chunks
            _count_rejects(context, file)
            advance(1)
    for file, withdrawn in registry.settle(staging, rejects):
        report.types[file.type].chunks -= withdrawn
        _count_rejects(context, file)
    staging.clear_versions("path", (file.inner for file in registry.rejected.values()))
    rejects.notes += _superseded(staging, registry)
    if (chosen := choose_encoder(context)) is not context:
        context, dimension = chosen, chosen.dimension
    model = context.model or (UPSTREAM if staging.holds_vectors() else None)
    report.embedding_model = model
    return replace(context, model=model, dimension=dimension if model else None)


def _count_rejects(context: Context, file: SourceFile) -> None:
    path, rejected = str(file.path), context.registry.rejected
    if context.rejects.by_file[path] and path not in rejected:
        context.report.types[file.type].rejected += 1
        rejected[path] = file


def _superseded(staging: Staging, registry: SourceRegistry) -> list[str]:
    documents = {
        record.doc_id: supersedes.Document(
            record.doc_id, record.doc_id, record.path, record.title, ()
        )
        for record in registry.stored.values()
    }
    texts = {}
    for chunk in staging.beginnings():
        documents[chunk.doc_id] = supersedes.Document(
            chunk.doc_id,
            chunk.doc_id,
            chunk.document_name or "",
            chunk.title,
            supersedes.declared(chunk.metadata),
        )
        if "supersedes" not in chunk.metadata:
            texts[chunk.doc_id] = chunk.text
    declarations, notes = supersedes.declare(texts, documents)
    for doc_id, verb, names in declarations:
        staging.declare(doc_id, verb, names)
        if verb == "supersedes":
            documents[doc_id] = documents[doc_id]._replace(supersedes=names)
    cycles = ", ".join(sorted(supersedes.links(documents.values()).in_cycles))
    return notes + [f"supersedes is ignored: {cycles} supersede each other"] * bool(cycles)


def choose_encoder(context: Context) -> Context:
    """Select the multilingual encoder for a new namespace with over 20 % non-English passages.

    Otherwise return `context`, with a warning if that encoder is missing.
    """
    finder, make = context.stores.languages, context.stores.multilingual
    if finder is None or make is None or context.dense is None or not context.is_new:
        return context
    every = -(-context.staging.count("chunk") // LANGUAGE_SAMPLE)
    chunks = chain.from_iterable(part for _, part in context.staging.documents_chunks(None))
    sample = islice(chunks, 0, None, every or None)
    languages = [language_of(finder, chunk.text) for chunk in sample]
    if sum(map(bool, languages)) <= OTHER_SHARE * len(languages):
        return context
    try:
        dense = make()
    except Misconfigured as missing:
        context.report.warnings.append(f"many passages are not English, and {missing}")
        return context
    return replace(context, dense=dense, model=dense.model, dimension=dense.dimension)


def removals(context: Context, folders: Sequence[Path], is_empty: bool) -> list[str]:
    """Return, sorted, the documents to remove: requested ones, with `sync` also deleted ones.

    `folders`: source folders. `is_empty`: they contain no files.
    """
    doc_ids = set(_requested(context))
    if context.options.sync:
        doc_ids.update(_deleted(context, folders, is_empty))
    return sorted(doc_ids)


def _requested(context: Context) -> Iterator[str]:
    options, stored = context.options, context.registry.stored
    for doc_id in sorted(options.remove):
        record = stored.get(doc_id)
        if record:
            is_visible = may_see(record.acl, options.groups)
        else:  # left by an unfinished load
            doc_uuids = context.stores.index_writer.doc_uuids
            is_visible = options.groups is None and bool(doc_uuids(context.namespace, doc_id))
        if is_visible:
            yield doc_id
        elif record or not options.again:
            context.rejects.add(doc_id, 0, UNKNOWN_DOCUMENT)


def _deleted(context: Context, folders: Sequence[Path], is_empty: bool) -> list[str]:
    options, registry, report = context.options, context.registry, context.report
    unlisted = context.rejects.unlisted.intersection(folders)
    for folder in sorted(unlisted):
        report.warnings.append(f"{folder} cannot be listed completely: nothing is removed")
    listed = [folder for folder in folders if folder not in unlisted]
    deleted = registry.deleted(listed, options.prefix, context.staging)
    is_much = is_empty or needs_consent(deleted, registry.of_roots(listed))
    if deleted and is_much and not options.agree(deleted):
        report.kept_back = deleted
        return []
    return deleted

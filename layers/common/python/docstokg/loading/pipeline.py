"""A load, repeatable after any interruption."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from ulid import ULID

from docstokg.contracts.records import IndexInfo
from docstokg.domain import supersedes
from docstokg.domain.graph.linking import Linker
from docstokg.domain.visibility import may_see
from docstokg.errors import Misconfigured, NotLoaded
from docstokg.loading.context import (
    READ_S,
    Context,
    LoadOptions,
    LoadReport,
    NullProgress,
    Progress,
    Readers,
    Stores,
    TypeCount,
)
from docstokg.loading.names.candidates import (
    Labels,
    labels_of,
    leaving_of,
    recogniser_of,
    stage_names,
)
from docstokg.loading.names.mentions import MentionFinder
from docstokg.loading.names.naming import Aliases, Entry, Names, changed_keys
from docstokg.loading.read.reading import Row, rows_of, stage
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.source_registry import SourceRegistry, many
from docstokg.loading.read.sources import SourceFile, find_files
from docstokg.loading.read.staging import Staging
from docstokg.loading.resolve.affected import Changes, stage_affected
from docstokg.loading.resolve.entity_resolver import EntityResolver, listed_names, resolver_of
from docstokg.loading.resolve.relinking import ChangedNames, relink
from docstokg.loading.write.chunk_writing import language_of, write_chunks
from docstokg.loading.write.edges import resolve_edges, write_edges
from docstokg.loading.write.removal import exclusive_load, remove_documents, remove_emptied
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
        context, before, registry = begin(options, stores, staging, rejects, timed, report)
        rows = _rows_twice(files, stores.readers, registry, rejects)
        context = read_files(context, rows, len(files), registry)
        if options.extract is not None:
            report.extraction = options.extract(context)
        gone = removals(options, context, registry)
        if options.sync:
            gone += _gone(paths, files, options, context, registry)
        if gone or not options.remove:
            everything = options.rebuild or bool(before.open_run(options.namespace))
            load_plan = plan(context, everything, gone)
            write_chunks(load_plan.resolver, load_plan.finder)
            for _ in finishing(context, load_plan, registry):
                pass
    report.rejected = rejects.count
    report.seconds = time.monotonic() - started
    return report


def delete_document(stores: Stores, namespace: str, doc_id: str) -> int:
    """Remove a document and data that only it supports; return its number of chunks (or 0).

    Raises `Timeout` during another load.
    """
    return load([], LoadOptions(namespace, remove=(doc_id,)), stores, RejectLog()).removed


class _Timed:
    def __init__(self, inner: Progress, seconds: dict[str, float]) -> None:
        self._inner, self._seconds = inner, seconds

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
        return index.info(READ_S, anew=True)
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
) -> tuple[Context, IndexInfo, SourceRegistry]:
    """Return a load's context, the index before it, and its register."""
    before = info_before(stores.search_index)
    registry = SourceRegistry(
        stores.register, options.namespace, options.replace_docs, report.run_id
    )
    model, dimension = before.space_of(options.namespace)
    own = encoder_of(stores.embedder, model)
    # A process that only removes may have another encoder.
    encodes = options.embed and not (options.remove and own is None)
    dense = own or stores.embedder if encodes else None
    sparse = stores.sparse_encoder if encodes else None
    if encodes and dense is None:
        report.warnings.append(NO_EMBEDDER)
    report.sparse_model = sparse.model if sparse else None
    context = Context(
        namespace=options.namespace,
        stores=stores,
        staging=staging,
        rejects=rejects,
        progress=progress,
        report=report,
        model=model if dense is None else dense.model,
        dimension=dimension if dense is None else dense.dimension,
        dense=dense,
        sparse=sparse,
        replace_docs=options.replace_docs,
        # The register lacks documents of an unfinished load.
        earlier=None
        if before.open_run(options.namespace) or (before.chunks and not registry.stored)
        else frozenset(registry.stored),
        generation=str(ULID()),
        is_new=options.namespace not in before.namespaces
        and not (before.is_one_space and before.embedding_model),
    )
    return context, before, registry


def read_files(
    context: Context,
    files: Iterable[tuple[SourceFile, Iterable[Row]]],
    total: int | None,
    registry: SourceRegistry,
) -> Context:
    """Stage the rows of all files; return the context with the load's vector space."""
    report, rejects, staging = context.report, context.rejects, context.staging
    dimension = context.dimension
    for type_, unread in rejects.unread.items():
        report.types[type_] = TypeCount(files=unread, rejected=unread)
    for type_, skipped in rejects.skipped.items():
        count = report.types.setdefault(type_, TypeCount())
        count.files, count.skipped = count.files + skipped, skipped
    with context.progress.stage("reading", total) as advance:
        for file, rows in files:
            count = report.types.setdefault(file.type, TypeCount())
            rejected, chunks = rejects.count, staging.count("chunk")
            dimension = stage(file, rows, staging, rejects, dimension, registry)
            if file in (registry.postponed or ()):
                continue
            count.files += 1
            count.rejected += rejects.count > rejected
            count.chunks += staging.count("chunk") - chunks
            advance(1)
    rejects.notes += _superseded(staging, registry)
    if (chosen := choose_encoder(context)) is not context:
        context, dimension = chosen, chosen.dimension
    model = context.model or (UPSTREAM if staging.holds_vectors() else None)
    report.embedding_model = model
    return replace(context, model=model, dimension=dimension if model else None)


def _superseded(staging: Staging, registry: SourceRegistry) -> list[str]:
    stored = {
        record.doc_id: supersedes.Document(
            record.doc_id, record.doc_id, record.path, record.title, ()
        )
        for record in registry.stored.values()
    }
    texts = {}
    for chunk in staging.beginnings():
        stored[chunk.doc_id] = supersedes.Document(
            chunk.doc_id,
            chunk.doc_id,
            chunk.document_name or "",
            chunk.title,
            supersedes.declared(chunk.metadata),
        )
        if "supersedes" not in chunk.metadata:
            texts[chunk.doc_id] = chunk.text
    declared, notes = supersedes.declare(texts, stored)
    for doc_id, verb, names in declared:
        staging.declare(doc_id, verb, names)
        if verb == "supersedes":
            stored[doc_id] = stored[doc_id]._replace(supersedes=names)
    cycles = ", ".join(sorted(supersedes.links(stored.values()).in_cycles))
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
    found = [language_of(finder, chunk.text) for chunk in islice(chunks, 0, None, every or None)]
    if sum(map(bool, found)) <= OTHER_SHARE * len(found):
        return context
    try:
        dense = make()
    except Misconfigured as missing:
        context.report.warnings.append(f"many passages are not English, and {missing}")
        return context
    return replace(context, dense=dense, model=dense.model, dimension=dense.dimension)


def _rows(
    files: Sequence[SourceFile], readers: Readers
) -> Iterator[tuple[SourceFile, Iterable[Row]]]:
    for documents, some in groupby(files, key=lambda file: file.kind == "document"):
        if documents and readers.several is not None:
            yield from readers.several(tuple(some))
        else:
            # JSON lines may exceed memory, so they are streamed.
            yield from ((file, rows_of(file, readers)) for file in some)


def _rows_twice(
    files: Sequence[SourceFile], readers: Readers, registry: SourceRegistry, rejects: RejectLog
) -> Iterator[tuple[SourceFile, Iterable[Row]]]:
    waiting = registry.postponed = []
    yield from _rows(files, readers)
    rejects.notes += registry.settle()
    yield from _rows(tuple(dict.fromkeys(waiting)), readers)


def _gone(
    sources: Sequence[Path],
    files: Sequence[SourceFile],
    options: LoadOptions,
    context: Context,
    registry: SourceRegistry,
) -> list[str]:
    rejected = {
        (registry.root(file.root), file.inner)
        for file in files
        if context.rejects.by_file[str(file.path)]
    }
    roots = [source for source in sources if source.is_dir()]
    for root in sorted(context.rejects.unlisted.intersection(roots)):
        context.report.warnings.append(f"{root} cannot be listed completely: nothing is removed")
        roots.remove(root)
    return gone_documents(roots, rejected, options, context, registry, empty=not files)


def removals(options: LoadOptions, context: Context, registry: SourceRegistry) -> list[str]:
    """Return, sorted, the documents to remove that are stored and visible to `groups`.

    The others become rejects, missing ones unless `again`.
    """
    gone, writer = [], context.stores.index_writer
    for doc_id in sorted(options.remove):
        record = registry.stored.get(doc_id)
        if record is not None:
            seen = may_see(record.acl, options.groups)
        else:  # left by an unfinished load
            seen = options.groups is None and bool(writer.doc_uuids(context.namespace, doc_id))
        if seen:
            gone.append(doc_id)
        elif record is not None or not options.again:
            context.rejects.add(doc_id, 1, UNKNOWN_DOCUMENT)
    return gone


def gone_documents(
    roots: Sequence[Path],
    rejected: set[tuple[str, str]],
    options: LoadOptions,
    context: Context,
    registry: SourceRegistry,
    empty: bool,
) -> list[str]:
    """Return the deleted documents of these folders; none if consent to many is refused.

    `rejected`: see `SourceRegistry.gone`. `empty`: the folders contain no files, which needs
    consent too.
    """
    gone = registry.gone(roots, options.prefix, context.staging, rejected)
    mine = registry.of_roots(roots)
    if gone and (empty or many(gone, mine)) and not options.agree(gone):
        context.report.kept_back = gone
        return []
    return gone


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """The names of a load, computed before it writes a chunk.

    `changed_keys`, `changed_heads`, `everything`: see `ChangedNames`. `gone`: ids of documents to
    remove.
    """

    resolver: EntityResolver
    finder: MentionFinder
    labels: Labels
    aliases: Sequence[Entry]
    changed_keys: Set[str]
    changed_heads: Set[str]
    everything: bool
    recogniser: str
    gone: Sequence[str]


def plan(context: Context, everything: bool, gone: Sequence[str]) -> LoadPlan:
    """Open the load, compute its names, and write lists, ontologies and changed entities.

    `everything`: compute the names and mentions of all stored chunks again. `gone`: documents to
    remove at the end.
    """
    stores, namespace = context.stores, context.namespace
    graph = stores.graph_writer
    stores.index_writer.open_load(
        context.report.run_id,
        context.model,
        context.dimension,
        context.report.sparse_model,
        namespace,
    )
    recogniser = context.report.names_by = recogniser_of(context)
    renamed = graph.recogniser(namespace) != recogniser
    everything = everything or renamed
    leaving = leaving_of(context, gone)
    before, labels = labels_of(context, leaving)
    if renamed:
        graph.note_recogniser(namespace, "")
    stage_names(context, labels)
    stored = tuple(graph.aliases(namespace))
    old_aliases, old_names = Aliases(stored), Names()
    old_names.add(old_aliases.of_curies())
    aliases, names = listed_names(context, stored)
    listed = old_names.changed(names) if context.staging.count("entity") else set()
    changes = Changes((before, labels), leaving, listed)
    every = {entry[1] for entry in stored} if everything else None
    affected = stage_affected(context, changes, every, must=renamed)
    resolver = resolver_of(context, aliases, names, affected)
    resolve_edges(context, names, frozenset(gone))
    resolver.write_listed()
    if not everything:
        resolver.write_changed(affected)
    unnamed = affected - resolver.entities.keys()
    entries = list(aliases.for_linking(names, labels, unnamed))
    return LoadPlan(
        resolver=resolver,
        finder=MentionFinder(Linker(entries), names, labels),
        labels=labels,
        aliases=entries,
        changed_keys=changed_keys(old_aliases.for_linking(old_names, before, set()), entries),
        changed_heads=listed | (before.common ^ labels.common),
        everything=everything,
        recogniser=recogniser,
        gone=gone,
    )


class Mark(NamedTuple):
    """Progress of the last steps: a step and its last finished item, "" for none."""

    step: str = "stale"
    after: str = ""


def finishing(
    context: Context, load_plan: LoadPlan, registry: SourceRegistry, begun: Mark | None = None
) -> Iterator[Mark]:
    """Remove documents, write edges, relink stored chunks, write the register, end the load.

    Yields a mark after each batch, from which another process can resume (`begun`). The load stays
    open until the last step.
    """
    steps = _steps(context, load_plan, registry)
    step, after = begun or Mark()
    names = list(steps)[list(steps).index(step) :]
    for name, following in zip_longest(names, names[1:]):
        for done in steps[name](after if name == step else "") or ():
            yield Mark(name, done)
        if following is not None:
            yield Mark(following)


def _steps(
    context: Context, load_plan: LoadPlan, registry: SourceRegistry
) -> dict[str, Callable[[str], Iterator[str] | None]]:
    stores, resolver = context.stores, load_plan.resolver

    def relinked(after: str) -> Iterator[str]:
        keys = Linker((key, "", True) for key in load_plan.changed_keys)
        changed = ChangedNames(keys, load_plan.changed_heads, load_plan.everything)
        return relink(resolver, load_plan.finder, changed, after)

    def closed(_: str) -> None:
        stores.graph_writer.note_recogniser(context.namespace, load_plan.recogniser)
        stores.graph_writer.close_load(context.namespace)

    return {
        "stale": lambda after: remove_emptied(context, after),
        "gone": lambda after: remove_documents(context, load_plan.gone, after),
        "edges": lambda after: write_edges(context, resolver, after),
        "earlier": relinked,
        "graph": closed,
        "register": lambda after: registry.write(context.staging, context.report.run_id, after),
        "index": lambda _: stores.index_writer.close_load(context.namespace),
    }

"""Writing of chunks and mentions."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import NamedTuple

from docstokg.contracts.records import ChunkRecord, DocumentChange
from docstokg.domain.identity import chunk_uuid
from docstokg.domain.text.sentences import sentence_spans
from docstokg.loading.context import CHUNK_BATCH, Context
from docstokg.loading.read.raw_input import Encoding, RawChunk
from docstokg.loading.read.records import (
    chunk_node,
    chunk_record,
    encoder_text,
    fingerprint,
    same_statements,
)
from docstokg.loading.resolve.load_plan import Linking
from docstokg.ports import Embedder, LanguageFinder, Parts, SparseEncoder

Records = list[tuple[ChunkRecord, str]]

# Number of batches that are encoded while one is written.
AHEAD = 2


class _Batch(NamedTuple):
    chunks: list[RawChunk]
    fresh: list[tuple[RawChunk, str]]
    changes: dict[str, DocumentChange]
    recorded: Mapping[str, Encoding] = {}


def write_chunks(linking: Linking, shard: str | None = None) -> None:
    """Encode and write new and changed chunks; write nodes and mentions of all.

    A document changes in one step; chunks that a whole or replaced one lost are removed. `shard`:
    only the documents that begin in it.
    """
    context = linking.context
    recorded = context.staging.encodings
    batches = (
        batch._replace(recorded=recorded(chunk.id for chunk, _ in batch.fresh))
        for batch in _batches(context, shard)
    )
    with (
        ThreadPoolExecutor(1) as pool,
        context.progress.stage("chunks", context.staging.count("chunk")) as advance,
    ):
        encode = partial(encoded, context)
        for batch, records in prefetched(pool, encode, batches, AHEAD + 1):
            advance(_write(linking, batch, records))


def prefetched[Key, Value](
    pool: Executor, fetch: Callable[[Key], Value], keys: Iterable[Key], limit: int
) -> Iterator[tuple[Key, Value]]:
    """Yield keys with fetched values in order, with up to `limit` fetches in flight."""
    waiting: deque[tuple[Key, Future[Value]]] = deque()
    for key in keys:
        waiting.append((key, pool.submit(fetch, key)))
        if len(waiting) >= limit:
            first, coming = waiting.popleft()
            yield first, coming.result()
    for first, coming in waiting:
        yield first, coming.result()


def _batches(context: Context, shard: str | None) -> Iterator[_Batch]:
    batch = _Batch([], [], {})
    for doc_id, parts in groupby(context.staging.documents_chunks(shard), key=lambda part: part[0]):
        stored = context.earlier is None or doc_id in context.earlier
        for chunks in [[c for _, part in parts for c in part]] if stored else (p for _, p in parts):
            _compare(context, doc_id if stored else None, chunks, batch)
            if len(batch.chunks) >= CHUNK_BATCH:
                yield batch
                batch = _Batch([], [], {})
    if batch.chunks:
        yield batch


def _compare(
    context: Context, doc_id: str | None, chunks: Sequence[RawChunk], batch: _Batch
) -> None:
    dense = context.model if context.dense and context.model else ""
    sparse = context.report.sparse_model or ""
    writer, namespace = context.stores.index_writer, context.namespace
    uuids = [chunk_uuid(namespace, chunk.id) for chunk in chunks]
    stored = writer.fingerprints(namespace, uuids)
    fresh: list[tuple[RawChunk, str]] = []
    outdated: list[str] = []
    for uuid, chunk in zip(uuids, chunks, strict=True):
        mark = fingerprint(chunk, dense, sparse)
        if stored.get(uuid) != mark:
            fresh.append((chunk, mark))
            if uuid in stored and not same_statements(stored[uuid], mark):
                outdated.append(uuid)
    batch.chunks.extend(chunks)
    batch.fresh.extend(fresh)
    if doc_id is None:
        return
    before = set(writer.doc_uuids(namespace, doc_id))
    whole = context.options.replace_docs or context.staging.is_whole(doc_id)
    removed_uuids = sorted(before.difference(uuids)) if whole else []
    if before and (fresh or removed_uuids):
        changed_uuids = {chunk_uuid(namespace, chunk.id) for chunk, _ in fresh}
        unchanged_uuids = sorted(before.difference(removed_uuids, changed_uuids))
        batch.changes[doc_id] = DocumentChange(
            namespace, doc_id, (), unchanged_uuids, outdated, removed_uuids, context.generation
        )


def _write(linking: Linking, batch: _Batch, records: Records) -> int:
    context = linking.context
    report, stores = context.report, context.stores
    if new := [row for row in records if row[0].doc_id not in batch.changes]:
        stores.index_writer.put(new)
    for doc_id, change in batch.changes.items():
        if outdated := [*change.outdated_uuids, *change.removed_uuids]:
            stores.graph_writer.delete(context.namespace, outdated, tidy=False)
        chunks = [row for row in records if row[0].doc_id == doc_id]
        report.removed += stores.index_writer.put_document(change._replace(chunks=chunks))
    nodes = [chunk_node(chunk, context.namespace) for chunk in batch.chunks]
    mentions = {
        node.uuid: linking.finder.mentions(chunk, node.uuid, context.staging.endpoints(node.uuid))
        for node, chunk in zip(nodes, batch.chunks, strict=True)
    }
    linking.resolver.write_named(row.entity for rows in mentions.values() for row in rows)
    stores.graph_writer.put_chunks(nodes)
    names = {node.uuid: context.staging.names_of(node.uuid) for node in nodes}
    stores.graph_writer.put_names(context.namespace, names)
    stores.graph_writer.put_mentions(context.namespace, mentions)
    report.mentions += sum(len(rows) for rows in mentions.values())
    report.chunks += len(batch.chunks)
    report.written += len(records)
    report.unchanged += len(batch.chunks) - len(records)
    return len(batch.chunks)


def encoded(context: Context, batch: _Batch) -> Records:
    """Return records of the `fresh` chunks; given or recorded vectors and weights are kept.

    Others are computed; without an encoder they stay empty, as do the weights of chunks that are
    not English.
    """
    finder, outputs = context.stores.languages, dict(batch.recorded)
    unrecorded = [chunk for chunk, _ in batch.fresh if chunk.id not in outputs]
    sentences = {c.id: tuple(sentence_spans(c.text)) for c, _ in batch.fresh}
    # Language detection reads title and headings, like the encoders.
    languages = {
        chunk.id: language_of(finder, encoder_text(chunk))
        for chunk, _ in batch.fresh
        if chunk.id not in outputs or outputs[chunk.id].language is None
    }
    encoded_now = encodings(
        context.dense,
        context.sparse,
        unrecorded,
        [sentences[chunk.id] for chunk in unrecorded],
        [languages[chunk.id] for chunk in unrecorded],
    )
    outputs.update(zip((chunk.id for chunk in unrecorded), encoded_now, strict=True))
    records: Records = []
    for chunk, mark in batch.fresh:
        encoding = outputs[chunk.id]
        language = languages.get(chunk.id, encoding.language or "")
        record = chunk_record(
            chunk,
            context.namespace,
            context.report.run_id,
            sentences=sentences[chunk.id],
            sparse=chunk.sparse or {} if language else encoding.weights,
            language=language,
            vector=encoding.vector,
            sentence_vectors=encoding.sentences,
        )
        records.append((record, mark))
    return records


def language_of(finder: LanguageFinder | None, text: str) -> str:
    """Return the language of a text, "" for English or without `finder`."""
    return "" if finder is None else finder.language(text)


def embedded(
    dense: Embedder,
    chunks: Sequence[RawChunk | ChunkRecord],
    sentences: Sequence[Sequence[tuple[int, int]]],
) -> Sequence[Parts]:
    """Return the vectors of each chunk (with title and headings) and its sentences."""
    texts = [encoder_text(chunk) for chunk in chunks]
    # Sentence offsets start after title and headings.
    before = [len(text) - len(chunk.text) for text, chunk in zip(texts, chunks, strict=True)]
    parts = [[(a + n, b + n) for a, b in spans] for n, spans in zip(before, sentences, strict=True)]
    return dense.embed_parts(texts, parts)


def encodings(
    dense: Embedder | None,
    sparse: SparseEncoder | None,
    chunks: Sequence[RawChunk],
    sentences: Sequence[Sequence[tuple[int, int]]],
    languages: Sequence[str],
) -> list[Encoding]:
    """Encode chunks with their sentences, except given vectors and weights.

    `languages`: "" for English; only English chunks get weights.
    """
    todo = [i for i, chunk in enumerate(chunks) if chunk.embedding is None]
    weighed = [i for i, c in enumerate(chunks) if c.sparse is None and not languages[i]]
    vectors: dict[int, Parts] = {}
    weights: dict[int, dict[str, float]] = {}
    with ThreadPoolExecutor(1) as second:
        weighing = None
        if sparse and weighed:
            texts = [encoder_text(chunks[i]) for i in weighed]
            weighing = second.submit(sparse.encode, texts, None)
        if dense and todo:
            spans = [sentences[i] for i in todo]
            vectors = dict(
                zip(todo, embedded(dense, [chunks[i] for i in todo], spans), strict=True)
            )
        if weighing is not None:
            weights = dict(zip(weighed, weighing.result(), strict=True))
    return [
        Encoding(*vectors.get(i, (chunk.embedding, b"")), weights.get(i, chunk.sparse or {}))
        for i, chunk in enumerate(chunks)
    ]

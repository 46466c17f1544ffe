"""Chunks go into the index with their vectors and into the graph with what they mention."""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import batched
from typing import NamedTuple

from docstokg.contracts.records import ChunkRecord
from docstokg.domain.identity import chunk_uuid
from docstokg.domain.sentences import Span, sentence_spans
from docstokg.loading.context import CHUNK_BATCH, Context
from docstokg.loading.entity_book import EntityBook
from docstokg.loading.given import GivenChunk
from docstokg.loading.mentions import MentionFinder
from docstokg.loading.records import (
    Encoding,
    chunk_node,
    chunk_record,
    encoder_text,
    fingerprint,
    same_statements,
)
from docstokg.loading.removal import remove
from docstokg.ports import Parts

Fresh = Sequence[tuple[GivenChunk, str]]
Records = list[tuple[ChunkRecord, str]]

AHEAD = 2
"""Batches that are encoded while one is written."""


class _Batch(NamedTuple):
    """Chunks, the new or changed ones with their fingerprints, uuids whose statements fall."""

    chunks: Sequence[GivenChunk]
    fresh: list[tuple[GivenChunk, str]]
    fallen: list[str]


def write_chunks(context: Context, book: EntityBook, finder: MentionFinder) -> None:
    """Write what is new or changed, encoded; the graph's side is written anew always.

    What a changed chunk invalidates goes before its new fingerprint is stored: the fingerprint is
    the commit mark an interrupted load is continued by.
    """
    with (
        context.progress.stage("chunks", context.staging.count("chunk")) as advance,
        ThreadPoolExecutor(1) as ahead,
    ):
        waiting: deque[tuple[_Batch, Future[Records]]] = deque()
        for chunks in batched(context.staging.chunks(), CHUNK_BATCH, strict=False):
            batch = _compared(context, chunks)
            waiting.append((batch, ahead.submit(encoded, context, batch.fresh)))
            if len(waiting) > AHEAD:
                advance(_write(context, book, finder, *waiting.popleft()))
        while waiting:
            advance(_write(context, book, finder, *waiting.popleft()))


def _compared(context: Context, chunks: Sequence[GivenChunk]) -> _Batch:
    """Find which chunks the store does not hold as they are now."""
    dense = context.model if context.dense is not None and context.model else ""
    sparse = context.sparse.model if context.sparse is not None else ""
    uuids = [chunk_uuid(context.namespace, chunk.id) for chunk in chunks]
    stored = context.stores.index_writer.known(context.namespace, uuids)
    batch = _Batch(chunks, [], [])
    for uuid, chunk in zip(uuids, chunks, strict=True):
        mark = fingerprint(chunk, dense, sparse)
        if stored.get(uuid) != mark:
            batch.fresh.append((chunk, mark))
            if uuid in stored and not same_statements(stored[uuid], mark):
                batch.fallen.append(uuid)
    return batch


def _write(
    context: Context,
    book: EntityBook,
    finder: MentionFinder,
    batch: _Batch,
    encoding: Future[Records],
) -> int:
    """Write one batch when it is encoded; count its chunks."""
    records, report = encoding.result(), context.report
    if batch.fallen:
        remove(context.stores, context.namespace, batch.fallen)
    if records:
        context.stores.index_writer.put(records)
    _write_nodes(context, book, finder, batch.chunks)
    report.chunks += len(batch.chunks)
    report.written += len(records)
    report.unchanged += len(batch.chunks) - len(records)
    return len(batch.chunks)


def encoded(context: Context, fresh: Fresh) -> Records:
    """Make records with vectors and weights; those that came with a chunk are kept."""
    texts = [encoder_text(chunk.title, chunk.text, chunk.headings) for chunk, _ in fresh]
    borders = [sentence_spans(chunk.text) for chunk, _ in fresh]
    with ThreadPoolExecutor(1) as beside:
        weighing = beside.submit(_weigh, context, fresh, texts)
        read = _read(context, fresh, texts, borders)
        weights = weighing.result()
    records = []
    for i, (chunk, mark) in enumerate(fresh):
        vector, packed = read.get(i, (chunk.embedding, b""))
        encoding = Encoding(borders[i], weights[i], vector, packed)
        run_id = context.report.run_id
        records.append((chunk_record(chunk, context.namespace, run_id, encoding), mark))
    return records


def _weigh(context: Context, fresh: Fresh, texts: Sequence[str]) -> dict[int, dict[str, float]]:
    """Give every chunk its sparse weights: its own, else encoded ones, else none."""
    weights = {i: chunk.sparse or {} for i, (chunk, _) in enumerate(fresh)}
    todo = [i for i, (chunk, _) in enumerate(fresh) if chunk.sparse is None]
    if context.sparse is not None and todo:
        maps = context.sparse.encode([texts[i] for i in todo], None)
        weights.update(zip(todo, maps, strict=True))
    return weights


def _read(
    context: Context, fresh: Fresh, texts: Sequence[str], borders: Sequence[Sequence[Span]]
) -> dict[int, Parts]:
    """Embed the chunks that came without a vector, and their sentences in the same reading."""
    todo = [i for i, (chunk, _) in enumerate(fresh) if chunk.embedding is None]
    if context.dense is None or not todo:
        return {}
    # The encoder's text begins with title and headings; sentences count in the chunk's own text.
    before = {i: len(texts[i]) - len(fresh[i][0].text) for i in todo}
    parts = [[(a + before[i], b + before[i]) for a, b in borders[i]] for i in todo]
    made = context.dense.embed_parts([texts[i] for i in todo], parts)
    return dict(zip(todo, made, strict=True))


def _write_nodes(
    context: Context, book: EntityBook, finder: MentionFinder, batch: Sequence[GivenChunk]
) -> None:
    nodes = [chunk_node(chunk, context.namespace) for chunk in batch]
    mentions = {
        node.uuid: finder.mentions(chunk, node.uuid, context.staging.endpoints(node.uuid))
        for node, chunk in zip(nodes, batch, strict=True)
    }
    book.write_named(row.entity for rows in mentions.values() for row in rows)
    context.stores.graph_writer.put_chunks(nodes)
    context.stores.graph_writer.put_mentions(context.namespace, mentions)
    context.report.mentions += sum(len(rows) for rows in mentions.values())

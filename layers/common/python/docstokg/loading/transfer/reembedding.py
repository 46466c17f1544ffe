"""Re-encoding without sources."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import batched

from docstokg.contracts.records import ChunkRecord, VectorRow
from docstokg.domain.deadline import Deadline
from docstokg.errors import LoadError
from docstokg.loading.context import CHUNK_BATCH, Progress, Stores
from docstokg.loading.read.records import possible_fingerprints
from docstokg.loading.write.chunk_writing import embedded
from docstokg.loading.write.removal import exclusive_load
from docstokg.ports import Embedder


def reembed(stores: Stores, namespace: str, dense: Embedder, progress: Progress) -> int:
    """Replace a namespace's vectors (chunks, entities) by those of `dense`; return its chunks.

    Raises `LoadError` if it is empty, or if a load did not finish.
    """
    with exclusive_load(stores.index_writer, namespace, progress):
        info = stores.search_index.info(Deadline.after(60.0), refresh=True)
        if info.open_run(namespace) or namespace not in info.namespaces:
            raise LoadError(f"namespace {namespace!r} is empty, or a load did not finish")
        before = info.model_of(namespace) or ""
        rows = partial(_rows, dense=dense, before=before, sparse=info.sparse_model or "")
        with progress.stage("vectors", None) as advance:
            count = 0
            for _ in rows(stores.index_writer.stored_chunks(namespace)):
                count += 1
                advance(1)
        every = rows(stores.index_writer.stored_chunks(namespace))
        stores.index_writer.replace_vectors(namespace, dense.model, dense.dimension, every)
        entities = [e for e in stores.graph_writer.stored_entities(namespace) if e.vector]
        for named in batched(entities, CHUNK_BATCH):
            vectors = dense.embed([entity.name for entity in named], None)
            stores.graph_writer.put_entities(
                [
                    entity.model_copy(update={"vector": vector})
                    for entity, vector in zip(named, vectors, strict=True)
                ]
            )
        stores.graph_writer.close_load(namespace)
        return count


def _rows(
    stored: Iterable[tuple[ChunkRecord, str]], dense: Embedder, before: str, sparse: str
) -> Iterator[VectorRow]:
    for batch in batched(stored, CHUNK_BATCH):
        chunks = [chunk for chunk, _ in batch]
        vectors = embedded(dense, chunks, [chunk.sentences for chunk in chunks])
        for (chunk, mark), (vector, packed) in zip(batch, vectors, strict=True):
            old, new = (
                possible_fingerprints(chunk, model, sparse) for model in (before, dense.model)
            )
            # The same variant for the new encoder.
            place = old.index(mark) % (len(old) // 2) if mark in old else 0
            yield VectorRow(chunk.uuid, new[place], vector, packed)

"""What leaves both stores: the graph first, so that a removal cut short can be done again."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from ulid import ULID

from docstokg.errors import Timeout
from docstokg.loading.context import Context, NullProgress, Progress, Stores
from docstokg.ports import IndexWriter

WAIT_S = 3600.0
"""How long a load or a removal waits for the one before it."""


def remove(stores: Stores, namespace: str, uuids: Sequence[str] | None) -> int:
    """Remove chunks with what only they state (None: the whole namespace); count the chunks.

    The index remembers which chunks there are, so it forgets last.
    """
    stores.graph_writer.delete(namespace, uuids)
    return stores.index_writer.delete(namespace, uuids)


def remove_emptied(context: Context, after: str = "") -> Iterator[str]:
    """Remove the chunks of documents that are stored and were read without any chunk.

    Each document is yielded when it is done, in order; `after`: the last one that was.
    """
    earlier = context.earlier
    documents = [
        doc_id
        for doc_id in context.staging.emptied()
        if doc_id > after and (earlier is None or doc_id in earlier)
    ]
    with context.progress.stage("emptied documents", len(documents)) as advance:
        for doc_id in documents:
            _remove_chunks(context, doc_id)
            advance(1)
            yield doc_id


def remove_documents(context: Context, doc_ids: Sequence[str], after: str = "") -> Iterator[str]:
    """Remove documents; the register has them until their chunks are removed.

    Each document is yielded when it is done, in order; `after`: the last one that was.
    """
    with context.progress.stage("gone documents", len(doc_ids)) as advance:
        for doc_id in sorted(doc_id for doc_id in doc_ids if doc_id > after):
            _remove_chunks(context, doc_id)
            context.stores.register.forget(context.namespace, [doc_id])
            context.report.gone += 1
            advance(1)
            yield doc_id


def _remove_chunks(context: Context, doc_id: str) -> None:
    if uuids := context.stores.index_writer.doc_uuids(context.namespace, doc_id):
        context.report.removed += remove(context.stores, context.namespace, uuids)


@contextmanager
def exclusive_load(writer: IndexWriter, progress: Progress) -> Iterator[None]:
    """Keep other loads and removals away; `Timeout` when the one under way does not end."""
    with ExitStack() as held:
        try:
            held.enter_context(writer.hold(0))
        except Timeout:
            with progress.stage("waiting for the load under way", None) as waited:
                held.enter_context(writer.hold(WAIT_S, waited))
        yield


def delete_namespace(stores: Stores, namespace: str) -> int:
    """Remove everything of a namespace; count the chunks."""
    with exclusive_load(stores.index_writer, NullProgress()):
        stores.index_writer.open_load(str(ULID()), None, None, None)
        count = remove(stores, namespace, None)
        stores.graph_writer.close_load()
        stores.index_writer.close_load()
        stores.register.forget(namespace, None)
    return count

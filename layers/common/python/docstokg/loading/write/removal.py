"""Removal from both stores."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from ulid import ULID

from docstokg.domain.identity import key_of
from docstokg.errors import Locked, Timeout
from docstokg.loading.context import WAIT_S, Context, NullProgress, Progress, Stores
from docstokg.loading.resolve.load_plan import Linking
from docstokg.ports import IndexWriter


def remove(stores: Stores, namespace: str, uuids: Sequence[str] | None) -> int:
    """Remove chunks (None: everything) and data only they support; return the number of chunks."""
    stores.graph_writer.delete(namespace, uuids)
    return stores.index_writer.delete(namespace, uuids)


def remove_emptied(linking: Linking, after: str) -> Iterator[str]:
    """Remove the stored chunks of documents that are now empty.

    Yields each finished document, in order; `after`: resume after it.
    """
    context = linking.context
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


def remove_documents(linking: Linking, after: str) -> Iterator[str]:
    """Remove the documents of the plan, sorted, each with its register record.

    Yields each finished document; `after`: resume after it.
    """
    context, removed = linking.context, linking.plan.removed
    with context.progress.stage("gone documents", len(removed)) as advance:
        for doc_id in sorted(doc_id for doc_id in removed if doc_id > after):
            _remove_chunks(context, doc_id)
            context.stores.register.forget(context.namespace, [doc_id])
            context.report.gone += 1
            advance(1)
            yield doc_id


def _remove_chunks(context: Context, doc_id: str) -> None:
    if uuids := context.stores.index_writer.doc_uuids(context.namespace, doc_id):
        context.report.removed += remove(context.stores, context.namespace, uuids)


@contextmanager
def exclusive_load(
    writer: IndexWriter, namespace: str, progress: Progress, wait_s: float = WAIT_S
) -> Iterator[None]:
    """Exclude other loads and removals of a namespace; raise `Timeout` after `wait_s`.

    With `wait_s` 0, raise `Locked` at once.
    """
    with ExitStack() as lease:
        try:
            lease.enter_context(writer.hold(0, namespace=namespace))
        except Timeout as busy:
            title = f"waiting for another load into {namespace}"
            if not wait_s:
                raise Locked(title) from busy
            with progress.stage(title, None) as waited:
                lease.enter_context(writer.hold(wait_s, waited, namespace=namespace))
        yield


def delete_namespace(stores: Stores, namespace: str) -> int:
    """Remove everything of a namespace; return the number of chunks.

    Raises `Timeout` if another load runs too long.
    """
    with exclusive_load(stores.index_writer, namespace, NullProgress()):
        stores.index_writer.open_load(str(ULID()), None, None, None, namespace)
        count = remove(stores, namespace, None)
        stores.graph_writer.close_load(namespace)
        stores.index_writer.close_load(namespace)
        stores.register.forget(namespace, None)
        space, doc_id = key_of(namespace)
        stores.register.forget(space, [doc_id])
    return count

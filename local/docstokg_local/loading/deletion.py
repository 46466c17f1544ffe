"""Documents and namespaces leave both stores, the graph first: a killed delete can be redone."""

from ulid import ULID

from docstokg_local.loading.pipeline import Stores


def delete_document(stores: Stores, namespace: str, doc_id: str) -> int:
    """Remove one document's chunks with what only they support; count the chunks."""
    uuids = stores.index_writer.doc_uuids(namespace, doc_id)
    return _delete(stores, namespace, uuids) if uuids else 0


def delete_namespace(stores: Stores, namespace: str) -> int:
    """Remove everything of a namespace; count the chunks."""
    return _delete(stores, namespace, None)


def _delete(stores: Stores, namespace: str, uuids: tuple[str, ...] | None) -> int:
    stores.index_writer.open_load(str(ULID()), None, None, None)
    stores.graph_writer.delete(namespace, uuids)
    count = stores.index_writer.delete(namespace, uuids)
    stores.graph_writer.close_load()
    stores.index_writer.close_load()
    return count

"""Remove one document from the stores, as if it had never been loaded."""

from docstokg.loading.context import LoadOptions, Stores
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog


def delete_document(stores: Stores, namespace: str, doc_id: str) -> int:
    """Remove a document's chunks with what only they support or name; return their number."""
    return load([], LoadOptions(namespace, remove=(doc_id,)), stores, RejectLog()).removed

"""One document leaves the stores, as if it had never been loaded: a load of nothing without it."""

from contextlib import closing

from ulid import ULID

from docstokg.loading.context import LoadOptions, LoadReport, NullProgress, Stores
from docstokg.loading.pipeline import begin, finish, info_before, plan
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.staging import Staging
from docstokg.loading.write.removal import exclusive_load
from docstokg.ports import encoder_of


def delete_document(stores: Stores, namespace: str, doc_id: str) -> int:
    """Remove a document's chunks with what only they support or name; count the chunks."""
    with exclusive_load(stores.index_writer, NullProgress()):
        if not stores.index_writer.doc_uuids(namespace, doc_id):
            stores.register.forget(namespace, [doc_id])
            return 0
        model = info_before(stores.search_index).model_of(namespace)
        encodes, report = encoder_of(stores.embedder, model) is not None, LoadReport(str(ULID()))
        with closing(Staging()) as staging:
            context, before, registry = begin(
                LoadOptions(namespace, embed=encodes),
                stores,
                staging,
                RejectLog(),
                NullProgress(),
                report,
            )
            load_plan = plan(context, before.unfinished_load, [doc_id])
            finish(context, load_plan, registry)
        return report.removed

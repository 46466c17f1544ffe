"""One document leaves the stores, as if it had never been loaded: a load of nothing without it."""

from contextlib import closing
from dataclasses import replace

from ulid import ULID

from docstokg.loading.context import LoadOptions, LoadReport, NullProgress, Stores
from docstokg.loading.names.candidates import RULE
from docstokg.loading.pipeline import begin, decide, finish, info_before
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.staging import Staging
from docstokg.loading.run.readings import RecordedNames
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
                _named_as_before(stores, namespace),
                staging,
                RejectLog(),
                NullProgress(),
                report,
            )
            decisions = decide(context, before.unfinished_load, [doc_id])
            finish(context, decisions, registry)
        return report.removed


def _named_as_before(stores: Stores, namespace: str) -> Stores:
    """Keep what found a namespace's names: with another one a removal would name all texts anew."""
    recogniser = stores.graph_writer.recogniser(namespace)
    if recogniser == RULE:
        return replace(stores, names=None)
    if recogniser is None:
        return stores
    return replace(stores, names=RecordedNames(recogniser, stores.names, {}))

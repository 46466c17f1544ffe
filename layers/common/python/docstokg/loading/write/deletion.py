"""One document leaves the stores, as if it had never been loaded: a load of nothing without it."""

from contextlib import closing
from dataclasses import replace

from ulid import ULID

from docstokg.loading.context import LoadOptions, LoadReport, Silent, Stores
from docstokg.loading.names.candidates import RULE
from docstokg.loading.pipeline import Beginning, context_of, decide, finish, info_before
from docstokg.loading.read.origins import Origins
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.staging import Staging
from docstokg.loading.run.readings import RecalledNames
from docstokg.loading.write.removal import alone


def delete_document(stores: Stores, namespace: str, doc_id: str) -> int:
    """Remove a document's chunks with what only they support or name; count the chunks."""
    with alone(stores.index_writer, Silent()):
        if not stores.index_writer.doc_uuids(namespace, doc_id):
            stores.register.forget(namespace, [doc_id])
            return 0
        before, report = info_before(stores.search_index), LoadReport(run_id=str(ULID()))
        origins = Origins(stores.register, namespace, False, report.run_id)
        dense = stores.embedder
        options = LoadOptions(
            namespace, embed=dense is not None and dense.model == before.embedding_model
        )
        with closing(Staging()) as staging:
            beginning = Beginning(before, origins, before.dimension)
            context = context_of(
                options, _named_as_before(stores, namespace), staging, RejectLog(), Silent(),
                report, beginning,
            )  # fmt: skip
            decisions = decide(context, before.unfinished_load, [doc_id])
            finish(context, decisions, origins)
        return report.removed


def _named_as_before(stores: Stores, namespace: str) -> Stores:
    """Keep what found a namespace's names: with another one a removal would name all texts anew."""
    recogniser = stores.graph_writer.recogniser(namespace)
    if recogniser == RULE:
        return replace(stores, names=None)
    if recogniser is None:
        return stores
    recalled = RecalledNames(recogniser, {})
    recalled.inner = stores.names
    return replace(stores, names=recalled)

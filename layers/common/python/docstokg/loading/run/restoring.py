"""Restore of a namespace from its bucket."""

import json
from collections.abc import Iterator, Sequence

from docstokg.contracts.ingest import IngestRun
from docstokg.contracts.records import RelationRecord
from docstokg.domain.identity import text_sha256
from docstokg.loading.context import NullProgress, Stores
from docstokg.loading.run.erasure import decisions_folder
from docstokg.loading.run.lease import CLOSED
from docstokg.loading.run.rows import every_object
from docstokg.loading.run.unchanged import forget_versions
from docstokg.loading.write.removal import exclusive_load
from docstokg.ports import DocumentRegister, ObjectStore, every_document

UPLOADS = "posted/"


def put_decisions(namespace: str, stores: Stores, decisions: Sequence[RelationRecord]) -> None:
    """Write decisions about equal names to the graph; raise `Timeout` during another load."""
    with exclusive_load(stores.index_writer, namespace, NullProgress()):
        stores.graph_writer.put_relations(decisions)
        stores.graph_writer.close_load(namespace)


def copy_decision(decision: RelationRecord, objects: ObjectStore) -> None:
    """Copy a decision about two names to the bucket, over an earlier one about them."""
    pair = json.dumps([decision.source, decision.target])
    name = text_sha256(pair)
    key = f"{decisions_folder(decision.namespace)}{name}.json"
    objects.put(key, decision.model_dump_json().encode())


def copied_decisions(namespace: str, objects: ObjectStore) -> list[RelationRecord]:
    """Return the decisions of a namespace in the bucket."""
    entries = every_object(objects, decisions_folder(namespace))
    return [RelationRecord.model_validate_json(objects.get(entry.key)) for entry in entries]


def restore_runs(namespace: str, run_id: str, objects: ObjectStore) -> Iterator[IngestRun]:
    """Yield the runs that load a namespace into empty stores again, to be run one by one.

    First the uploads that were accepted and not erased, in the order in which they were sent, then
    `sources/` as the run `run_id`. Each upload counts as not loaded when its run is yielded.
    """
    forget_versions(namespace, objects)
    uploads = sorted(
        every_object(objects, f"{UPLOADS}{namespace}/"),
        key=lambda entry: (entry.modified, entry.key),
    )
    for entry in uploads:
        job = entry.key.rpartition("/")[2].removesuffix(".json")
        objects.delete(f"runs/{job}/{CLOSED}")
        inbox = IngestRun(run_id=job, namespace=namespace).inbox
        yield IngestRun(run_id=job, namespace=namespace, prefix=inbox, replace=True)
    run = IngestRun(run_id=run_id, namespace=namespace)
    yield run.model_copy(update={"prefix": run.sources})


def unrestorable(namespace: str, register: DocumentRegister, objects: ObjectStore) -> int:
    """Return the number of stored documents that have no object for `restore_runs`."""
    paths = {
        entry.key.split("/", parts)[parts]
        for folder, parts in (("sources", 2), ("inbox", 3))
        for entry in every_object(objects, f"{folder}/{namespace}/")
    }
    return sum(record.path not in paths for record in every_document(register, namespace))

"""Restore of a namespace from its bucket."""

from collections.abc import Iterator

from docstokg.contracts.ingest import IngestRun
from docstokg.loading.run.lease import CLOSED
from docstokg.loading.run.rows import every_object
from docstokg.loading.run.unchanged import forget_versions
from docstokg.ports import ObjectStore

UPLOADS = "posted/"


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

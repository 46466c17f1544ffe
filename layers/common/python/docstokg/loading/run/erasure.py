"""Deletion of run objects."""

import time
from collections.abc import Collection, Sequence

from docstokg.contracts.ingest import IngestRun
from docstokg.loading.run.lease import CLOSED
from docstokg.loading.run.output_cache import ENCODINGS, forget_outputs
from docstokg.loading.run.rows import every_object
from docstokg.loading.run.unchanged import forget_versions
from docstokg.ports import ObjectStore

# Kinds of a run's own objects that contain texts.
WORKING = ("rows", "vectors", "models", "names", "resolved")
# Longer than any run, so older objects belong to none.
LONGEST_RUN_S = 2 * 86_400.0


def erase(
    run: IngestRun, objects: ObjectStore, removed: Collection[str], rejected: Collection[str]
) -> None:
    """Delete uploads of removed, rejected and replaced documents, and a run's own objects.

    Uploads of an unfinished run are kept.
    """
    inbox = f"inbox/{run.namespace}/"
    uploads = {entry.key.removeprefix(run.inbox) for entry in every_object(objects, run.inbox)}
    replaced = uploads - {*rejected} if run.posted else set()
    # Whether uploads of a job remain, and whether it ended.
    remaining: dict[str, bool] = {}
    closed: dict[str, bool] = {run.run_id: True}
    for entry in every_object(objects, inbox) if removed or uploads else ():
        job, _, doc_id = entry.key.removeprefix(inbox).partition("/")
        deletable = doc_id in (rejected if job == run.run_id else {*removed, *replaced})
        if deletable and job not in closed:
            closed[job] = _is_closed(job, objects, entry.modified)
        if deletable and closed[job]:
            remaining.setdefault(job, False)
            objects.delete(entry.key)
        else:
            remaining[job] = True
    for job in (job for job, has_uploads in remaining.items() if not has_uploads):
        objects.delete(f"posted/{run.namespace}/{job}.json")
    forget_outputs(objects, run.namespace, rejected if run.posted else ())
    for kind in WORKING:
        for entry in every_object(objects, run.key(kind)):
            objects.delete(entry.key)


def erase_outputs(namespace: str, sources: Sequence[str] | None, objects: ObjectStore) -> None:
    """Delete the model output of these sources (None: all), and the copied register."""
    if sources is None:
        for entry in every_object(objects, f"{ENCODINGS}{namespace}/"):
            objects.delete(entry.key)
    forget_outputs(objects, namespace, sources or ())
    forget_versions(namespace, objects)


def _is_closed(job: str, objects: ObjectStore, uploaded: float) -> bool:
    report = f"runs/{job}/{CLOSED}"
    is_old = time.time() - uploaded > LONGEST_RUN_S
    return is_old or any(entry.key == report for entry in objects.list(report))

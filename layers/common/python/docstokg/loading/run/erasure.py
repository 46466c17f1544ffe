"""Deletion of run objects."""

import time
from collections.abc import Collection

from docstokg.contracts.ingest import IngestRun
from docstokg.loading.run.lease import CLOSED
from docstokg.loading.run.rows import every_object
from docstokg.ports import ObjectStore

# Kinds of a run's own objects that contain texts.
WORKING = ("rows", "vectors", "models", "names", "resolved")
# Longer than any run, so older objects belong to none.
LONGEST_RUN_S = 2 * 86_400.0


def erase(
    run: IngestRun, objects: ObjectStore, gone: Collection[str], rejected: Collection[str]
) -> None:
    """Delete uploads of removed, rejected and replaced documents, and a run's own objects.

    Uploads of an unfinished run are kept.
    """
    inbox = f"inbox/{run.namespace}/"
    own = {entry.key.removeprefix(run.inbox) for entry in every_object(objects, run.inbox)}
    came = own - {*rejected} if run.posted else set()
    left: dict[str, bool] = {}
    ended: dict[str, bool] = {run.run_id: True}
    for entry in every_object(objects, inbox) if gone or own else ():
        job, _, doc_id = entry.key.removeprefix(inbox).partition("/")
        wanted = doc_id not in (rejected if job == run.run_id else {*gone, *came})
        if not wanted and job not in ended:
            report = f"runs/{job}/{CLOSED}"
            old = time.time() - entry.modified > LONGEST_RUN_S
            ended[job] = old or any(one.key == report for one in objects.list(report))
        if wanted or not ended[job]:
            left[job] = True
        else:
            left.setdefault(job, False)
            objects.delete(entry.key)
    for job in (job for job, some in left.items() if not some):
        objects.delete(f"posted/{run.namespace}/{job}.json")
    for kind in WORKING:
        for entry in every_object(objects, run.key(kind)):
            objects.delete(entry.key)

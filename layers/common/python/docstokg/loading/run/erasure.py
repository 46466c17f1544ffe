"""Deletion of run objects, and marks of erased documents."""

import json
import time
from collections.abc import Collection, Iterable
from contextlib import suppress

from docstokg.contracts.ingest import IngestRun
from docstokg.domain.identity import text_sha256
from docstokg.loading.run.lease import CLOSED
from docstokg.loading.run.output_cache import ENCODINGS, forget_outputs
from docstokg.loading.run.rows import every_object
from docstokg.loading.run.unchanged import REGISTER, forget_versions
from docstokg.ports import ObjectStore

# Kinds of a run's own objects that contain texts.
WORKING = ("rows", "vectors", "models", "names", "resolved")
# Longer than any run, so older objects belong to none.
LONGEST_RUN_S = 2 * 86_400.0

ERASED = "erased by a request; a changed object is loaded again"


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


def erasure_marks(
    namespace: str, objects: ObjectStore, doc_id: str, paths: Iterable[str]
) -> list[str]:
    """Return the marks of an erased document, one per object below `sources/` that may hold it.

    `paths`: where a load read it; an object named like the document counts too.
    """
    marks = []
    for path in {doc_id, *paths}:
        key = f"sources/{namespace}/{path}"
        with suppress(KeyError):  # a name that no object can have
            listed = objects.list(key)
            marks += [erasure_mark(path, e.etag, doc_id) for e in listed if e.key == key]
    return marks


def erasure_mark(path: str, etag: str, doc_id: str) -> str:
    """Return the SHA-256 of a document in this version of an object."""
    content = json.dumps([path, etag, doc_id])
    return text_sha256(content)


def put_marks(namespace: str, objects: ObjectStore, marks: Iterable[str]) -> None:
    """Store marks, so that no later load, not even a restore, reads these documents again."""
    for mark in marks:
        objects.put(f"{_marks(namespace)}{mark}", b"")


def stored_marks(namespace: str, objects: ObjectStore) -> frozenset[str]:
    """Return the marks of all documents of the namespace that were erased."""
    folder = _marks(namespace)
    return frozenset(entry.key.removeprefix(folder) for entry in every_object(objects, folder))


def _marks(namespace: str) -> str:
    return f"{REGISTER}{namespace}/erased/"


def erase_outputs(
    namespace: str, doc_id: str | None, paths: Collection[str], objects: ObjectStore
) -> None:
    """Delete the model output of a document read from `paths` (None: all), and the copied register.

    A document is also marked; without one the copied decisions go as well.
    """
    if doc_id is None:
        for folder in (f"{ENCODINGS}{namespace}/", decisions_folder(namespace)):
            for entry in every_object(objects, folder):
                objects.delete(entry.key)
    else:
        put_marks(namespace, objects, erasure_marks(namespace, objects, doc_id, paths))
        forget_outputs(objects, namespace, {doc_id, *paths})
    forget_versions(namespace, objects)


def decisions_folder(namespace: str) -> str:
    """Return the prefix of the copied decisions about names."""
    return f"{REGISTER}{namespace}/decisions/"


def _is_closed(job: str, objects: ObjectStore, uploaded: float) -> bool:
    report = f"runs/{job}/{CLOSED}"
    is_old = time.time() - uploaded > LONGEST_RUN_S
    return is_old or any(entry.key == report for entry in objects.list(report))

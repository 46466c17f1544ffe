"""Failure reasons of a run."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from docstokg.contracts.ingest import IngestRun, IngestTask
from docstokg.errors import Permanent
from docstokg.ports import ObjectStore

KIND = "refused"


@contextmanager
def reason_kept(task: IngestTask, objects: ObjectStore) -> Iterator[None]:
    """Store the reason of a `Permanent` failure for the report of the run; raise it again."""
    try:
        yield
    except Permanent as error:
        line = {"error": type(error).__name__, "reason": str(error)}
        objects.put(task.run.key(KIND, f"{task.stage}.json"), json.dumps(line).encode())
        raise


def refusal(run: IngestRun, objects: ObjectStore) -> str:
    """Return the reason stored last, or ""."""
    newest = max(objects.list(run.key(KIND)), key=lambda entry: entry.modified, default=None)
    if newest is None:
        return ""
    refused = json.loads(objects.get(newest.key))
    return f"{refused['error']}: {refused['reason']}"

"""The reason of a failed task, for the report: a Map says only that too many tasks failed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from docstokg.contracts.ingest import IngestRun, IngestTask
from docstokg.errors import Permanent
from docstokg.ports import ObjectStore

KIND = "refused"


@contextmanager
def reason_kept(task: IngestTask, objects: ObjectStore) -> Iterator[None]:
    """Store the reason of a failure that is not retried, for the report of the run."""
    try:
        yield
    except Permanent as error:
        line = {"error": type(error).__name__, "reason": str(error)}
        objects.put(task.run.key(KIND, f"{task.stage}.json"), json.dumps(line).encode())
        raise


def refusal(run: IngestRun, objects: ObjectStore) -> str:
    """Return the reason that was stored last, "" for none."""
    there = max(objects.list(run.key(KIND)), key=lambda entry: entry.modified, default=None)
    if there is None:
        return ""
    refused = json.loads(objects.get(there.key))
    return f"{refused['error']}: {refused['reason']}"

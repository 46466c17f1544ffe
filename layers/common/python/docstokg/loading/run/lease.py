"""Exclusive loads."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from docstokg.contracts.ingest import IngestRun
from docstokg.errors import LoadError, Locked, Timeout, Unavailable
from docstokg.loading.pipeline import info_before
from docstokg.loading.run.rows import every_object
from docstokg.ports import IndexWriter, ObjectStore, SearchIndex

# One per namespace.
LEASES = "runs/leases/"

# Seconds until a killed run's lease expires; tasks take half of it.
LEASE_S = 1800

# Seconds that a task waits for the store's lease, which expires in 30.
TAKE_S = 35.0

CLOSED = "report.json"


@contextmanager
def turn(
    run: IngestRun, objects: ObjectStore, writer: IndexWriter, max_loads: int | None = None
) -> Iterator[None]:
    """Exclude other loads of the namespace while a task writes; raise `Locked` if one is active.

    `max_loads`: maximum loads of all namespaces at once.
    """
    _refuse_others(run, objects, max_loads)
    with ExitStack() as lease:
        try:
            lease.enter_context(
                writer.hold(TAKE_S, run=run.run_id, keeps_lease=True, namespace=run.namespace)
            )
        except Timeout as busy:
            raise Locked(f"another load or removal holds namespace {run.namespace!r}") from busy
        _take(run, objects)
        yield


def end_turns(run: IngestRun, writer: IndexWriter) -> None:
    """Release the store's lease at the end of a run, if possible; otherwise it expires."""
    lease = writer.hold(0, run=run.run_id, namespace=run.namespace)
    with suppress(Timeout, Unavailable), lease:
        pass


def give_back(run: IngestRun, objects: ObjectStore) -> None:
    """Release the bucket's lease if this run holds it."""
    if _holder(run, objects)[0] == run.run_id:
        objects.delete(_lease(run))


def is_closed(run: IngestRun, objects: ObjectStore) -> bool:
    """Return whether the run has written its report, without a failure reason."""
    try:
        report = json.loads(objects.get(f"runs/{run.run_id}/{CLOSED}"))
    except KeyError:
        return False
    return not report.get("reason")


def check_turn(run: IngestRun, index: SearchIndex, closing: bool = False) -> None:
    """Raise `LoadError` if another load began, or (unless `closing`) this one ended."""
    open_run = info_before(index).open_run(run.namespace)
    if open_run != run.run_id and (open_run or not closing):
        raise LoadError(
            "another load started or ended after this run was resolved; start a new run"
            " with another run_id"
        )


def _refuse_others(run: IngestRun, objects: ObjectStore, max_loads: int | None = None) -> None:
    holder, until = _holder(run, objects)
    if holder not in ("", run.run_id) and until > time.time():
        raise Locked(f"run {holder} is still loading into namespace {run.namespace!r}")
    if max_loads is not None and holder != run.run_id:
        since = time.time() - LEASE_S
        others = (e for e in every_object(objects, LEASES) if e.key != _lease(run))
        if sum(entry.modified > since for entry in others) >= max_loads:
            raise Locked(
                f"{max_loads} loads are running; this one waits for the end of one of them"
            )


def _take(run: IngestRun, objects: ObjectStore) -> None:
    _refuse_others(run, objects)
    line = {"run_id": run.run_id, "until": time.time() + LEASE_S}
    objects.put(_lease(run), json.dumps(line).encode())


def _lease(run: IngestRun) -> str:
    return f"{LEASES}{run.namespace}.json"


def _holder(run: IngestRun, objects: ObjectStore) -> tuple[str, float]:
    try:
        line = json.loads(objects.get(_lease(run)))
    except KeyError:
        return "", 0.0
    return str(line["run_id"]), float(line["until"])

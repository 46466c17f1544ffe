"""The background process that loads what was sent, one job after another.

It belongs to the queue and not to the server: it goes on when the server is started again, and
when it is killed, the next one takes up its job.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import IO

from docstokg.adapters.sqlite.jobs import SqliteJobs
from docstokg.contracts.documents import Job, JobOrder
from docstokg.errors import DocsToKGError, Retryable, cause
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.server.jobs import lock_of
from docstokg_local.server.lease import Lease

NICENESS = 10
IDLE_S = 20.0
"""How long the process keeps its models for the next job."""

POLL_S = 0.2
TAKE_S = 2.0
MOST_ATTEMPTS = 3
RETRY_S = 5.0


def work(settings: Settings, keep_running: Callable[[], bool]) -> None:
    """Do jobs until none has come for IDLE_S, or until none is left and `keep_running` says no.

    Only one process of a queue works; another one leaves at once.
    """
    wiring = Wiring(settings, Telemetry(level=settings.log_level))
    queue = wiring.job_queue()
    assert isinstance(queue, SqliteJobs)
    lease = Lease(lock_of(queue.path))
    until = time.monotonic() + TAKE_S
    while not lease.held():
        if time.monotonic() > until:
            return
        time.sleep(POLL_S)
    try:
        idle_since = time.monotonic()
        while time.monotonic() - idle_since < IDLE_S:
            if (taken := queue.take()) is not None:
                _do(wiring, queue, *taken)
                idle_since = time.monotonic()
            elif not keep_running() or not queue.path.exists():
                return
            else:
                time.sleep(POLL_S)
    finally:
        wiring.close()
        lease.close()


def _do(wiring: Wiring, queue: SqliteJobs, order: JobOrder, attempts: int) -> None:
    """Do one job; one that its stores, or its own weight, failed three times has failed."""
    from docstokg.loading.run.posted import run_job
    from docstokg_local.loading.stores import stores_of

    if attempts >= MOST_ATTEMPTS:
        queue.finish(_failed(order, "the process that worked on it ended each time"))
        return
    try:
        done = run_job(order, stores_of(wiring), again=attempts > 0)
    except DocsToKGError as error:
        wiring.telemetry.log("ERROR", "job_failed", job_id=order.job_id, **cause(error))
        if isinstance(error, Retryable) and attempts + 1 < MOST_ATTEMPTS:
            queue.put_back(order.job_id)
            time.sleep(RETRY_S)
            return
        done = _failed(order, str(error))
    except Exception as crash:  # noqa: BLE001 - the next job is another
        # Of a crash the kind alone is told; the log has the rest.
        wiring.telemetry.log("ERROR", "job_crashed", job_id=order.job_id, error=repr(crash))
        done = _failed(order, f"it could not be done ({type(crash).__name__})")
    queue.finish(done)
    wiring.telemetry.log("INFO", "job", job_id=order.job_id, state=done.state, loaded=done.loaded)


def _failed(order: JobOrder, reason: str) -> Job:
    return Job(
        job_id=order.job_id,
        namespace=order.namespace,
        kind=order.kind,
        state="failed",
        reason=reason,
    )


def main(source: IO[bytes] | None = None) -> None:
    """Read the settings from standard input and work at low priority."""
    settings = Settings.model_validate_json((source or sys.stdin.buffer).read())
    os.nice(NICENESS)
    parent = os.getppid()
    work(settings, lambda: os.getppid() == parent)


if __name__ == "__main__":
    main()

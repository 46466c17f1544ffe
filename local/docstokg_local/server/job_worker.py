"""Background loader of posted documents, round-robin by namespace.

After a kill, the next one continues its job.
"""

import os
import resource
import sys
import time
from collections.abc import Callable

from docstokg.adapters.conversion.parent import ChildConverter
from docstokg.adapters.sqlite.jobs import SqliteJobs
from docstokg.contracts.documents import JobOrder
from docstokg.errors import DocsToKGError, Locked, Retryable, cause
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.server.jobs import lock_of
from docstokg_local.server.lease import Lease

NICENESS = 10
# Seconds that an idle process keeps its models.
IDLE_S = 20.0

# CPU seconds per converted document; `docstokg load` allows a minute.
CONVERSION_CPU_S = 8

# Scanned pages per document (10 s); `docstokg load` reads 500.
SCANNED_PAGES = 2

# Memory limit, so that a large job fails instead of the machine.
MEMORY_BYTES = 4 << 30

TURN_S = 2.0
# A turn shorter than TURN_S is followed by one with this many times its documents.
FASTER = 4

POLL_S = 0.2
TAKE_S = 2.0
MOST_ATTEMPTS = 3
RETRY_S = 5.0


def work(settings: Settings, keep_running: Callable[[], bool]) -> None:
    """Process jobs until IDLE_S without jobs, or none are left and `keep_running` is false.

    One process per queue works; another returns after TAKE_S. Errors end or repeat the job.
    """
    wiring = Wiring(settings, Telemetry(level=settings.log_level))
    wiring.override("converter", ChildConverter(CONVERSION_CPU_S, SCANNED_PAGES))
    queue = wiring.job_queue()
    assert isinstance(queue, SqliteJobs)
    lease = Lease(lock_of(queue.path))
    until = time.monotonic() + TAKE_S
    while not lease.acquire():
        if time.monotonic() > until:
            return
        time.sleep(POLL_S)
    counts: dict[str, int] = {}
    try:
        idle_since = time.monotonic()
        while time.monotonic() - idle_since < IDLE_S:
            if taken := queue.take():
                job_id = taken[0].job_id
                seconds = _turn(wiring, queue, *taken, counts.get(job_id, 1))
                counts = {job_id: counts.get(job_id, 1) * FASTER if seconds < TURN_S else 1}
                idle_since = time.monotonic()
            elif not keep_running() or not queue.path.exists():
                return
            else:
                time.sleep(POLL_S)
    finally:
        wiring.close()
        lease.close()


def _turn(wiring: Wiring, queue: SqliteJobs, order: JobOrder, attempts: int, count: int) -> float:
    from docstokg.loading.run.document_job import run_job
    from docstokg_local.loading.stores import stores_of

    if attempts >= MOST_ATTEMPTS:
        queue.finish(order.job("failed", reason="the process that worked on it ended each time"))
        return 0.0
    now = order.model_copy(update={"documents": order.documents[:count]})
    remaining = order.model_copy(update={"documents": order.documents[count:]})
    so_far = queue.get(order.job_id) or order.job("failed")
    began = time.monotonic()
    try:
        done = run_job(now, stores_of(wiring), again=attempts > 0)
    except Locked:
        queue.wait(order.job_id)
        time.sleep(POLL_S)
        return 0.0
    except DocsToKGError as error:
        wiring.telemetry.log("ERROR", "job_failed", job_id=order.job_id, **cause(error))
        if isinstance(error, Retryable) and attempts + 1 < MOST_ATTEMPTS:
            queue.put_back(order.job_id)
            time.sleep(RETRY_S)
            return 0.0
        done = order.job("failed", reason=str(error))
    except Exception as crash:  # noqa: BLE001 - the next job is another
        # The reply has only the crash's type, the log the rest.
        wiring.telemetry.log("ERROR", "job_crashed", job_id=order.job_id, error=repr(crash))
        done = order.job("failed", reason=f"it could not be done ({type(crash).__name__})")
    updates = {
        "loaded": so_far.loaded + done.loaded,
        "rejected": (*so_far.rejected, *done.rejected),
        "notes": (*so_far.notes, *done.notes),
    }
    done = done.model_copy(update=updates)
    if remaining.documents and done.state == "done":
        queue.go_on(done.model_copy(update={"state": "running"}), remaining)
    else:
        queue.finish(done)
        fields = {"state": done.state, "loaded": done.loaded}
        wiring.telemetry.log("INFO", "job", job_id=order.job_id, **fields)
    return time.monotonic() - began


def main() -> None:
    """Read the settings from standard input and work at low priority."""
    settings = Settings.model_validate_json(sys.stdin.buffer.read())
    os.nice(NICENESS)
    if sys.platform == "linux":  # elsewhere the limit differs or has no effect
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    parent = os.getppid()
    work(settings, lambda: os.getppid() == parent)


if __name__ == "__main__":
    main()

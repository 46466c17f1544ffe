"""Start of the background loader."""

import os
import subprocess
import sys
import threading
from pathlib import Path

from docstokg.adapters.sqlite.jobs import SqliteJobs
from docstokg.errors import DocsToKGError
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg_local.server.lease import Lease

LOOK_S = 1.0
LONGEST_LOG = 1 << 20
MODULE = "docstokg_local.server.job_worker"


class JobRunner:
    """Keeps a background process running while jobs wait."""

    def __init__(self, settings: Settings, queue: SqliteJobs, telemetry: Telemetry) -> None:
        self._settings, self._queue, self._telemetry = settings, queue, telemetry
        self._worker: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def wake(self) -> None:
        """Start the process if needed, and check until no job is left."""
        if not self._queue.path.exists():
            return
        with self._lock:
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._watch, name="jobs", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Start no more processes; a running one continues."""
        self._ended.set()
        worker = self._worker
        if worker and worker.poll() is None:
            # Detached on purpose; avoids a ResourceWarning.
            worker.returncode = 0

    def _watch(self) -> None:
        while not self._ended.is_set():
            try:
                with self._lock:
                    if not self._queue.unfinished():
                        self._thread = None
                        return
                self._ensure_process()
            except (DocsToKGError, OSError) as error:
                self._telemetry.log("WARNING", "jobs_wait", kind=type(error).__name__)
            self._ended.wait(LOOK_S)

    def _ensure_process(self) -> None:
        if self._worker and self._worker.poll() is None:
            return
        if not is_taken(lock_of(self._queue.path)):
            self._worker = start(self._settings, self._queue.path)


def start(settings: Settings, queue: Path) -> subprocess.Popen[bytes]:
    """Start the detached worker; its settings, with secrets, are sent through a pipe."""
    log = queue.with_name(f"{queue.name}.log")
    fresh = not log.exists() or log.stat().st_size > LONGEST_LOG
    with log.open("wb" if fresh else "ab") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
    assert worker.stdin is not None
    with worker.stdin as pipe:
        pipe.write(settings.model_dump_json().encode())
    return worker


def lock_of(queue: Path) -> Path:
    """Return the lock file of a queue's worker."""
    return queue.with_name(f"{queue.name}.lock")


def is_taken(lock: Path) -> bool:
    """Return whether a process works on the queue."""
    lease = Lease(lock)
    free = lease.acquire()
    lease.close()
    return not free

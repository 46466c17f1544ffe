"""SQLite jobs."""

import time

from docstokg.adapters.sqlite.file_store import FileStore
from docstokg.adapters.sqlite.session import insert
from docstokg.contracts.documents import CANCELLED, MAX_QUEUED, Job, JobOrder

# Seconds that a finished job is kept, without its input.
KEPT_S = 7 * 24 * 3600.0

_TABLES = """
CREATE TABLE IF NOT EXISTS job (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, namespace TEXT NOT NULL,
  state TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, changed REAL NOT NULL,
  outcome TEXT NOT NULL, todo TEXT);
CREATE INDEX IF NOT EXISTS job_state ON job (state, namespace);
"""


class SqliteJobs(FileStore):
    """A `JobQueue` with the worker's operations; created by the first job."""

    tables, busy_s = _TABLES, 5.0

    def add(self, order: JobOrder) -> bool:
        """Queue a job; return False if MAX_QUEUED jobs of its namespace are waiting.

        Raise `Unavailable` for a repeated id.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch(mode=0o600)  # it contains uploads
        with self._transaction() as db:
            db.execute(
                "DELETE FROM job WHERE state IN ('done', 'failed') AND changed < ?",
                (time.time() - KEPT_S,),
            )
            (waiting,) = db.execute(
                "SELECT count(*) FROM job WHERE state = 'queued' AND namespace = ?",
                (order.namespace,),
            ).fetchone()
            if waiting >= MAX_QUEUED:
                return False
            insert(
                db.execute,
                "job",
                id=order.job_id,
                namespace=order.namespace,
                state="queued",
                changed=time.time(),
                outcome=order.job("queued").model_dump_json(),
                todo=order.model_dump_json(),
            )
        return True

    def get(self, job_id: str) -> Job | None:
        """Return the state of a job, None if unknown; one that ended is kept a week."""
        rows = self._rows("SELECT outcome FROM job WHERE id = ?", (job_id,))
        return Job.model_validate_json(rows[0][0]) if rows else None

    def unfinished(self) -> dict[str, int]:
        """Return the number of queued and running jobs per namespace."""
        query = (
            "SELECT namespace, count(*) FROM job WHERE state IN ('queued', 'running') "
            "GROUP BY namespace"
        )
        return dict(self._rows(query))

    def take(self) -> tuple[JobOrder, int] | None:
        """Start or continue a job: the oldest of the namespace whose last turn is longest ago.

        Returns the job and its attempts since the last result; None without jobs.
        """
        if not self.path.exists():
            return None
        with self._transaction() as db:
            row = db.execute(
                "SELECT seq, todo, attempts FROM job AS own WHERE state IN ('queued', 'running') "
                "ORDER BY (SELECT max(changed) FROM job WHERE namespace = own.namespace "
                "AND state != 'queued'), seq LIMIT 1"
            ).fetchone()
            if row is None:
                return None
            db.execute(
                "UPDATE job SET state = 'running', attempts = attempts + 1, changed = ?, "
                "outcome = json_set(outcome, '$.state', 'running') WHERE seq = ?",
                (time.time(), row[0]),
            )
        return JobOrder.model_validate_json(row[1]), int(row[2])

    def put_back(self, job_id: str) -> None:
        """Queue a running job again; others are unchanged."""
        self._change(
            "UPDATE job SET state = 'queued', changed = ?, "
            "outcome = json_set(outcome, '$.state', 'queued') "
            "WHERE id = ? AND state = 'running'",
            (time.time(), job_id),
        )

    def wait(self, job_id: str) -> None:
        """Prefer other namespaces next; the running job's turn counts as no attempt."""
        self._change(
            "UPDATE job SET attempts = attempts - 1, changed = ? "
            "WHERE id = ? AND state = 'running'",
            (time.time(), job_id),
        )

    def go_on(self, job: Job, remaining: JobOrder) -> None:
        """Store a turn's result and the remaining work; a cancelled job is unchanged."""
        self._store(job, remaining.model_dump_json())

    def finish(self, job: Job) -> None:
        """Store a job's result and delete its input; a cancelled job is unchanged."""
        self._store(job, None)

    def cancel(self, job_id: str) -> None:
        """Mark an unfinished job as failed; its loaded documents stay, other jobs are unchanged."""
        self._change(
            "UPDATE job SET state = 'failed', changed = ?, todo = NULL, outcome = json_set("
            "outcome, '$.state', 'failed', '$.reason', ?) "
            "WHERE id = ? AND state IN ('queued', 'running')",
            (time.time(), CANCELLED, job_id),
        )

    def _store(self, job: Job, todo: str | None) -> None:
        self._change(
            "UPDATE job SET state = ?, changed = ?, outcome = ?, todo = ?, attempts = 0 "
            "WHERE id = ? AND state = 'running'",
            (job.state, time.time(), job.model_dump_json(), todo, job.job_id),
        )

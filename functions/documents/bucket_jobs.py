"""Jobs over S3 and Step Functions."""

import base64
import json
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from docstokg.contracts.documents import (
    MAX_QUEUED,
    Job,
    JobOrder,
    JobState,
    PostedDocument,
)
from docstokg.errors import WrongAnswer
from docstokg.ports import LoadRun, LoadRuns, ObjectStore

WRITERS = 8
# Leases by namespace; see docstokg.loading.run.lease, which this function cannot import.
LEASES = "runs/leases/"

# Limits of an upload that the state machine loads without maps.
FEW, SMALL_BYTES = 20, 1_000_000

STATED = {"title", "acl", "metadata", "media_type"}


@dataclass
class BucketJobs:
    """A `JobQueue` over a bucket and executions of the same names."""

    _store: ObjectStore
    _runs: LoadRuns
    _bucket: str

    def add(self, order: JobOrder) -> bool:
        """Store the documents and start the run.

        Return False, without either, if the namespace has MAX_QUEUED unfinished runs.
        """
        if self._full(order.namespace):
            return False
        if order.documents:
            self._write(order)
        remove = [order.doc_id] if order.kind == "delete" else []
        size = sum(len(_content(document)) for document in order.documents)
        arguments = {
            "run_id": order.job_id,
            "kind": order.kind,
            "namespace": order.namespace,
            "bucket": self._bucket,
            "prefix": _inbox(order),
            "sync": False,
            "max_removed": len(remove),
            "remove": remove,
            "replace": order.replace,
            "groups": order.caller.scope(order.namespace).groups,
            "small": len(order.documents) <= FEW and size <= SMALL_BYTES,
        }
        self._runs.start(order.job_id, arguments)
        return True

    def get(self, job_id: str) -> Job | None:
        """Return the state of a job, with its report if it has ended; None if unknown.

        Raise `WrongAnswer` for a broken report.
        """
        run = self._runs.find(job_id)
        if run is None or not run.arguments.get("namespace"):
            return None
        state: JobState = "running" if not run.finished else "failed" if run.failed else "done"
        return _job(job_id, run, state, self._report(job_id) if run.finished else {})

    def cancel(self, job_id: str) -> None:
        """Stop the run; release its lease if it has one."""
        self._runs.stop(job_id)
        run = self._runs.find(job_id)
        with suppress(KeyError, ValueError):
            lease = f"{LEASES}{run.arguments['namespace']}.json" if run else ""
            if lease and json.loads(self._store.get(lease))["run_id"] == job_id:
                self._store.delete(lease)

    def unfinished(self) -> Counter[str]:
        """Return the number of unfinished runs of each namespace, among at most 100."""
        with ThreadPoolExecutor(WRITERS) as readers:
            runs = list(readers.map(self._runs.find, self._runs.unfinished()))
        return Counter(run.arguments.get("namespace", "") for run in runs if run)

    def _full(self, namespace: str) -> bool:
        few = len(self._runs.unfinished()) < MAX_QUEUED
        return not few and self.unfinished()[namespace] >= MAX_QUEUED

    def _write(self, order: JobOrder) -> None:
        statements = {}
        for document in order.documents:
            fields = document.model_dump(mode="json", include=STATED)
            statements[document.doc_id] = {**fields, "text": document.text is not None}
        beside = f"posted/{order.namespace}/{order.job_id}.json"
        self._store.put(beside, json.dumps({"documents": statements}, ensure_ascii=False).encode())
        keys = [_inbox(order) + document.doc_id for document in order.documents]
        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(self._store.put, keys, map(_content, order.documents)))

    def _report(self, job_id: str) -> Mapping[str, Any]:
        try:
            return dict(json.loads(self._store.get(f"runs/{job_id}/report.json")))
        except KeyError:
            return {}
        except ValueError as broken:
            raise WrongAnswer(f"the report of {job_id} cannot be read") from broken


def _inbox(order: JobOrder) -> str:
    return f"inbox/{order.namespace}/{order.job_id}/"


def _content(document: PostedDocument) -> bytes:
    if document.text is not None:
        return document.text.encode()
    return base64.b64decode(document.content or "", validate=True)


def _job(job_id: str, run: LoadRun, state: JobState, report: Mapping[str, Any]) -> Job:
    # A run started manually for a whole folder has no kind.
    kind = "delete" if run.arguments.get("kind") == "delete" else "load"
    reason = str(report.get("reason", ""))
    if kept_back := report.get("kept_back_count"):
        state = "needs_agreement"
        reason = (
            f"{kept_back} deleted documents are kept, as they are many of their namespace; "
            f'to remove them: make index-job JOB="agree {job_id}"'
        )
    if state == "failed" and not reason:
        reason = "the run ended without a report; its history in Step Functions says where"
    return Job(
        job_id=job_id,
        namespace=run.arguments["namespace"],
        kind=kind,
        state=state,
        loaded=report.get("loaded", 0),
        removed=report.get("removed", 0),
        rejected=report.get("rejected", ()),
        notes=report.get("notes", ()),
        reason=reason,
    )

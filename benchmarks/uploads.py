"""Transitions, functions, processor time and bucket requests of an upload of one document.

`python -m benchmarks.uploads` runs the load machine on this machine with the real handlers and
models over embedded stores, and writes benchmarks/uploads.json for `benchmarks.cloud_costs`.
"""

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docstokg.contracts.documents import JobOrder, PostedDocument
from docstokg.contracts.envelope import Caller
from docstokg.ports import LoadRun, StoredObject
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_functions.documents.bucket_jobs import BucketJobs
from infra.specs import ROOT
from tests.ingest_runner import run_ingest, stage_functions

MEASURED = ROOT / "benchmarks" / "uploads.json"
DOCUMENT = ROOT / "docs" / "tutorial.md"
WARM = 5


class CountedBucket:
    """A bucket that counts its requests by kind."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.requests: Counter[str] = Counter()

    def list(self, prefix: str, after: str = "") -> Sequence[StoredObject]:
        """List objects."""
        self.requests["writes"] += 1  # S3 bills a list like a write
        objects: Sequence[StoredObject] = self._inner.list(prefix, after)
        return objects

    def get(self, key: str) -> bytes:
        """Read an object."""
        self.requests["reads"] += 1
        body: bytes = self._inner.get(key)
        return body

    def put(self, key: str, body: bytes) -> None:
        """Write an object."""
        self.requests["writes"] += 1
        self._inner.put(key, body)

    def delete(self, key: str) -> None:
        """Delete an object, which is free of charge."""
        self._inner.delete(key)


class Runs:
    """Runs of the machine that measure each function's processor time."""

    def __init__(self, wiring: Wiring, bucket: CountedBucket, small: bool) -> None:
        self._bucket, self._small = bucket, small
        self._functions = stage_functions(wiring)
        self.measured: dict[str, Any] = {}

    def start(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Run the machine to its end."""
        spent: Counter[str] = Counter()
        calls = 0

        def timed(stage: str, handler: Any) -> Any:
            def call(event: dict[str, Any], context: object) -> Any:
                nonlocal calls
                calls += 1
                begun = time.process_time()
                result = handler(event, context)
                spent[stage] += round((time.process_time() - begun) * 1000)
                return result

            return call

        functions = {key: timed(_stage(key), stage) for key, stage in self._functions.items()}
        before = self._bucket.requests.copy()
        execution = run_ingest(functions, self._bucket, {**arguments, "small": self._small})
        if execution.status != "SUCCEEDED":
            raise SystemExit(f"{execution.error}: {execution.cause}")
        self.measured = {
            "transitions": len(execution.states),
            "calls": calls,
            "cpu_ms": dict(spent),
            **(self._bucket.requests - before),
        }

    def stop(self, name: str) -> None:
        """Do nothing: a run has ended when `start` returns."""

    def find(self, name: str) -> LoadRun | None:
        """Return None: no state is read."""

    def unfinished(self) -> Mapping[str, float]:
        """Return no run."""
        return {}


def _stage(function: str) -> str:
    return f"ingest_{function.removeprefix('Ingest').removesuffix('Function').lower()}"


def measured(small: bool) -> dict[str, Any]:
    """Return the figures of a warm upload, with the least processor time of several."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/store.sqlite"
        stores = {"index_url": url, "graph_url": url, "ingest_url": f"file://{folder}/b"}
        wiring = Wiring(Settings(**stores, cache_dir=folder))
        if wiring.embedder() is None or wiring.names() is None:
            raise SystemExit("the local encoder and the name recogniser are required")
        bucket = CountedBucket(wiring.object_store())
        wiring.override("object_store", bucket)
        runs = Runs(wiring, bucket, small)
        jobs, measured_runs = BucketJobs(bucket, runs, "b"), []
        caller = Caller(sub="s", namespaces=("*",), groups=("*",), load=("*",))
        for number in range(1 + WARM):
            # Every passage differs, so that no vector is in the cache.
            text = DOCUMENT.read_text("utf-8").replace("\n\n", f" (edition {number})\n\n")
            document = PostedDocument(doc_id=f"{number}.md", text=text)
            order = JobOrder(
                job_id=f"job-{number}",
                kind="load",
                caller=caller,
                namespace="default",
                documents=(document,),
            )
            jobs.add(order)
            measured_runs.append(runs.measured)
        report = json.loads(bucket.get("runs/job-0/report.json"))
        wiring.close()
    warm = measured_runs[1:]
    lowest = {stage: min(upload["cpu_ms"][stage] for upload in warm) for stage in warm[0]["cpu_ms"]}
    return {**warm[0], "cpu_ms": lowest, "chunks": report["chunks"], "bytes": len(text.encode())}


def main() -> None:
    """Measure both paths and write the file."""
    figures = {"direct": measured(True), "maps": measured(False)}
    Path(MEASURED).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(MEASURED.read_text("utf-8"))


if __name__ == "__main__":
    main()

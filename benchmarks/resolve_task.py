"""Time, memory and disk of one `resolve` task of the load in AWS.

usage: python -m benchmarks.resolve_task [--chunks N] [--words N] [--changed] [--folder DIR]

Synthetic passages are put into a folder as bucket; the handlers of `read`, `encode` and `names`
prepare the run without encoders, names by rule. Then the handler of `resolve` runs in its own
process. `--changed` also writes that run into the embedded store, and resolves a second run that
replaces one document. Exits with 1 if a task needs more than its function has in AWS; time is
counted as processor time, because other processes may use this machine.
"""

import argparse
import importlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import batched
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.bench_one_change import EDITED, Row, passages
from docstokg.adapters.folder_objects import FolderObjects
from docstokg.loading.run.task_time import KEPT_S
from infra.specs import STAGES

RESOLVE = next(spec for spec in STAGES if spec.name == "ingest_resolve")
FILLER = ("and", "then", "the", "next", "of", "these", "letters", "was", "read", "by", "others")
FILE_CHUNKS = 20_000
SAMPLE_S = 0.2
NAMESPACE = "default"


def task(event: Mapping[str, Any]) -> dict[str, Any]:
    """Run a stage's handler in this process; return its answer, seconds, and peak MB."""
    stage = event["stage"]
    module = importlib.import_module(f"docstokg_functions.ingest.{stage}.handler")
    handler, begun, before = module.handler, time.monotonic(), time.process_time()
    answer = handler(event, None)  # without a deadline: other processes may use this machine
    used = time.process_time() - before
    # Unlike `ru_maxrss`, this does not include the parent before exec.
    status = Path("/proc/self/status").read_text()
    peak_kb = int(status.partition("VmHWM:")[2].split()[0])
    wall = time.monotonic() - begun
    return {"answer": answer, "wall": wall, "processor": used, "peak_mb": peak_kb / 1024}


class Bucket:
    """A folder as bucket, the store that is loaded from it, and a folder for temporary files."""

    def __init__(self, folder: Path) -> None:
        self.objects = FolderObjects(folder / "bucket")
        self._temporary = folder / "tmp"
        self._temporary.mkdir(exist_ok=True)
        store = f"sqlite:///{folder / 'store.sqlite'}"
        self._environment = os.environ | {
            "DOCSTOKG_CACHE_DIR": str(folder / "cache"),
            "DOCSTOKG_EMBED_PROVIDER": "none",
            "DOCSTOKG_GRAPH_URL": store,
            "DOCSTOKG_INDEX_URL": store,
            "DOCSTOKG_INGEST_URL": f"file://{folder / 'bucket'}",
            "DOCSTOKG_NAMES": "rule",
            "DOCSTOKG_SPARSE": "none",
            "TMPDIR": str(self._temporary),
            "SQLITE_TMPDIR": str(self._temporary),
        }

    def fill(self, prefix: str, rows: Iterable[Row]) -> None:
        """Write passages as JSON lines below a prefix."""
        for number, batch in enumerate(batched(rows, FILE_CHUNKS)):
            body = "".join(json.dumps(row) + "\n" for row in batch).encode()
            self.objects.put(f"{prefix}passages-{number:05}.jsonl", body)

    def run(self, stage: str, run: Mapping[str, Any]) -> dict[str, Any]:
        """Run a stage on all of a run in a new process; return the output of `task`."""
        event = json.dumps({"run": run, "stage": stage})
        command = [sys.executable, "-m", "benchmarks.resolve_task", "--task", event]
        disk = 0
        with subprocess.Popen(command, env=self._environment, stdout=subprocess.PIPE) as process:
            while process.poll() is None:
                disk = max(disk, self._disk(process.pid))
                time.sleep(SAMPLE_S)
            assert process.stdout is not None
            lines = process.stdout.read().decode().splitlines()
        if process.returncode:
            raise SystemExit(f"{stage} failed")
        took: dict[str, Any] = json.loads(lines[-1]) | {"tmp_mb": disk / 1e6}
        print(f"{stage}: {took}", file=sys.stderr, flush=True)
        return took

    def _disk(self, pid: int) -> int:
        # Includes deleted files, which SQLite keeps open.
        sizes: dict[int, int] = {}
        for entry in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                about, path = entry.stat(), str(entry.readlink())
            except OSError:  # closed or ended meanwhile
                continue
            if stat.S_ISREG(about.st_mode) and path.startswith(str(self._temporary)):
                sizes[about.st_ino] = about.st_blocks * 512
        return sum(sizes.values())


def padded(rows: Iterable[Row], words: int) -> Iterator[Row]:
    """Yield passages extended to a number of words, without further names."""
    for row in rows:
        have = row["text"].split()
        filler = (FILLER[number % len(FILLER)] for number in range(words - len(have)))
        yield row | {"text": " ".join((*have, *filler))}


class Figures(NamedTuple):
    """A resolve task: seconds, memory, temporary files and written object, in MB."""

    wall: float
    processor: float
    peak_mb: float
    tmp_mb: float
    object_mb: float

    def fit(self) -> bool:
        """Return whether the task stays in the limits of its function."""
        return (
            self.processor < RESOLVE.timeout_s - KEPT_S
            and self.peak_mb < RESOLVE.memory_mb
            and self.tmp_mb < RESOLVE.storage_mb
        )


def measured(bucket: Bucket, run: Mapping[str, Any]) -> Figures:
    """Prepare a run and resolve it."""
    for stage in ("read", "encode", "names"):
        bucket.run(stage, run)
    took = bucket.run("resolve", run)
    (plan,) = bucket.objects.list(f"runs/{run['run_id']}/resolved/")
    measures = (took[name] for name in ("wall", "processor", "peak_mb", "tmp_mb"))
    return Figures(*measures, plan.size / 1e6)


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=1_000_000)
    parser.add_argument("--words", type=int, default=60, help="words per passage, at least 12")
    parser.add_argument("--changed", action="store_true", help="also replace one document")
    parser.add_argument("--folder", type=Path, help="where the bucket and the store are made")
    parser.add_argument("--task", type=json.loads, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.task is not None:
        print(json.dumps(task(chosen.task)))
        return
    sources = f"sources/{NAMESPACE}/"
    with tempfile.TemporaryDirectory(dir=chosen.folder) as temporary:
        bucket = Bucket(Path(temporary))
        first = {"run_id": "first", "namespace": NAMESPACE, "prefix": sources}
        bucket.fill(sources, padded(passages(chosen.chunks, edited=False), chosen.words))
        figures_by_case = {f"{chosen.chunks:,} new chunks": measured(bucket, first)}
        if chosen.changed:
            for stage in ("write", "close"):
                bucket.run(stage, first)
            change = {**first, "run_id": "change", "prefix": f"{sources}change/", "replace": True}
            final = passages(chosen.chunks, edited=True)
            edited = (row for row in final if row["doc_id"] == f"d{EDITED}")
            bucket.fill(str(change["prefix"]), padded(edited, chosen.words))
            figures_by_case[f"one document among {chosen.chunks:,} chunks"] = measured(
                bucket, change
            )
    print("| case | wall s | CPU s | peak MB | disk MB | object MB |\n|---|---|---|---|---|---|")
    for label, figures in figures_by_case.items():
        print(f"| {label} | {' | '.join(f'{figure:,.0f}' for figure in figures)} |")
    if not all(figures.fit() for figures in figures_by_case.values()):
        raise SystemExit("a task exceeds the limits of its function")


if __name__ == "__main__":
    main()

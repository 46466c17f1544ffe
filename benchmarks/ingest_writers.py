"""How many writers OpenSearch and Neo4j take: the stage `write` of a load, in 1, 2 and 4 processes.

`python -m benchmarks.ingest_writers [--documents N]` writes `ingest_writers.md`. Everything
before `write` was done already; each writer is a process, as each function is. One more round
kills a writer at work and shuffles the shards. Every round ends in the digest of `docstokg load`
into an embedded store.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.pool import AsyncResult, Pool
from multiprocessing.synchronize import Semaphore
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.ingest import digest, settings_in, write_folder
from docstokg.errors import DocsToKGError, Locked
from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.settings import Settings
from docstokg.wiring import Handler, Wiring
from docstokg_local.cli.ingesting import copy_folder
from docstokg_local.cli.printing import say
from docstokg_local.engine.ingest_machine import stage_functions
from docstokg_local.loading.stores import stores_of
from docstokg_local.services.servers import Which
from tests.contract.real import remove_indices, wipe
from tests.services import alone, server

REPORT = Path(__file__).with_name("ingest_writers.md")
ROUNDS = ((1, False), (2, False), (4, False), (4, True))
Item = dict[str, Any]


class Written(NamedTuple):
    """What one task of `write` came to."""

    chunks: int
    deadlocks: int
    tries: int
    cpu_s: float


class Round(NamedTuple):
    """What one round came to."""

    writers: int
    killed: bool
    chunks: int
    seconds: float
    cpu_s: float
    deadlocks: int
    tries: int
    digest: str


_process: dict[str, Any] = {}


def start(settings: str, ready: Semaphore) -> None:
    """Begin a writer's process: its clients; the book it fetches with its first task."""
    wiring = Wiring(Settings.model_validate_json(settings))
    _process.update(handler=stage_functions(wiring)["IngestWriteFunction"], wiring=wiring)
    ready.release()


def write(event: Item) -> Written:
    """Run one task, again where the machine would run it again."""
    handler: Handler = _process["handler"]
    writer = _process["wiring"].graph_writer()
    before, begun, tries = getattr(writer, "deadlocks", 0), time.process_time(), 0
    while True:
        try:
            chunks = handler(event, None)["chunks"]
        except DocsToKGError as refused:
            tries += 1
            if tries > 6 and not isinstance(refused, Locked):
                raise
            time.sleep(1.0)
        else:
            deadlocks = getattr(writer, "deadlocks", 0) - before
            return Written(chunks, deadlocks, tries, time.process_time() - begun)


class Bench:
    """The servers, the bucket, and a run whose chunks are read, encoded and named."""

    def __init__(self, folder: Path, documents: int) -> None:
        self.folder = folder
        source = write_folder(folder / "in", documents)
        laptop = settings_in(folder / "laptop")
        wiring = Wiring(laptop)
        load([source], LoadOptions(), stores_of(wiring), RejectLog())
        wiring.close()
        self.wanted = digest(laptop)
        index, graph = server(Which.OPENSEARCH), server(Which.NEO4J)
        self.settings = laptop.model_copy(
            update={
                "index_url": index.url,
                "index_name": f"t{secrets.token_hex(6)}",
                "graph_url": graph.url,
                "graph_user": graph.user,
                "graph_password": graph.password,
            }
        )
        self.bucket = Path(str(self.settings.ingest_url).removeprefix("file://"))
        with self.stages() as (wiring, functions):
            objects = wiring.object_store()
            copy_folder(source, objects, "default")
            sources = [_item(entry) for entry in _all(objects, "sources/default/")]
            for begin in range(0, len(sources), 40):
                batch = sources[begin : begin + 40]
                functions["IngestReadFunction"](self.event("read", "base", batch), None)
            for item in (_item(entry) for entry in _all(objects, "runs/base/rows/")):
                for stage in ("encode", "names"):
                    name = f"Ingest{stage.title()}Function"
                    functions[name](self.event(stage, "base", [item]), None)

    @contextmanager
    def stages(self) -> Iterator[tuple[Wiring, dict[str, Handler]]]:
        """Give the functions in this process."""
        wiring = Wiring(self.settings)
        try:
            yield wiring, stage_functions(wiring)
        finally:
            wiring.close()

    def event(self, stage: str, run_id: str, items: list[Item]) -> Item:
        """Say what the machine tells a task."""
        run = {"run_id": run_id, "namespace": "default", "bucket": "local"}
        return {"run": {**run, "prefix": "sources/default/"}, "stage": stage, "items": items}

    def empty(self) -> None:
        """Remove what a round left in the servers."""
        remove_indices(str(self.settings.index_url), self.settings.index_name)
        wiring = Wiring(self.settings)
        wiring.graph_writer().close_load()
        wipe(wiring.graph_writer())  # type: ignore[arg-type]
        wiring.close()

    def round(self, writers: int, killed: bool) -> Round:
        """Write everything with so many writers; `killed`: one dies, shards are shuffled."""
        run_id = f"writers{writers}{'killed' if killed else ''}"
        self.empty()
        shutil.copytree(self.bucket / "runs" / "base", self.bucket / "runs" / run_id)
        with self.stages() as (wiring, functions):
            functions["IngestBookFunction"](self.event("book", run_id, []), None)
            shards = [_item(e) for e in _all(wiring.object_store(), f"runs/{run_id}/rows/")]
            if killed:
                random.Random(writers).shuffle(shards)
            events = [self.event("write", run_id, [shard]) for shard in shards]
            done, seconds = self._write(events, writers, killed)
            functions["IngestCloseFunction"](self.event("close", run_id, []), None)
        return Round(
            writers,
            killed,
            sum(one.chunks for one in done),
            seconds,
            sum(one.cpu_s for one in done),
            sum(one.deadlocks for one in done),
            sum(one.tries for one in done),
            digest(self.settings),
        )

    def _write(self, events: list[Item], writers: int, killed: bool) -> tuple[list[Written], float]:
        """Run every task; the seconds since all writers had begun."""
        if killed:  # one dies among the others; what they had begun is begun again
            with self._pool(writers) as pool:
                first = [pool.apply_async(write, (event,)) for event in events[: 2 * writers]]
                _wait_one(first)
                victim = multiprocessing.active_children()[0].pid
                assert victim is not None
                os.kill(victim, signal.SIGKILL)
        with self._pool(writers) as pool:
            begun = time.monotonic()
            done = list(pool.imap_unordered(write, events))
            return done, time.monotonic() - begun

    @contextmanager
    def _pool(self, writers: int) -> Iterator[Pool]:
        context = multiprocessing.get_context("spawn")
        ready = context.Semaphore(0)
        with context.Pool(writers, start, (self.settings.model_dump_json(), ready)) as pool:
            for _ in range(writers):
                ready.acquire()
            yield pool


def _wait_one(results: "list[AsyncResult[Written]]") -> None:
    until = time.monotonic() + 120
    while not any(result.ready() for result in results) and time.monotonic() < until:
        time.sleep(0.05)


def _all(objects: Any, prefix: str) -> Iterator[Any]:
    after = ""
    while page := objects.list(prefix, after):
        yield from page
        after = page[-1].key


def _item(entry: Any) -> Item:
    return {"Key": entry.key, "Size": entry.size, "ETag": entry.etag}


def measure(folder: Path, documents: int) -> str:
    """Measure every round; the report."""
    with alone(Which.NEO4J):
        bench = Bench(folder, documents)
        try:
            rounds = []
            for writers, killed in ROUNDS:
                rounds.append(bench.round(writers, killed))
                say(json.dumps(rounds[-1]._asdict()))
        finally:
            bench.empty()
            remove_indices(str(bench.settings.index_url), bench.settings.index_name)
    rows = "\n".join(
        f"| {r.writers}{', one killed, shuffled' if r.killed else ''} | {r.chunks:,} |"
        f" {r.seconds:.0f} | {r.chunks / r.seconds:.0f} | {r.cpu_s:.0f} | {r.deadlocks} |"
        f" {r.tries} | `{r.digest[:16]}` |"
        for r in rounds
    )
    same = "that of" if {r.digest for r in rounds} == {bench.wanted} else "NOT THAT OF"
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    return (
        "# Writers of one load beside each other\n\n"
        f"`python -m benchmarks.ingest_writers --documents {documents}`: OpenSearch and Neo4j on "
        f"this machine ({os.process_cpu_count()} cores, which the servers share with the writers), "
        "everything before `write` done. The documents name few places and parts, so all writers "
        "want the same nodes. Seconds since every writer's process had begun.\n\n"
        "| writers | chunks | seconds | chunks a second | writers' CPU s | deadlocks, tried again |"
        " tasks begun again | content digest |\n|---|---|---|---|---|---|---|---|\n"
        f"{rows}\n\nThe digest is {same} `docstokg load` into an embedded store. The largest "
        f"writer's peak memory was {peak:.0f} MB.\n"
    )


def main() -> None:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        REPORT.write_text(measure(Path(name), options.documents), "utf-8")


if __name__ == "__main__":
    main()

"""Server behaviour under increasing load, floods and broken stores, and in a soak test.

    python -m benchmarks.load bench STORE QUESTIONS.jsonl [--seconds 60] [--clients 1,8,32,128]
                              [--workers 1] [--faults] [--namespace N] [--out build/load]
    python -m benchmarks.load soak STORE QUESTIONS.jsonl --minutes 30 [--rate 0] ...

STORE is a SQLite file (a copy is used), or `real` for OpenSearch and Neo4j servers that are started
in a temporary folder and loaded from --load FOLDER. The server and the load generator
(`benchmarks.load_client`) are separate processes; the report has the processor time of both and of
the stores' servers. `--faults` breaks and repairs each store under 8 clients: deleted or
overwritten (a file); stopped, killed, slow, or with invalid responses (a server).

Written to --out: NAME.csv (every second), NAME.md (tables).
"""

import argparse
import asyncio
import contextlib
import csv
import json
import os
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks import load_client
from benchmarks.load_client import WHOLE
from benchmarks.load_stores import Real, real_stores

TICK_S = 1.0
LATE_S = 0.3
RECOVERY_S = 90.0
MB = 1 << 20
HERE = Path(__file__).resolve().parents[1]


@dataclass
class Stage:
    """One part of a run: the responses, and the server's resources each second."""

    name: str
    began_s: float
    rows: list[tuple[float, str, int, str, float]] = field(default_factory=list)
    ticks: list[tuple[float, int, int, int]] = field(default_factory=list)
    """(seconds since the run began, bytes resident, threads, descriptors) of all processes."""
    client_cpu_s: float = 0.0
    server_cpu_s: float = 0.0
    stores_cpu_s: float = 0.0
    wall_s: float = 0.0


class Server:
    """`docstokg serve` in its own process group, and its resource use."""

    def __init__(
        self,
        environment: dict[str, str],
        workers: int,
        python: Path = Path(sys.executable),
        tree: Path | None = None,
    ) -> None:
        """Start the server; `python` and `tree` may be of another commit without `--workers`."""
        self._cache = tempfile.TemporaryDirectory(prefix="docstokg-load-")
        self.port = free_port()
        variables = {"DOCSTOKG_CACHE_DIR": self._cache.name, "DOCSTOKG_LOG_LEVEL": "ERROR"}
        command = [
            str(python), "-m", "docstokg_local.cli.commands", "serve", "--port", str(self.port),
        ]  # fmt: skip
        command += ["--workers", str(workers)] if workers else []
        self._log = Path(self._cache.name) / "server.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **variables, **environment},
                stderr=log,
                stdout=log,
                cwd=tree,
            )
        ends = time.monotonic() + 120
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > ends:
                self.close()
                raise RuntimeError(f"the server does not start: {self._log.read_text('utf-8')}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        """Return whether the server accepts connections; old versions print that too early."""
        if "listening on" not in self._log.read_text("utf-8"):
            return False
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def pids(self) -> list[int]:
        """Return the ids of the process and its descendants."""
        return family(self._process.pid)

    def close(self) -> None:
        """End the server."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(40)
        self._process.kill()
        self._cache.cleanup()


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def family(pid: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    pids = [pid]
    for parent in pids:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                pids += map(int, (task / "children").read_text("ascii").split())
    return pids


def cpu_s(pids: Sequence[int]) -> float:
    """Return the total processor seconds, including ended children."""
    spent = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            parts = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
            spent += sum(map(int, parts[11:13]))
    return spent / os.sysconf("SC_CLK_TCK")


def memory_of(pids: Sequence[int]) -> tuple[int, int, int]:
    """Return the total resident bytes, threads and open descriptors."""
    resident = threads = descriptors = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
            resident += pages * os.sysconf("SC_PAGE_SIZE")
            threads += len(list(Path(f"/proc/{pid}/task").iterdir()))
            descriptors += len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return resident, threads, descriptors


class Bench:
    """Runs stages against one server and records the results."""

    def __init__(self, server: Server, options: argparse.Namespace, store_pids: list[int]) -> None:
        self._server, self._options, self._store_pids = server, options, store_pids
        self._began = time.monotonic()
        self.stages: list[Stage] = []

    def stage(
        self,
        name: str,
        seconds: float,
        *load: str,
        during: Callable[[], None] | None = None,
        beside: Sequence[str] | None = None,
    ) -> Stage:
        """Run the generator with `load`; `during` runs in a thread meanwhile.

        `beside`: options of a second generator, whose answers are counted.
        """
        stage = Stage(name, time.monotonic() - self._began)
        self.stages.append(stage)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "heard.csv"
            before = self._spent()
            started = time.monotonic()
            helper = threading.Thread(target=during) if during else None
            if helper:
                helper.start()
            runs = [self._client(out, seconds, *load)]
            if beside is not None:
                runs.append(self._client(Path(folder) / "beside.csv", seconds, *beside))
                out = Path(folder) / "beside.csv"
            while any(run.poll() is None for run in runs):
                self._tick(stage)
                time.sleep(TICK_S)
            if helper:
                helper.join()
            stage.wall_s = time.monotonic() - started
            after = self._spent()
            stage.server_cpu_s = after[0] - before[0]
            stage.stores_cpu_s = max(0.0, after[1] - before[1])  # not counted for a killed server
            for run in runs:
                stage.client_cpu_s += json.loads(run.communicate()[0].splitlines()[-1])["cpu_s"]
            with out.open(newline="", encoding="utf-8") as lines:
                stage.rows = [
                    (float(r["at_s"]), r["route"], int(r["status"]), r["outcome"], float(r["ms"]))
                    for r in csv.DictReader(lines)
                ]
        print(line_of(stage, self._options.timeout), flush=True)
        return stage

    def idle(self, name: str, seconds: float) -> Stage:
        """Send nothing for a while, then record the server's resources."""
        stage = Stage(name, time.monotonic() - self._began, wall_s=seconds)
        self.stages.append(stage)
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self._tick(stage)
            time.sleep(TICK_S)
        self._tick(stage)
        return stage

    def until_whole(self) -> float:
        """Ask once per second until answers are complete; return the seconds, at most 90."""
        began = time.monotonic()
        asking = load_client.arguments([str(self._server.port), str(self._options.questions)])
        asking.namespace, asking.timeout = self._options.namespace, self._options.timeout
        while time.monotonic() - began < RECOVERY_S:
            asking.seconds = 0.5
            generator = load_client.Generator(asking)
            asyncio.run(generator.run())
            if any(
                outcome.outcome == WHOLE for outcome in generator.heard if outcome.route != "health"
            ):
                break
            time.sleep(0.5)
        return time.monotonic() - began

    def _client(self, out: Path, seconds: float, *load: str) -> subprocess.Popen[str]:
        chosen = self._options
        command = [sys.executable, "-m", "benchmarks.load_client", str(self._server.port)]
        command += [str(chosen.questions), "--seconds", str(seconds), "--out", str(out)]
        command += ["--namespace", chosen.namespace, "--timeout", str(chosen.timeout), *load]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE)

    def _spent(self) -> tuple[float, float]:
        return cpu_s(self._server.pids()), cpu_s(self._store_pids)

    def _tick(self, stage: Stage) -> None:
        stage.ticks.append((time.monotonic() - self._began, *memory_of(self._server.pids())))


@contextmanager
def deleted(store: Path) -> Iterator[None]:
    """Remove the file and its journal files; restore them at the end."""
    apart = store.with_name("apart")
    apart.mkdir()
    beside = list(store.parent.glob(store.name + "*"))
    for path in beside:
        path.rename(apart / path.name)
    try:
        yield
    finally:
        for path in store.parent.glob(store.name + "*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path in beside:
            (apart / path.name).rename(path)
        apart.rmdir()


@contextmanager
def overwritten(store: Path) -> Iterator[None]:
    """Overwrite the file with invalid content."""
    with deleted(store):
        store.write_bytes(b"not a database" * 1000)
        yield


FILE_FAULTS: dict[str, Callable[[Path], AbstractContextManager[None]]] = {
    "store deleted": deleted,
    "store overwritten": overwritten,
}


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile of values, or 0 without values."""
    ordered = sorted(values)
    return ordered[int(share * (len(ordered) - 1))] if ordered else 0.0


def line_of(stage: Stage, timeout_s: float) -> str:
    """Return the table row of a stage."""
    questions = [row for row in stage.rows if row[1] != "health"]
    good = [row for row in questions if row[2] == 200]
    whole = sum(row[3] == WHOLE for row in good)
    refused = [row[4] for row in questions if row[3] == "overloaded"]
    times = [row[4] for row in good]
    late = sum(row[4] > (timeout_s + LATE_S) * 1000 for row in questions)
    health = [row[4] for row in stage.rows if row[1] == "health"]
    other = Counter(f"{row[2]} {row[3]}" for row in questions if row[2] != 200)
    lost = Counter(row[3] for row in good if row[3] != WHOLE)
    tick = stage.ticks[-1] if stage.ticks else (0.0, 0, 0, 0)
    per_s = len(good) / (stage.wall_s or 1)
    cells = [
        stage.name,
        f"{per_s:.1f}",
        f"{whole / len(good):.0%}" if good else "-",
        " / ".join(f"{quantile(times, share):.0f}" for share in (0.5, 0.95, 0.99)),
        f"{len(refused)}, {quantile(refused, 0.95):.0f}" if refused else "0",
        str(late),
        ", ".join(f"{count} x {name}" for name, count in (other + lost).most_common(4)) or "-",
        f"{quantile(health, 0.95):.0f}",
        f"{stage.server_cpu_s / len(questions) * 1000:.0f}" if questions else "-",
        f"{stage.stores_cpu_s / len(questions) * 1000:.0f}" if questions else "-",
        f"{stage.client_cpu_s / (stage.wall_s or 1):.0%}",
        f"{max((t[1] for t in stage.ticks), default=0) // MB}, {tick[1] // MB}",
        f"{tick[2]}, {tick[3]}",
    ]
    return f"| {' | '.join(cells)} |"


COLUMNS = (
    *("second", "stage", "answered", "whole", "refused"),
    *("p50_ms", "p95_ms", "rss_mb", "threads", "fds"),
)
HEAD = (
    "| stage | 200 a second | whole | p50 / p95 / p99 ms | refused, p95 ms | late | other outcomes "
    "| health p95 ms | server CPU ms a request | stores' CPU ms | generator, of a core "
    "| RSS MB, most, last | threads, fds at the end |\n" + "|---" * 13 + "|"
)


def report(bench: Bench, options: argparse.Namespace, title: str, note: str = "") -> None:
    """Write CSV and Markdown."""
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    name = options.name or title.split(",", maxsplit=1)[0].replace(" ", "-")
    with (out / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        rows.writerows(seconds_of(bench.stages))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    text = [
        f"# {title}",
        "",
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, load average at the end"
        f" {load}. Timeout {options.timeout:g} s, {options.workers} worker(s). `late`: later than"
        f" timeout + {LATE_S} s. `{' '.join(['python -m benchmarks.load', *sys.argv[1:]])}`",
        "",
        HEAD,
        *(line_of(stage, options.timeout) for stage in bench.stages),
        "",
        note,
    ]
    (out / f"{name}.md").write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")
    print(f"{out / name}.md, .csv")


def seconds_of(stages: Sequence[Stage]) -> Iterator[tuple[object, ...]]:
    """Return one row per second of every stage."""
    for stage in stages:
        for at, resident, threads, descriptors in stage.ticks:
            offset_s = at - stage.began_s
            heard = [
                row
                for row in stage.rows
                if row[1] != "health" and offset_s <= row[0] + row[4] / 1000 < offset_s + TICK_S
            ]
            good = [row for row in heard if row[2] == 200]
            times = [row[4] for row in good]
            yield (
                round(at),
                stage.name,
                len(good),
                sum(row[3] == WHOLE for row in good),
                sum(row[3] == "overloaded" for row in heard),
                round(quantile(times, 0.5)),
                round(quantile(times, 0.95)),
                resident // MB,
                threads,
                descriptors,
            )


def broken(
    bench: Bench, name: str, fault: Callable[[], AbstractContextManager[None]], seconds: float
) -> None:
    """Ask with 8 clients during a fault and after its repair."""
    with fault():
        bench.stage(f"{name}, 8 clients", seconds, "--clients", "8")
    took = bench.until_whole()
    bench.stage(f"mended, whole after {took:.0f} s", seconds, "--clients", "8")


def bench(options: argparse.Namespace, environment: dict[str, str], real: Real | None) -> None:
    """Run increasing numbers of clients, two floods, two callers, and the faults."""
    store_pids = real.pids() if real else []
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys.json"
        holder = {"namespaces": ["*"], "groups": ["*"]}
        keys.write_text(json.dumps({k: {"sub": k, **holder} for k in ("one", "two")}), "utf-8")
        secured = {"DOCSTOKG_AUTH": "keys", "DOCSTOKG_KEYS_FILE": str(keys)}
        server = Server({**environment, **secured}, options.workers)
        run = Bench(server, options, store_pids)
        counts = [int(count) for count in options.clients.split(",")]
        try:
            run.stage("warm up", min(10.0, options.seconds), "--key", "one")
            for count in counts:
                run.stage(
                    f"{count} clients", options.seconds, "--clients", str(count), "--key", "one"
                )
            run.idle("idle", options.idle)
            flood = str(counts[-1])
            run.stage("the same flood again", options.seconds, "--clients", flood, "--key", "one")
            run.idle("idle again", options.idle)
            flood_of_one = ("--clients", "64", "--key", "one")
            other = ("--rate", "2", "--key", "two")
            run.stage("2 a second beside 64", options.seconds, *flood_of_one, beside=other)
        finally:
            server.close()
        if options.faults:
            faulty = {**environment, **(real.through_proxies() if real else {})}
            server = Server(faulty, options.workers)
            run._server = server
            try:
                run.stage("whole, 8 clients", options.seconds, "--clients", "8")
                for name, fault in faults(options, real):
                    broken(run, name, fault, options.seconds)
                    run._store_pids = real.pids() if real else []
            finally:
                server.close()
    kind = "real servers" if real else "embedded"
    report(run, options, f"bench {kind}, clients {options.clients}", memory(run))


def memory(run: Bench) -> str:
    """Return the memory after each flood and after single questions, as text."""
    last = {stage.name: stage.ticks[-1] for stage in run.stages if stage.ticks}
    if not {"warm up", "idle", "idle again"} <= last.keys():
        return ""
    return (
        f"RSS after single questions {last['warm up'][1] // MB} MB, {last['idle'][1] // MB} after"
        f" the flood and an idle time, {last['idle again'][1] // MB} after the second one."
    )


def faults(
    options: argparse.Namespace, real: Real | None
) -> Iterator[tuple[str, Callable[[], AbstractContextManager[None]]]]:
    """Yield the faults with their names, in order."""
    if real is not None:
        yield from real.faults()
        return
    for name, fault in FILE_FAULTS.items():
        yield name, partial(fault, options.copy)


def soak(options: argparse.Namespace, environment: dict[str, str], real: Real | None) -> None:
    """Measure the capacity with 8 clients, then ask at half of that rate for --minutes."""
    server = Server(environment, options.workers)
    run = Bench(server, options, real.pids() if real else [])
    try:
        best = run.stage("8 clients, capacity", min(30.0, options.minutes * 60), "--clients", "8")
        good = sum(row[2] == 200 and row[1] != "health" for row in best.rows)
        rate = options.rate or max(0.5, good / best.wall_s / 2)
        stage = run.stage(f"{rate:.1f} a second", options.minutes * 60, "--rate", f"{rate:.2f}")
    finally:
        server.close()
    after = [t for t in stage.ticks if t[0] - stage.began_s >= min(300, options.minutes * 30)]
    slope = 0.0
    if len(after) > 2:
        slope = statistics.linear_regression(
            [tick[0] / 60 for tick in after], [tick[1] / MB for tick in after]
        ).slope
    errors = sum(row[2] != 200 for row in stage.rows)
    note = (
        f"{len(stage.rows)} requests, {errors} errors; RSS slope {slope:+.2f} MB a minute after"
        f" minute {min(5.0, options.minutes / 2):g}."
    )
    print(note)
    report(
        run,
        options,
        f"soak {'real servers' if real else 'embedded'}, {options.minutes:g} min",
        note,
    )


@contextmanager
def stores(options: argparse.Namespace) -> Iterator[tuple[dict[str, str], Real | None]]:
    """Return the server's environment for a copy of the store, or for new store servers."""
    if options.store == "real":
        with real_stores(options.load, options.namespace) as real:
            yield real.environment(), real
        return
    with tempfile.TemporaryDirectory(prefix="docstokg-load-") as folder:
        source = Path(options.store)
        options.copy = Path(folder) / "store.sqlite"
        with (
            contextlib.closing(sqlite3.connect(source)) as opened,
            contextlib.closing(sqlite3.connect(options.copy)) as target,
        ):
            opened.backup(target)
        shutil.copytree(f"{source}.d", f"{options.copy}.d")
        url = f"sqlite:///{options.copy}"
        yield {"DOCSTOKG_INDEX_URL": url, "DOCSTOKG_GRAPH_URL": url}, None


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description="Measure the server under load.")
    parser.add_argument("what", choices=("bench", "soak"))
    parser.add_argument("store", help="a SQLite file, or `real`")
    parser.add_argument("questions", type=Path)
    parser.add_argument("--load", type=Path, help="folder loaded into real servers")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--idle", type=float, default=30.0)
    parser.add_argument("--clients", default="1,8,32,128")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=3.0)
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--out", type=Path, default=HERE / "build" / "load")
    parser.add_argument("--name", default="", help="name of the written files")
    options = parser.parse_args()
    options.questions = options.questions.resolve()
    with stores(options) as (environment, real):
        (bench if options.what == "bench" else soak)(options, environment, real)


if __name__ == "__main__":
    main()

"""How many questions a second eight clients are answered, beside an earlier commit: in turns.

    python -m benchmarks.throughput BASE FOLDER [--real] [--rounds 3] [--seconds 20] [--clients 8]
                                    [--workers 2] [--namespace N] [--kept FOLDER]
                                    [--out docs/load/throughput.md]

FOLDER holds passages and questions.jsonl. BASE is checked out under build/ with an environment from
its own lock, and loads FOLDER through its own command line into stores of its own: files, or with
--real a pair of servers each. Then in turn each serves, is asked for a few seconds unmeasured, and
for --seconds by the load generator (`benchmarks.load_client`: half search, half answers by the
extractive model, timeout 3 s). BASE has one process, as it always had; this commit has --workers.
Beside the rate: which answers were whole, and processor time a request of the server's processes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks.bench_load_rate import ROOT, checked_out
from benchmarks.load import Bench, Server
from benchmarks.load_client import WHOLE
from benchmarks.load_stores import real_stores

WARM_UP_S = 6.0


class Side(NamedTuple):
    """One of the two commits: its folder, how many processes it serves with, its stores."""

    name: str
    tree: Path
    workers: int
    environment: dict[str, str]


class Turn(NamedTuple):
    """What one turn gave."""

    per_s: float
    whole: float
    p50_ms: float
    cpu_ms: float


def side(
    name: str, tree: Path, workers: int, options: argparse.Namespace, stack: ExitStack
) -> Side:
    """Give a commit its stores and load the folder into them."""
    if options.real:
        stores = stack.enter_context(real_stores(None, options.namespace)).environment()
    else:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="docstokg-turns-"))
        folder = (options.kept or Path(temporary)).resolve() / ("this" if tree == ROOT else "base")
        url = f"sqlite:///{folder}/store.sqlite"
        stores = {"DOCSTOKG_INDEX_URL": url, "DOCSTOKG_GRAPH_URL": url}
        if (folder / "loaded").exists():
            return Side(name, tree, workers, stores)
        folder.mkdir(parents=True, exist_ok=True)
    command = [str(python(tree)), "-m", "docstokg_local.cli.commands", "load", str(options.folder)]
    command += ["--namespace", options.namespace]
    subprocess.run(command, check=True, cwd=tree, env=os.environ | stores, stdout=sys.stderr)
    if not options.real:
        (folder / "loaded").touch()
    return Side(name, tree, workers, stores)


def python(tree: Path) -> Path:
    """Give the interpreter of a checkout."""
    return Path(sys.executable) if tree == ROOT else tree / ".venv" / "bin" / "python"


@contextmanager
def served(one: Side) -> Iterator[Server]:
    """Serve a side's stores."""
    server = Server(one.environment, one.workers, python(one.tree), one.tree)
    try:
        yield server
    finally:
        server.close()


def turn(one: Side, options: argparse.Namespace) -> Turn:
    """Serve, warm up, ask."""
    clients = ("--clients", str(options.clients))
    with served(one) as server:
        run = Bench(server, options, [])
        run.stage(f"{one.name}, warm up", WARM_UP_S, *clients)
        stage = run.stage(one.name, options.seconds, *clients)
    asked = [row for row in stage.rows if row[1] != "health"]
    good = [row for row in asked if row[2] == 200]
    return Turn(
        len(good) / stage.wall_s,
        sum(row[3] == WHOLE for row in good) / max(1, len(good)),
        statistics.median([row[4] for row in good] or [0.0]),
        stage.server_cpu_s / max(1, len(asked)) * 1000,
    )


def page(turns: dict[str, list[Turn]], options: argparse.Namespace) -> str:
    """Write the table."""
    kind = "OpenSearch and Neo4j" if options.real else "embedded"
    lines = [
        f"# Answers a second, {options.clients} clients, {kind}",
        "",
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, load average at the end"
        f" {os.getloadavg()[0]:.1f}. `python -m benchmarks.throughput {' '.join(sys.argv[1:])}`",
        "",
        "| commit | 200 a second, each turn | median | whole | p50 ms | CPU ms a request |",
        "|---|---|---|---|---|---|",
    ]
    middle = {name: statistics.median(one.per_s for one in own) for name, own in turns.items()}
    for name, own in turns.items():
        rates = ", ".join(f"{one.per_s:.1f}" for one in own)
        rest = [
            f"{statistics.median(one.whole for one in own):.0%}",
            f"{statistics.median(one.p50_ms for one in own):.0f}",
            f"{statistics.median(one.cpu_ms for one in own):.0f}",
        ]
        lines.append(f"| {name} | {rates} | {middle[name]:.1f} | {' | '.join(rest)} |")
    old, new = middle.values()
    return "\n".join([*lines, "", f"{new / max(old, 0.01):.1f} times the earlier commit."]) + "\n"


def main() -> None:
    """Take turns and write the page."""
    parser = argparse.ArgumentParser(description="Answers a second, beside an earlier commit.")
    parser.add_argument("base")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=3.0)
    parser.add_argument("--namespace", default="turns")
    parser.add_argument("--kept", type=Path, help="folder whose embedded stores are used again")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    options.questions = options.folder / "questions.jsonl"
    turns: dict[str, list[Turn]] = {}
    with ExitStack() as stack:
        old = side(options.base, checked_out(options.base), 0, options, stack)
        new = side(f"this, {options.workers} workers", ROOT, options.workers, options, stack)
        for _ in range(options.rounds):
            for one in (old, new):
                turns.setdefault(one.name, []).append(turn(one, options))
        text = page(turns, options)
    print(text)
    print(json.dumps({name: [one._asdict() for one in own] for name, own in turns.items()}))
    if options.out:
        options.out.write_text(text, "utf-8")


if __name__ == "__main__":
    main()

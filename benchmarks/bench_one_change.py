"""Time of loading one changed document into a large namespace, and its digest after kills.

usage: python -m benchmarks.bench_one_change [--chunks N] [--kills N] [--seed N] [--graph neo4j]
                                             [--base COMMIT] [--report FILE]

Synthetic passages are loaded without encoders into a new store; DOCSTOKG_NAMES=rule finds their
names. Then one document of five passages is replaced. A copy of the store gets the same load,
killed (SIGKILL) at random points and started again each time. The digest of the store has to be
that of one load of the final passages into an empty store.

The index is embedded, like the graph unless `--graph neo4j`, which starts a server per store.
`--base` loads and changes the same passages with an earlier commit, without kills.
"""

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.bench_load_rate import ROOT, checked_out
from tests.jvm import servers
from tests.jvm.servers import Engine

EACH = 5
"""Passages per document."""

SYLLABLES = ("ba", "de", "fi", "go", "hu", "ka", "le", "mi", "no", "ru", "sa", "te", "vi", "zo")
PATTERNS = (
    "In the north {0} says that {1} has joined {2}.",
    "It was {1} who asked {0} about the {2} Register, again.",
    "Nobody in {2} knew {1}; a letter of {0} was lost.",
)
EDITED = 7
"""Number of the document that is changed."""

Row = dict[str, str]


def name(number: int) -> str:
    """Return a distinct capitalised name of two words."""
    words = []
    for part in divmod(number, 14**3):
        letters = "".join(SYLLABLES[part // 14**place % 14] for place in range(3))
        words.append(letters.capitalize())
    return " ".join(words)


def passages(count: int, edited: bool) -> Iterator[Row]:
    """Yield passages; a name occurs in one, in five or in hundreds of them."""
    for number in range(count):
        document = number // EACH
        version = number + 1_000_000 if edited and document == EDITED else number
        text = PATTERNS[number % 3].format(name(version), name(document * 7), name(number % 199))
        yield {
            "id": f"c{number}",
            "doc_id": f"d{document}",
            "title": f"Report of {name(document * 7)}",
            "text": text,
        }


class Took(NamedTuple):
    """Wall seconds of one load, and processor seconds of the loader and of Neo4j."""

    wall: float
    loader: float
    server: float

    def __str__(self) -> str:
        """Return all, rounded."""
        return f"{self.wall:.1f} ({self.loader:.1f}, {self.server:.1f})"


class Store:
    """A store that the command line of a checkout loads into."""

    def __init__(self, folder: Path, tree: Path, neo4j: bool, like: "Store | None" = None) -> None:
        if like is None:
            folder.mkdir()
        else:
            shutil.copytree(like.folder, folder, ignore=shutil.ignore_patterns("*.lock"))
        self.folder = folder
        self._program = str(tree / ".venv" / "bin" / "docstokg")
        self._neo4j = neo4j
        self._pid: int | None = None
        url = f"sqlite:///{folder / 'store.sqlite'}"
        self._environment = os.environ | {
            "DOCSTOKG_CACHE_DIR": str(folder / "cache"),
            "DOCSTOKG_NAMES": "rule",
            "DOCSTOKG_INDEX_URL": url,
            "DOCSTOKG_GRAPH_URL": url,
        }

    @contextmanager
    def served(self) -> Iterator["Store"]:
        """Run the server of the graph meanwhile."""
        if not self._neo4j:
            yield self
            return
        home = self.folder / "neo4j"
        endpoint = servers.start(Engine.NEO4J, home, port=servers.free_port(), heap_mb=1024)
        try:
            servers.warm_up(Engine.NEO4J, endpoint, lambda _: None)
            self._pid = endpoint.pid
            self._environment |= {
                "DOCSTOKG_GRAPH_URL": endpoint.url,
                "DOCSTOKG_GRAPH_USER": endpoint.user,
                "DOCSTOKG_GRAPH_PASSWORD": endpoint.password,
            }
            yield self
        finally:
            self._pid = None
            servers.stop(Engine.NEO4J, home)

    def load(self, rows: Path) -> Took:
        """Load a file."""
        begun, loader, server = time.monotonic(), _processor_s(), self._server_s()
        done = subprocess.run(
            self._load(rows), check=False, env=self._environment, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"the load of {rows} failed: {done.stderr[-2000:]}")
        wall = time.monotonic() - begun
        return Took(wall, _processor_s() - loader, self._server_s() - server)

    def killed(self, rows: Path, after_s: float) -> bool:
        """Load a file and kill the load after some seconds; return whether it was running."""
        with subprocess.Popen(
            self._load(rows),
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                process.wait(after_s)
            except subprocess.TimeoutExpired:
                process.kill()
                return True
        return False

    def digest(self) -> str:
        """Return the digest of the store's content."""
        done = subprocess.run(
            [self._program, "doctor", "--digest"],
            env=self._environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout.strip()

    def _load(self, rows: Path) -> list[str]:
        return [self._program, "load", str(rows), "--no-embed", "--replace-docs"]

    def _server_s(self) -> float:
        if self._pid is None:
            return 0.0
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_rows(folder: Path, label: str, rows: Iterator[Row]) -> Path:
    """Write passages as JSON lines."""
    path = folder / f"passages_{label}.jsonl"
    with path.open("w") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
    return path


def measured(chosen: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Load, change, kill and compare; return the figures."""
    count, neo4j, chance = chosen.chunks, chosen.graph == "neo4j", random.Random(chosen.seed)
    every = write_rows(folder, "all", passages(count, edited=False))
    final = write_rows(folder, "final", passages(count, edited=True))
    edited = (row for row in passages(count, edited=True) if row["doc_id"] == f"d{EDITED}")
    change = write_rows(folder, "change", edited)
    row: dict[str, object] = {"chunks": count, "graph": chosen.graph}
    if chosen.base:
        with Store(folder / "base", checked_out(chosen.base), neo4j).served() as base:
            row[f"all, s (loader, server), {chosen.base}"] = reported(base.load(every))
        with base.served():
            row[f"one changed document, {chosen.base}"] = reported(base.load(change))
    with Store(folder / "first", ROOT, neo4j).served() as first:
        row["all, s (loader, server)"] = reported(first.load(every))
    again = Store(folder / "again", ROOT, neo4j, like=first)
    with first.served():
        changed = reported(first.load(change))
        digests = {first.digest()}
    row["one changed document"] = changed
    with again.served():
        waits = [chance.uniform(0.3, changed.wall) for _ in range(chosen.kills)]
        row["killed while running"] = sum([again.killed(change, wait) for wait in waits])
        row["after the last kill"] = reported(again.load(change))
        digests.add(again.digest())
    with Store(folder / "clean", ROOT, neo4j).served() as clean:
        clean.load(final)
        digests.add(clean.digest())
    return {**row, "different digests": len(digests)}


def reported(took: Took) -> Took:
    """Print a time as soon as it is measured, and return it."""
    print(took, file=sys.stderr, flush=True)
    return took


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--graph", choices=["sqlite", "neo4j"], default="sqlite")
    parser.add_argument("--base", help="earlier commit to compare with")
    parser.add_argument("--report", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        row = measured(chosen, Path(temporary))
    lines = [
        f"| {' | '.join(row)} |",
        f"|{'---|' * len(row)}",
        f"| {' | '.join(map(str, row.values()))} |",
    ]
    table = "\n".join(lines) + "\n"
    sys.stdout.write(table)
    if chosen.report is not None:
        chosen.report.write_text(table)
    if row["different digests"] != 1:
        raise SystemExit("the digests differ")


if __name__ == "__main__":
    main()

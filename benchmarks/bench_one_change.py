"""Time of loading one changed document into a large namespace, and its digest after kills.

usage: python -m benchmarks.bench_one_change [--chunks N] [--kills N] [--seed N] [--report FILE]

Synthetic passages are loaded without encoders into a new embedded store; DOCSTOKG_NAMES=rule finds
their names. Then one document of five passages is replaced. A copy of the store gets the same
load, killed (SIGKILL) at random points and started again each time. The digest of the store has
to be that of one load of the final passages into an empty store.
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
from pathlib import Path
from typing import NamedTuple

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
        own = number + 1_000_000 if edited and document == EDITED else number
        text = PATTERNS[number % 3].format(name(own), name(document * 7), name(number % 199))
        yield {
            "id": f"c{number}",
            "doc_id": f"d{document}",
            "title": f"Report of {name(document * 7)}",
            "text": text,
        }


class Took(NamedTuple):
    """Wall and processor seconds of one load; a busy machine changes the latter less."""

    wall: float
    processor: float

    def __str__(self) -> str:
        """Return both, rounded."""
        return f"{self.wall:.1f} ({self.processor:.1f})"


class Store:
    """An embedded store that the command line loads into."""

    def __init__(self, folder: Path, like: "Store | None" = None) -> None:
        if like is None:
            folder.mkdir()
        else:
            shutil.copytree(like.folder, folder)
        self.folder = folder
        self.url = f"sqlite:///{folder / 'store.sqlite'}"

    def command(self, *arguments: str) -> list[str]:
        """Return a command line for this store."""
        program = str(Path(sys.executable).parent / "docstokg")
        return [program, *arguments, "--index", self.url]

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the commands."""
        own = {"DOCSTOKG_CACHE_DIR": str(self.folder / "cache"), "DOCSTOKG_NAMES": "rule"}
        return os.environ | own

    def load(self, rows: Path) -> Took:
        """Load a file."""
        begun, before = time.monotonic(), _processor_s()
        command = self.command("load", str(rows), "--no-embed", "--replace-docs")
        subprocess.run(command, check=True, env=self.environment, capture_output=True)
        return Took(time.monotonic() - begun, _processor_s() - before)

    def killed(self, rows: Path, after_s: float) -> bool:
        """Load a file and kill the load after some seconds; return whether it was running."""
        command = self.command("load", str(rows), "--no-embed", "--replace-docs")
        with subprocess.Popen(
            command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
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
            self.command("doctor", "--digest"),
            env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout.strip()


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def written(folder: Path, label: str, rows: Iterator[Row]) -> Path:
    """Write passages as JSON lines."""
    path = folder / f"passages_{label}.jsonl"
    with path.open("w") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
    return path


def measured(count: int, kills: int, seed: int, folder: Path) -> dict[str, object]:
    """Load, change, kill and compare; return the figures."""
    chance = random.Random(seed)
    every = written(folder, "all", passages(count, edited=False))
    final = written(folder, "final", passages(count, edited=True))
    edited = (row for row in passages(count, edited=True) if row["doc_id"] == f"d{EDITED}")
    change = written(folder, "change", edited)
    first = Store(folder / "first")
    loaded = first.load(every)
    again = Store(folder / "again", like=first)
    changed = first.load(change)
    struck = sum(again.killed(change, chance.uniform(0.3, changed.wall)) for _ in range(kills))
    repeated = again.load(change)
    clean = Store(folder / "clean")
    clean.load(final)
    digests = {store.digest() for store in (first, again, clean)}
    return {
        "chunks": count,
        "all, s (processor s)": str(loaded),
        "one changed document": str(changed),
        "killed while running": struck,
        "after the last kill": str(repeated),
        "different digests": len(digests),
    }


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        row = measured(chosen.chunks, chosen.kills, chosen.seed, Path(temporary))
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

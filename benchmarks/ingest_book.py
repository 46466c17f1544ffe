"""What the stage `book` takes for a number of names, and `write` to open it: memory, time, storage.

`python -m benchmarks.ingest_book 20000 50000 200000` makes shards of chunks that each name two
things nobody named before and three that many name, and runs `book` over them in a process of its
own, into an empty embedded store. No model is asked.
"""

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from docstokg.contracts.ingest import IngestRun, IngestTask
from docstokg.contracts.records import FoundName
from docstokg.loading.read.given import GivenChunk
from docstokg.loading.read.staging import Staging
from docstokg.loading.run.book import RunBook
from docstokg.loading.run.readings import RecordingNames, put_names, put_readings
from docstokg.loading.run.rows import ShardWriter
from docstokg.loading.run.stages import book
from docstokg.loading.stores import stores_of
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.printing import say

CHUNKS_A_DOCUMENT, DOCUMENTS_A_SHARD = 5, 40
NEW, SHARED = 2, 3
"""Names of a chunk: those that nobody else names, and those of everybody."""

WORDS = ("Amber", "Birch", "Cobalt", "Dahlia", "Ember", "Fjord", "Garnet", "Hazel", "Indigo")
ETAG = hashlib.md5(b"x", usedforsecurity=False).hexdigest()
LIMIT_S, LIMIT_MB = 900, 3008
RUN = IngestRun(run_id="book", bucket="local", prefix="sources/default/")


class Said:
    """A recogniser whose answers are given."""

    model = "names of a bench"

    def __init__(self) -> None:
        self.names: dict[str, tuple[FoundName, ...]] = {}

    def find(self, texts: list[str]) -> tuple[tuple[FoundName, ...], ...]:
        """Give what was said of each text."""
        return tuple(self.names[text] for text in texts)


def settings_of(folder: Path) -> Settings:
    """Name the store and the bucket of one size."""
    url = f"sqlite:///{folder / 'store.sqlite'}"
    return Settings(
        index_url=url,
        graph_url=url,
        ingest_url=f"file://{folder / 'bucket'}",
        embed_provider="none",
        sparse="none",
    )


def prepare(folder: Path, names: int, run: IngestRun) -> int:
    """Write the shards of a run that has so many names; count the chunks."""
    wiring = Wiring(settings_of(folder))
    objects, made, chunks = wiring.object_store(), 0, 0
    while made < names:
        items, said = [], Said()
        writer = ShardWriter(run, objects, f"{chunks:09}")
        for _ in range(DOCUMENTS_A_SHARD):
            number = chunks // CHUNKS_A_DOCUMENT
            inner = f"shelf/doc{number:08}.md"
            rows = []
            for part in range(CHUNKS_A_DOCUMENT):
                own = [f"{WORDS[(made + n) % 9]} Works {made + n}x" for n in range(NEW)]
                common = [f"{WORDS[(chunks + n) % 9]} Valley" for n in range(SHARED)]
                text = " ".join(f"It was made by {name} and sold." for name in (*own, *common))
                said.names[text] = tuple(FoundName(name, "Org") for name in (*own, *common))
                identity = f"{inner}#{part}"
                rows.append((part, GivenChunk(id=identity, doc_id=inner, text=text, whole=True)))
                made, chunks = made + NEW, chunks + 1
            key = run.sources + inner
            objects.put(key, b"x")
            items.append((inner, ETAG, rows))
        for inner, etag, some in items:
            writer.add(inner, etag, some)
        writer.flush()
        recorded = RecordingNames(said)  # type: ignore[arg-type]
        recorded.find(list(said.names))
        for shard in writer.shards:
            put_readings(run, objects, shard, None, None)
            put_names(run, objects, shard, recorded)
    wiring.close()
    return chunks


def child(folder: Path, run: IngestRun) -> None:
    """Make the book, and print what it took; its disk is fullest before texts are forgotten."""
    tempfile.tempdir = str(folder / "tmp")
    Path(tempfile.tempdir).mkdir()
    wiring = Wiring(settings_of(folder))
    stores = stores_of(wiring)
    disk: list[int] = []
    slim = Staging.slim

    def noting(staging: Staging) -> None:
        disk.append(sum(path.stat().st_size for path in Path(tempfile.gettempdir()).rglob("*")))
        slim(staging)

    Staging.slim = noting  # type: ignore[method-assign]
    before, begun = time.process_time(), time.monotonic()
    book(IngestTask(run=run, stage="book"), wiring.object_store(), stores)
    took = time.process_time() - before, time.monotonic() - begun
    objects = wiring.object_store()
    kept = sum(entry.size for entry in objects.list(run.key("book")))
    wiring.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    figures = {"cpu_s": took[0], "wall_s": took[1], "peak_mb": peak}
    say(json.dumps({**figures, "kept_mb": kept / 1e6, "disk_mb": disk[-1] / 1e6}))


def opened(folder: Path, run: IngestRun) -> None:
    """Open the book as a process of `write` does, and print what that took."""
    wiring = Wiring(settings_of(folder))
    stores, objects = stores_of(wiring), wiring.object_store()
    before = time.process_time()
    with closing(RunBook(run, objects)) as run_book:
        run_book.decisions(run_book.context(stores))
        took = time.process_time() - before
    wiring.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    say(json.dumps({"open_cpu_s": took, "open_mb": peak}))


def _in_a_process(folder: str, *more: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.ingest_book", "--child", folder, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure(sizes: list[int]) -> None:
    """Run every size, and say at how many names a task would end."""
    found: list[tuple[int, dict[str, float]]] = []
    say(
        "| names | chunks | CPU s | peak MB | on disk MB | in the bucket MB | opened: CPU s "
        "| peak MB |\n|---|---|---|---|---|---|---|---|"
    )
    for names in sizes:
        with tempfile.TemporaryDirectory() as name:
            chunks = prepare(Path(name), names, RUN)
            said = _in_a_process(name) | _in_a_process(name, "--open")
        found.append((names, said))
        say(
            f"| {names:,} | {chunks:,} | {said['cpu_s']:.1f} | {said['peak_mb']:.0f} "
            f"| {said['disk_mb']:.0f} | {said['kept_mb']:.1f} "
            f"| {said['open_cpu_s']:.1f} | {said['open_mb']:.0f} |"
        )
    if len(found) > 1:
        (few, less), (many, more) = found[0], found[-1]
        for what, unit, limit in (
            ("cpu_s", "s", LIMIT_S),
            ("peak_mb", "MB", LIMIT_MB),
            ("open_mb", "MB", LIMIT_MB),
        ):
            slope = (more[what] - less[what]) / (many - few)
            end = many + (limit - more[what]) / slope
            say(f"{what}: {1e6 * slope:,.1f} {unit} a million names; {limit} {unit} at {end:,.0f}")


def main() -> None:
    """Measure the sizes, or be the process of one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", type=int, nargs="*", default=[20_000, 50_000, 200_000])
    parser.add_argument("--child", type=Path)
    parser.add_argument("--open", action="store_true")
    options = parser.parse_args()
    if options.child is not None:
        (opened if options.open else child)(options.child, RUN)
    else:
        measure(options.names)


if __name__ == "__main__":
    main()

"""2,000 documents through the stages of a bucket, killed at random: the digest of one clean load.

`make bench-ingest` (DOCUMENTS=2000, KILLS=10) writes `build/ingest.md`. The definition runs on
sfnx, one task after another, in a process that is killed (SIGKILL) at a random moment of its stages
and run again under its own id.
"""

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.transfer.contents import digests
from docstokg.ports import ObjectStore
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.printing import say
from docstokg_local.loading.stores import stores_of
from tests.ingest_runner import run_ingest, stage_functions

REPORT = Path(__file__).parents[1] / "build" / "ingest.md"
SOURCES = "sources/default/"
POISON = b"# Poison\n\nA NUL \0 is in it.\n"
TOWNS = (
    "Bonn",
    "Cologne",
    "Aachen",
    "Essen",
    "Trier",
    "Mainz",
    "Worms",
    "Speyer",
    "Neuss",
    "Kleve",
)
PARTS = ("rotor", "valve", "seal", "shaft", "filter", "gauge", "nozzle", "clutch")


def write_folder(folder: Path, count: int) -> Path:
    """Documents of one to three chunks made of few sections, so that encoders read each once."""
    folder.mkdir(parents=True)
    for number in range(count):
        town, part = TOWNS[number % 10], PARTS[number % 8]
        sections = [
            f"## The {PARTS[(number + n) % 8]} of {town}\n\n" + _section(town, (number + n) % 8)
            for n in range(1 + number % 3)
        ]
        head = f"---\ntitle: Pump of {town} with a {part}\n---\n\n"
        inner = folder / f"shelf{number % 20:02}" / f"pump{number:05}.md"
        inner.parent.mkdir(exist_ok=True)
        inner.write_text(head + "\n".join(sections), "utf-8")
    (folder / "poisoned.md").write_bytes(POISON)
    return folder


def _section(town: str, part: int) -> str:
    sentence = (
        f"The {PARTS[part]} was made by the Institute of Pumps (IoP) in {town} and tested there. "
        f"It turns {part + 2} times a second when the water of {town} is cold. "
    )
    return sentence * 5 + "\n"


def digest(settings: Settings) -> str:
    """Digest both stores as `doctor --digest` does."""
    wiring = Wiring(settings)
    try:
        return digests(
            wiring.index_writer(), wiring.graph_writer(), wiring.register(), ["default"]
        )[2]
    finally:
        wiring.close()


def settings_in(folder: Path) -> Settings:
    """Name an empty store, and its bucket."""
    folder.mkdir(parents=True)
    url = f"sqlite:///{folder / 'store.sqlite'}"
    environment = {**os.environ, "DOCSTOKG_INGEST_URL": f"file://{folder / 'bucket'}"}
    read = Settings.from_environment(environment)
    return read.model_copy(update={"index_url": url, "graph_url": url})


def upload(source: Path, objects: ObjectStore) -> None:
    """Put the files of a folder below the namespace's sources."""
    for path in sorted(source.rglob("*")):
        if path.is_file():
            objects.put(f"{SOURCES}{path.relative_to(source).as_posix()}", path.read_bytes())


def child(source: Path, settings: Settings) -> None:
    """Run the machine to its end, or until this process is killed."""
    wiring = Wiring(settings)
    objects, functions = wiring.object_store(), stage_functions(wiring)
    upload(source, objects)
    say("run begins")
    run = {"run_id": "bench", "namespace": "default", "bucket": "local", "prefix": SOURCES}
    ended = run_ingest(functions, objects, run)
    wiring.close()
    if ended.status != "SUCCEEDED":
        raise SystemExit(f"{ended.error}: {ended.cause}")


def run(source: Path, settings: Settings, after_s: float | None = None) -> int:
    """Run the machine in a process of its own, killed `after_s` seconds after it began to work."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.ingest", "--child", str(source)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(settings.model_dump_json())
    process.stdin.close()
    for line in process.stdout:
        if line.startswith("run ") and after_s is not None:
            time.sleep(after_s)
            os.killpg(process.pid, signal.SIGKILL)
            break
    process.stdout.read()
    process.stdout.close()
    return process.wait()


def main() -> None:
    """Load the folder both ways and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--child", type=Path)
    options = parser.parse_args()
    if options.child is not None:
        child(options.child, Settings.model_validate_json(sys.stdin.read()))
        return
    with tempfile.TemporaryDirectory() as name:
        REPORT.parent.mkdir(exist_ok=True)
        REPORT.write_text(compare(Path(name), options.documents, options.kills), "utf-8")


def compare(folder: Path, documents: int, kills: int) -> str:
    """Load cleanly, through the machine, and through one that is killed; the report."""
    source = write_folder(folder / "in", documents)
    loaded, machine, killed = (settings_in(folder / n) for n in ("load", "machine", "killed"))
    wiring, rejects = Wiring(loaded), RejectLog()
    report = load([source], LoadOptions(), stores_of(wiring), rejects)  # and the vectors are cached
    wiring.close()
    rows = [("`docstokg load`", report.seconds, _cpu(), 0, digest(loaded))]
    before, begun = _cpu(), time.monotonic()
    assert run(source, machine) == 0
    seconds = time.monotonic() - begun
    rows.append(("the machine", seconds, _cpu() - before, 0, digest(machine)))
    say(str(rows))
    chance, count, ends = random.Random(10), 0, set()
    before, begun = _cpu(), time.monotonic()
    while count < kills:
        run(source, killed, chance.uniform(0, 2 * seconds / (kills + 1)))
        if is_closed(killed):  # a kill after the end is none: another empty store
            ends.add(digest(killed))
            killed = settings_in(folder / f"killed{count}")
        else:
            count += 1
    assert run(source, killed) == 0
    ends.add(digest(killed))
    took = time.monotonic() - begun
    rows.append((f"the machine, {count} kills", took, _cpu() - before, count, " ".join(ends)))
    lines = "\n".join(f"| {w} | {s:.0f} | {c:.0f} | {k} | `{d[:16]}` |" for w, s, c, k, d in rows)
    same = "the same" if len({row[4] for row in rows}) == 1 else "NOT THE SAME"
    poisoned = ", ".join(f"{one.reason}" for one in rejects.first)
    return (
        "# A bucket through the loading machine, killed at random\n\n"
        f"`make bench-ingest DOCUMENTS={documents}`: {documents:,} documents of one "
        f"to three chunks ({report.chunks:,} chunks), vectors cached by the "
        "first load, embedded stores, a folder as the bucket; one "
        "more document is poisoned. Seconds are of a machine that others used as well, so only CPU"
        " seconds compare; the first load also encodes.\n\n"
        "| what | seconds | CPU s | kills | content digest |\n|---|---|---|---|---|\n"
        f"{lines}\n\nThe digests are {same}. Reported as rejected: {poisoned}.\n\n"
        f"What a run leaves in the bucket, compressed: {_sizes(machine)}.\n"
    )


def is_closed(settings: Settings) -> bool:
    """Tell whether a run into this store has reported."""
    wiring = Wiring(settings)
    closed = bool(wiring.object_store().list("runs/bench/report.json"))
    wiring.close()
    return closed


def _sizes(settings: Settings) -> str:
    """Say how many bytes each stage of the clean run left."""
    wiring = Wiring(settings)
    objects, sizes = wiring.object_store(), []
    for kind in ("rows", "vectors", "names", "resolved"):
        size = sum(entry.size for entry in objects.list(f"runs/bench/{kind}/"))
        sizes.append(f"{kind} {size / 1e6:.2f} MB")
    wiring.close()
    return ", ".join(sizes)


def _cpu() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


if __name__ == "__main__":
    main()

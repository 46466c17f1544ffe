"""Load as many chunks as are asked for, end to end, from the texts this machine has.

usage: python -m benchmarks.load_hundred FOLDER [--chunks 100000] [--sets SETS] [--again]

FOLDER keeps the corpus (`in/`), the store and the report, so that a run that was stopped goes on:
the corpus is built once, `docstokg load` finds its vectors in the cache and the documents that are
written. The corpus is every `passages*.jsonl` below SETS, then manual pages and the package
documentation of this machine, as many of each section, until their characters suffice; with
`--again` the passages once more under other ids, as often as it takes, whose vectors and names the
cache gives: what is measured is a load without its models. The load is
a process of its own: its processor seconds and peak memory are the system's account of it (added
over the runs, the larger one). Questions are beside it, ten of them four times, for
`python -m benchmarks.profile_answer FOLDER/store.sqlite FOLDER/questions.jsonl` with
`--namespace hundred`.
"""

import argparse
import itertools
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

CHARACTERS = 560  # of manual pages and documentation a chunk, as a load of some of each showed
QUESTIONS = (
    "What does tar --exclude do?",
    "How do I list the members of an archive?",
    "Which signal ends a process that ignores SIGTERM?",
    "What are the symptoms of ABCD syndrome?",
    "Who was Teutberga married to?",
    "How is a symbolic link removed?",
    "What does the environment variable PAGER choose?",
    "Does programmed cell death occur in lace plant leaves?",
    "How is the exit status of a pipeline determined?",
    "What limits the size of a core file?",
)
_OVERSTRIKE = re.compile(".\b")


def passages(sets: Path, target: Path, most: int, turn: str = "") -> int:
    """Copy the passages below `sets`, their ids under the set's name and `turn`; give how many."""
    count = 0
    for path in sorted(sets.glob("*/passages*.jsonl")):
        name = path.parent.name + turn
        with (target / f"passages-{name}.jsonl").open("w", encoding="utf-8") as out:
            for line in itertools.islice(path.open(encoding="utf-8"), most - count):
                row = json.loads(line)
                row |= {key: f"{name}/{row[key]}" for key in ("id", "doc_id") if key in row}
                out.write(json.dumps(row) + "\n")
                count += 1
    return count


def _manual(path: Path) -> str:
    done = subprocess.run(
        ["man", "-P", "cat", "-E", "UTF-8", str(path)],
        capture_output=True, env=os.environ | {"MANWIDTH": "100"}, check=False,
    )  # fmt: skip
    return _OVERSTRIKE.sub("", done.stdout.decode("utf-8", "replace"))


def sources() -> Iterator[Path]:
    """Give manual pages and documentation, a few of each kind in turn."""
    manual, doc = Path("/usr/share/man"), Path("/usr/share/doc")
    kinds = [sorted(folder.glob("*.gz")) for folder in sorted(manual.glob("man[1-8]"))]
    written = sorted(p for p in doc.rglob("*") if p.suffix in {".txt", ".md", ".rst", ".html"})
    kinds = [kind for kind in [*kinds, [p for p in written if p.is_file()]] if kind]
    chance = random.Random(7)
    for kind in kinds:
        chance.shuffle(kind)
    for some in itertools.zip_longest(*kinds):
        yield from (path for path in some if path is not None)


def texts(target: Path, wanted: int) -> int:
    """Write documents of so many characters together; give how many documents."""
    characters, count = 0, 0
    seen = sources()
    with ThreadPoolExecutor(2) as pool:
        while characters < wanted:
            some = [path for path, _ in zip(seen, range(64), strict=False)]
            if not some:
                break
            for path, text in zip(some, pool.map(_text, some), strict=True):
                if len(text) < 400:
                    continue
                section = path.parent.name if path.suffix == ".gz" else "doc"
                name = f"{path.stem}.txt" if path.suffix == ".gz" else path.name
                place = target / section / (name if section != "doc" else f"{count}-{name}")
                place.parent.mkdir(exist_ok=True)
                place.write_text(text, "utf-8")
                characters, count = characters + len(text), count + 1
    return count


def _text(path: Path) -> str:
    if path.suffix == ".gz":
        return _manual(path)
    try:
        return path.read_text("utf-8") if path.stat().st_size < 2_000_000 else ""
    except (OSError, UnicodeDecodeError):
        return ""


def build(folder: Path, sets: Path, chunks: int, again: bool) -> None:
    """Make the corpus, once."""
    if (folder / "in").exists():
        return
    making = folder / "in.part"
    making.mkdir(parents=True, exist_ok=True)
    have = passages(sets, making, chunks)
    turn = 1
    while again and 0 < have < chunks:
        turn += 1
        have += passages(sets, making, chunks - have, f"-{turn}")
    documents = texts(making, max(0, chunks - have) * CHARACTERS)
    rows = ({"id": f"q{n}", "question": asked} for n, asked in enumerate(QUESTIONS * 4))
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    making.rename(folder / "in")
    print(f"{have} passages, {documents} documents", flush=True)


def load(folder: Path) -> dict[str, float]:
    """Run the command once; give what it cost, added to the runs before."""
    command = [
        str(Path(sys.executable).parent / "docstokg"), "load", str(folder / "in"),
        "--namespace", "hundred", "--index", f"sqlite:///{folder / 'store.sqlite'}",
        "--rejects", str(folder / "rejects.jsonl"),
    ]  # fmt: skip
    begun = time.monotonic()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    kept = folder / "runs.json"
    runs = json.loads(kept.read_text()) if kept.exists() else []
    runs.append({
        "exit": process.returncode,
        "wall_s": round(time.monotonic() - begun),
        "cpu_s": round(usage.ru_utime + usage.ru_stime),
        "peak_mb": round(usage.ru_maxrss / 1024),
        "load_average": round(os.getloadavg()[0], 1),
    })  # fmt: skip
    kept.write_text(json.dumps(runs))
    with closing(sqlite3.connect(folder / "store.sqlite")) as store:
        (chunks,) = store.execute("SELECT count(*) FROM index_chunks").fetchone()
    size = sum(path.stat().st_size for path in folder.glob("store.sqlite*") if path.is_file())
    return {
        "chunks": chunks,
        "runs": len(runs),
        "wall_s": sum(run["wall_s"] for run in runs),
        "cpu_s": sum(run["cpu_s"] for run in runs),
        "peak_mb": max(run["peak_mb"] for run in runs),
        "on_disk_mb": round(size / 1e6),
    }


def main() -> None:
    """Build, load, tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--sets", type=Path, default=Path("../shared/data"))
    parser.add_argument("--again", action="store_true")
    chosen = parser.parse_args()
    build(chosen.folder, chosen.sets, chosen.chunks, chosen.again)
    print(json.dumps(load(chosen.folder)))


if __name__ == "__main__":
    main()

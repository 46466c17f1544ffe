"""How fast files become searchable, and how much memory that takes, at several corpus sizes.

usage: python -m benchmarks.load_rate [CHUNKS ...] [--embed] [--real]

Texts are made of a fixed vocabulary with a fixed seed; each chunk has a title that other chunks
name. Without --embed no encoder runs: that is the loader, the linker and the stores alone. Each
size runs in a process of its own, so that peak memory is its own. With --real the chunks go into
the stores of the settings (DOCSTOKG_INDEX_URL, DOCSTOKG_GRAPH_URL), into a namespace that must be
empty and is removed afterwards; how much disk they take is not told then.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = 4000
LENGTH = 110
NAMESPACE = "load-rate"


def write_corpus(folder: Path, count: int) -> None:
    """Write `count` passages of about LENGTH words, each naming three others."""
    chance = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randint(3, 9))) for _ in range(WORDS)]
    with (folder / "passages.jsonl").open("w", encoding="utf-8") as file:
        for number in range(count):
            said = chance.choices(words, k=LENGTH)
            for place in (20, 50, 80):
                said[place] = f"Topic {chance.randrange(count)}."
            row = {
                "id": f"p{number}",
                "doc_id": f"d{number // 4}",
                "title": f"Topic {number}",
                "text": " ".join(said),
                "year": 2000 + number % 25,
            }
            file.write(json.dumps(row) + "\n")


def measure(count: int, embed: bool, real: bool) -> dict[str, float]:
    """Load a new store, then load it again; seconds, chunks per second, peak megabytes."""
    from docstokg.loading.context import LoadOptions
    from docstokg.loading.pipeline import load
    from docstokg.loading.read.rejects import RejectLog
    from docstokg.settings import Settings
    from docstokg.wiring import Wiring
    from docstokg_local.loading.stores import stores_of

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "corpus").mkdir()
        write_corpus(folder / "corpus", count)
        url = f"sqlite:///{folder / 'store.sqlite'}"
        cache = {"cache_dir": str(folder / "cache")}
        settings = Settings(index_url=url, graph_url=url, **cache)
        if real:
            settings = Settings.from_environment(os.environ).model_copy(update=cache)
        wiring = Wiring(settings)
        space = LoadOptions(namespace=NAMESPACE, embed=embed)
        if real and NAMESPACE in wiring.search_index().info(60.0).namespaces:
            raise SystemExit(f"namespace {NAMESPACE!r} of the real stores is not empty")
        took = []
        for _ in range(2):
            begun, spent = time.perf_counter(), time.process_time()
            load([folder / "corpus"], space, stores_of(wiring, embed), RejectLog())
            took.append((time.perf_counter() - begun, time.process_time() - spent))
        if real:
            for writer in (wiring.index_writer(), wiring.graph_writer()):
                writer.delete(NAMESPACE, None)
                writer.close_load()
        wiring.close()
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    first, again = took
    return {
        "chunks": count,
        "first_s": round(first[0], 1),
        "first_cpu_s": round(first[1], 1),
        "chunks_per_s": round(count / first[0]),
        "chunks_per_cpu_s": round(count / first[1]),
        "again_s": round(again[0], 1),
        "again_cpu_s": round(again[1], 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        **({} if real else {"on_disk_mb": round(size / 1e6)}),
    }


def main() -> None:
    """Measure every size asked for, one JSON line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", type=int, default=[1000, 10_000])
    parser.add_argument("--embed", action="store_true")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.here:
        print(json.dumps(measure(chosen.sizes[0], chosen.embed, chosen.real)), flush=True)
        return
    for size in chosen.sizes:
        flags = [f"--{name}" for name in ("embed", "real") if getattr(chosen, name)]
        command = [sys.executable, "-m", "benchmarks.load_rate", str(size), "--here", *flags]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()

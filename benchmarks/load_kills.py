"""Loads killed at random while readers read: what a reader sees, and what is left at the end.

`make bench-load-kills` (KILLS=20; WORKERS=2; REAL=--real for OpenSearch and Neo4j, which it starts
on loopback) writes `build/load_kills.md`. Two loaders load two editions of the same books, each
killed at a random moment of some of its loads; meanwhile a reader reads whole books and asks.
"""

import argparse
import os
import random
import secrets
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from docstokg.loading.transfer.contents import digests
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.printing import say
from tests.faults.editions import Reader, write_editions
from tests.faults.load_processes import LoadProcesses
from tests.jvm.servers import Endpoint, Engine
from tests.services import server

REPORT = Path(__file__).parents[1] / "build" / "load_kills.md"
HEAD = """# Loads killed at random while somebody reads

`make bench-load-kills`. Two loaders at once load two editions of
three books, of 150 and 110 parts; some loads are killed at a random moment. A reader reads whole
books (one hydration each) and asks for as many passages as there may be. *Mixed*: both
editions of one book in one read or answer. *Same*: both stores hold in the end what a clean load of
the second edition leaves.

| stores | loads | killed | books read | answers | mixed | failed reads | same |
|---|---|---|---|---|---|---|---|
"""


class Counted(NamedTuple):
    """What one run saw."""

    loads: int
    killed: int
    reader: Reader
    same: bool


def main() -> None:
    """Run it over the embedded store, or over real ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seen = run(folder, *(_real() if options.real else _embedded(folder)), options)
    what = "OpenSearch, Neo4j" if options.real else "embedded"
    what += f", --workers {options.workers}" if options.workers > 1 else ""
    reader = seen.reader
    row = (
        f"| {what} | {seen.loads} | {seen.killed} | {reader.reads} | {reader.answers} | "
        f"{len(reader.mixed)} | {reader.failed} | {'yes' if seen.same else 'NO'} |\n"
    )
    before = REPORT.read_text("utf-8") if REPORT.exists() else HEAD
    others = [
        line for line in before.splitlines(keepends=True) if not line.startswith(f"| {what} |")
    ]
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text("".join(others) + row, "utf-8")
    say(row.strip())


def run(folder: Path, used: Settings, clean: Settings, options: argparse.Namespace) -> Counted:
    """Load until `options.kills` loads were killed; `used` and `clean` name two empty stores."""
    editions = write_editions(folder / "books")
    loaders = LoadProcesses(options.workers), LoadProcesses(options.workers)
    begun = time.monotonic()
    assert loaders[0].load(clean, editions[2]) == 0
    seconds = time.monotonic() - begun
    wanted = digest(clean)
    if used.index_name != clean.index_name:  # one graph for both: the clean load's goes
        empty(clean)
    assert loaders[0].load(used, editions[1]) == 0
    reader, chance, counting = Reader(used), random.Random(20), threading.Lock()
    counts = {"loads": 1, "killed": 0}

    def load(loader: LoadProcesses, edition: int) -> None:
        while counts["killed"] < options.kills:
            with counting:
                after = chance.uniform(0, 1.2 * seconds)
            status = loader.load(used, editions[edition], after)
            with counting:
                counts["loads"] += 1
                counts["killed"] += os.WIFSIGNALED(status)
            edition = 3 - edition

    with reader.reading():
        threads = [
            threading.Thread(target=load, args=(loader, 1 + at))
            for at, loader in enumerate(loaders)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert loaders[0].load(used, editions[2]) == 0
    reader.close()
    same = digest(used) == wanted
    for loader in loaders:
        loader.close()
    return Counted(counts["loads"] + 1, counts["killed"], reader, same)


def digest(settings: Settings) -> str:
    """Digest both stores as `doctor --digest` does."""
    wiring = Wiring(settings)
    try:
        found = digests(
            wiring.index_writer(), wiring.graph_writer(), wiring.register(), ["default"]
        )
        return found[2]
    finally:
        wiring.close()


def empty(settings: Settings) -> None:
    """Remove what a load left."""
    from docstokg.loading.write.removal import delete_namespace
    from docstokg_local.loading.stores import stores_of

    wiring = Wiring(settings)
    delete_namespace(stores_of(wiring, embed=False), "default")
    wiring.close()


def _plain(**where: object) -> Settings:
    plain = {"embed_provider": "none", "sparse": "none", "names": "rule", "kg_enabled": False}
    return Settings.model_validate({**plain, **where})


def _embedded(folder: Path) -> tuple[Settings, Settings]:
    made = []
    for name in ("used", "clean"):
        (folder / name).mkdir()
        url = f"sqlite:///{folder / name / 'store.sqlite'}"
        made.append(_plain(index_url=url, graph_url=url, cache_dir=str(folder / "cache")))
    return made[0], made[1]


def _real() -> tuple[Settings, Settings]:
    index, graph = server(Engine.OPENSEARCH), server(Engine.NEO4J)
    assert isinstance(index, Endpoint)
    assert isinstance(graph, Endpoint)
    where = {
        "index_url": index.url,
        "graph_url": graph.url,
        "graph_user": graph.user,
        "graph_password": graph.password,
    }
    run_name = secrets.token_hex(6)
    used, clean = (_plain(**where, index_name=f"{name}{run_name}") for name in ("used", "clean"))
    return used, clean


if __name__ == "__main__":
    main()

"""A load killed at any moment and run again ends as if it had never been interrupted."""

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STORES, KILLS_EACH = 10, 2
CHUNKS = 150

# One process imports the product and forks a fresh child for each load: the kills then fall into
# loads, not into imports.
NURSERY = """
import os, sys
from pathlib import Path
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.loading.context import LoadOptions
from docstokg_local.loading.pipeline import load
from docstokg_local.loading.rejects import RejectLog
from docstokg_local.loading.stores import stores_of
import docstokg.adapters.sqlite_graph, docstokg.adapters.sqlite_graph_writer
import docstokg.adapters.sqlite_index, docstokg.adapters.sqlite_index_writer

for line in sys.stdin:
    store, folder = line.rstrip("\\n").split("\\t")
    pid = os.fork()
    if pid == 0:
        url = "sqlite:///" + store
        settings = Settings(index_url=url, graph_url=url, embed_provider="none", sparse="none")
        stores = stores_of(Wiring(settings), embed=False)
        load([Path(folder)], LoadOptions(embed=False), stores, RejectLog())
        os._exit(0)
    print(pid, flush=True)
    print(os.waitpid(pid, 0)[1], flush=True)
"""


class Nursery:
    """Starts loads and tells how they ended."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def load(self, store: Path, folder: Path, kill_after: float | None = None) -> int:
        """Run a load, killed after some seconds or to its end; give its wait status."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{store}\t{folder}\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        if kill_after is not None:
            time.sleep(kill_after)
            # Not waited for yet, so the pid cannot have become another process.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def write_corpus(folder: Path, version: int) -> Path:
    """Write chunks that name each other, a list, edges with evidence, triples and a document."""
    folder.mkdir(parents=True)
    chunks, triples, relations = [], [], []
    for n in range(CHUNKS):
        changed = version == 2 and n % 5 == 0
        text = f"Thing {n} follows Thing {n // 2}. It concerns gene G{n % 7} syndrome (GS{n % 7})."
        text += " Now it is changed, and Substance 3 with it." if changed else ""
        row: dict[str, Any] = {"id": f"c{n}", "doc_id": f"d{n // 2}", "text": text}
        row["title"] = f"Thing {n}" if n % 3 else ""
        if n % 11 == 0:
            row["acl"] = ["staff"] if version == 1 else ["staff", "board"]
        chunks.append(row)
        triples.append(
            {"chunk_id": f"c{n}", "subject": f"thing {n}", "relation": "follows", "object": f"X{n}"}
        )
        if n % 4 == 0:
            evidence = {"chunk_id": f"c{n}", "start": 0, "end": 5}
            relations.append(
                {"source": f"S:{n % 9}", "type": "acts_on", "target": "S:99", "evidence": evidence}
            )
    entities = [
        {"id": f"S:{n}", "name": f"Substance {n}", "synonyms": [f"Thing {n}"]} for n in range(9)
    ]
    files = {"chunks": chunks, "triples": triples, "relations": relations, "entities": entities}
    for name, rows in files.items():
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    sections = "".join(f"## Part {n}\n\nThing {n} is here.\n\n" for n in range(8 // version))
    (folder / "guide.md").write_text(f"# Guide {version}\n\n{sections}", encoding="utf-8")
    return folder


def digest(store: Path) -> str:
    """Digest both stores, as `doctor --digest` does."""
    from docstokg.adapters.sqlite_graph_writer import SqliteGraphWriter
    from docstokg.adapters.sqlite_index_writer import SqliteIndexWriter

    found = hashlib.sha256()
    for writer in (SqliteIndexWriter(store), SqliteGraphWriter(store)):
        for row in writer.digest_rows("default"):
            found.update(row.encode() + b"\n")
    return found.hexdigest()


def copy(source: Path, target: Path) -> Path:
    target.mkdir()
    for path in source.parent.glob("store.sqlite*"):
        (shutil.copytree if path.is_dir() else shutil.copy)(path, target / path.name)
    return target / "store.sqlite"


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


def test_twenty_kills_leave_no_trace(nursery: Nursery, tmp_path: Path):
    old, new = write_corpus(tmp_path / "v1", 1), write_corpus(tmp_path / "v2", 2)
    (tmp_path / "base").mkdir()
    base = tmp_path / "base" / "store.sqlite"
    assert nursery.load(base, old) == 0
    (tmp_path / "fresh").mkdir()
    clean = {
        "fresh": tmp_path / "fresh" / "store.sqlite",
        "changed": copy(base, tmp_path / "changed"),
    }
    wanted, seconds = {}, {}
    for kind, store in clean.items():
        begun = time.monotonic()
        assert nursery.load(store, new) == 0
        seconds[kind] = time.monotonic() - begun
        wanted[kind] = digest(store)
    assert wanted["fresh"] != digest(base)
    chance = random.Random(20)
    killed = 0
    for number in range(STORES):
        kind = ("fresh", "changed")[number % 2]
        folder = tmp_path / f"kill{number}"
        store = folder / "store.sqlite"
        if kind == "changed":
            copy(base, folder)
        else:
            folder.mkdir()
        for _ in range(KILLS_EACH):
            status = nursery.load(store, new, chance.uniform(0, seconds[kind]))
            killed += os.WIFSIGNALED(status)
            check_only_whole_chunks(store)
        assert nursery.load(store, new) == 0
        assert digest(store) == wanted[kind], f"store {number} ({kind}) shows that it was killed"
    assert killed >= STORES * KILLS_EACH // 2


def check_only_whole_chunks(store: Path) -> None:
    """Whatever was written is complete: hashes match, and the index can be read."""
    from docstokg.adapters.sqlite_index_writer import SqliteIndexWriter

    if not store.exists():
        return
    for row in SqliteIndexWriter(store).digest_rows("default"):
        kind, _, value = row.split(" ", 2)
        if kind == "chunk":
            chunk = json.loads(value)
            text = chunk["text"].encode()
            assert hashlib.sha256(text).hexdigest() == chunk["rest"]["text_sha256"]
            assert chunk["rest"]["sentences"]
    connection = sqlite3.connect(store)
    try:
        assert connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
    finally:
        connection.close()

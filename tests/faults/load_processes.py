"""Loads in processes of their own that can be killed at any moment, and a corpus for them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from docstokg.settings import Settings
from tests.conftest import write_corpus as write_lines

CHUNKS = 150

# One process imports the product and forks a fresh child for each load: the kills then fall into
# loads, not into imports. A child ends itself after the commit with the given number, if any.
FORKING = """
import json, os, signal, sys
from pathlib import Path
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg_local.loading.stores import stores_with_workers
import docstokg.adapters.sqlite.graph, docstokg.adapters.sqlite.graph_writer
import docstokg.adapters.sqlite.index, docstokg.adapters.sqlite.index_writer
import docstokg.adapters.neo4j.graph, docstokg.adapters.neo4j.writer
import docstokg.adapters.opensearch.index
from docstokg.adapters.sqlite.session import Closing

class Counting:
    left = 0

def execute(self, statement, *values):
    cursor = super(Closing, self).execute(statement, *values)
    if statement == "COMMIT":
        Counting.left -= 1
        if not Counting.left:
            os.kill(os.getpid(), signal.SIGKILL)
    return cursor

Closing.execute = execute
for line in sys.stdin:
    settings, folder, workers, Counting.left = json.loads(line)
    pid = os.fork()
    if pid == 0:
        with stores_with_workers(Wiring(Settings(**settings)), False, workers) as stores:
            load([Path(folder)], LoadOptions(embed=False), stores, RejectLog())
        os._exit(0)
    print(pid, flush=True)
    print(os.waitpid(pid, 0)[1], flush=True)
"""


class LoadProcesses:
    """Starts loads and tells how they ended."""

    def __init__(self, workers: int = 1) -> None:
        self._workers = workers
        self._process = subprocess.Popen(
            [sys.executable, "-c", FORKING],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def load(
        self, settings: Settings, folder: Path, kill_after: float | None = None, commits: int = 0
    ) -> int:
        """Run a load, killed after some seconds or commits, or to its end; give its wait status."""
        assert self._process.stdin and self._process.stdout
        fields = {**settings.model_dump(mode="json"), "embed_provider": "none", "sparse": "none"}
        self._process.stdin.write(json.dumps([fields, str(folder), self._workers, commits]) + "\n")
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


def write_corpus(folder: Path, version: int, chunk_count: int = CHUNKS) -> Path:
    """Write chunks that name each other, a list, edges with evidence, triples and a document."""
    chunks, triples, relations = [], [], []
    for n in range(chunk_count):
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
    write_lines(folder, {f"{name}.jsonl": rows for name, rows in files.items()})
    sections = "".join(f"## Part {n}\n\nThing {n} is here.\n\n" for n in range(8 // version))
    (folder / "guide.md").write_text(f"# Guide {version}\n\n{sections}", encoding="utf-8")
    return folder

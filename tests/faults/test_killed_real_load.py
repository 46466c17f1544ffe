"""A load into the real stores, killed at any moment and run again, ends as if never interrupted."""

import hashlib
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from docstokg.domain.deadline import Deadline
from docstokg.loading.transfer.contents import graph_rows, index_rows
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from tests.contract.real import both_stores, empty
from tests.faults.load_processes import LoadProcesses, write_corpus
from tests.services import SERVICES

pytestmark = [*SERVICES]
CHUNKS = 60
ROUNDS, KILLS_EACH = 2, 3
SPACE = "default"
GRAPH_COUNTS = """MATCH (n) WITH labels(n)[0] AS kind, count(*) AS many RETURN kind, many
UNION ALL MATCH ()-[r]->() WITH type(r) AS kind, count(*) AS many RETURN kind, many"""
WRONG_COUNTS = """MATCH (e:Entity)
WHERE e.open_mentions <> COUNT { (e)<-[:MENTIONS]-(:Chunk {open: true}) }
   OR e.closed_mentions <> COUNT { (e)<-[:MENTIONS]-(:Chunk {open: false}) } OR e.dirty
RETURN count(*) AS many"""


@dataclass(frozen=True)
class Place:
    """Both servers of this run, with an index of this test's own and the graph to itself."""

    settings: Settings

    def content(self) -> tuple[str, dict[str, int], int]:
        """Digest both stores as `doctor --digest` does, and count every kind of node and edge."""
        wiring = Wiring(self.settings)
        digest = hashlib.sha256()
        try:
            for row in index_rows(wiring.index_writer(), SPACE):
                digest.update(row.encode() + b"\n")
            for row in graph_rows(wiring.graph_writer(), SPACE):
                digest.update(row.encode() + b"\n")
            query = wiring.graph_writer()._server.read  # type: ignore[attr-defined]
            deadline = Deadline.after(60.0)
            counts = {row["kind"]: row["many"] for row in query(GRAPH_COUNTS, {}, deadline)}
            return digest.hexdigest(), counts, query(WRONG_COUNTS, {}, deadline)[0]["many"]
        finally:
            wiring.close()


@pytest.fixture
def place() -> Iterator[Place]:
    with both_stores(embed_provider="none", sparse="none") as settings:
        yield Place(settings)


@pytest.fixture
def processes() -> Iterator[LoadProcesses]:
    processes = LoadProcesses()
    yield processes
    processes.close()


def test_kills_leave_no_duplicate_and_no_orphan(
    processes: LoadProcesses, place: Place, tmp_path: Path
) -> None:
    old = write_corpus(tmp_path / "v1", 1, CHUNKS)
    new = write_corpus(tmp_path / "v2", 2, CHUNKS)
    chance = random.Random(4)
    killed = 0
    for before in ((), (old,)):  # into empty stores, then over an earlier version
        wanted, seconds = None, 0.0
        for attempt in range(1 + ROUNDS):
            empty(place.settings)
            for folder in before:
                assert processes.load(place.settings, folder) == 0
            for _ in range(KILLS_EACH if attempt else 0):
                status = processes.load(place.settings, new, chance.uniform(0, seconds))
                assert os.WIFSIGNALED(status) or status == 0, "a load after a kill failed"
                killed += os.WIFSIGNALED(status)
            begun = time.monotonic()
            assert processes.load(place.settings, new) == 0
            content = place.content()
            if wanted is None:
                wanted, seconds = content, time.monotonic() - begun
                assert wanted[1]["Chunk"] > CHUNKS
            assert content == wanted, f"attempt {attempt} shows that it was killed"
    assert wanted is not None
    assert wanted[2] == 0
    assert killed >= ROUNDS * KILLS_EACH

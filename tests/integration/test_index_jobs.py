"""A snapshot restored on a real server: lost chunks are found again, and loading continues."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import batched
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from docstokg.adapters.opensearch import snapshots
from docstokg.adapters.opensearch.documents import OpenSearchRegister
from docstokg.adapters.opensearch.index import OpenSearchIndex
from docstokg.adapters.opensearch.layout import Shards
from docstokg.adapters.opensearch.server import Server
from docstokg.adapters.opensearch.snapshots import Snapshots
from docstokg.adapters.opensearch.writer import OpenSearchWriter
from docstokg.contracts.records import ChunkRecord, DocumentRecord, Scope
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.domain.deadline import Deadline
from docstokg.domain.vectors import pack
from docstokg.errors import Misconfigured, Timeout
from tests.jvm.servers import Endpoint, Engine
from tests.services import SERVICES, own_home, start_own

MANY = int(os.environ.get("DOCSTOKG_TEST_CHUNKS", "3000"))
"""Chunks that are resized; docs/measured.md has a run with 100,000."""
REPEATED = 50
"""Chunks with the same vector."""
pytestmark = [*SERVICES, pytest.mark.timeout(max(600, MANY // 20))]
SPACE = Scope(namespace="kept")
VECTORS = [pack(row) for row in np.random.default_rng(7).normal(size=(MANY // REPEATED, 384))]
ALIASES = {alias: alias for alias in ("kept", "kept-facts", "kept-documents")}


def chunk(number: int, vector: bytes | None = None) -> ChunkRecord:
    text = f"Passage {number} about seizures."
    return ChunkRecord(
        uuid=f"u{number}",
        chunk_id=f"c{number}",
        doc_id="d",
        namespace="kept",
        text=text,
        text_sha256=hashlib.sha256(text.encode()).hexdigest(),
        run_id="run",
        vector=vector,
    )


@dataclass
class Kept:
    """A server of this test's own, every side of an index there, and a folder for snapshots."""

    endpoint: Endpoint
    repository: dict[str, Any]
    writer: OpenSearchWriter
    reader: OpenSearchIndex
    register: OpenSearchRegister
    server: Server


@pytest.fixture
def stores() -> Iterator[Kept]:
    with own_home(Engine.OPENSEARCH) as home:
        folder = home / "snapshots"
        folder.mkdir()
        folder.chmod(0o777)
        endpoint = start_own(Engine.OPENSEARCH, home, extra={"path.repo": str(folder)})
        at = {"url": endpoint.url, "user": endpoint.user, "password": endpoint.password}
        kinds = (OpenSearchWriter, OpenSearchIndex, OpenSearchRegister)
        sides = [kind(name="kept", **at) for kind in kinds]
        stores = Kept(endpoint, {"location": str(folder)}, *sides, Server(**at))
        yield stores
        for connection in (stores.reader, stores.writer, stores.register, stores.server):
            connection.close()


def test_a_restored_snapshot_is_complete(stores: Kept) -> None:
    writer, reader = stores.writer, stores.reader
    writer.open_load("run", None, None, None)
    writer.put([(chunk(1), "one"), (chunk(2), "two")])
    jobs = Snapshots(stores.server, "kept")
    jobs.register({"type": "fs", "settings": stores.repository})
    with pytest.raises(Misconfigured, match="open or unfinished"):
        jobs.take("early")
    writer.close_load()
    stores.register.put([DocumentRecord(namespace="kept", doc_id="d", text="One. Two.")])
    jobs.take("monday")
    assert jobs.names() == ["monday"]
    assert len(set(jobs.drill("monday"))) == 1
    writer.delete("kept", None)
    writer.close_load()
    stores.server.indices.delete(index="kept-documents")
    assert reader.get(["u1"], SPACE, Deadline.after(30)).missing == ("u1",)
    restored = jobs.restore("monday")
    assert len(restored) == 3
    assert stores.register.text("kept", "d") == "One. Two."
    assert set(reader.get(["u1", "u2"], SPACE, Deadline.after(30)).chunks) == {"u1", "u2"}
    # Aliases moved whole: another load finds one index behind each.
    writer.open_load("again", None, None, None)
    writer.put([(chunk(3), "three")])
    writer.close_load()
    assert set(reader.get(["u1", "u3"], SPACE, Deadline.after(30)).chunks) == {"u1", "u3"}


def chunk_of(doc_id: str, number: int) -> ChunkRecord:
    return chunk(number).model_copy(update={"doc_id": doc_id})


@contextmanager
def begun_job(
    endpoint: Endpoint, *job: str, after_s: float = 0.0, **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Begin a job by its command; yield it `after_s` after its first new index is there."""
    before = httpx.get(f"{endpoint.url}/_alias", timeout=60).json().keys()
    settings = {"DOCSTOKG_INDEX_URL": endpoint.url, "DOCSTOKG_INDEX_NAME": "kept", **variables}
    command = [sys.executable, "-m", "docstokg_local.cli.index_jobs", *job]
    with subprocess.Popen(command, env=os.environ | settings) as begun:
        while not httpx.get(f"{endpoint.url}/_alias", timeout=60).json().keys() - before:
            assert begun.poll() is None
        time.sleep(after_s)
        yield begun


def kill_job(endpoint: Endpoint, *job: str, after_s: float = 0.0, **variables: str) -> None:
    with begun_job(endpoint, *job, after_s=after_s, **variables) as begun:
        begun.kill()
    assert begun.returncode == -signal.SIGKILL


def test_a_restore_repeats_later_deletions(stores: Kept) -> None:
    """A drill, killed half way and run again, equals the index in use."""
    writer, reader = stores.writer, stores.reader
    writer.open_load("run", None, None, None)
    writer.put([(chunk_of("stays", 1), "one"), (chunk_of("goes", 2), "two")])
    writer.close_load()
    stores.register.put(
        [DocumentRecord(namespace="kept", doc_id=doc_id) for doc_id in ("stays", "goes")]
    )
    jobs = Snapshots(stores.server, "kept")
    jobs.register({"type": "fs", "settings": stores.repository})
    now = 1_800_000_000.0
    first = jobs.keep_daily(now)
    assert first["begun"].startswith("daily-2027-01-15")
    assert first["age_days"] == snapshots.KEPT_DAYS
    end_state(jobs, first["begun"])
    assert jobs.keep_daily(now + 3600) == {"begun": "", "removed": [], "failed": [], "age_days": 0}
    writer.delete("kept", ["u2"])
    writer.close_load()
    stores.register.forget("kept", ["goes"])
    # A drill that was killed leaves indices behind, and they are in nobody's way.
    jobs.bring_back(first["begun"], "killed")
    in_use, brought_back = jobs.drill(first["begun"])
    assert in_use == brought_back
    kill_job(stores.endpoint, "restore", first["begun"])
    assert jobs.digest(ALIASES) == in_use
    jobs.restore(first["begun"])
    assert jobs.digest(ALIASES) == in_use
    assert reader.get(["u1", "u2"], SPACE, Deadline.after(30)).missing == ("u2",)
    assert [document.doc_id for document in stores.register.documents("kept")] == ["stays"]
    # The first goes when the next is complete; without one for days, the age rises.
    later = jobs.keep_daily(now + 5 * 86_400, days=1)
    assert later["removed"] == [] and later["age_days"] == 5
    end_state(jobs, later["begun"])
    assert jobs.keep_daily(now + 6 * 86_400, days=1)["removed"] == [first["begun"]]
    end_state(jobs, "daily-2027-01-21")
    writer.open_load("open", None, None, None)
    assert jobs.keep_daily(now + 8 * 86_400, days=1)["age_days"] == 2


def end_state(jobs: Snapshots, snapshot: str) -> str:
    """Return the state with which a snapshot ends."""
    while True:
        states = jobs._states()
        if states.get(snapshot) != "IN_PROGRESS":
            return states.get(snapshot, "vanished")
        time.sleep(0.2)


@pytest.mark.parametrize("unwritable", ["shards", "repository"])
def test_an_incomplete_backup_alarms_and_spares_complete_ones(
    stores: Kept, unwritable: str
) -> None:
    """The age is of the newest complete snapshot, and the repaired repository is used again."""
    writer = stores.writer
    writer.open_load("run", None, None, None)
    writer.put([(chunk(1), "one")])
    writer.close_load()
    stores.register.put([DocumentRecord(namespace="kept", doc_id="d", text="One.")])
    jobs = Snapshots(stores.server, "kept")
    jobs.register({"type": "fs", "settings": stores.repository})
    noon = 1_800_000_000.0
    whole = jobs.keep_daily(noon)["begun"]
    assert end_state(jobs, whole) == "SUCCESS"
    folder = Path(stores.repository["location"])
    closed = [folder] if unwritable == "repository" else list(folder.glob("**/indices/*/0"))
    assert closed
    modes = [path.stat().st_mode for path in closed]
    for path in closed:
        path.chmod(0o555)
    ages, failures = [], 0
    for day in range(1, 5):
        writer.open_load(f"run{day}", None, None, None)
        writer.put([(chunk(1 + day), str(day))])
        writer.close_load()
        report = jobs.keep_daily(noon + day * 86_400, days=2)
        assert whole not in report["removed"]
        ages.append(report["age_days"])
        failures += len(report["failed"])
        if report["begun"]:
            assert end_state(jobs, report["begun"]) != "SUCCESS"
    assert ages == [1, 2, 3, 4]
    if unwritable == "shards":
        assert failures >= 3
    for path, mode in zip(closed, modes, strict=True):
        path.chmod(mode)
    repaired = jobs.keep_daily(noon + 5 * 86_400, days=2)
    assert end_state(jobs, repaired["begun"]) == "SUCCESS"
    report = jobs.keep_daily(noon + 5 * 86_400, days=2)
    assert report["age_days"] == 0 and report["failed"] == []
    assert jobs.names() == [whole, repaired["begun"]]
    assert len(set(jobs.drill(repaired["begun"]))) == 1


class Asking(threading.Thread):
    """Asks by words and by meaning without a pause, and keeps what went wrong."""

    def __init__(self, reader: OpenSearchIndex) -> None:
        super().__init__()
        self._reader, self._over = reader, threading.Event()
        self.asked, self.wrong = 0, list[object]()

    def run(self) -> None:
        while not self._over.is_set():
            number = self.asked % MANY
            queries = [
                ChannelQuery(channel="bm25", size=3, text=f"passage {number}"),
                ChannelQuery(channel="dense", size=3, vector=VECTORS[number % len(VECTORS)]),
            ]
            try:
                words, meaning = self._reader.search(queries, SPACE, Deadline.after(30))
                (first, *_), near = words.hits, [int(hit.uuid[1:]) for hit in meaning.hits]
                whole = set(self._reader.get([f"u{number}"], SPACE, Deadline.after(30)).chunks)
                right = {n % len(VECTORS) for n in near} == {number % len(VECTORS)}
                if first.uuid != f"u{number}" or not right or whole != {f"u{number}"}:
                    self.wrong.append((number, words, meaning))
            except Exception as error:
                self.wrong.append(error)
            self.asked += 1

    def end(self) -> None:
        self._over.set()
        self.join()


def scores(reader: OpenSearchIndex) -> list[float]:
    queries = [ChannelQuery(channel="bm25", size=3, text=f"passage {n}") for n in range(20)]
    return [
        hit.score
        for result in reader.search(queries, SPACE, Deadline.after(30))
        for hit in result.hits[:1]
    ]


def test_a_resize_killed_twice_ends_in_the_same_and_no_question_fails(stores: Kept) -> None:
    writer = stores.writer
    writer.open_load("run", "model", 384, None)
    for numbers in batched(range(MANY), 1_000):
        writer.put([(chunk(n, VECTORS[n % len(VECTORS)]), str(n)) for n in numbers])
    writer.close_load()
    stores.register.put([DocumentRecord(namespace="kept", doc_id="d", text="One.")])
    before = Snapshots(stores.server, "kept").digest(ALIASES)
    scored = scores(stores.reader)
    asking = Asking(stores.reader)
    asking.start()
    wanted = {"DOCSTOKG_INDEX_SHARDS": "3", "DOCSTOKG_INDEX_REPLICAS": "0"}
    for after_s in (0.0, MANY / 1_500):
        kill_job(stores.endpoint, "resize", after_s=after_s, **wanted)
    at = {
        "url": stores.endpoint.url,
        "user": stores.endpoint.user,
        "password": stores.endpoint.password,
    }
    server = Server(shards=Shards(3, 0), **at)
    jobs = Snapshots(server, "kept")
    begun = time.monotonic()
    assert jobs.resize_is_due()
    assert len(jobs.resize()) == 3
    assert not jobs.resize_is_due()
    asking.end()
    print(f"{MANY} chunks resized in {time.monotonic() - begun:.0f} s, {asking.asked} questions")
    assert asking.wrong == [] and asking.asked > 20
    assert jobs.digest(ALIASES) == before
    settings = httpx.get(f"{stores.endpoint.url}/kept*/_settings", timeout=60).json()
    assert [index["settings"]["index"]["number_of_shards"] for index in settings.values()] == [
        "3"
    ] * 3
    # Three shards score as one.
    reader = OpenSearchIndex(name="kept", shards=(3, 0), **at)
    assert scores(reader) == pytest.approx(scored)
    reader.close()
    # Only replicas differ: nothing is copied. And loading goes on.
    assert Snapshots(Server(shards=Shards(3, 1), **at), "kept").resize_is_due()
    assert Snapshots(Server(shards=Shards(3, 1), **at), "kept").resize() == ()
    again = httpx.get(f"{stores.endpoint.url}/kept*/_settings", timeout=60).json()
    assert [index["settings"]["index"]["number_of_replicas"] for index in again.values()] == [
        "1"
    ] * 3
    writer.open_load("again", None, None, None)
    writer.put([(chunk(MANY), "new")])
    writer.close_load()
    assert stores.reader.get([f"u{MANY}"], SPACE, Deadline.after(30)).missing == ()
    server.close()


def test_a_restore_and_a_resize_refuse_while_the_other_runs(
    stores: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the last to move the aliases would drop the other's new indices."""
    monkeypatch.setattr(snapshots, "LIMIT_S", 5.0)
    writer = stores.writer
    writer.open_load("run", None, None, None)
    for numbers in batched(range(MANY), 1_000):
        writer.put([(chunk(n), str(n)) for n in numbers])
    writer.close_load()
    stores.register.put([DocumentRecord(namespace="kept", doc_id="d", text="One.")])
    at = {
        "url": stores.endpoint.url,
        "user": stores.endpoint.user,
        "password": stores.endpoint.password,
    }
    server = Server(shards=Shards(2, 0), **at)
    jobs = Snapshots(server, "kept")
    jobs.register({"type": "fs", "settings": stores.repository})
    jobs.take("monday")
    before = jobs.digest(ALIASES)
    wanted = {"DOCSTOKG_INDEX_SHARDS": "3", "DOCSTOKG_INDEX_REPLICAS": "0"}
    for job, refused in (
        (("resize",), lambda: jobs.restore("monday")),
        (("restore", "monday"), jobs.resize),
    ):
        with begun_job(stores.endpoint, *job, **wanted) as begun:
            begun.send_signal(signal.SIGSTOP)
            with pytest.raises(Timeout, match="resize or restore"):
                refused()
            begun.send_signal(signal.SIGCONT)
        assert begun.returncode == 0
        assert jobs.digest(ALIASES) == before
    server.close()

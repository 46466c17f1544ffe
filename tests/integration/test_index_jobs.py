"""Resizes on a real server while it answers, and a snapshot of an earlier release."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import batched
from typing import Any

import httpx
import numpy as np
import pytest

from docstokg.adapters.opensearch import resizing
from docstokg.adapters.opensearch.documents import OpenSearchRegister
from docstokg.adapters.opensearch.index import OpenSearchIndex
from docstokg.adapters.opensearch.layout import Shards
from docstokg.adapters.opensearch.lease import LEASES
from docstokg.adapters.opensearch.resizing import Resizing
from docstokg.adapters.opensearch.server import Server
from docstokg.adapters.opensearch.writer import OpenSearchWriter
from docstokg.contracts.records import ChunkRecord, DocumentRecord, Scope
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.domain.vectors import pack
from docstokg.errors import Timeout
from tests.contract.test_search_index import chunk as index_chunk
from tests.jvm.servers import Endpoint, Engine
from tests.plans import soon
from tests.services import SERVICES, own_home, start_own

MANY = int(os.environ.get("DOCSTOKG_TEST_CHUNKS", "3000"))
"""Chunks that are resized; docs/measured.md has a run with 100,000."""
REPEATED = 50
"""Chunks with the same vector."""
pytestmark = [*SERVICES, pytest.mark.timeout(max(600, MANY // 20))]
SPACE = Scope(namespace="kept")
VECTORS = [pack(row) for row in np.random.default_rng(7).normal(size=(MANY // REPEATED, 384))]
WANTED = {"DOCSTOKG_INDEX_SHARDS": "3", "DOCSTOKG_INDEX_REPLICAS": "0"}
KINDS = {"kept": "chunks", "kept-facts": "facts", "kept-documents": "documents"}


def chunk(number: int, vector: bytes | None = None) -> ChunkRecord:
    text = f"Passage {number} about seizures."
    fields = {"uuid": f"u{number}", "doc_id": "d", "namespace": "kept", "vector": vector}
    return index_chunk(f"c{number}", text, **fields)


@dataclass
class Kept:
    """A server of this test's own, every side of an index there, and a folder for snapshots."""

    endpoint: Endpoint
    at: dict[str, Any]
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
        stores = Kept(endpoint, at, {"location": str(folder)}, *sides, Server(**at))
        yield stores
        for connection in (stores.reader, stores.writer, stores.register, stores.server):
            connection.close()


def test_earlier_snapshot_is_restored_by_hand(stores: Kept) -> None:
    """The requests of CHANGELOG.md; loads and resizes go on with the restored indices."""
    writer, reader = stores.writer, stores.reader
    writer.open_load("run", None, None, None)
    writer.put([(chunk(1), "one"), (chunk(2), "two")])
    writer.close_load()
    stores.register.put([DocumentRecord(namespace="kept", doc_id="d", text="One. Two.")])
    repository = {"type": "fs", "settings": stores.repository}
    wait = {"params": {"wait_for_completion": "true"}}
    call(stores, "PUT", "_snapshot/docstokg", json=repository)
    body = {"indices": "kept*", "include_global_state": False}
    call(stores, "PUT", "_snapshot/docstokg/monday", json=body, **wait)
    writer.delete("kept", None)
    writer.close_load()
    stores.register.forget("kept", ["d"])
    restore = {
        "indices": "kept*",
        "rename_pattern": "(.+)",
        "rename_replacement": "$1-back",
        "include_aliases": False,
        "include_global_state": False,
    }
    call(stores, "POST", "_snapshot/docstokg/monday/_restore", json=restore, **wait)
    listed = call(stores, "GET", "_snapshot/docstokg/monday")["snapshots"][0]["indices"]
    actions: list[dict[str, Any]] = []
    for alias, kind in KINDS.items():
        (saved,) = [index for index in listed if index.startswith(f"kept-{kind}")]
        (current,) = call(stores, "GET", f"{alias}/_alias")
        actions.append({"add": {"index": f"{saved}-back", "alias": alias}})
        actions.append({"remove_index": {"index": current}})
    call(stores, "POST", "_aliases", json={"actions": actions})
    assert stores.register.text("kept", "d") == "One. Two."
    assert set(reader.get(["u1", "u2"], SPACE, soon()).chunks) == {"u1", "u2"}
    jobs = Resizing(stores.server, "kept")
    assert jobs.resize() == ()
    writer.open_load("again", None, None, None)
    writer.put([(chunk(3), "three")])
    writer.close_load()
    assert set(reader.get(["u1", "u3"], SPACE, soon()).chunks) == {"u1", "u3"}


def call(stores: Kept, method: str, path: str, **sent: Any) -> dict[str, Any]:
    answer = httpx.request(method, f"{stores.endpoint.url}/{path}", timeout=120, **sent)
    assert answer.is_success, answer.text
    return dict(answer.json())


def layouts(stores: Kept, name: str) -> list[str]:
    """Return a setting of each index."""
    settings = call(stores, "GET", "kept*/_settings")
    return [index["settings"]["index"][name] for index in settings.values()]


def put_many(stores: Kept, vectors: Sequence[bytes | None]) -> None:
    """Load MANY chunks with these vectors by turns, and a document."""
    stores.writer.open_load("run", *(("model", 384) if vectors[0] else (None, None)), None)
    for numbers in batched(range(MANY), 1_000):
        stores.writer.put([(chunk(n, vectors[n % len(vectors)]), str(n)) for n in numbers])
    stores.writer.close_load()
    stores.register.put([DocumentRecord(namespace="kept", doc_id="d", text="One.")])


def digest(jobs: Resizing) -> str:
    """Return a digest of ids and sources behind all aliases, without leases."""
    hasher = hashlib.sha256()
    for alias, kind in jobs._kinds.items():
        for hit in jobs._hits(alias, resizing.SORTED[kind]):
            if not hit["_id"].startswith(LEASES):
                line = json.dumps([hit["_id"], hit["_source"]], sort_keys=True)
                hasher.update(line.encode())
    return hasher.hexdigest()


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
                words, meaning = self._reader.search(queries, SPACE, soon())
                (first, *_), near = words.hits, [int(hit.uuid[1:]) for hit in meaning.hits]
                whole = set(self._reader.get([f"u{number}"], SPACE, soon()).chunks)
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
        hit.score for result in reader.search(queries, SPACE, soon()) for hit in result.hits[:1]
    ]


def test_a_resize_killed_twice_completes_without_failed_questions(stores: Kept) -> None:
    writer = stores.writer
    put_many(stores, VECTORS)
    before = digest(Resizing(stores.server, "kept"))
    scored = scores(stores.reader)
    asking = Asking(stores.reader)
    asking.start()
    for after_s in (0.0, MANY / 1_500):
        kill_job(stores.endpoint, "resize", after_s=after_s, **WANTED)
    at = stores.at
    server = Server(shards=Shards(3, 0), **at)
    jobs = Resizing(server, "kept")
    begun = time.monotonic()
    assert jobs.is_due()
    assert len(jobs.resize()) == 3
    assert not jobs.is_due()
    asking.end()
    print(f"{MANY} chunks resized in {time.monotonic() - begun:.0f} s, {asking.asked} questions")
    assert asking.wrong == [] and asking.asked > 20
    assert digest(jobs) == before
    assert layouts(stores, "number_of_shards") == ["3"] * 3
    # Three shards score as one.
    reader = OpenSearchIndex(name="kept", shards=(3, 0), **at)
    assert scores(reader) == pytest.approx(scored)
    reader.close()
    # Only replicas differ: nothing is copied. And loading goes on.
    assert Resizing(Server(shards=Shards(3, 1), **at), "kept").is_due()
    assert Resizing(Server(shards=Shards(3, 1), **at), "kept").resize() == ()
    assert layouts(stores, "number_of_replicas") == ["1"] * 3
    writer.open_load("again", None, None, None)
    writer.put([(chunk(MANY), "new")])
    writer.close_load()
    assert stores.reader.get([f"u{MANY}"], SPACE, soon()).missing == ()
    server.close()


def test_second_resize_refuses_while_one_runs(
    stores: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the last to move the aliases would drop the other's new indices."""
    monkeypatch.setattr(resizing, "LIMIT_S", 5.0)
    put_many(stores, [None])
    server = Server(shards=Shards(2, 0), **stores.at)
    jobs = Resizing(server, "kept")
    before = digest(jobs)
    with begun_job(stores.endpoint, "resize", **WANTED) as begun:
        begun.send_signal(signal.SIGSTOP)
        with pytest.raises(Timeout, match="load or resize"):
            jobs.resize()
        begun.send_signal(signal.SIGCONT)
    assert begun.returncode == 0
    assert digest(jobs) == before
    server.close()

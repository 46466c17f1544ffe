"""The real file, cut short, deleted, locked, filled with garbage or left by a killed load."""

import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import batched
from pathlib import Path

import numpy as np
import pytest

from docstokg.adapters.sqlite import index_writer
from docstokg.adapters.sqlite.index import SqliteIndex
from docstokg.adapters.sqlite.index_files import GenerationWriter, write_sparse
from docstokg.adapters.sqlite.index_writer import SqliteIndexWriter
from docstokg.adapters.sqlite.session import Sessions
from docstokg.contracts.records import ChunkRecord, Scope
from docstokg.contracts.retrieval import ChannelQuery, ChannelResult
from docstokg.domain.deadline import Deadline
from docstokg.domain.vectors import pack
from docstokg.errors import Misconfigured, Timeout, Unavailable
from tests.contract.test_search_index import chunk, fact
from tests.plans import soon

DIMENSION = 16
CHUNKS = 60
PATIENT_S = 30.0
SCOPE = Scope(namespace="ns")
ROOT = Path(__file__).resolve().parents[2]


def record(number: int, text: str | None = None) -> ChunkRecord:
    text = text or f"Chunk number {number} tells of seizures and of word{number}."
    vector = pack(np.random.default_rng(number).normal(size=DIMENSION).tolist())
    sparse = {"seizure": 1.0 + number / CHUNKS, f"tok{number}": 2.0}
    return chunk(str(number), text, sparse=sparse, vector=vector)


def load(path: Path, count: int = CHUNKS) -> None:
    """Load as the product does: known chunks are left alone, batches of five."""
    with closing(SqliteIndexWriter(path)) as writer:
        writer.open_load("run-1", "model-a", DIMENSION, "sparse-a")
        records = [record(number) for number in range(count)]
        stored = writer.fingerprints("ns", [item.uuid for item in records])
        fresh = [(item, item.text_sha256) for item in records if item.uuid not in stored]
        for batch in batched(fresh, 5):
            writer.put(batch)
        writer.put_facts([fact(f"f{n}", f"seizure causes word{n}", str(n)) for n in range(10)])
        writer.close_load()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "store.sqlite"
    load(file)
    return file


@pytest.fixture
def index(path: Path) -> Iterator[SqliteIndex]:
    opened = SqliteIndex(path)
    assert healthy(opened)
    yield opened
    opened.close()


def search(index: SqliteIndex, timeout_s: float = PATIENT_S) -> dict[str, ChannelResult]:
    queries = [
        ChannelQuery(channel="bm25", size=10, text="seizures word7"),
        ChannelQuery(channel="splade", size=10, weights={"seizure": 1.0, "tok7": 2.0}),
        ChannelQuery(channel="dense", size=10, vector=record(7).vector),
        ChannelQuery(channel="facts", size=10, text="word7"),
    ]
    results = index.search(queries, SCOPE, Deadline.after(timeout_s))
    return {result.channel: result for result in results}


def nearest(index: SqliteIndex, number: int, size: int = 1) -> list[str]:
    """Return the uuids of the chunks most similar to a chunk."""
    query = ChannelQuery(channel="dense", size=size, vector=record(number).vector)
    (result,) = index.search([query], SCOPE, soon())
    return [hit.uuid for hit in result.hits]


def failures(index: SqliteIndex) -> dict[str, str | None]:
    return {channel: result.failure for channel, result in search(index).items()}


def healthy(index: SqliteIndex) -> bool:
    results = search(index)
    first = [results[channel].hits[0].uuid for channel in ("bm25", "splade", "dense")]
    return first == [record(7).uuid] * 3 and results["facts"].facts[0].id == "f7"


def sidecar(path: Path, name: str) -> Path:
    (file,) = path.with_name(f"{path.name}.d").glob(f"gen-*/{name}")
    return file


def test_a_missing_file_is_not_made_by_reading(tmp_path: Path) -> None:
    index = SqliteIndex(tmp_path / "nothing.sqlite")
    for call in (
        lambda: index.info(soon()),
        lambda: index.get(["x"], SCOPE, soon()),
        lambda: search(index),
    ):
        with pytest.raises(Unavailable, match=r"docstokg load.*docstokg demo"):
            call()
    assert list(tmp_path.iterdir()) == []
    index.close()


def test_a_deleted_file_and_its_return_are_noticed(index: SqliteIndex, path: Path) -> None:
    path.rename(path.with_suffix(".away"))
    with pytest.raises(Unavailable, match="there is no index"):
        search(index)
    path.with_suffix(".away").rename(path)
    assert healthy(index)


@pytest.mark.parametrize("size", [0, 100, 5000, 0.5, 0.98])
def test_a_truncated_file_is_unavailable_until_whole_again(
    index: SqliteIndex, path: Path, size: float
) -> None:
    whole = path.read_bytes()
    os.truncate(path, int(size if size >= 1 else size * len(whole)))
    with pytest.raises(Unavailable):
        search(index)
    with pytest.raises(Unavailable):
        index.get([record(1).uuid], SCOPE, soon())
    with path.open("r+b") as file:
        file.write(whole)
    assert healthy(index)


def test_garbage_is_unavailable_until_a_new_load(index: SqliteIndex, path: Path) -> None:
    size = path.stat().st_size
    path.write_bytes(random.Random(1).randbytes(size))
    with pytest.raises(Unavailable):
        search(index)
    for leftover in path.parent.glob("store.sqlite*"):
        if leftover.is_file():
            leftover.unlink()
    load(path)
    assert healthy(index)


def test_an_exclusive_lock_is_a_timeout_and_passes(index: SqliteIndex, path: Path) -> None:
    # Reading needs no lock that a writer holds; only this mode shuts everybody out.
    index.close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    holder.execute("INSERT OR REPLACE INTO index_meta (key, value) VALUES ('x', 'y')")
    holder.execute("COMMIT")
    locked = SqliteIndex(path)
    with pytest.raises(Timeout):
        search(locked, timeout_s=0.3)
    with pytest.raises(Timeout):
        locked.get([record(1).uuid], SCOPE, Deadline.after(0.3))
    holder.close()
    assert healthy(locked)
    locked.close()


@pytest.mark.parametrize(
    ("file", "lost"),
    [
        ("dense-matrix.bin", "dense"), ("dense-ids.bin", "dense"), ("sparse-rows.bin", "splade"),
        ("sparse-starts.bin", "splade"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("damage", ["truncate", "delete", "garbage", "one byte"])
def test_a_damaged_array_costs_its_own_channel(
    index: SqliteIndex, path: Path, file: str, lost: str, damage: str
) -> None:
    target = sidecar(path, file)
    whole = target.read_bytes()
    damaged = {
        "truncate": whole[: len(whole) // 2],
        "garbage": random.Random(2).randbytes(len(whole)),
        "one byte": whole[:-1] + bytes([whole[-1] ^ 255]),
    }
    if damage == "delete":
        target.unlink()
    else:
        target.write_bytes(damaged[damage])
    expected = dict.fromkeys(("bm25", "splade", "dense", "facts")) | {lost: "unavailable"}
    assert failures(index) == expected
    assert failures(index) == expected, "the verdict must not depend on being asked twice"
    assert search(index)["bm25"].hits[0].vector is not None
    load(path)
    assert healthy(index)


def test_namespaces_lose_only_channels_without_weights_or_vectors(
    index: SqliteIndex, path: Path
) -> None:
    plain = record(7).model_copy(
        update={"namespace": "plain", "uuid": "plain-7", "sparse": {}, "vector": None}
    )
    writer = SqliteIndexWriter(path)
    writer.open_load("run-2", None, None, None)
    writer.put([(plain, "1")])
    writer.close_load()
    writer.close()
    queries = [
        ChannelQuery(channel="bm25", size=5, text="seizures"),
        ChannelQuery(channel="splade", size=5, weights={"seizure": 1.0}),
        ChannelQuery(channel="dense", size=5, vector=record(7).vector),
    ]
    for namespace, lost in (("plain", "unavailable"), ("unknown", None)):
        results = index.search(queries, Scope(namespace=namespace), soon())
        assert [result.failure for result in results] == [None, lost, lost]
    assert healthy(index)


def test_during_a_load_old_texts_are_never_found(index: SqliteIndex, path: Path) -> None:
    writer = SqliteIndexWriter(path)
    writer.open_load("run-2", "model-a", DIMENSION, "sparse-a")
    writer.put([(record(7, "Something else entirely."), "2")])
    results = search(index)
    assert record(7).uuid not in {hit.uuid for result in results.values() for hit in result.hits}
    assert index.info(soon()).unfinished == {"": "run-2"}
    writer.close_load()
    assert search(index)["dense"].hits[0].uuid == record(7).uuid
    writer.close()


def test_another_load_writes_while_arrays_are_rebuilt(
    path: Path, index: SqliteIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write lock is free meanwhile; the later rows are found after their own load."""
    monkeypatch.setattr(index_writer, "BUSY_S", 0.5)
    during, after = (record(number, f"word7 of load {number}") for number in (100, 101))
    other = SqliteIndexWriter(path)
    other.open_load("run-2", "model-a", DIMENSION, "sparse-a", "other")

    def write(db: sqlite3.Connection, files: GenerationWriter) -> None:
        other.put([(during, "during")])
        write_sparse(db, files)

    monkeypatch.setattr(index_writer, "write_sparse", write)
    writer = SqliteIndexWriter(path)
    writer.open_load("run-3", "model-a", DIMENSION, "sparse-a")
    writer.put([(after, "after")])
    writer.close_load()
    uuids = nearest(index, 100, CHUNKS + 9)
    assert after.uuid in uuids and during.uuid not in uuids
    monkeypatch.setattr(index_writer, "write_sparse", write_sparse)
    other.close_load("other")
    assert {after.uuid, during.uuid} <= {*nearest(index, 100, CHUNKS + 9)}
    writer.close()
    other.close()


def test_another_version_of_the_tables_is_refused(path: Path) -> None:
    other = sqlite3.connect(path)
    with other:
        other.execute("UPDATE index_meta SET value = '0' WHERE key = 'schema'")
    other.close()
    index = SqliteIndex(path)
    with pytest.raises(Misconfigured, match="another version"):
        search(index)
    writer = SqliteIndexWriter(path)
    with pytest.raises(Misconfigured, match="another version"):
        writer.open_load("run", None, None, None)
    index.close()


def test_loads_of_another_process_are_seen_without_restart(tmp_path: Path) -> None:
    path = tmp_path / "later.sqlite"
    load(path, count=10)
    index = SqliteIndex(path)
    assert index.info(soon()).chunks == 10
    assert search(index)["dense"].hits[0].uuid == record(7).uuid
    subprocess.run(
        [sys.executable, __file__, str(path)],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=ROOT,
    )
    assert index.info(soon()).chunks == CHUNKS
    assert index.info(soon()).namespaces == ("ns",)
    assert nearest(index, CHUNKS - 1) == [record(CHUNKS - 1).uuid]
    index.close()


if __name__ == "__main__":
    load(Path(sys.argv[1]))


LOADER = """
import sys
from pathlib import Path
from docstokg.adapters.sqlite.index_writer import SqliteIndexWriter
writer = SqliteIndexWriter(Path(sys.argv[1]))
writer.open_load("theirs", None, None, None)
print("open", flush=True)
sys.stdin.readline()
writer.close_load()
"""


@pytest.mark.parametrize("end", ["finished", "killed"])
def test_a_load_waits_for_another_process_s_load(tmp_path: Path, end: str) -> None:
    path = tmp_path / "store.sqlite"
    theirs = subprocess.Popen(
        [sys.executable, "-c", LOADER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert theirs.stdin is not None and theirs.stdout is not None
    assert theirs.stdout.readline() == "open\n"
    ours = SqliteIndexWriter(path)
    opened = threading.Event()

    def load() -> None:
        ours.open_load("ours", None, None, None)
        opened.set()

    waiting = threading.Thread(target=load)
    waiting.start()
    assert not opened.wait(0.5)
    if end == "killed":
        theirs.kill()
    else:
        theirs.stdin.write("\n")
        theirs.stdin.flush()
    assert opened.wait(30.0)
    theirs.communicate()
    ours.close_load()
    assert SqliteIndex(path).info(Deadline.after(5.0)).unfinished == {}
    waiting.join()
    ours.close()


def test_a_search_needs_few_statements_per_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "index.sqlite"
    load(path)
    index, statements = SqliteIndex(path), []
    lend = Sessions.use

    @contextmanager
    def counted(self: Sessions, deadline: Deadline) -> Iterator[sqlite3.Connection]:
        with lend(self, deadline) as connection:
            connection.set_trace_callback(statements.append)
            yield connection

    monkeypatch.setattr(Sessions, "use", counted)
    assert len(nearest(index, 1, 50)) == 50
    index.close()
    assert sum(text.startswith("SELECT") for text in statements) < 10

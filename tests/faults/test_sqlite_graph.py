"""A missing, damaged, locked or slow graph file raises the port's errors."""

import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from docstokg.adapters.sqlite.graph import SqliteGraph
from docstokg.adapters.sqlite.graph_writer import SqliteGraphWriter
from docstokg.contracts.graph import SliceRequest
from docstokg.domain.deadline import Deadline
from docstokg.errors import Misconfigured, Timeout, Unavailable
from docstokg.loading.transfer.contents import graph_rows
from tests.contract.test_knowledge_graph import EVERYBODY, chunk, entity, mention, put_mentions
from tests.plans import soon

ASKED = SliceRequest(alias_keys=("name 1",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "store.sqlite"
    writer = SqliteGraphWriter(file)
    writer.put_chunks([chunk(f"{i}", "d") for i in range(300)])
    writer.put_entities([entity(f"X:{i}", f"name {i}") for i in range(300)])
    put_mentions(writer, *(mention(f"{i}", f"X:{j}") for i in range(300) for j in range(0, 300, 3)))
    writer.close_load()
    writer.close()
    return file


def answers(graph: SqliteGraph) -> bool:
    return bool(graph.slice(ASKED, EVERYBODY, soon()).aliases)


def test_a_missing_or_empty_file_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="there is no graph at"):
        SqliteGraph(tmp_path / "nothing.sqlite").slice(ASKED, EVERYBODY, soon())
    (tmp_path / "empty.sqlite").touch()
    with pytest.raises(Unavailable):
        SqliteGraph(tmp_path / "empty.sqlite").slice(ASKED, EVERYBODY, soon())
    (tmp_path / "text.sqlite").write_text("no database at all, " * 100)
    with pytest.raises(Unavailable):
        SqliteGraph(tmp_path / "text.sqlite").info(soon())


def test_a_truncated_file_is_unavailable_until_restored(path: Path) -> None:
    copy = path.with_suffix(".copy")
    shutil.copy(path, copy)
    graph = SqliteGraph(path)
    assert answers(graph)
    with path.open("r+b") as handle:
        handle.truncate(4096)
    with pytest.raises(Unavailable):
        SqliteGraph(path).slice(ASKED, EVERYBODY, soon())
    path.unlink()
    with pytest.raises(Unavailable):
        graph.slice(ASKED, EVERYBODY, soon())
    copy.replace(path)
    assert answers(graph)


def test_an_exclusive_lock_is_a_timeout_in_time(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA journal_mode = DELETE")
    other.execute("BEGIN EXCLUSIVE")
    graph = SqliteGraph(path)
    try:
        with pytest.raises(Timeout):
            graph.slice(ASKED, EVERYBODY, Deadline.after(0.2))
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert answers(graph)


def test_a_statement_that_takes_too_long_is_ended(path: Path) -> None:
    graph = SqliteGraph(path)
    request = SliceRequest(
        entity_ids=tuple(f"X:{i}" for i in range(300)), max_nodes=10_000, chunks_per_entity=1000
    )
    with pytest.raises(Timeout):
        graph.slice(request, EVERYBODY, Deadline.after(0.002))
    with pytest.raises(Timeout):
        graph.slice(request, EVERYBODY, Deadline.after(0.0))
    assert answers(graph)


def test_every_thread_reads_independently_during_a_load(path: Path) -> None:
    graph, writer = SqliteGraph(path), SqliteGraphWriter(path)
    seen: list[list[int]] = [[], [], []]
    broken: list[BaseException] = []
    done = threading.Event()

    def read(mine: list[int]) -> None:
        try:
            while not done.is_set():
                mine.append(len(graph.slice(ASKED, EVERYBODY, soon()).chunks))
        except Exception as error:
            broken.append(error)

    threads = [threading.Thread(target=read, args=(mine,)) for mine in seen]
    for thread in threads:
        thread.start()
    for i in range(300, 320):
        writer.put_chunks([chunk(f"{i}", "d")])
        put_mentions(writer, mention(f"{i}", "X:1"))
        writer.close_load()
    done.set()
    for thread in threads:
        thread.join()
    assert not broken
    assert all(mine == sorted(mine) for mine in seen)
    assert len(graph.slice(ASKED, EVERYBODY, soon()).chunks) == ASKED.chunks_per_entity


def test_a_batch_is_whole_or_absent(path: Path) -> None:
    writer = SqliteGraphWriter(path)
    before = list(graph_rows(writer, "default"))
    good = entity("X:900", "good")
    bad = good.model_copy(update={"id": "X:901", "name": {"not": "text"}})
    with pytest.raises(Exception, match=r".+"):
        writer.put_entities([good, bad])
    assert list(graph_rows(writer, "default")) == before
    writer.put_entities([good])
    assert len(list(graph_rows(writer, "default"))) > len(before)


def test_another_layout_is_refused(path: Path) -> None:
    other = sqlite3.connect(path)
    with other:
        other.execute("UPDATE graph_meta SET value = '999' WHERE key = 'schema'")
    other.close()
    with pytest.raises(Misconfigured, match="999"):
        SqliteGraphWriter(path).put_chunks([])


def test_a_load_ends_while_another_one_writes(path: Path) -> None:
    """The other one begins before the statistics; they are left to its end."""
    writer = SqliteGraphWriter(path)
    writer.close_load()
    connection = writer._connection()
    connection.execute("DELETE FROM sqlite_stat1")
    connection.execute("PRAGMA busy_timeout = 1")
    with closing(sqlite3.connect(path, isolation_level=None)) as beside:

        def begin(action: int, name: str | None, *_: object) -> int:
            if action == sqlite3.SQLITE_PRAGMA and name == "optimize":
                beside.execute("BEGIN IMMEDIATE")
            return sqlite3.SQLITE_OK

        connection.set_authorizer(begin)
        writer.close_load()
        assert beside.in_transaction

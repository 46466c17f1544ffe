"""What a process remembers of an embedded graph: never more than its share, never what changed."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from docstokg.adapters.sqlite.graph import SqliteGraph, SqliteGraphWriter
from docstokg.adapters.sqlite.graph_memory import GraphMemory, note_change
from docstokg.contracts.graph import GraphSlice, SliceRequest
from docstokg.contracts.records import ChunkNode, EntityRecord, MentionRecord, Scope
from docstokg.domain.identity import chunk_uuid

SPACE = "default"
EVERYBODY = Scope(namespace=SPACE)
NAMES = [f"name {n}" for n in range(30)]
UUIDS = [chunk_uuid(SPACE, f"c{n}") for n in range(60)]


def write(writer: SqliteGraphWriter, mentioned: dict[str, list[str]]) -> None:
    """Say anew what chunks mention."""
    nodes = [
        ChunkNode(uuid=u, chunk_id=u, namespace=SPACE, doc_id=u, title=u) for u in sorted(mentioned)
    ]
    writer.put_chunks(nodes)
    writer.put_entities([EntityRecord(id=name, namespace=SPACE, name=name) for name in NAMES])
    writer.put_mentions(
        SPACE,
        {
            u: [
                MentionRecord(uuid=u, entity=name, start=place, end=place + 4)
                for place, name in enumerate(names)
            ]
            for u, names in mentioned.items()
        },
    )
    writer.close_load()


def some(seed: int) -> dict[str, list[str]]:
    draw = random.Random(seed)
    return {u: draw.sample(NAMES, draw.randrange(8)) for u in UUIDS}


def asked(graph: SqliteGraph, seed: int) -> GraphSlice:
    draw = random.Random(seed)
    uuids = tuple(draw.sample(UUIDS, 20))
    return graph.slice(SliceRequest(chunk_uuids=uuids, max_nodes=80), EVERYBODY, 30.0)


def afresh(path: Path, seed: int) -> GraphSlice:
    with closing(SqliteGraph(path)) as graph:
        return asked(graph, seed)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    writer = SqliteGraphWriter(tmp_path / "store.sqlite")
    write(writer, some(0))
    writer.close()
    return tmp_path / "store.sqlite"


def test_what_another_process_changes_is_seen_by_the_next_question(path: Path) -> None:
    graph, draw = SqliteGraph(path), random.Random(7)
    for turn in range(1, 6):
        for seed in (1, 2, 1, 3, 2):
            assert asked(graph, seed) == afresh(path, seed)
        writer = SqliteGraphWriter(path)
        if turn == 3:
            writer.delete(SPACE, draw.sample(UUIDS, 20))
        else:
            write(writer, {u: m for u, m in some(turn).items() if draw.random() < 0.2})
        writer.close()
        assert asked(graph, 1) == afresh(path, 1)
    graph.close()


def test_a_file_put_in_the_place_of_another_is_not_mistaken_for_it(path: Path) -> None:
    graph = SqliteGraph(path)
    before = [asked(graph, 1) for _ in range(3)][-1]
    other = path.with_name("other.sqlite")
    writer = SqliteGraphWriter(other)
    write(writer, some(9))
    writer.close()
    other.replace(path)
    after = [asked(graph, 1) for _ in range(3)]
    assert after[0] == after[1] == after[2] == afresh(path, 1) != before
    graph.close()


def test_only_what_is_seen_twice_is_kept_and_never_more_than_its_share(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        memory = GraphMemory(most_bytes=2_000)
        assert memory.of(connection.execute) is None
        first = memory.of(connection.execute)
        assert first is not None and first is memory.of(connection.execute)
        chunks = [row[0] for row in connection.execute("SELECT chunk FROM graph_chunks")]
        first.columns(connection.execute, chunks)
        assert first.bytes > 2_000
        assert memory.of(connection.execute) not in (None, first)
        note_change(connection.execute)
        assert memory.of(connection.execute) is None


def test_a_file_written_before_changes_were_noted_is_read_each_time(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM graph_meta WHERE key = 'content'")
        memory = GraphMemory()
        assert [memory.of(connection.execute) for _ in range(3)] == [None, None, None]

"""Costs of a question in the embedded graph as counts, since times vary too much."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from docstokg.adapters.sqlite.graph import SqliteGraph
from docstokg.adapters.sqlite.graph_writer import SqliteGraphWriter
from docstokg.contracts.graph import GraphSlice, SliceRequest
from tests.contract.test_knowledge_graph import EVERYBODY, crowd, number
from tests.plans import soon

STATEMENTS = 14
STATEMENTS_AN_ENTITY = 4
"""About it, mentioning it, and its relations in each direction."""

REQUEST = SliceRequest(
    alias_keys=("e1", "e4"),
    entity_ids=("X:5",),
    chunk_uuids=tuple(number(f"c{i}") for i in range(10)),
    preferred_uuids=tuple(number(f"c{i}") for i in range(30)),
    known_ids=("X:2", "X:3"),
)
OPENED_ENTITIES = 3


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    writer = SqliteGraphWriter(tmp_path / "store.sqlite")
    crowd(writer)
    writer.close()
    yield tmp_path / "store.sqlite"


def traced(path: Path) -> tuple[GraphSlice, list[str]]:
    """Read one slice, and every statement it takes."""
    graph, seen = SqliteGraph(path), []
    with graph._sessions.use(soon()) as connection:
        connection.set_trace_callback(seen.append)
    part = graph.slice(REQUEST, EVERYBODY, soon())
    graph.close()
    return part, [text for text in seen if text.startswith("SELECT")]


def test_a_slice_takes_few_statements_whatever_its_size(path: Path) -> None:
    part, statements = traced(path)
    assert len(part.mentions) > 60
    assert len(statements) <= STATEMENTS + STATEMENTS_AN_ENTITY * OPENED_ENTITIES


def test_a_slice_reads_no_vector_of_an_entity(path: Path) -> None:
    """A vector fills half a page: read with it, every entity of a slice would be a page."""
    _, statements = traced(path)
    connection = sqlite3.connect(path)
    plans = [
        row[3] for text in statements for row in connection.execute(f"EXPLAIN QUERY PLAN {text}")
    ]
    connection.close()
    of_entities = [line for line in plans if line.startswith("SEARCH e ")]
    assert len(of_entities) > 4
    assert [line for line in of_entities if "INDEX graph_entities_card" not in line] == []

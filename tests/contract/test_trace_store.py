"""What every trace store promises, asked of the embedded one and of the real server."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from docstokg.adapters.neo4j.server import Server
from docstokg.adapters.neo4j.traces import Neo4jTraces
from docstokg.adapters.sqlite.graph_writer import SqliteGraphWriter
from docstokg.adapters.sqlite.traces import SqliteTraces
from docstokg.contracts.state import TraceMessage
from docstokg.ports import TraceStore
from tests.contract.real import neo4j_store
from tests.contract.test_knowledge_graph import fill, number
from tests.jvm.servers import Engine
from tests.plans import soon
from tests.services import SERVICES, server

DAY_MS = 86_400_000
Rows = list[tuple[object, ...]]


@dataclass(frozen=True)
class Traces:
    """A trace store next to a loaded graph, and its rows by query id."""

    store: TraceStore
    stored_rows: Callable[[], dict[str, Rows]]


@contextmanager
def in_sqlite(tmp_path: Path) -> Iterator[Traces]:
    import sqlite3

    path = tmp_path / "store.sqlite"
    writer = SqliteGraphWriter(path)
    fill(writer)
    writer.close()

    def stored_rows() -> dict[str, Rows]:
        with closing(sqlite3.connect(path)) as db:
            names = {
                "query": "SELECT id, session, hash, namespace, at, answered FROM trace_queries",
                "retrieved": "SELECT query, uuid, rank, score FROM trace_retrieved",
                "focused": "SELECT query, entity, score FROM trace_focused_on",
                "supported": "SELECT query, uuid, rank FROM trace_supported_by",
            }
            return {name: sorted(db.execute(text).fetchall()) for name, text in names.items()}

    yield Traces(SqliteTraces(path), stored_rows)


@contextmanager
def in_neo4j(tmp_path: Path) -> Iterator[Traces]:
    with neo4j_store() as (_, writer):
        fill(writer)
        at = server(Engine.NEO4J)
        store = Neo4jTraces(url=at.url, user=at.user, password=at.password)
        reader = Server(url=at.url, user=at.user, password=at.password)

        def stored_rows() -> dict[str, Rows]:
            names = {
                "query": "MATCH (s:Session)-[:ASKED]->(q:Query) RETURN q.id, s.id, q.hash,"
                " q.namespace, q.at, COUNT { (q)-[:ANSWERED_BY]->(:Answer) }",
                "retrieved": "MATCH (q:Query)-[r:RETRIEVED]->(c:Chunk)"
                " RETURN q.id, c.uuid, r.rank, r.score",
                "focused": "MATCH (q:Query)-[f:FOCUSED_ON]->(e:Entity) RETURN q.id, e.id, f.score",
                "supported": "MATCH (q:Query)-[:ANSWERED_BY]->(:Answer)-[s:SUPPORTED_BY]->(c)"
                " RETURN q.id, c.uuid, s.rank",
            }
            return {
                name: sorted(tuple(row) for row in reader.read(text, {}, soon()))
                for name, text in names.items()
            }

        try:
            yield Traces(store, stored_rows)
        finally:
            store.remove_before(10 * DAY_MS, soon())
            reader.close()
            store.close()


@pytest.fixture(params=["sqlite", pytest.param("neo4j", marks=SERVICES)])
def traces(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Traces]:
    """A trace store that holds nothing yet."""
    with {"sqlite": in_sqlite, "neo4j": in_neo4j}[request.param](tmp_path) as traces:
        yield traces


def message(name: str, at: int = 1000, session: str = "s") -> TraceMessage:
    return TraceMessage(
        request_id=name,
        session=session,
        namespace="default",
        query_hash="h",
        created_ms=at,
        retrieved=(
            {"uuid": number("a"), "rank": 1, "score": 0.5},
            {"uuid": number("nowhere"), "rank": 2, "score": 0.4},
        ),
        focused_on=({"entity": "hp:0001250", "score": 0.25}, {"entity": "HP:9", "score": 1.0}),
        supported_by=(1, 2, 7),
    )


def test_writing_again_changes_nothing_and_needs_both_ends(traces: Traces) -> None:
    traces.store.write([message("q")], soon())
    once = traces.stored_rows()
    assert once == {
        "query": [("q", "s", "h", "default", 1000, 1)],
        "retrieved": [("q", number("a"), 1, 0.5)],
        "focused": [("q", "HP:0001250", 0.25)],
        "supported": [("q", number("a"), 1)],
    }
    traces.store.write([message("q"), message("q")], soon())
    assert traces.stored_rows() == once


def test_a_trace_is_read_back_until_it_expires(traces: Traces) -> None:
    traces.store.write([message("q"), message("other", DAY_MS)], soon())
    assert traces.store.read("q", soon()) == message("q").model_copy(
        update={
            "retrieved": ({"uuid": number("a"), "rank": 1, "score": 0.5},),
            "focused_on": ({"entity": "HP:0001250", "score": 0.25},),
            "supported_by": (1,),
        }
    )
    assert traces.store.read("nothing", soon()) is None
    traces.store.remove_before(2000, soon())
    assert traces.store.read("q", soon()) is None
    assert traces.store.read("other", soon()) is not None


def test_expired_traces_are_removed_with_all_their_rows(traces: Traces) -> None:
    traces.store.write(
        [message("old", 1000), message("older", 10, "gone"), message("new", DAY_MS)],
        soon(),
    )
    assert traces.store.remove_before(2000, soon()) == 2
    for rows in traces.stored_rows().values():
        assert [row[0] for row in rows] == ["new"]
    assert traces.store.remove_before(2000, soon()) == 0

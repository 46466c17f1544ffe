"""Graphs that others filled, or an earlier version did, become ours when the schema is applied."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from docstokg.adapters.neo4j.graph import Neo4jGraph
from docstokg.adapters.neo4j.writer import Neo4jGraphWriter
from docstokg.contracts.graph import SliceRequest
from tests.contract.real import neo4j_sides, neo4j_store
from tests.contract.test_knowledge_graph import (
    EVERYBODY,
    STRANGER,
    entity,
    mention,
    number,
    put_mentions,
)
from tests.jvm.servers import Engine
from tests.plans import soon
from tests.services import SERVICES, server

pytestmark = [*SERVICES]
FOREIGN = """
CREATE (d:Document {id: 'guide'})-[:HAS_SECTION]->(:Section {id: 's1', title: 'One', text: 'x'}),
  (d)-[:HAS_SECTION]->(:Section {section_id: 2, doc_id: 'other', acl: ['staff']}),
  (:Section {id: 's3', namespace: 'else', uuid: 'given'}),
  (:Section {id: 'twin'}), (:Chunk {uuid: $twin, chunk_id: 'twin', namespace: 'default'})
"""


@pytest.fixture
def adopted() -> Iterator[tuple[Neo4jGraph, Neo4jGraphWriter]]:
    """A foreign graph whose schema was applied twice, by writers that did not know it."""
    with neo4j_store() as (graph, first):
        first.close_load()  # the indexes are there; what says so goes
        first._server.write("MATCH (s:Store) DELETE s", {}, soon())
        first._server.write(FOREIGN, {"twin": number("twin")}, soon())
        for _ in range(2):
            _, writer = neo4j_sides(server(Engine.NEO4J))
            writer.close_load()
            writer.close()
            first._server.write("MATCH (s:Store) DELETE s", {}, soon())
        first.close_load()
        yield graph, first


def test_sections_become_chunks_once(adopted: tuple[Neo4jGraph, Neo4jGraphWriter]) -> None:
    graph, writer = adopted
    rows = writer._server.read(
        "MATCH (s:Section) RETURN s.chunk_id AS id, s.uuid AS uuid, s.doc_id AS doc, s.open AS open"
        ", s:Chunk AS chunk, COUNT { (:Document)-[:HAS_CHUNK]->(s) } AS owners ORDER BY id",
        {},
        soon(),
    )
    assert [row.values() for row in rows] == [
        ["2", number("2"), "other", False, True, 1],
        ["s1", number("s1"), "guide", True, True, 1],
        ["s3", "given", "", True, True, 1],
        [None, None, None, None, False, 0],  # its chunk is there on its own
    ]
    assert sorted(row[0] for row in writer.labels("default")) == sorted(
        map(number, ("s1", "2", "twin"))
    )
    assert graph.info(soon()).chunks == 4


def test_what_sections_mention_is_found_and_guarded(
    adopted: tuple[Neo4jGraph, Neo4jGraphWriter],
) -> None:
    graph, writer = adopted
    writer.put_entities([entity("HP:1", "one")])
    put_mentions(writer, *(mention(name, "HP:1", 0, 1) for name in ("s1", "2")))
    writer.close_load()
    request = SliceRequest(alias_keys=("one",))
    everything = graph.slice(request, EVERYBODY, soon())
    assert [(chunk.chunk_id, chunk.doc_id) for chunk in everything.chunks] == sorted(
        [("s1", "guide"), ("2", "other")], key=lambda pair: number(pair[0])
    )
    assert [chunk.chunk_id for chunk in graph.slice(request, STRANGER, soon()).chunks] == ["s1"]


def test_first_loads_make_the_schema_at_once() -> None:
    """Four writers of an empty database, five times: they met on a constraint in most rounds."""
    with neo4j_store() as (_, first):
        for _ in range(5):
            first._server.write("MATCH (s:Store) DELETE s", {}, soon())
            for kind, kinds in (("CONSTRAINT", "CONSTRAINTS"), ("INDEX", "INDEXES")):
                named = f"SHOW {kinds} YIELD name, type WHERE type <> 'LOOKUP' RETURN name"
                for (name,) in first._server.read(named, {}, soon()):
                    first._server.write(f"DROP {kind} {name}", {}, soon())
            writers = [neo4j_sides(server(Engine.NEO4J))[1] for _ in range(4)]
            try:
                with ThreadPoolExecutor(len(writers)) as pool:
                    list(pool.map(Neo4jGraphWriter.close_load, writers))
            finally:
                for writer in writers:
                    writer.close()

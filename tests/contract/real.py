"""The real stores as the contract suites want them: empty, the run's own, removed afterwards."""

import http.client
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from docstokg.adapters.neo4j.cypher import SCHEMA_VERSION, STORE
from docstokg.adapters.neo4j.graph import Neo4jGraph
from docstokg.adapters.neo4j.writer import Neo4jGraphWriter
from docstokg.adapters.opensearch.index import OpenSearchIndex
from docstokg.adapters.opensearch.writer import OpenSearchWriter
from docstokg.domain.deadline import Deadline
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from tests.jvm.servers import Endpoint, Engine
from tests.services import alone, server


@contextmanager
def opensearch_store() -> Iterator[tuple[OpenSearchIndex, OpenSearchWriter]]:
    """Both sides of an index of its own on this run's server."""
    url = server(Engine.OPENSEARCH).url
    name = f"t{secrets.token_hex(6)}"
    index, writer = (
        OpenSearchIndex(url=url, name=name, info_ttl_s=0),
        OpenSearchWriter(url=url, name=name),
    )
    try:
        yield index, writer
    finally:
        index.close()
        writer.close()
        remove_indices(url, name)


def remove_indices(url: str, name: str) -> None:
    """Delete the indices of one store; their number and version do not matter."""
    for index in json.loads(request(url, "GET", f"/{name}-*/_alias?ignore_unavailable=true")):
        request(url, "DELETE", f"/{index}")


def request(url: str, method: str, path: str, body: object = None) -> str:
    """Make one bare HTTP request, beside the adapter under test."""
    line = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        headers = {"content-type": "application/json"}
        line.request(method, path, None if body is None else json.dumps(body), headers)
        answer = line.getresponse()
        text = answer.read().decode()
        assert answer.status < 300, f"{method} {path}: {answer.status} {text[:300]}"
        return text
    finally:
        line.close()


@contextmanager
def neo4j_store() -> Iterator[tuple[Neo4jGraph, Neo4jGraphWriter]]:
    """Both sides of this run's one database, empty, with nobody else in it."""
    at = server(Engine.NEO4J)
    with alone(Engine.NEO4J):
        graph, writer = neo4j_sides(at)
        try:
            yield graph, writer
        finally:
            wipe(writer)
            graph.close()
            writer.close()


@contextmanager
def both_stores(**overrides: object) -> Iterator[Settings]:
    """Settings of both servers: an index of this test's own, and the empty graph to itself."""
    index, graph = server(Engine.OPENSEARCH), server(Engine.NEO4J)
    addresses = {"index_url": index.url, "index_name": f"t{secrets.token_hex(6)}"}
    login = {"graph_user": graph.user, "graph_password": graph.password}
    settings = Settings.model_validate({**addresses, "graph_url": graph.url, **login, **overrides})
    with alone(Engine.NEO4J):
        empty(settings)
        yield settings
        empty(settings)


def empty(settings: Settings) -> None:
    """Remove the data of a load from both stores."""
    remove_indices(settings.index_url or "", settings.index_name)
    wiring = Wiring(settings)
    wiring.graph_writer().close_load()  # makes the schema of a server that has none yet
    wipe(wiring.graph_writer())  # type: ignore[arg-type]
    wiring.close()


def neo4j_sides(at: Endpoint) -> tuple[Neo4jGraph, Neo4jGraphWriter]:
    """Both sides of a server, patient enough for a machine that does other things."""
    login = {"url": at.url, "user": at.user, "password": at.password}
    return Neo4jGraph(**login, timeout_ms=30_000), Neo4jGraphWriter(**login)


def wipe(writer: Neo4jGraphWriter) -> None:
    """Remove everything; only ever called on a server that this run started."""
    for text in (
        "MATCH (n) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 5000 ROWS",
        f"CREATE (s:Store {{name: '{STORE}', schema: {SCHEMA_VERSION}}})",
    ):
        writer._server.write(text, {}, Deadline.after(120))

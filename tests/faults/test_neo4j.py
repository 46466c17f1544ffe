"""Break a real Neo4j: hybrid retrieval answers and names the missing part."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from docstokg.adapters.neo4j.graph import Neo4jGraph
from docstokg.adapters.neo4j.writer import Neo4jGraphWriter
from docstokg.contracts.graph import GraphSlice, SliceRequest
from docstokg.contracts.records import EntityRecord, Scope
from docstokg.domain.circuit import Circuit
from docstokg.domain.deadline import Deadline
from docstokg.errors import CircuitOpen, DocsToKGError, Misconfigured, Timeout, Unavailable
from docstokg.wiring import Wiring
from docstokg_local.cli.doctor import examine
from tests.builders import eventually
from tests.faults.real_stores import Place, answer_of, client, reasons, stopped, warm
from tests.jvm import servers as services
from tests.jvm.servers import Engine
from tests.proxy import Proxy
from tests.services import CACHE, SERVICES

pytestmark = [*SERVICES]
ENGINE = Engine.NEO4J
SPACE = Scope(namespace="default")
SEIZURE = SliceRequest(alias_keys=("seizure",))
GONE = {"kg_unavailable", "kg_timeout"}


def graph_of(place: Place, port: int | None = None, **overrides: Any) -> Neo4jGraph:
    """A graph whose breaker never stands in the way, unless the test wants one."""
    url = place.at.url if port is None else f"bolt://127.0.0.1:{port}"
    circuit = Circuit(failures=1_000_000)
    graph = Neo4jGraph(**{**place.login, "url": url, "circuit": circuit, **overrides})
    with contextlib.suppress(DocsToKGError):  # as the composition root does at start
        graph.warm(Deadline.after(5.0))
    return graph


def test_doctor_names_the_credentials_that_were_refused(
    place: Place, settings_for: Callable[..., Any], small_store: Path
) -> None:
    login = {"graph_url": place.at.url, "graph_user": place.at.user, "graph_password": "wrong"}
    wiring = Wiring(settings_for(small_store, **login))
    (graph,) = (diagnosis for diagnosis in examine(wiring) if diagnosis.part == "graph")
    wiring.close()
    assert graph.remedy == "check DOCSTOKG_GRAPH_USER and DOCSTOKG_GRAPH_PASSWORD"


def read_slice(graph: Neo4jGraph, seconds: float) -> GraphSlice:
    return graph.slice(SEIZURE, SPACE, Deadline.after(seconds))


@contextmanager
def asking(place: Place, graph: Neo4jGraph) -> Iterator[TestClient]:
    with client(place.settings, knowledge_graph=graph, **place.models) as opened:
        yield opened


def hybrid_only(body: dict[str, Any]) -> bool:
    return bool(body["citations"]) and all(
        citation["kg_evidence"] is None and citation["kg_path"] == []
        for citation in body["citations"]
    )


@pytest.mark.parametrize("mood", ["slow", "drip", "cut", "garbage"])
def test_a_bad_line_costs_only_the_graph(place: Place, proxy: Proxy, mood: Any) -> None:
    graph = graph_of(place, proxy.port)
    with asking(place, graph) as opened:
        warm(opened)
        assert any(citation["kg_evidence"] for citation in answer_of(opened)["citations"])
        proxy.mood = mood
        body = answer_of(opened)
        assert reasons(body) <= GONE and reasons(body), reasons(body)
        assert hybrid_only(body)
        proxy.mood = "pass"
        warm(opened)
        assert eventually(lambda: proxy.connections() <= 8), "no more than the pool"


def test_a_hung_server(place: Place) -> None:
    with asking(place, graph_of(place)) as opened:
        warm(opened)
        with stopped(place.at.pid):
            body = answer_of(opened)
        assert reasons(body) == {"kg_timeout"}
        assert hybrid_only(body)
        warm(opened)


def test_a_server_killed_during_a_request_comes_back(place: Place) -> None:
    with asking(place, graph_of(place)) as opened:
        warm(opened)
        os.kill(place.at.pid, signal.SIGSTOP)
        killer = threading.Timer(0.3, os.kill, (place.at.pid, signal.SIGKILL))
        killer.start()
        body = answer_of(opened)
        killer.join()
        assert reasons(body) <= GONE and reasons(body)
        assert hybrid_only(body)
        assert eventually(lambda: services.status(ENGINE, place.home).state == "down")
        assert reasons(answer_of(opened)) == {"kg_unavailable"}
        with given_up(place) as graph:
            place.revive()
            # At most a while after it is up; a busy machine's server may still be slow then.
            assert not isinstance(first_answer(graph), CircuitOpen)
        warm(opened)
        assert any(citation["kg_evidence"] for citation in answer_of(opened)["citations"])


@contextmanager
def given_up(place: Place) -> Iterator[Neo4jGraph]:
    """A graph with the usual circuit, opened by a server that is down."""
    with closing(graph_of(place, circuit=Circuit())) as graph:
        for _ in range(5):
            with pytest.raises((Unavailable, Timeout)):
                read_slice(graph, 1.5)
        with pytest.raises(CircuitOpen):
            read_slice(graph, 1.5)
        yield graph


def first_answer(graph: Neo4jGraph) -> DocsToKGError | None:
    """Ask until the graph is called again; return the outcome of the first call."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            read_slice(graph, 1.5)
        except CircuitOpen:
            time.sleep(0.2)
        except DocsToKGError as error:
            return error
        else:
            return None
    return CircuitOpen("it stayed open")


def test_a_wrong_password(place: Place) -> None:
    with asking(place, graph_of(place, password="wrong-password")) as opened:
        body = answer_of(opened)
        assert reasons(body) == {"kg_unavailable"}
        assert hybrid_only(body)
    with asking(place, graph_of(place)) as opened:  # the server now refuses everybody for seconds
        warm(opened)


def test_the_circuit_opens_and_closes_again(place: Place, proxy: Proxy) -> None:
    with closing(graph_of(place, proxy.port, circuit=Circuit(failures=3, recovery_s=1.0))) as graph:
        assert eventually(lambda: bool(read_slice(graph, 10.0).entities))
        proxy.mood = "cut"
        for _ in range(3):
            with pytest.raises(Unavailable):
                read_slice(graph, 1.0)
        with pytest.raises(CircuitOpen):
            read_slice(graph, 1.0)
        proxy.mood = "pass"
        assert eventually(lambda: sliced(graph))


def test_a_hanging_plan_check_leaves_the_graph_enabled(
    place: Place, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docstokg.adapters.neo4j.graph.PROBE_WARM_S", 600.0)
    with closing(graph_of(place, proxy.port, circuit=Circuit(failures=3, recovery_s=1.0))) as graph:
        assert eventually(lambda: bool(read_slice(graph, 10.0).entities))
        proxy.mood = "garbage"
        for _ in range(3):  # the first leaves a look behind it, on a line that never ends a reply
            with pytest.raises((Timeout, Unavailable)):
                read_slice(graph, 0.5)
        with pytest.raises(CircuitOpen):
            read_slice(graph, 0.5)
        proxy.mood = "pass"
        assert eventually(lambda: bool(sliced(graph)), seconds=60.0)


def sliced(graph: Neo4jGraph) -> bool:
    try:
        return bool(read_slice(graph, 10.0).entities)
    except DocsToKGError:
        return False


def test_refused_and_out_of_time_are_told_apart(place: Place) -> None:
    with closing(graph_of(place, services.free_port())) as graph:
        with pytest.raises(Unavailable):
            read_slice(graph, 5.0)
        with pytest.raises(Timeout):
            read_slice(graph, 0.0)


def test_calls_from_many_threads_share_one_loop(place: Place) -> None:
    graph = graph_of(place, timeout_ms=30_000)
    sizes: list[int] = []

    def look() -> None:
        sizes.append(len(read_slice(graph, 30.0).entities))

    try:
        look()
        threads = [threading.Thread(target=look) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(sizes)) == 1 and len(sizes) == 13
    finally:
        graph.close()


def _refuses_writes(writer: Neo4jGraphWriter) -> bool:
    """Tell whether a load is refused for good; a database that is still starting may be asked."""
    try:
        writer.put_entities([EntityRecord(id="HP:9", namespace="default", name="nine")])
    except Unavailable:
        return False
    except Misconfigured as refused:
        return "read only" in str(refused)
    return False


def test_a_read_only_database_answers_and_refuses_loads(place: Place) -> None:
    services.stop(ENGINE, place.home, kill=True)
    read_only = {"server.databases.read_only": "neo4j"}
    place.at = services.start(ENGINE, place.home, cache=CACHE, extra=read_only)
    try:
        with closing(Neo4jGraphWriter(**place.login)) as writer:
            assert eventually(lambda: _refuses_writes(writer), 60)
        with closing(graph_of(place, timeout_ms=60_000)) as graph:
            assert read_slice(graph, 60.0).entities
    finally:
        services.stop(ENGINE, place.home, kill=True)
        place.revive()

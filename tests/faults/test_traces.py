"""Traces hold who found what and no text, and no state of their store reaches the caller."""

import hashlib
import json
import shutil
import sqlite3
import threading
import time

import pytest

from docstokg.contracts.state import TraceMessage
from docstokg.domain.deadline import Deadline
from docstokg.errors import QuotaExceeded
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.engine.trace_queue import MOST_WAITING, LocalTraceQueue
from tests.builders import answer_request, eventually

QUESTION = "What are seizures in children?"
ASKED = answer_request(QUESTION)
PATIENCE_S = 30.0


def rows(store, statement: str) -> list[tuple]:
    connection = sqlite3.connect(store)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def tables(store) -> set[str]:
    return {name for (name,) in rows(store, "SELECT name FROM sqlite_master")}


def traced(store) -> list[tuple]:
    return rows(store, "SELECT * FROM trace_queries") if "trace_queries" in tables(store) else []


def evidence(body: dict) -> list[tuple]:
    return [(c["rank"], c["uuid"], c["snippet"], c["cited"]) for c in body["citations"]]


@pytest.fixture
def graph_copy(copied_store, tmp_path):
    """A graph in a file of its own, which a test may break without touching the index."""
    target = tmp_path / "graph.sqlite"
    shutil.copy(copied_store, target)
    return target


@pytest.fixture
def plain(small_client) -> dict:
    """The same answer without traces."""
    return small_client.post("/v1/answer", json=ASKED).json()


def message(name: str, at: int = 1000, session: str = "s", **fields) -> TraceMessage:
    values = {"namespace": "default", "query_hash": "h", **fields}
    return TraceMessage(request_id=name, session=session, created_ms=at, **values)


def test_an_answer_leaves_its_trace(copied_store, client_for, plain) -> None:
    body = client_for(copied_store, traces="local").post("/v1/answer", json=ASKED).json()
    assert evidence(body) == evidence(plain)
    assert eventually(lambda: traced(copied_store))
    ((name, session, digest, namespace, at, answered),) = traced(copied_store)
    assert name == body["metadata"]["request_id"]
    assert digest == hashlib.sha256(QUESTION.encode()).hexdigest()
    assert session == hashlib.sha256(f"local\0{at // 86_400_000}".encode()).hexdigest()
    assert (namespace, answered) == ("default", 1)
    retrieved = rows(copied_store, "SELECT rank, uuid, score FROM trace_retrieved ORDER BY rank")
    assert retrieved == [(c["rank"], c["uuid"], c["score"]) for c in body["citations"]]
    supported = rows(copied_store, "SELECT rank, uuid FROM trace_supported_by ORDER BY rank")
    assert supported == [(c["rank"], c["uuid"]) for c in body["citations"] if c["cited"]] != []
    shares = dict(rows(copied_store, "SELECT entity, score FROM trace_focused_on"))
    assert 0 < shares["HP:0001250"] < 1
    assert sum(shares.values()) <= 1


def test_expired_traces_are_removed_before_the_next_write(copied_store, client_for) -> None:
    now = int(time.time() * 1000)
    days = {"expired": 31, "kept": 29}
    old = [message(name, now - n * 86_400_000) for name, n in days.items()]
    Wiring(Settings(graph_url=f"sqlite:///{copied_store}")).trace_store().write(
        old, Deadline.after(PATIENCE_S)
    )
    body = client_for(copied_store, traces="local").post("/v1/search", json={"query": QUESTION})
    request_id = body.json()["metadata"]["request_id"]
    assert eventually(lambda: request_id in {row[0] for row in traced(copied_store)})
    assert {row[0] for row in traced(copied_store)} == {"kept", request_id}


def test_a_trace_holds_no_text(copied_store, client_for) -> None:
    client = client_for(copied_store, traces="local")
    client.post("/v1/search", json={"query": "the zebra walked xylophonically"})
    assert eventually(lambda: traced(copied_store))
    client.close()
    for name in ("", "-wal"):
        path = copied_store.with_name(copied_store.name + name)
        assert not path.exists() or b"xylophonically" not in path.read_bytes()


def test_they_are_off_by_default(copied_store, client_for) -> None:
    client_for(copied_store).post("/v1/answer", json=ASKED)
    assert not {name for name in tables(copied_store) if name.startswith("trace_")}
    assert Settings().traces == "off"


@pytest.mark.parametrize("how", ["deleted", "no database", "no graph"])
def test_a_broken_store_costs_the_caller_nothing(copied_store, graph_copy, client_for, how) -> None:
    log: list[str] = []
    client = client_for(
        copied_store, log, traces="local", graph_url=f"sqlite:///{graph_copy}", kg_enabled=False
    )
    whole = client.post("/v1/answer", json=ASKED).json()
    assert eventually(lambda: traced(graph_copy))
    if how == "deleted":
        for path in graph_copy.parent.glob("graph.sqlite*"):
            path.unlink()
    elif how == "no database":
        graph_copy.write_bytes(b"this is no database " * 500)
    else:
        connection = sqlite3.connect(graph_copy)
        connection.execute("DROP TABLE graph_chunks")
        connection.close()
    body = client.post("/v1/answer", json=ASKED).json()
    assert evidence(body) == evidence(whole)
    assert body["diagnostics"]["degraded_reasons"] == []
    assert eventually(lambda: "traces_not_written" in {json.loads(line)["event"] for line in log})
    assert how != "deleted" or not graph_copy.exists()


def test_a_full_queue_is_reported_without_waiting(copied_store) -> None:
    stuck = threading.Event()
    started = threading.Event()

    def consumer(event, context):
        started.set()
        assert stuck.wait(PATIENCE_S)
        return {"batchItemFailures": []}

    waiting = LocalTraceQueue(consumer, Telemetry(write=lambda line: None))
    waiting.send(message("first"), Deadline.after(0.05))
    assert started.wait(PATIENCE_S)
    with pytest.raises(QuotaExceeded):
        for number in range(MOST_WAITING + 1):
            waiting.send(message(f"m{number}"), Deadline.after(0.05))
    stuck.set()
    waiting.close()


def test_what_could_not_be_written_is_delivered_again() -> None:
    seen: list[list[str]] = []
    lost: list[str] = []

    def consumer(event, context):
        if "Records" not in event:
            return {"removed": 0}
        names = [item["messageId"] for item in event["Records"]]
        seen.append(names)
        failed = [name for name in names if name == "bad" or len(seen) == 1]
        return {"batchItemFailures": [{"itemIdentifier": name} for name in failed]}

    waiting = LocalTraceQueue(consumer, Telemetry(write=lost.append), pause_s=0.01)
    waiting.send(message("bad"), Deadline.after(0.05))
    assert eventually(lambda: lost)
    assert seen == [["bad"]] * 3
    waiting.send(message("good"), Deadline.after(0.05))
    assert eventually(lambda: len(seen) > 3)
    waiting.close()
    assert seen[3:] == [["good"]]

"""A search server that is short of memory refuses a whole bulk; the load goes on when it can."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from docstokg.adapters.opensearch import writer as opensearch_writer
from docstokg.adapters.opensearch.writer import OpenSearchWriter
from docstokg.contracts.records import FactRecord
from docstokg.errors import QuotaExceeded

FACT = FactRecord(id="f", namespace="n", text="t", source="a", type="b", target="c")
DONE = {"items": [{"index": {"_id": "n/f", "status": 201, "result": "created"}}]}
FULL = {"error": {"type": "circuit_breaking_exception", "reason": "Data too large"}, "status": 429}


class Server(ThreadingHTTPServer):
    """Refuses as often as it is told, then takes what it gets."""

    refusals = 0
    bodies: list[bytes]


class Bulk(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        full = len(self.server.bodies) <= self.server.refusals
        text = json.dumps(FULL if full else DONE).encode()
        self.send_response(429 if full else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Bulk)
    made.bodies = []
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def writer(server: Server) -> Iterator[OpenSearchWriter]:
    made = OpenSearchWriter(url=f"http://127.0.0.1:{server.server_port}")
    yield made
    made.close()


def test_it_is_asked_again(server: Server, writer: OpenSearchWriter) -> None:
    server.refusals = 2
    writer.put_facts([FACT])
    assert len(server.bodies) == 3
    assert len(set(server.bodies)) == 1, "the same chunks, none lost, none added"


def test_it_is_not_asked_for_ever(
    server: Server, writer: OpenSearchWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opensearch_writer, "BULK_TRIES", 2)
    server.refusals = 99
    with pytest.raises(QuotaExceeded, match="Data too large"):
        writer.put_facts([FACT])
    assert len(server.bodies) == 2

"""A server that does not answer is not an empty one: what it holds is never taken for absent."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from docstokg.adapters.opensearch.documents import OpenSearchRegister
from docstokg.adapters.opensearch.index import OpenSearchIndex
from docstokg.adapters.opensearch.writer import OpenSearchWriter
from docstokg.adapters.sqlite.index import SqliteIndex
from docstokg.contracts.records import IndexInfo
from docstokg.errors import Timeout, Unavailable
from docstokg.loading.pipeline import info_before

SHARD = {"type": "no_shard_available_action_exception", "reason": "No shard available"}


class Loopback:
    """A server that gives one answer to everything, or none for as long as it is asked to hang."""

    def __init__(self, status: int, answer: dict[str, Any]) -> None:
        self.status, self.answer = status, answer
        self.hanging: threading.Event | None = None
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                """Stay silent."""

            def _reply(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if loopback.hanging is not None:
                    loopback.hanging.wait(20)
                data = json.dumps(loopback.answer).encode()
                self.send_response(loopback.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = _reply

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.05}
        )
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        if self.hanging is not None:
            self.hanging.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Loopback]:
    loopback = Loopback(200, {})
    yield loopback
    loopback.close()


@pytest.fixture
def index(server: Loopback) -> Iterator[OpenSearchIndex]:
    opened = OpenSearchIndex(url=server.url, auth="basic")
    yield opened
    opened.close()


def test_only_an_index_that_is_not_there_is_an_empty_one(
    server: Loopback, index: OpenSearchIndex, tmp_path: Path
) -> None:
    server.status, server.answer = 404, {"status": 404}
    assert info_before(index) == IndexInfo()
    assert info_before(SqliteIndex(tmp_path / "none.sqlite")) == IndexInfo()
    (tmp_path / "empty.sqlite").touch()
    assert info_before(SqliteIndex(tmp_path / "empty.sqlite")) == IndexInfo()
    server.status = 503
    with pytest.raises(Unavailable):
        info_before(index)


def test_a_file_that_cannot_be_read_is_not_an_empty_index(tmp_path: Path) -> None:
    broken = tmp_path / "store.sqlite"
    broken.write_bytes(b"no database at all, but bytes" * 400)
    with pytest.raises(Unavailable):
        info_before(SqliteIndex(broken))


def test_a_server_that_hangs_is_not_an_empty_index(
    server: Loopback, index: OpenSearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.hanging = threading.Event()
    monkeypatch.setattr("docstokg.loading.pipeline.READ_S", 0.3)
    with pytest.raises((Timeout, Unavailable)):
        info_before(index)
    server.hanging.set()


def test_a_document_whose_shard_does_not_answer_is_not_one_that_is_not_stored(
    server: Loopback,
) -> None:
    """Else it would be written as new, and what its change invalidates would stay."""
    stored = {
        "_id": "a",
        "found": True,
        "_source": {"namespace": "default", "fingerprint": "f", "record": "{}"},
    }
    server.answer = {"docs": [stored, {"_id": "b", "error": SHARD}]}
    writer = OpenSearchWriter(url=server.url, auth="basic")
    register = OpenSearchRegister(url=server.url, auth="basic")
    try:
        with pytest.raises(Unavailable, match="No shard available"):
            writer.fingerprints("default", ["a", "b"])
        with pytest.raises(Unavailable, match="No shard available"):
            register.find("default", ["a", "b"])
        server.answer = {"docs": [stored, {"_id": "b", "found": False}]}
        assert writer.fingerprints("default", ["a", "b"]) == {"a": "f"}
    finally:
        writer.close()
        register.close()

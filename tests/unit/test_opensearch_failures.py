"""What OpenSearch says of a failed search is read by its kind, never by its words."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from docstokg.adapters.opensearch.index import OpenSearchIndex
from docstokg.contracts.records import Scope
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.domain.vectors import pack
from docstokg.errors import WrongAnswer

PARSE_ERROR = {
    "type": "search_phase_execution_exception",
    "reason": "all shards failed",
    "root_cause": [
        {"type": "query_shard_exception", "reason": "cannot parse [cancel my subscription]"}
    ],
}
CANCELLED = {
    "type": "search_phase_execution_exception",
    "reason": "all shards failed",
    "failed_shards": [{"reason": {"type": "task_cancelled_exception", "reason": "time is over"}}],
}


@pytest.fixture
def server() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An address, and the children that its `_msearch` answers with."""
    children: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            """Stay silent."""

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            data = json.dumps({"took": 1, "responses": children}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{http.server_address[1]}", children
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.mark.parametrize(
    ("child", "failure"),
    [
        ({"error": PARSE_ERROR, "status": 400}, "unavailable"),
        ({"error": CANCELLED, "status": 500}, "timeout"),
        ({"error": {"type": "task_cancelled_exception", "reason": "x"}, "status": 500}, "timeout"),
        ({"error": {"type": "timeout", "reason": "x"}, "status": 504}, "timeout"),
        ({"error": "cancel", "status": 500}, "unavailable"),
    ],
)
def test_only_a_cancelled_task_is_a_timeout(
    server: tuple[str, list[dict[str, Any]]], child: dict[str, Any], failure: str
) -> None:
    url, children = server
    children.append(child)
    index = OpenSearchIndex(url=url, auth="basic")
    try:
        query = ChannelQuery(channel="dense", size=3, vector=pack([1.0, 0.0]))
        (result,) = index.search([query], Scope(namespace="default"), 5.0)
    finally:
        index.close()
    assert result.failure == failure


def _hits(uuid: object, score: object) -> dict[str, Any]:
    return {
        "took": 1,
        "timed_out": False,
        "_shards": {"total": 1, "failed": 0},
        "hits": {"hits": [{"_score": score, "fields": {"uuid": [uuid]}}]},
    }


@pytest.mark.parametrize(
    ("uuid", "score"), [(7, 1.5), (None, 1.5), ("u", "high"), ("u", None), ("u", float("nan"))]
)
def test_a_hit_of_another_shape_is_a_wrong_answer(
    server: tuple[str, list[dict[str, Any]]], uuid: object, score: object
) -> None:
    url, children = server
    children.append(_hits(uuid, score))
    index = OpenSearchIndex(url=url, auth="basic")
    query = ChannelQuery(channel="dense", size=3, vector=pack([1.0, 0.0]))
    try:
        with pytest.raises(WrongAnswer):
            index.search([query], Scope(namespace="default"), 5.0)
        children[:] = [_hits("u", 1)]
        (result,) = index.search([query], Scope(namespace="default"), 5.0)
    finally:
        index.close()
    assert result.hits == (("u", 1.0, None),)

"""What OpenSearch says of a failed search is read by its kind, never by its words."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from docstokg.adapters.opensearch.index import OpenSearchIndex
from docstokg.contracts.records import Scope
from docstokg.contracts.retrieval import ChannelQuery, ChannelResult
from docstokg.domain.vectors import pack
from docstokg.errors import Unavailable, WrongAnswer
from tests.loopback import answering
from tests.plans import soon

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
def searched() -> Iterator[Callable[[dict[str, Any]], ChannelResult]]:
    """Search a server whose `_msearch` answers with this."""
    with answering() as server:
        index = OpenSearchIndex(url=server.url, auth="basic")

        def search(child: dict[str, Any]) -> ChannelResult:
            server.answer = {"took": 1, "responses": [child]}
            query = ChannelQuery(channel="dense", size=3, vector=pack([1.0, 0.0]))
            (result,) = index.search([query], Scope(namespace="default"), soon())
            return result

        yield search
        index.close()


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
def test_only_a_cancelled_task_is_a_timeout(searched, child, failure) -> None:
    assert searched(child).failure == failure


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
def test_hits_of_another_shape_are_wrong_answers(searched, uuid, score) -> None:
    with pytest.raises(WrongAnswer):
        searched(_hits(uuid, score))
    assert searched(_hits("u", 1)).hits == (("u", 1.0, None, ""),)


NOTES = {"docstokg": 3, "unfinished": {"default": "01JKILLED"}}
NO_SHARD = {"type": "search_phase_execution_exception", "reason": "all shards failed"}
MAPPING = {"docstokg-chunks-v3-1": {"mappings": {"_meta": NOTES}}}


def counted(shard_count: int) -> dict[str, Any]:
    """Return the answer of an empty index to a search that counts its chunks."""
    return {
        "took": 1,
        "timed_out": False,
        "_shards": {"total": shard_count, "failed": 0},
        "hits": {"total": {"value": 0}, "hits": []},
        "aggregations": {"spaces": {"buckets": []}},
    }


@contextmanager
def starting_index(failures: float, late_s: float = 0.0) -> Iterator[OpenSearchIndex]:
    """Yield the reader of an index whose shards are not there for a number of searches.

    `late_s`: seconds until such a search fails.
    """
    failed = 0

    def reply(request: BaseHTTPRequestHandler, _: bytes) -> tuple[int, Any]:
        nonlocal failed
        if request.path.endswith("/_mapping"):
            return 200, MAPPING
        starts = failed < failures
        if request.path.endswith("/_search"):
            failed += 1
            time.sleep(late_s if starts else 0.0)
        if request.path.endswith("/_msearch"):
            return 200, {"responses": [{"error": NO_SHARD} if starts else counted(3)] * 2}
        return (503, {"error": NO_SHARD}) if starts else (200, {"_shards": {"failed": 0}})

    with answering() as server:
        server.reply = reply
        index = OpenSearchIndex(url=server.url, auth="basic")
        yield index
        index.close()


def test_load_waits_for_shards_of_killed_one() -> None:
    """A request of the killed load may create the index while the next load begins."""
    with starting_index(3) as index:
        info = index.info(soon(), refresh=True)
    assert info.open_run("default") == "01JKILLED"


@pytest.mark.parametrize("late_s", [0.0, 2.0])
def test_shards_that_stay_away_are_unavailable(
    monkeypatch: pytest.MonkeyPatch, late_s: float
) -> None:
    """Whether searches of them fail at once or do not end in time."""
    monkeypatch.setattr("docstokg.adapters.opensearch.server.SHARDS_S", 0.5)
    with starting_index(math.inf, late_s) as index, pytest.raises(Unavailable):
        index.info(soon(), refresh=True)


@pytest.mark.parametrize(("shard_count", "counts_all"), [(1, False), (3, True)])
def test_index_decides_on_word_counts_of_shards(shard_count: int, counts_all: bool) -> None:
    """A reader that is set to one shard counts words over all shards that exist."""
    child = counted(shard_count)

    def reply(request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, Any]:
        if request.path.endswith("/_mapping"):
            return 200, MAPPING
        return 200, {"responses": [child] * (len(body.splitlines()) // 2)}

    with answering() as server:
        server.reply = reply
        index = OpenSearchIndex(url=server.url, auth="basic")
        index.info(soon())
        query = ChannelQuery(channel="bm25", size=3, text="fever")
        index.search([query], Scope(namespace="default"), soon())
        index.close()
        assert (b"dfs_query_then_fetch" in server.asked[-1][1]) == counts_all

"""What OpenSearch says of a failed search is read by its kind, never by its words."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from docstokg.adapters.opensearch.index import OpenSearchIndex
from docstokg.contracts.records import Scope
from docstokg.contracts.retrieval import ChannelQuery, ChannelResult
from docstokg.domain.deadline import Deadline
from docstokg.domain.vectors import pack
from docstokg.errors import WrongAnswer
from tests.loopback import answering

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
            (result,) = index.search([query], Scope(namespace="default"), Deadline.after(5.0))
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
def test_a_hit_of_another_shape_is_a_wrong_answer(searched, uuid, score) -> None:
    with pytest.raises(WrongAnswer):
        searched(_hits(uuid, score))
    assert searched(_hits("u", 1)).hits == (("u", 1.0, None, ""),)

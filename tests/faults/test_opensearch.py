"""Break a real OpenSearch in every way it breaks; the caller still gets the best there is."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from starlette.testclient import TestClient

from docstokg.adapters.opensearch.index import OpenSearchIndex
from docstokg.adapters.opensearch.writer import OpenSearchWriter
from docstokg.contracts.records import Scope
from docstokg.contracts.retrieval import ChannelQuery, Hit
from docstokg.domain.circuit import Circuit
from docstokg.domain.deadline import Deadline
from docstokg.errors import CircuitOpen, DocsToKGError, Timeout, Unavailable, WrongAnswer
from docstokg.settings import Settings
from tests.builders import eventually, refusal
from tests.contract.real import request as bare
from tests.contract.test_search_index import chunk
from tests.faults.real_stores import (
    ASK,
    Place,
    answer_of,
    client,
    reasons,
    stopped,
    warm,
)
from tests.jvm import servers as services
from tests.jvm.servers import Engine
from tests.loopback import answering
from tests.proxy import Proxy
from tests.services import SERVICES

pytestmark = [*SERVICES]
ENGINE = Engine.OPENSEARCH
WORDS = [ChannelQuery(channel="bm25", size=5, text="seizures")]
SPACE = Scope(namespace="default")


def search(index: OpenSearchIndex, seconds: float) -> tuple[Hit, ...]:
    return index.search(WORDS, SPACE, Deadline.after(seconds))[0].hits


def seen_through(place: Place, proxy: Proxy) -> Settings:
    return place.settings.model_copy(update={"index_url": f"http://127.0.0.1:{proxy.port}"})


@pytest.fixture
def through(place: Place, proxy: Proxy) -> Iterator[TestClient]:
    """The application, reaching the server through the proxy; it has answered once."""
    with client(seen_through(place, proxy), **place.models) as opened:
        warm(opened)
        yield opened


@pytest.mark.parametrize("mood", ["slow", "drip", "cut", "garbage"])
def test_search_breaks_and_the_graph_still_brings_chunks(
    through: TestClient, proxy: Proxy, mood: Any
) -> None:
    proxy.only, proxy.mood = b"/_msearch", mood
    body = answer_of(through)
    expected = {"retrieval_timeout"} if mood in ("slow", "drip") else {"retrieval_unavailable"}
    assert expected <= reasons(body)
    assert {citation["source"] for citation in body["citations"]} == {"kg_expansion"}
    proxy.mood = "pass"
    assert reasons(answer_of(through)) == set()


@pytest.mark.parametrize("mood", ["slow", "drip", "cut", "garbage"])
def test_without_hydration_it_is_503(through: TestClient, proxy: Proxy, mood: Any) -> None:
    proxy.only, proxy.mood = b"/_mget", mood
    assert answer_of(through, status=503)["code"] == "nothing_to_cite"
    proxy.mood = "pass"
    assert answer_of(through)["citations"]


def test_no_connection_is_left_behind(place: Place, proxy: Proxy) -> None:
    never = Circuit(failures=1_000_000)
    with closing(OpenSearchIndex(url=seen_through(place, proxy).index_url, circuit=never)) as index:
        for mood in ("slow", "drip", "cut"):
            proxy.mood = mood  # type: ignore[assignment]
            for _ in range(4):
                with pytest.raises(DocsToKGError):
                    search(index, 0.3)
        assert eventually(lambda: proxy.connections() == 0), proxy.connections()
        proxy.mood = "pass"
        for _ in range(20):
            assert search(index, 10.0)
        assert proxy.connections() == 1


def test_a_hung_server(place: Place) -> None:
    """Whether the deadline or the store's own limit ends the wait: nothing can be cited."""
    with client(place.settings, **place.models) as opened:
        warm(opened)
        with stopped(place.at.pid):
            assert answer_of(opened, status=504)["code"] == "deadline_exceeded"
            lost = opened.post("/v1/answer", json={**ASK, "budget": {"timeout_s": 20}})
            assert refusal(lost) == (503, "nothing_to_cite")
        warm(opened)
        assert reasons(answer_of(opened)) == set()


def test_a_hung_server_costs_five_requests_and_recovers(place: Place) -> None:
    with closing(OpenSearchIndex(url=place.at.url)) as index:
        assert search(index, 10.0)
        index.info(Deadline.after(10.0))
        with stopped(place.at.pid):
            for _ in range(5):
                with pytest.raises(Timeout):
                    search(index, 0.3)
            for _ in range(20):
                with pytest.raises(CircuitOpen):
                    search(index, 0.3)
            with pytest.raises(CircuitOpen):  # what was known of it is no longer said
                index.info(Deadline.after(1.0))

        def answers() -> bool:
            try:
                return bool(search(index, 10.0))
            except CircuitOpen:
                return False

        assert eventually(answers, 10.0)


def test_a_missing_index_is_down_and_named(place: Place) -> None:
    settings = place.settings.model_copy(update={"index_name": "misspelt"})
    with client(settings, **place.models) as opened:
        health = opened.get("/v1/health")
        assert health.status_code == 503
        assert health.json()["dependencies"]["index"]["state"] == "down"
    named = pytest.raises(Unavailable, match=r"'misspelt'.*DOCSTOKG_INDEX_NAME")
    with closing(OpenSearchIndex(url=place.at.url, name="misspelt")) as index, named:
        index.info(Deadline.after(10.0))


def test_a_server_killed_during_a_request_comes_back(place: Place) -> None:
    with client(place.settings, **place.models) as opened:
        warm(opened)
        os.kill(place.at.pid, signal.SIGSTOP)
        killer = threading.Timer(0.5, os.kill, (place.at.pid, signal.SIGKILL))
        killer.start()
        answer_of(opened, status=503)
        killer.join()
        assert eventually(lambda: services.status(ENGINE, place.home).state == "down")
        answer_of(opened, status=503)  # refused
        place.revive()
        warm(opened)
        assert reasons(answer_of(opened)) == set()


def test_a_lost_facts_index_costs_only_the_facts(place: Place) -> None:
    with client(place.settings, **place.models) as opened:
        warm(opened)
        (facts,) = json.loads(bare(place.at.url, "GET", "/docstokg-facts/_alias"))
        bare(place.at.url, "POST", f"/{facts}/_close")
        try:
            body = answer_of(opened)
            assert reasons(body) == {"facts_unavailable"}
            assert body["citations"]
        finally:
            bare(place.at.url, "POST", f"/{facts}/_open")
            bare(place.at.url, "GET", f"/_cluster/health/{facts}?wait_for_status=yellow")
        assert reasons(answer_of(opened)) == set()


def test_a_red_index_is_503_and_recovers(place: Place) -> None:
    """A shard without a copy: OpenSearch starts one with a copy in spite of every rule."""
    (chunks,) = json.loads(bare(place.at.url, "GET", "/docstokg/_alias"))
    mappings = json.loads(bare(place.at.url, "GET", f"/{chunks}/_mapping"))[chunks]["mappings"]
    red = "docstokg-chunks-v3-red"

    def replace(old: str, new: str) -> None:
        moves = [{"remove": {"index": old, "alias": "docstokg"}}]
        moves.append({"add": {"index": new, "alias": "docstokg"}})
        bare(place.at.url, "POST", "/_aliases", {"actions": moves})

    with client(place.settings, **place.models) as opened:
        warm(opened)
        nowhere = {"index.routing.allocation.require._name": "nowhere", "index.knn": True}
        body = {"settings": nowhere, "mappings": mappings}
        bare(place.at.url, "PUT", f"/{red}?wait_for_active_shards=0", body)
        try:
            replace(chunks, red)
            health = json.loads(bare(place.at.url, "GET", f"/_cluster/health/{red}"))
            assert health["status"] == "red"
            answer_of(opened, status=503)
            replace(red, chunks)
        finally:
            bare(place.at.url, "DELETE", f"/{red}")
        warm(opened)


def test_a_full_disk_stops_loading_and_not_reading(place: Place) -> None:
    block = "index.blocks.read_only_allow_delete"
    bare(place.at.url, "PUT", "/docstokg*/_settings", {block: True})
    refused = pytest.raises(Unavailable, match="takes no writes")
    try:
        with client(place.settings, **place.models) as opened:
            warm(opened)
        with closing(OpenSearchWriter(url=place.at.url)) as writer, refused:
            writer.put([(chunk("new", "A new chunk.", namespace="default"), "print")])
    finally:
        bare(place.at.url, "PUT", "/docstokg*/_settings", {block: None})


@pytest.mark.parametrize(
    "answer",
    [
        b"[]", b"{}", b'{"responses": "none", "docs": 7}',
        b'{"responses": [{"status": 200}], "docs": [{"_id": "x"}]}',
        b'{"responses": [null, null, null, null], "docs": [null]}', b"not json at all",
        b"\xff\xfe\x00",
    ],
)  # fmt: skip
def test_an_answer_of_another_shape_is_named_so(answer: bytes) -> None:
    with answering(answer) as odd, closing(OpenSearchIndex(url=odd.url)) as index:
        with pytest.raises((WrongAnswer, Unavailable)):
            search(index, 5.0)
        with pytest.raises((WrongAnswer, Unavailable)):
            index.get(["x"], SPACE, Deadline.after(5.0))


def test_refused_and_out_of_time_are_told_apart() -> None:
    with closing(OpenSearchIndex(url=f"http://127.0.0.1:{services.free_port()}")) as index:
        with pytest.raises(Unavailable):
            search(index, 5.0)
        with pytest.raises(Timeout):
            search(index, 0.0)

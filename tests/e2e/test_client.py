"""The Python client against real servers: types, one deadline, and only safe retries."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from docstokg.client import AsyncClient, Client, ProblemError, anthropic_blocks
from docstokg.contracts.check import CheckRequest
from docstokg.contracts.documents import DocumentsRequest, Job, PostedDocument
from docstokg.contracts.request import SearchRequest
from docstokg.contracts.traverse import TraverseRequest
from docstokg.errors import Misconfigured, Timeout, Unavailable, WrongAnswer
from tests.builders import eventually, keyed
from tests.loopback import Loopback

pytestmark = pytest.mark.timeout(240)
ANSWER = {"synthesis": {"enabled": True, "model": "extractive"}, "budget": {"max_tokens_gen": 99}}


def test_every_route_gives_its_contract(server_for) -> None:
    with Client(server_for()) as rag:
        answer = rag.answer("What are seizures?", **ANSWER)
        assert "[1]" in answer.answer
        assert answer.citations[0].rank == 1
        response = rag.search("What are seizures?", top_k=2)
        assert (response.answer, response.metadata.top_k) == ("", 2)
        whole = SearchRequest(query="What are seizures?", top_k=2, namespace="default")
        assert rag.search(whole, top_k=3).metadata.top_k == 3
        assert rag.check(CheckRequest(text="Seizures are events.")).grounding.sentences
        assert rag.traverse(TraverseRequest(seed_ids=("HP:0001250",))).nodes
        assert rag.health().status == "ok"


@pytest.mark.asyncio
async def test_documents_are_loaded_listed_and_removed(server_for, tmp_path: Path) -> None:
    url = server_for(tmp_path / "own.sqlite")
    note = PostedDocument(doc_id="a b/leave.md", text="# Leave\n\nThere are 30 days of leave.\n")
    async with AsyncClient(url) as rag:

        async def done(job_id: str) -> Job:
            async with asyncio.timeout(40):
                while (job := await rag.job(job_id)).state in ("queued", "running"):
                    await asyncio.sleep(0.2)
            return job

        accepted = await rag.load(DocumentsRequest(documents=(note,)))
        assert (await done(accepted.job_id)).loaded == 1
        assert [document.doc_id for document in (await rag.documents()).documents] == [
            "a b/leave.md"
        ]
        assert (await done((await rag.delete("a b/leave.md")).job_id)).removed == 1
        assert (await rag.documents()).documents == ()
        with pytest.raises(ProblemError) as error:
            await rag.delete("a b/leave.md")
        assert error.value.status == 404


def test_citations_are_char_locations(server_for, tmp_path: Path) -> None:
    texts = {
        "leave.md": "# Leave\n\nEverybody has 30 days of leave a year.\n",
        "pumps.md": "# Pumps\n\nOil the pump every 40 days.\n",
    }
    posted = [PostedDocument(doc_id=name, text=text) for name, text in texts.items()]
    with Client(server_for(tmp_path / "own.sqlite")) as rag:
        job = rag.load(DocumentsRequest(documents=posted)).job_id
        assert eventually(lambda: rag.job(job).state not in ("queued", "running"), 180)
        response = rag.answer("How many days of leave has everybody?", **ANSWER)
    blocks = anthropic_blocks(response)
    assert "".join(block["text"] for block in blocks) == response.answer != ""
    assert [block for block in blocks if not block["text"]] == []
    cited = [citation for block in blocks for citation in block["citations"]]
    titles = list(dict.fromkeys(citation.doc_id for citation in response.citations))
    assert cited
    for citation in cited:
        assert citation["type"] == "char_location"
        assert citation["document_title"] == titles[citation["document_index"]] == "leave.md"
        span = slice(citation["start_char_index"], citation["end_char_index"])
        assert texts["leave.md"][span] == citation["cited_text"] != ""
    assert anthropic_blocks(response.model_copy(update={"grounding": None}))[0]["citations"] == []


def test_wrong_requests_stay_unsent_and_problems_are_typed(server_for, tmp_path: Path) -> None:
    url = server_for(**keyed(tmp_path, {"K": {"namespaces": ["open"], "groups": []}}))
    with pytest.raises(ValidationError):
        Client("http://127.0.0.1:9").answer("What?", top_k=0)
    with pytest.raises(ProblemError) as unknown:
        Client(url).search("What are seizures?")
    assert unknown.value.status == 401
    with pytest.raises(ProblemError) as foreign:
        Client(url, api_key="K").search("What are seizures?", namespace="default")
    assert foreign.value.problem.code == "namespace_not_granted"
    with pytest.raises(Misconfigured):
        Client("localhost:8080")


class Peer(Loopback):
    """Answers by `script`: status, headers and body (a problem) of each request."""

    def __init__(self) -> None:
        super().__init__(self._next)
        self.delay_s = 0.0
        self.script: list[tuple] = []

    def _next(self, *_: object) -> tuple[int, bytes, dict[str, str]]:
        status, headers, body = (*self.script.pop(0), {}, None)[:3]
        fields = {"title": "T", "code": "overloaded", "detail": "d", "request_id": "r"}
        problem = json.dumps({**fields, "status": status, "a_later_field": 1}).encode()
        time.sleep(self.delay_s)
        return status, body or problem, headers


@pytest.fixture
def peer() -> Iterator[Peer]:
    server = Peer()
    yield server
    server.close()


def whole(server_for) -> bytes:
    return Client(server_for()).search("What are seizures?").model_dump_json().encode()


def test_requests_that_never_began_are_retried(peer, server_for) -> None:
    soon = {"retry-after": "0.1"}
    later = whole(server_for)[:-1] + b', "a_later_field": {"x": 1}}'
    peer.script[:] = [(503, soon), (429, soon), (200, {}, later)]
    assert Client(peer.url).search("What are seizures?").citations
    assert len(peer.asked) == 3


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ((503,), ProblemError),
        ((500,), ProblemError),
        ((504,), ProblemError),
        ((401,), ProblemError),
        ((200, {"content-length": "999999"}, b"{"), (Unavailable, Timeout, WrongAnswer)),
        ((200, {}, b"<html>"), WrongAnswer),
    ],
    ids=["no Retry-After", "crash", "late", "unauthorised", "cut off", "no JSON"],
)
def test_what_may_have_been_begun_is_not(peer, reply, error) -> None:
    peer.script[:] = [reply] * 3
    with pytest.raises(error) as failed:
        Client(peer.url, timeout_s=2).search("What are seizures?")
    assert len(peer.asked) == 1
    assert getattr(failed.value, "status", reply[0]) == reply[0]


def test_the_deadline_is_handed_on_and_kept(peer) -> None:
    def sent_s() -> float:
        return json.loads(peer.asked[-1][1])["budget"]["timeout_s"]

    peer.script[:], peer.delay_s = [(200, {}, b"{}")] * 2, 3.0
    with pytest.raises(Timeout):
        Client(peer.url, timeout_s=2).search("What are seizures?")
    assert sent_s() == pytest.approx(1.6, abs=0.1)
    peer.script[:], peer.delay_s = [(503, {"retry-after": "30"})], 0.0
    count = len(peer.asked)
    with pytest.raises(ProblemError):  # there is no time to wait that long
        Client(peer.url, timeout_s=2).search("What are seizures?")
    assert len(peer.asked) == count + 1
    peer.script[:] = [(500,)]
    with pytest.raises(ProblemError):
        Client(peer.url).search("What are seizures?", budget={"timeout_s": 7})
    assert sent_s() == 7


def test_connection_is_kept_until_closed(peer, server_for) -> None:
    peer.script[:] = [(200, {}, whole(server_for))] * 3
    with Client(peer.url) as rag:
        for _ in range(3):
            rag.search("What are seizures?")
        pool = rag._pool.connection_from_url(peer.url)
        assert (pool.num_connections, pool.num_requests) == (1, 3)
    assert len(rag._pool.pools) == 0

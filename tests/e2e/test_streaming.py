"""An answer that is told while a real model server writes it: order, repairs, leaving, failures."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import httpx
import pytest

from docstokg.contracts.streaming import AnswerRepair, AnswerSentence
from docstokg.domain.answer import notices
from tests.builders import answer_request, eventually, tool_call
from tests.e2e.conftest import openai_client
from tests.e2e.test_chat import QUESTION, complete, respond
from tests.streaming_model import StreamingModel, streaming

pytestmark = [
    pytest.mark.timeout(120),
    # Of the model client's streams: it reads an attribute that pydantic will drop.
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]
TINY = "gateway/tiny"
BUDGET = {"max_tokens_gen": 512, "timeout_s": 20}
ASKED = answer_request(QUESTION["content"], model=TINY, budget=BUDGET)
THREE = (
    "A seizure is an event of abnormal excessive neuronal activity in the brain [1]. "
    "It may be short [1]. Bananas are 93 times blue [2]."
)
IN_CHAT = f"{THREE}\n\nNote: No cited source contains: 93 (sentence 3)."


@pytest.fixture(scope="module")
def model() -> Iterator[StreamingModel]:
    with streaming(StreamingModel()) as state:
        yield state


@pytest.fixture(autouse=True)
def fresh(model: StreamingModel) -> None:
    model.answer, model.think, model.finish, model.piece_s = THREE, "", "stop", 0.0
    model.hang_after = model.break_after = None


@pytest.fixture(scope="module")
def url(server_for, model: StreamingModel) -> str:
    return server_for(llm_base_url=model.url, models=(TINY, "extractive"), repair="report")


@pytest.fixture(scope="module")
def mending_url(server_for, model: StreamingModel) -> str:
    return server_for(llm_base_url=model.url, models=(TINY, "extractive"), repair="drop")


def events(url: str, body: dict = ASKED) -> list[tuple[str, dict]]:
    """Give names and values of all events, in order."""
    reply = httpx.post(f"{url}/v1/answer/stream", json=body, timeout=60)
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    pairs = re.findall(r"^event: (.*)\ndata: (.*)$", reply.text, re.MULTILINE)
    return [(name, json.loads(value)) for name, value in pairs]


def mended(stream: list[tuple[str, dict]]) -> str:
    """Put the sentences together as a client does: a repair replaces the one of its index."""
    sent = [value for name, value in stream if name in ("sentence", "repair")]
    texts = {value["index"]: value["text"] for value in sent}
    return "".join(texts[index] for index in sorted(texts))


def test_citations_precede_checked_sentences_and_the_whole_response(url) -> None:
    stream = events(url)
    names = [name for name, _ in stream]
    assert names[0] == "citations"
    assert names[-1] == "response"
    assert names.count("sentence") == 3
    response = stream[-1][1]
    assert mended(stream) == response["answer"] == THREE
    uuids = [citation["uuid"] for citation in response["citations"]]
    assert [citation["uuid"] for citation in stream[0][1]["citations"]] == uuids
    verdicts = [sentence["verdict"] for sentence in response["grounding"]["sentences"]]
    sentences = [
        AnswerSentence.model_validate_json(json.dumps(v)) for n, v in stream if n == "sentence"
    ]
    assert [sentence.verdict for sentence in sentences] == verdicts
    for sentence in sentences:
        assert response["answer"][sentence.start :].startswith(sentence.text)


def test_a_stream_equals_the_whole_answer(url) -> None:
    whole = httpx.post(f"{url}/v1/answer", json=ASKED, timeout=60).json()
    response = events(url)[-1][1]
    for field in ("answer", "grounding", "confidence", "warnings", "results_count"):
        assert response[field] == whole[field], response["warnings"]


@pytest.mark.parametrize(
    "answer",
    [
        THREE,
        '{"answer": "A seizure is an event [1]. It may be short [1]."}',
        "Sure! Based on the sources, here is the answer:\n\nA seizure is an event [1]. It is.",
        "Seizures are:\n\n- short [1]\n- long [2]\n\nSources:\n[1] one\n[2] two",
        "- **First**: a seizure [1].\n" * 30,
        "It is so (1). It is not (2). But [1] it may be. And so on [9]. That is all.",
        "See https://evil.example/x and ![p](http://evil.example/p.png) now [1]. It is so [1].",
        "```\ncode [1]\n```\nA seizure is an event [1]. Yes.",
        notices.ABSTENTION,
        "No stop at the end",
        "I cannot help with that. Please ask a doctor.",
        " ".join(f"Fact number {n} is stated [1]." for n in range(60)),
    ],
)
def test_sentences_and_repairs_together_are_the_answer(url, mending_url, model, answer) -> None:
    model.answer = answer
    for address in (url, mending_url):
        stream = events(address)
        assert mended(stream) == stream[-1][1]["answer"]
        for name, value in stream:
            if name == "repair":
                AnswerRepair.model_validate_json(json.dumps(value))


def test_thoughts_are_never_told(url, model) -> None:
    model.think = "<think>Shall I say it? I may. Perhaps [1].</think> "
    stream = events(url)
    assert not [v for n, v in stream if n == "sentence" and "Shall" in v["text"]]
    assert mended(stream) == THREE


def test_built_in_and_cached_answers_stream_alike(url) -> None:
    body = {**ASKED, "synthesis": {"enabled": True, "model": "extractive"}, "cache_key": "k"}
    first, again = events(url, body), events(url, body)
    assert mended(first) == mended(again) == first[-1][1]["answer"] != ""
    assert again[-1][1]["diagnostics"]["cache_hit"]
    assert next(name for name, _ in again) == "citations"


def test_a_search_alone_ends_after_its_citations(url) -> None:
    stream = events(url, {"query": QUESTION["content"]})
    assert [name for name, _ in stream] == ["citations", "response"]


def test_an_invalid_question_is_a_problem_reply(url) -> None:
    reply = httpx.post(
        f"{url}/v1/answer", json={"query": "?"}, headers={"Accept": "text/event-stream"}
    )
    assert reply.status_code == 400
    assert reply.headers["content-type"] == "application/problem+json"


def test_a_model_breaking_off_keeps_its_whole_sentences(url, model) -> None:
    model.hang_after = 20
    stream = events(url, {**ASKED, "budget": {"max_tokens_gen": 512, "timeout_s": 2}})
    response = stream[-1][1]
    assert response["answer"] == mended(stream)
    assert response["answer"].startswith("A seizure is an event")
    assert response["answer"].endswith("[1].")
    assert "deadline_exceeded" in response["diagnostics"]["degraded_reasons"]
    assert notices.CUT_SHORT in response["warnings"]


def test_a_truncated_answer_ends_at_a_sentence(url, model) -> None:
    model.answer, model.finish = "A seizure is an event [1]. It may be", "length"
    for response in (events(url)[-1][1], httpx.post(f"{url}/v1/answer", json=ASKED).json()):
        assert response["answer"] == "A seizure is an event [1]."
        assert notices.CUT_SHORT in response["warnings"]


def test_the_openai_client_reads_chunks_with_their_evidence(url) -> None:
    usage = {"include_usage": True}
    with openai_client(url) as client:
        parts = list(complete(client, model=TINY, stream=True, stream_options=usage))
    assert {part.object for part in parts} == {"chat.completion.chunk"}
    assert len({part.id for part in parts}) == 1
    assert parts[0].choices[0].delta.role == "assistant"
    assert parts[0].docstokg["citations"]
    assert "".join(part.choices[0].delta.content or "" for part in parts) == IN_CHAT
    verdicts = [p.docstokg["sentence"]["verdict"] for p in parts if "sentence" in p.docstokg]
    assert verdicts == [
        sentence["verdict"] for sentence in parts[-1].docstokg["grounding"]["sentences"]
    ]
    assert parts[-1].choices[0].finish_reason == "stop"
    assert parts[-1].usage.total_tokens > 0


def test_a_response_is_told_sentence_by_sentence(url, model) -> None:
    with openai_client(url) as client:
        events = list(respond(client, model=TINY, stream=True))
        deltas = [e.delta for e in events if e.type == "response.output_text.delta"]
        assert len(deltas) == 3
        assert "".join(deltas) == IN_CHAT == events[-1].response.output_text
        model.answer, model.finish = "A seizure is an event [1]. It may be", "length"
        for response in (
            list(respond(client, model=TINY, stream=True))[-1].response,
            respond(client, model=TINY),
        ):
            assert response.output_text == "A seizure is an event [1]."
            assert response.status == response.output[0].status == "incomplete"
            assert response.incomplete_details.reason == "max_output_tokens"


def test_mcp_tells_progress_to_who_asks_for_it(url) -> None:
    arguments = {"query": QUESTION["content"], "budget": {"timeout_s": 20}}
    call = tool_call("answer_with_citations", **arguments)
    call["params"]["_meta"] = {"progressToken": "t"}
    headers = {"Accept": "application/json, text/event-stream"}
    reply = httpx.post(f"{url}/mcp", json=call, headers=headers, timeout=60)
    assert reply.headers["content-type"].startswith("text/event-stream")
    *notes, result = map(json.loads, re.findall("^data: (.*)$", reply.text, re.MULTILINE))
    assert [note["params"]["progress"] for note in notes] == [1, 2, 3]  # the rest is the result
    assert {note["params"]["progressToken"] for note in notes} == {"t"}
    assert notes[1]["params"]["message"] in result["result"]["structuredContent"]["answer"]
    del call["params"]["_meta"]
    plain = httpx.post(f"{url}/mcp", json=call, headers=headers, timeout=60)
    assert plain.headers["content-type"] == "application/json"


def leave_in_the_middle(url: str, count: int) -> None:
    """Ask, read until a sentence came, and hang up without a word."""
    place = urlsplit(url)
    body = json.dumps(ASKED).encode()
    head = (
        f"POST /v1/answer HTTP/1.1\r\nHost: {place.netloc}\r\nAccept: text/event-stream\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    for _ in range(count):
        with closing(socket.create_connection((place.hostname, place.port))) as sock:
            sock.settimeout(30)
            sock.sendall(head.encode() + body)
            seen = b""
            while b"event: sentence" not in seen and b"HTTP/1.1 503" not in seen:
                seen += sock.recv(65536)


def test_clients_that_leave_in_the_middle_leave_nothing(url, model) -> None:
    model.answer, model.piece_s = "It is so [1]. " * 200, 0.02
    leave_in_the_middle(url, 1)
    eventually(lambda: not model.open_calls)
    threads = threading.active_count()
    asking = [threading.Thread(target=leave_in_the_middle, args=(url, 4)) for _ in range(5)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert eventually(lambda: not model.open_calls)
    assert model.left > 0
    assert eventually(lambda: not [t for t in threading.enumerate() if t.name.startswith("call ")])
    assert threading.active_count() <= threads + 40  # pools keep their threads, calls do not

"""A server with a verifier: answers, checks, streams, and 128 clients while it is slow."""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from docstokg.contracts.response import RAGResponse
from docstokg.contracts.streaming import AnswerVerdicts
from tests.builders import answer_request, body_of
from tests.e2e.test_streaming import TINY, events
from tests.streaming_model import StreamingModel, streaming
from tests.verifier_server import VerifierServer, serving

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]
QUOTED = "A seizure may follow a high fever in young children [1]."
RIGHT = "In the brain seizures are sudden electrical events [1]."
WRONG = "In the heart seizures are sudden electrical events [1]."
BUDGET = {"max_tokens_gen": 512, "timeout_s": 12}
ASKED = answer_request("What are seizures?", model=TINY, budget=BUDGET)
LATE_S = 0.3


@pytest.fixture(scope="module")
def model() -> Iterator[StreamingModel]:
    with streaming(StreamingModel(answer=f"{QUOTED} {RIGHT} {WRONG}")) as state:
        yield state


@pytest.fixture(scope="module")
def verifier() -> Iterator[VerifierServer]:
    with serving() as state:
        yield state


@pytest.fixture(autouse=True)
def fresh(verifier: VerifierServer) -> None:
    verifier.mode, verifier.delay_s = "ok", 0.0
    verifier.asked.clear()


@pytest.fixture(scope="module")
def url(server_for, model: StreamingModel, verifier: VerifierServer) -> str:
    return server_for(
        llm_base_url=model.url, models=(TINY, "extractive"), verifier=f"{verifier.url}/predict"
    )


def answered(url: str, **fields: Any) -> dict[str, Any]:
    body = body_of(httpx.post(f"{url}/v1/answer", json={**ASKED, **fields}, timeout=60))
    RAGResponse.model_validate(body)
    return body


def verdicts(report: dict[str, Any]) -> list[str]:
    return [sentence["verdict"] for sentence in report["sentences"]]


def test_an_answer_is_verified_in_one_call(url: str, verifier: VerifierServer) -> None:
    report = answered(url)["grounding"]
    assert verdicts(report) == ["supported", "supported", "unsupported"]
    name = f"http:127.0.0.1:{verifier.port}"
    assert [sentence["decided_by"] for sentence in report["sentences"]] == ["rules", name, name]
    assert report["sentences"][2]["reasons"][-1] == "not_stated"
    assert report["grounded"] is False
    assert [(checker["name"], checker["kind"]) for checker in report["checked_by"]] == [
        ("rules", "rules"), (name, "model"),
    ]  # fmt: skip
    assert len(verifier.asked) == 1


def test_streams_have_rule_verdicts_and_a_change_event(url: str) -> None:
    stream = events(url, ASKED)
    names = [name for name, _ in stream]
    assert names[0] == "citations" and names[-2:] == ["verdicts", "response"]
    assert names.count("verdicts") == 1 and "repair" not in names
    streamed_verdicts = [value["verdict"] for name, value in stream if name == "sentence"]
    assert streamed_verdicts == ["supported", "unverified", "unverified"]
    update = AnswerVerdicts.model_validate_json(json.dumps(stream[-2][1]))
    assert [(change.index, change.verdict) for change in update.changes] == [
        (1, "supported"), (2, "unsupported"),
    ]  # fmt: skip
    assert verdicts(stream[-1][1]["grounding"]) == ["supported", "supported", "unsupported"]


def test_dead_verifiers_cost_verdicts_and_are_not_cached(
    url: str, verifier: VerifierServer
) -> None:
    verifier.mode = "error_500"
    fields = {"cache_key": "verified"}
    first = answered(url, **fields)
    assert verdicts(first["grounding"]) == ["supported", "unverified", "unverified"]
    assert first["grounding"]["grounded"] is None
    assert first["grounding"]["checked_by"][1]["degraded"]
    assert first["diagnostics"]["degraded_reasons"] == ["verifier_unavailable"]
    verifier.mode = "ok"
    again = answered(url, **fields)
    assert not again["diagnostics"]["cache_hit"]
    assert verdicts(again["grounding"]) == ["supported", "supported", "unsupported"]
    assert answered(url, **fields)["diagnostics"]["cache_hit"]


def test_a_check_is_verified_too(url: str, verifier: VerifierServer) -> None:
    source = "Seizures are sudden, uncontrolled electrical events in the brain."
    body = {"text": f"{RIGHT} {WRONG}", "sources": [{"text": source}]}
    reply = httpx.post(f"{url}/v1/check", json=body, timeout=60).json()
    assert verdicts(reply["grounding"]) == ["supported", "unsupported"]
    verifier.mode = "wrong_length"
    lied = httpx.post(f"{url}/v1/check", json=body, timeout=60).json()
    assert verdicts(lied["grounding"]) == ["unverified", "unverified"]
    assert lied["diagnostics"]["degraded_reasons"] == ["verifier_unavailable"]


def test_the_model_leaves_time_for_its_verifier(
    url: str, model: StreamingModel, verifier: VerifierServer
) -> None:
    """A model that never ends is cut in time for the verifier to be asked."""
    model.piece_s = 0.4
    try:
        begun = time.monotonic()
        body = answered(url, budget={"max_tokens_gen": 512, "timeout_s": 5})
        took_s = time.monotonic() - begun
    finally:
        model.piece_s = 0.0
    assert took_s < 5 + LATE_S
    assert body["diagnostics"]["timings_ms"]["llm_synthesis"] < 2500
    assert len(verifier.asked) <= 1

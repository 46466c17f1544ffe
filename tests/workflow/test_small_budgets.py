"""A generation budget that is too small for one sentence is named; it is no abstention."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docstokg.domain.answer import notices
from tests.builders import answer_request, body_of
from tests.streaming_model import StreamingModel, streaming

QUESTION = "What are seizures?"
WARNED = "budget.max_tokens_gen ({})"


@pytest.fixture
def model() -> Iterator[StreamingModel]:
    with streaming(StreamingModel()) as server:
        yield server


def answer_of(client: Any, name: str, tokens: int, query: str = QUESTION) -> dict[str, Any]:
    return body_of(client.post("/v1/answer", json=answer_request(query, tokens, name)))


@pytest.mark.parametrize("tokens", [1, 5, 10])
def test_a_quotation_too_long_names_the_budget(small_client: Any, tokens: int) -> None:
    reply = answer_of(small_client, "extractive", tokens)
    assert (reply["answer"], reply["confidence"], reply["grounding"]) == ("", 0.0, None)
    assert reply["citations"]
    assert [warning for warning in reply["warnings"] if WARNED.format(tokens) in warning]
    assert notices.SYNTHESIS_UNAVAILABLE not in reply["warnings"]
    assert not reply["diagnostics"]["degraded"]
    assert "[1]" in answer_of(small_client, "extractive", 200)["answer"]


def test_an_abstention_stays_one_with_a_small_budget(small_client: Any) -> None:
    reply = answer_of(small_client, "extractive", 5, "Who was the emperor of Zorwickia?")
    assert reply["answer"] == notices.ABSTENTION
    assert not [warning for warning in reply["warnings"] if "max_tokens_gen" in warning]


@pytest.mark.parametrize("text", ["A seizure is", "A seizure", ""])
def test_a_truncated_first_sentence_names_the_budget(
    small_store: Path, client_for: Any, model: StreamingModel, text: str
) -> None:
    model.answer, model.finish = text, "length"
    client = client_for(small_store, llm_base_url=model.url, models=["house-model"])
    reply = answer_of(client, "house-model", 3)
    assert (reply["answer"], reply["confidence"], reply["grounding"]) == ("", 0.0, None)
    assert reply["citations"]
    assert [warning for warning in reply["warnings"] if WARNED.format(3) in warning]
    model.answer = "A seizure is an event [1]. It may"
    assert answer_of(client, "house-model", 9)["answer"] == "A seizure is an event [1]."


def test_a_chat_says_why_it_has_no_answer(small_client: Any) -> None:
    body = {
        "model": "extractive",
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": 5,
    }
    reply = small_client.post("/v1/chat/completions", json=body).json()
    assert "max_tokens_gen" in reply["choices"][0]["message"]["content"]

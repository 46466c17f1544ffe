"""Whatever a model writes: a reply, its citations, and nothing called grounded that is not."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docstokg.domain.answer import notices
from tests.builders import answer_request, settings_at
from tests.conftest import opened
from tests.faults.reply_shapes import ABSTAINS, SHAPES, Shape
from tests.model_server import ModelServer, passages_of, serving

pytestmark = pytest.mark.timeout(120)
BUDGET = {"max_tokens_gen": 4096, "timeout_s": 25}
ASKED = answer_request("What are seizures?", model="gateway/m", budget=BUDGET)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with serving() as state:
        yield state


@pytest.fixture(scope="module")
def client(models, small_store: Path, cache_dir: Path, server: ModelServer) -> Iterator[Any]:
    at = {"cache_dir": cache_dir, "llm_base_url": server.url, "models": ("gateway/m",)}
    with opened(settings_at(small_store, **at), models) as session, session:
        yield session


def filled(shape: Shape) -> Callable[[dict[str, Any]], str]:
    """Give what writes a shape from the passages of the prompt."""

    def answer(body: dict[str, Any]) -> str:
        texts = [text for _, text in passages_of(body)]
        a, b = (re.split(r"(?<=[.!?])\s", text.strip())[0].rstrip(".!?") for text in texts[:2])
        return shape.text.format(a=a, b=b)

    return answer


def fate(body: dict[str, Any]) -> str:
    if body["answer"] == "":
        return "failed"
    if body["answer"] == ABSTAINS:
        return "silent"
    return "grounded" if body["grounding"]["grounded"] else "doubted"


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_every_shape_has_its_fate(client, server: ModelServer, shape: Shape) -> None:
    server.answer = filled(shape)
    reply = client.post("/v1/answer", json=ASKED)
    assert reply.status_code == 200, reply.text
    body = reply.json()
    assert body["citations"]
    report, warnings = body["grounding"], body["warnings"]
    if shape.fate != "any":
        assert fate(body) == shape.fate, (body["answer"][:300], warnings, report)
    assert shape.lacks == "" or shape.lacks not in body["answer"]
    assert shape.holds.partition("{")[0] in body["answer"]
    if fate(body) in ("silent", "failed"):
        assert (body["confidence"], report) == (0.0, None)
        assert notices.CITATIONS_UNAVAILABLE not in warnings
        return
    unproven = [
        sentence
        for sentence in report["sentences"]
        if (sentence["verdict"] in ("uncited", "unsupported", "unverified"))
        or (sentence["verdict"] == "not_checked" and sentence["reasons"] != ["no_claim"])
    ]
    if report["grounded"]:
        assert not unproven
        assert not report["invalid_citations"]
        assert body["confidence"] > 0.0
    elif report["grounded"] is False:
        assert warnings, "a reader who is not warned trusts it"
    else:
        kinds = {sentence["verdict"] for sentence in report["sentences"]}
        unproven_ranks = any(set(sentence["citations"]) - set(sentence["proven"])
                             for sentence in report["sentences"])  # fmt: skip
        assert kinds & {"unverified", "not_checked"} or (unproven_ranks and warnings)
    if not any(sentence["citations"] for sentence in report["sentences"]):
        assert body["confidence"] <= 0.5
    assert len(reply.content) < 262_144

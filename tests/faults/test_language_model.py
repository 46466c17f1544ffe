"""Model failures: a real loopback server that refuses, hangs, drips and talks nonsense."""

import time
from typing import Any

import pytest

from docstokg.contracts.records import Scope
from docstokg.contracts.response import BudgetLimits
from docstokg.contracts.state import Block, Plan, SynthesisPlan
from docstokg.domain.deadline import Deadline
from docstokg.errors import (
    DocsToKGError,
    Timeout,
    Unavailable,
    WrongAnswer,
)
from docstokg.ports import LanguageModel
from docstokg.settings import Settings
from docstokg.usecases.run import Run
from docstokg.wiring import Wiring
from docstokg_functions.synthesize.synthesize import synthesize
from tests.model_server import ModelServer
from tests.plans import logging, plan

SAID = [{"role": "user", "content": "PRIVATE question"}]
BLOCKS = [
    Block(
        rank=1, uuid="u1", text="Seizures are electrical events.", document_name="A", relevance=8
    ),
    Block(rank=3, uuid="u3", text="Fever may cause seizures.", document_name="B", relevance=5),
]


def language_models(**settings: Any) -> LanguageModel:
    return Wiring(Settings(**settings)).language_model()


def complete(url: str | None, timeout_s: float = 5.0, key: str | None = None) -> Any:
    return language_models(llm_base_url=url, llm_api_key=key).complete(
        SAID,
        model="gpt-4o-mini",
        temperature=0.0,
        max_tokens=50,
        deadline=Deadline.after(timeout_s),
    )


def plan_for(seconds: float, fallback: str | None = None) -> Plan:
    now = int(time.time() * 1000)
    synthesis = SynthesisPlan(
        model="gpt-4o-mini", fallback=fallback, temperature=0.0, max_tokens=100
    )
    limits = BudgetLimits(
        max_chunks=48, max_tokens_context=8000, max_tokens_gen=100, timeout_s=seconds
    )
    return plan(
        "What are seizures?",
        started_ms=now,
        deadline_ms=now + int(seconds * 1000),
        synthesis=synthesis,
        budget_limits=limits,
    )


def synthesis_of(step: Plan, url: str | None, log: list[str] | None = None) -> Any:
    return synthesize(
        Run(plan=step, scope=Scope(namespace="default"), telemetry=logging(log)),
        BLOCKS,
        relevant=True,
        language_model=lambda: language_models(llm_base_url=url),
    )


def test_a_good_answer_with_tokens_and_cost(server: ModelServer) -> None:
    completion = complete(server.url, timeout_s=60.0, key="k-1")  # the first call loads more
    assert (completion.text, completion.tokens_in, completion.tokens_out) == (
        "It is so [1].",
        120,
        30,
    )
    assert (completion.provider, completion.cost_usd > 0) == ("gateway", True)
    path, body = server.requests[0]
    assert path == "/v1/chat/completions"
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("gpt-4o-mini", 50, 0.0)
    assert server.headers[0]["Authorization"] == "Bearer k-1"


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("break_off", Unavailable),
        ("not_json", DocsToKGError),
        ("wrong_shape", DocsToKGError),
        ("null_content", WrongAnswer),
    ],
)
def test_each_misbehaviour_is_told_apart(
    server: ModelServer, mode: str, kind: type[DocsToKGError]
) -> None:
    server.mode = mode
    with pytest.raises(kind) as caught:
        complete(server.url)
    assert not isinstance(caught.value, Timeout)
    assert "PRIVATE" not in str(caught.value)


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("refuse_429", "llm_quota_exceeded"),
        ("error_500", "llm_unavailable"),
        ("empty", "llm_unavailable"),
        ("not_json", "llm_unavailable"),
        ("hang", "llm_timeout"),
    ],
)
def test_the_step_says_why_there_is_no_answer(server: ModelServer, mode: str, reason: str) -> None:
    server.mode = mode
    log: list[str] = []
    result = synthesis_of(plan_for(1.2 if mode == "hang" else 10), server.url, log)
    assert (result.outcome, result.answer, result.degraded) == ("failed", "", (reason,))
    assert any("language_model_failed" in line for line in log)
    assert "seizures" not in "".join(log)


def test_no_fallback_without_time(server: ModelServer) -> None:
    server.mode = "error_500"
    synthesis_of(plan_for(2, fallback="gpt-4o"), server.url)
    assert [body["model"] for _, body in server.requests] == ["gpt-4o-mini"]


def test_no_call_when_it_cannot_finish(server: ModelServer) -> None:
    result = synthesis_of(plan_for(0.3), server.url)
    assert (result.outcome, result.degraded) == ("failed", ("deadline_exceeded",))
    assert server.requests == []

"""Embedders and rerankers against a real loopback server that obeys and breaks their protocols."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from docstokg.adapters.http.embedder import HttpEmbedder
from docstokg.adapters.http.json_post import Endpoint
from docstokg.adapters.http.reranker import HttpReranker
from docstokg.adapters.onnx.reranker import OnnxReranker
from docstokg.domain.deadline import Deadline
from docstokg.domain.vectors import pack, unpack
from docstokg.errors import (
    CircuitOpen,
    DocsToKGError,
    Misconfigured,
    QuotaExceeded,
    Refused,
    Timeout,
    Unavailable,
    WrongAnswer,
)
from tests.model_server import ModelServer, vector
from tests.plans import soon


def embedder(url: str, provider: str = "openai", fallback: str | None = None) -> HttpEmbedder:
    return HttpEmbedder(
        provider=provider,
        base_urls=tuple(filter(None, (url, fallback))),
        model="m-1",
        dimension=8,
        api_key="k",
    )


def reranker(url: str, provider: str = "cohere") -> HttpReranker:
    return HttpReranker(provider=provider, base_url=url, model="r-1", api_key="k")


@pytest.mark.parametrize("provider", ["openai", "jina", "hf"])
def test_vectors_come_back_ordered_and_of_unit_length(server: ModelServer, provider: str) -> None:
    texts = [f"text number {place}" for place in range(70)]
    vectors = embedder(server.url, provider).embed(texts, soon())
    assert vectors == tuple(pack(vector(text, 8)) for text in texts)
    assert math.isclose(float(unpack(vectors[0]) @ unpack(vectors[0])), 1.0, rel_tol=1e-5)
    paths = {path for path, _ in server.requests}
    assert paths == {"/v1" if provider == "hf" else "/v1/embeddings"}
    assert len(server.requests) == 2
    assert server.headers[0]["Authorization"] == "Bearer k"


FAILURES = [
    ("refuse_429", QuotaExceeded), ("error_500", Unavailable), ("unauthorized", Refused),
    ("break_off", Unavailable), ("not_json", WrongAnswer), ("hang", Timeout), ("drip", Timeout),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "kind"), FAILURES)
@pytest.mark.parametrize("call", ["embed", "rank"])
def test_each_failure_is_told_apart_in_time(
    server: ModelServer, mode: str, kind: type[DocsToKGError], call: str
) -> None:
    server.mode = mode
    with pytest.raises(kind) as caught:
        if call == "embed":
            embedder(server.url).embed(["PRIVATE"], Deadline.after(0.5))
        else:
            reranker(server.url).rank("PRIVATE", ["a"], Deadline.after(0.5))
    assert "PRIVATE" not in str(caught.value)


def _changed(name: str, change: Callable[[list[Any]], Any]) -> Callable[[str, Any], Any]:
    return lambda path, payload: {**payload, name: change(payload[name])}


def _each(name: str, **fields: Any) -> Callable[[str, Any], Any]:
    """Change these fields of each row."""
    return _changed(name, lambda rows: [{**row, **fields} for row in rows])


BAD_VECTORS = {
    "one is missing": _changed("data", lambda rows: rows[:-1]),
    "one too many": _changed("data", lambda rows: [*rows, rows[0]]),
    "numbered twice": _each("data", index=0),
    "too short": _each("data", embedding=[1.0]),
    "not a number": _each("data", embedding=["x"] * 8),
    "NaN": _each("data", embedding=[math.nan] * 8),
    "all zero": _each("data", embedding=[0.0] * 8),
    "too long for float32": _each("data", embedding=[1e308] * 8),
    "an infinite length": _each("data", embedding=[3e38] * 8),
    "null": _each("data", embedding=None),
    "no rows": _changed("data", lambda rows: None),
    "another model": lambda path, payload: {**payload, "model": "other"},
    "a list": lambda path, payload: [payload],
}


@pytest.mark.parametrize("case", BAD_VECTORS)
def test_wrong_vectors_never_get_through(server: ModelServer, case: str) -> None:
    server.tamper = BAD_VECTORS[case]
    with pytest.raises(WrongAnswer):
        embedder(server.url).embed(["a", "b"], soon())


def test_five_failures_stop_requests_until_a_trial_succeeds(server: ModelServer) -> None:
    now = 0.0
    endpoint = Endpoint(f"{server.url}/embeddings", None, clock=lambda: now)

    def post() -> Any:
        return endpoint.post({"model": "m", "input": ["a"]}, soon(), dict)

    server.mode = "error_500"
    for _ in range(5):
        with pytest.raises(Unavailable):
            post()
    with pytest.raises(CircuitOpen):
        post()
    assert len(server.requests) == 5
    server.mode, now = "ok", 31.0
    assert post()["data"]
    assert post()["data"]


@pytest.mark.parametrize("provider", ["cohere", "jina"])
def test_scores_come_back_in_order_of_the_passages(server: ModelServer, provider: str) -> None:
    scores = reranker(server.url, provider).rank("red fox", ["blue", "red fox", "a fox"], soon())
    assert scores == (0.0, 1.0, 0.5)
    assert server.requests[0][0] == "/v1/rerank"
    assert reranker(server.url).rank("q", [], soon()) == ()


BAD_SCORES = {
    "one is missing": _changed("results", lambda rows: rows[:-1]),
    "scored twice": _changed("results", lambda rows: [rows[0], rows[0]]),
    "out of range": _each("results", index=7),
    "no index": _changed("results", lambda rows: [{"relevance_score": 1.0} for _ in rows]),
    "a word": _each("results", relevance_score="high"),
    "infinite": _each("results", relevance_score=math.inf),
    "too large": _each("results", relevance_score=1e308),
    "strings": _changed("results", lambda rows: ["x" for _ in rows]),
    "nothing": _changed("results", lambda rows: None),
}


@pytest.mark.parametrize("case", BAD_SCORES)
def test_wrong_scores_never_order_anything(server: ModelServer, case: str) -> None:
    server.tamper = BAD_SCORES[case]
    with pytest.raises(WrongAnswer):
        reranker(server.url).rank("q", ["a", "b"], soon())


def test_settings_that_cannot_work() -> None:
    with pytest.raises(Misconfigured, match="DOCSTOKG_EMBED_DIMENSION"):
        HttpEmbedder(
            provider="openai",
            base_urls=(),
            model="unheard-of",
            dimension=None,
            api_key=None,
        )
    with pytest.raises(Misconfigured):
        embedder("ftp://x")
    with pytest.raises(Misconfigured):
        OnnxReranker(None)
    with pytest.raises(Misconfigured, match="missing"):
        OnnxReranker("/nowhere/model.onnx").warm()


def test_a_connection_is_reused_and_reopened_when_lost(
    server: ModelServer,
) -> None:
    two = embedder(server.url)
    for text in ("a", "b", "c"):
        two.embed([text], soon())
    assert server.connections == 1
    server.hang_up = True
    two.embed(["d"], soon())
    two.embed(["e"], soon())
    assert server.connections > 1
    assert len(server.requests) == 5

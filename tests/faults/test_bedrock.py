"""Embeddings and rerank scores of Bedrock: signed calls, and a server that lies or is lost."""

import json
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from docstokg.adapters.http.bedrock import BedrockEmbedder, BedrockReranker
from docstokg.domain.deadline import Deadline
from docstokg.domain.vectors import pack, unpack
from docstokg.errors import DocsToKGError, Misconfigured, Timeout, WrongAnswer
from docstokg.ports import embed_questions
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from tests.faults.test_remote_providers import FAILURES
from tests.model_server import ModelServer, serving, vector
from tests.plans import soon
from tests.signatures import REGION, Signed, be_a_role, problem

TITAN, V3, V4 = "amazon.titan-embed-text-v2:0", "cohere.embed-multilingual-v3", "cohere.embed-v4:0"


@pytest.fixture(autouse=True)
def role(monkeypatch: pytest.MonkeyPatch) -> None:
    be_a_role(monkeypatch)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with serving() as state:
        yield state
        for (path, body), headers in zip(state.requests, state.headers, strict=True):
            lower = {name.lower(): value for name, value in headers.items()}
            raw = json.dumps(body, ensure_ascii=False).encode()
            url = f"http://{lower['host']}{path}"
            assert problem(Signed("bedrock"), "POST", url, lower, raw) is None
            assert lower["accept"] == "application/json"


def embedder(url: str, model: str = TITAN, dimension: int | None = 8) -> BedrockEmbedder:
    return BedrockEmbedder(base_urls=(url,), model=model, dimension=dimension)


def reranker(url: str, model: str | None = None) -> BedrockReranker:
    return BedrockReranker(base_url=url, model=model)


@pytest.mark.parametrize(("model", "calls"), [(TITAN, 70), (V3, 2), (f"eu.{V4}", 2)])
def test_vectors_come_back_in_order_by_signed_calls(
    server: ModelServer, model: str, calls: int
) -> None:
    texts = [f"text number {place}" for place in range(70)]
    encoder = embedder(server.url, model)
    assert encoder.embed(texts, soon()) == tuple(pack(vector(text, 8)) for text in texts)
    assert encoder.model == model.removeprefix("eu.")
    assert len(server.requests) == calls
    quoted = model.replace(":", "%3A")
    assert {path for path, _ in server.requests} == {f"/v1/model/{quoted}/invoke"}


def test_questions_are_marked_and_long_texts_are_cut(server: ModelServer) -> None:
    for model, longest in ((V3, 2048), (V4, 128_000)):
        encoder = embedder(server.url, model)
        encoder.embed(["x" * 200_000], soon())
        embed_questions(encoder, ["why?"], soon())
        passage, question = (body for _, body in server.requests[-2:])
        assert len(passage["texts"][0]) == longest
        assert (passage["input_type"], question["input_type"]) == (
            "search_document",
            "search_query",
        )
        assert passage.get("output_dimension") == (8 if model == V4 else None)
    embedder(server.url).embed(["x" * 200_000], soon())
    _, body = server.requests[-1]
    assert body == {"inputText": "x" * 8192, "dimensions": 8, "normalize": True}


def test_vectors_have_unit_length_and_the_models_dimension(server: ModelServer) -> None:
    server.dimension = 1024
    (packed_vector,) = embedder(server.url, dimension=None).embed(["a red fox"], soon())
    assert len(packed_vector) == 4 * 1024
    assert math.isclose(float(unpack(packed_vector) @ unpack(packed_vector)), 1.0, rel_tol=1e-5)


@pytest.mark.parametrize("model", [TITAN, V4])
@pytest.mark.parametrize(("mode", "kind"), FAILURES)
def test_each_failure_is_told_apart_in_time(
    server: ModelServer, model: str, mode: str, kind: type[DocsToKGError]
) -> None:
    server.mode = mode
    begun = time.monotonic()
    for call in (
        lambda: embedder(server.url, model).embed(["PRIVATE", "PRIVATE too"], Deadline.after(0.5)),
        lambda: reranker(server.url).rank("PRIVATE", ["a"], Deadline.after(0.5)),
    ):
        with pytest.raises(kind) as caught:
            call()
        assert "PRIVATE" not in str(caught.value)
    assert time.monotonic() - begun < 4


def test_the_deadline_holds_for_all_texts_together(server: ModelServer) -> None:
    server.mode, server.delay_s = "slow", 0.3
    begun = time.monotonic()
    with pytest.raises(Timeout):
        embedder(server.url).embed([f"text {n}" for n in range(64)], Deadline.after(0.5))
    assert time.monotonic() - begun < 1.5
    time.sleep(0.7)
    assert len(server.requests) < 32, "nothing is sent after the deadline"


def test_a_load_waits_for_a_throttled_model(server: ModelServer) -> None:
    server.mode = "refuse_429"
    encoder = embedder(server.url, V3)
    threading.Timer(0.5, lambda: setattr(server, "mode", "ok")).start()
    assert encoder.embed(["a"], None) == (pack(vector("a", 8)),)
    assert len(server.requests) == 2


BAD_TITAN: dict[str, Any] = {
    "too short": [1.0],
    "too long": [1.0] * 9,
    "NaN": [float("nan")] * 8,
    "all zero": [0.0] * 8,
    "words": ["x"] * 8,
    "null": None,
}
BAD_COHERE: dict[str, Any] = {
    "one is missing": {"float": [[1.0] * 8]},
    "one too many": {"float": [[1.0] * 8] * 3},
    "of one too few": {"float": [[1.0] * 8, [1.0] * 7]},
    "another type": {"int8": [[1] * 8] * 2},
    "a list": [[1.0] * 8] * 2,
    "infinite": {"float": [[float("inf")] * 8] * 2},
}


@pytest.mark.parametrize("case", BAD_TITAN)
def test_wrong_titan_vectors_never_get_through(server: ModelServer, case: str) -> None:
    server.tamper = lambda _, payload: payload | {"embedding": BAD_TITAN[case]}
    with pytest.raises(WrongAnswer):
        embedder(server.url).embed(["a", "b"], soon())


@pytest.mark.parametrize("case", BAD_COHERE)
def test_wrong_cohere_vectors_never_get_through(server: ModelServer, case: str) -> None:
    server.tamper = lambda _, payload: payload | {"embeddings": BAD_COHERE[case]}
    with pytest.raises(WrongAnswer):
        embedder(server.url, V4).embed(["a", "b"], soon())


@pytest.mark.parametrize("model", ["amazon.rerank-v1:0", "cohere.rerank-v3-5:0"])
def test_scores_come_back_in_order_of_the_passages(server: ModelServer, model: str) -> None:
    ranker = reranker(server.url, model)
    assert ranker.rank("red fox", ["blue", "red fox", "a fox"], soon()) == (
        0.0,
        1.0,
        0.5,
    )
    ((path, body),) = server.requests
    assert path == f"/v1/model/{model.replace(':', '%3A')}/invoke"
    expected = {"query": "red fox", "documents": ["blue", "red fox", "a fox"], "top_n": 3}
    assert body == expected | ({"api_version": 2} if model.startswith("cohere") else {})
    assert ranker.rank("q", [], soon()) == ()
    assert reranker(server.url).model == "amazon.rerank-v1:0"


@pytest.mark.parametrize(
    "model", [f"eu.{V4}", f"arn:aws:bedrock:{REGION}:1:inference-profile/eu.{V4}"]
)
def test_the_address_is_that_of_the_aws_client(model: str) -> None:
    requests = []
    client = boto3.client("bedrock-runtime")
    client.meta.events.register(
        "before-send", lambda request, **_: requests.append(request) or _ok()
    )
    client.invoke_model(modelId=model, body=b"{}")
    encoder = BedrockEmbedder(base_urls=(), model=model, dimension=None)
    assert [endpoint.url for endpoint in encoder._endpoints] == [requests[0].url]
    scope = f"/{REGION}/bedrock/aws4_request"
    assert scope in str(requests[0].headers["Authorization"])


def _ok() -> Any:
    from botocore.awsrequest import AWSResponse

    class Body:
        def stream(self, **_: object) -> Iterator[bytes]:
            yield b"{}"

    return AWSResponse("", 200, {}, Body())


def test_settings_choose_the_provider(server: ModelServer, tmp_path: Path) -> None:
    settings = Settings(
        embed_provider="bedrock",
        embed_base_url=(server.url,),
        embed_model=V4,
        embed_dimension=8,
        rerank_provider="bedrock",
        rerank_base_url=server.url,
        rerank_model="cohere.rerank-v3-5:0",
        cache_dir=str(tmp_path),
    )
    wiring = Wiring(settings)
    encoder, ranks = wiring.embedder(), wiring.reranker()
    assert embed_questions(encoder, ["a"], soon()) == encoder.embed(["a"], soon())
    assert len(server.requests) == 2, "a question and a passage are cached apart"
    assert ranks.rank("a", ["a"], soon()) == (1.0,)


def test_settings_that_cannot_work(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Misconfigured, match="titan"):
        embedder("http://127.0.0.1:9", "amazon.nova-lite-v1:0")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(Misconfigured, match="AWS_DEFAULT_REGION"):
        embedder("http://127.0.0.1:9")

"""Spans in a receiver of OTLP/HTTP: parts of a question, its parent, and omitted texts."""

import gzip
import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.builders import answer_request, eventually, ran
from tests.loopback import Loopback
from tests.streaming_model import StreamingModel, streaming

pytestmark = pytest.mark.timeout(180)
TINY = "gateway/tiny"
QUESTION = "What are seizures?"
ANSWER = "A seizure is an event of abnormal excessive neuronal activity in the brain [1]."
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SENT = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
ASKED = answer_request(QUESTION, model=TINY, budget={"max_tokens_gen": 512, "timeout_s": 20})
GZIP = b"\x1f\x8b"
STEPS = {"validate", "retrieve", "expand", "ground", "synthesize", "respond"}


class Receiver(Loopback):
    """A receiver of OTLP/HTTP."""

    @property
    def bodies(self) -> list[bytes]:
        assert {path for path, _ in self.asked} <= {"/v1/traces"}
        bodies = [body for _, body in self.asked]
        return [gzip.decompress(body) if body[:2] == GZIP else body for body in bodies]

    def spans(self) -> list[Span]:
        spans = []
        for body in self.bodies:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                assert attributes(resource.resource)["service.name"] == "docstokg"
                spans += [span for scope in resource.scope_spans for span in scope.spans]
        return spans


@pytest.fixture(scope="module")
def model() -> Iterator[StreamingModel]:
    with streaming(StreamingModel(answer=ANSWER)) as state:
        yield state


@pytest.fixture
def traced_to(monkeypatch, server_for, model):
    """The address of a server that sends its spans to an address."""

    def start(receiver: str) -> str:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        return server_for(llm_base_url=model.url, models=(TINY, "extractive"))

    return start


def attributes(holder: Any) -> dict[str, Any]:
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value"))
        for attribute in holder.attributes
    }


def collected(receiver: Receiver, name: str) -> dict[str, Span]:
    """Give the spans by name, once the named one has come, which ends last."""

    def by_name() -> dict[str, Span]:
        return {span.name: span for span in receiver.spans()}

    assert eventually(lambda: name in by_name()), list(by_name())
    return by_name()


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_question_is_seen_with_its_parts(traced_to, accept) -> None:
    with closing(Receiver()) as receiver:
        url = traced_to(receiver.url)
        answered = httpx.post(f"{url}/v1/answer", json=ASKED, headers={**SENT, "accept": accept})
        assert answered.status_code == httpx.get(f"{url}/v1/health").status_code == 200
        spans = collected(receiver, "POST /v1/answer")
    root = spans["POST /v1/answer"]
    assert root.kind == Span.SPAN_KIND_SERVER
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, PARENT)
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    root_attributes = attributes(root)
    assert root_attributes["http.response.status_code"] == 200
    assert root_attributes["docstokg.request_id"] == answered.headers["x-request-id"]
    by_id = {span.span_id: span for span in spans.values()}
    assert {s.name for s in spans.values() if s.parent_span_id == root.span_id} == STEPS

    def path(name: str) -> list[str]:
        span, names = spans[name], []
        while span.span_id != root.span_id:
            names.append(span.name)
            span = by_id[span.parent_span_id]
        return names

    assert path("HTTP") == ["HTTP", f"chat {TINY}", "language_model", "synthesize"]
    assert path("retrieval default") == ["retrieval default", "retrieve"]
    (embedding,) = [name for name in spans if name.startswith("embeddings ")]
    assert path(embedding) == [embedding, "retrieve"]
    assert path("hydrate") == ["hydrate", "ground"]
    assert path("check_answer") == ["check_answer", "respond"]
    call = attributes(spans[f"chat {TINY}"])
    assert spans[f"chat {TINY}"].kind == spans["HTTP"].kind == Span.SPAN_KIND_CLIENT
    assert call["gen_ai.operation.name"] == "chat"
    assert call["gen_ai.request.model"] == TINY
    assert call["gen_ai.request.max_tokens"] == 512
    assert call["gen_ai.usage.input_tokens"] > 0
    assert call["gen_ai.usage.output_tokens"] > 0
    retrieval_attributes = attributes(spans["retrieval default"])
    assert retrieval_attributes["gen_ai.operation.name"] == "retrieval"
    assert retrieval_attributes["gen_ai.data_source.id"] == "default"
    assert attributes(spans["HTTP"])["http.response.status_code"] == 200


def test_spans_hold_no_text_of_question_or_passage(traced_to) -> None:
    with closing(Receiver()) as receiver:
        url = traced_to(receiver.url)
        httpx.post(f"{url}/v1/answer", json=ASKED, headers=SENT)
        chat = {"model": "extractive", "messages": [{"role": "user", "content": QUESTION}]}
        httpx.post(f"{url}/v1/chat/completions", json=chat)
        httpx.get(f"{url}/v1/documents/seizures?namespace=default")
        collected(receiver, "POST /v1/chat/completions")
        exported = b"\n".join(receiver.bodies).lower()
    assert len(exported) > 1000
    for word in (b"seizure", b"neuronal", b"what are"):
        assert word not in exported


def test_a_failure_is_its_error_type_only(traced_to, model) -> None:
    model.break_after = 0
    try:
        with closing(Receiver()) as receiver:
            url = traced_to(receiver.url)
            streamed = SENT | {"accept": "text/event-stream"}
            reply = httpx.post(f"{url}/v1/answer", json=ASKED, headers=streamed)
            assert reply.status_code == 200
            spans = collected(receiver, "POST /v1/answer")
    finally:
        model.break_after = None
    failed = spans[f"chat {TINY}"]
    assert failed.status.code == 2 and not failed.status.message and not failed.events
    assert attributes(failed)["error.type"] == "Unavailable"
    assert spans["POST /v1/answer"].status.code == 0


def test_a_dead_or_hanging_receiver_delays_no_answer(traced_to) -> None:
    def took(url: str) -> float:
        body = answer_request(QUESTION)
        begun = time.perf_counter()
        assert httpx.post(f"{url}/v1/answer", json=body, headers=SENT).status_code == 200
        return time.perf_counter() - begun

    with closing(Receiver()) as receiver:
        receiver.waits.clear()
        for address in (receiver.url, "http://127.0.0.1:9"):
            url = traced_to(address)
            assert max(took(url) for _ in range(8)) < 3
        assert receiver.asked


ALONE = """
import sys
from starlette.testclient import TestClient
from docstokg_local.server.serving import application
from tests.builders import answer_request, body_of, settings_at
settings = settings_at(sys.argv[1], cache_dir=sys.argv[2])
with TestClient(application(settings, "127.0.0.1"), "http://localhost") as client:
    asked = answer_request("What are seizures?", 400)
    body_of(client.post("/v1/answer", json=asked, headers={"traceparent": sys.argv[3]}))
print(sorted(name for name in sys.modules if name.startswith("opentelemetry")))
"""


@pytest.mark.parametrize("variables", [{}, {"OTEL_SDK_DISABLED": "true", "OTEL_SERVICE_NAME": "x"}])
def test_nothing_is_imported_without_the_variables(small_store, cache_dir, variables) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    command = [sys.executable, "-c", ALONE, small_store, cache_dir, SENT["traceparent"]]
    done = ran(*command, env=environ | variables, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("[]")

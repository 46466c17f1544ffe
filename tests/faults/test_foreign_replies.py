"""Replies of foreign servers: bytes, time, redirects and JSON are bounded for every client."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import jwt
import pytest

from docstokg.adapters.http.bedrock import BedrockEmbedder, BedrockReranker
from docstokg.adapters.http.embedder import HttpEmbedder
from docstokg.adapters.http.reranker import HttpReranker
from docstokg.adapters.http.verifier import HttpVerifier
from docstokg.adapters.jwt_tokens import JwksTokens
from docstokg.adapters.litellm import LiteLlm
from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, Timeout, Unavailable, WrongAnswer
from docstokg.ports import Pair
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from tests.builders import eventually
from tests.model_server import listening
from tests.signatures import be_a_role

pytestmark = pytest.mark.timeout(120)
EVENTS, JSON = "text/event-stream", "application/json"
SECRET = "PRIVATE"
TIME_S = 20.0


@dataclass
class Foreign:
    """A server that sends `parts` with `status` and `kind`, whatever it is asked."""

    port: int = 0
    status: int = 200
    kind: str = JSON
    parts: Callable[[], Iterator[bytes]] = lambda: iter(())
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    sent: int = 0
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


@contextmanager
def foreign() -> Iterator[Foreign]:
    state = Foreign()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            """Stay silent."""

        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            state.asked.append(self.path)
            try:
                self.send_response(state.status)
                self.send_header("Content-Type", state.kind)
                for name, value in state.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                for part in state.parts():
                    self.wfile.write(part)
                    state.sent += len(part)
            except OSError:
                pass
            finally:
                state.done.set()

    with listening(Handler) as state.port:
        yield state


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    LiteLlm().warm()  # its import takes seconds, which are not the server's


@pytest.fixture(autouse=True)
def role(monkeypatch: pytest.MonkeyPatch) -> None:
    be_a_role(monkeypatch)


@pytest.fixture
def server() -> Iterator[Foreign]:
    with foreign() as state:
        yield state


def completion_call(
    model: str, on_text: Callable[[str], bool] | None = None, time_s: float = TIME_S
) -> Callable[[Foreign], Any]:
    def call(server: Foreign) -> Any:
        settings = Settings(
            llm_base_url=server.url,
            anthropic_api_key="k",
            provider_urls=(f"anthropic={server.url}",),
        )
        language_model = Wiring(settings).language_model()
        return language_model.complete(
            [{"role": "user", "content": SECRET}],
            model=model,
            temperature=0,
            max_tokens=9,
            deadline=Deadline.after(time_s),
            on_text=on_text,
        )

    return call


def signed_in(server: Foreign) -> Any:
    token = jwt.encode({"sub": SECRET}, "k" * 32, headers={"kid": "k"})
    return JwksTokens("issuer", "audience", server.url).caller(token)


def embedded(server: Foreign) -> Any:
    at = {"provider": "openai", "base_urls": (server.url,), "model": "m", "api_key": "k"}
    return HttpEmbedder(**at, dimension=8).embed([SECRET], Deadline.after(TIME_S))


def ranked(server: Foreign) -> Any:
    at = {"provider": "cohere", "base_url": server.url, "model": "m", "api_key": "k"}
    return HttpReranker(**at).rank(SECRET, ["a"], Deadline.after(TIME_S))


def embedded_by_role(server: Foreign) -> Any:
    at = {"base_urls": (server.url,), "model": "cohere.embed-v4:0", "dimension": 256}
    return BedrockEmbedder(**at).embed([SECRET], Deadline.after(TIME_S))


def ranked_by_role(server: Foreign) -> Any:
    return BedrockReranker(base_url=server.url, model=None).rank(
        SECRET, ["a"], Deadline.after(TIME_S)
    )


def verified(server: Foreign) -> Any:
    verifier = HttpVerifier(f"{server.url}/predict", "entailment", 0.5)
    return verifier.verify([Pair(SECRET, ("a",))], Deadline.after(TIME_S))


MODELS = {
    "chat": completion_call("gateway/m"),
    "chat, streamed": completion_call("gateway/m", lambda text: True),
    "anthropic": completion_call("anthropic/m"),
    "anthropic, streamed": completion_call("anthropic/m", lambda text: True),
}
CLIENTS = {
    **MODELS, "embedder": embedded, "reranker": ranked, "verifier": verified, "keys": signed_in,
    "bedrock embedder": embedded_by_role, "bedrock reranker": ranked_by_role,
}  # fmt: skip


def failure(call: Callable[[Foreign], Any], server: Foreign) -> DocsToKGError:
    with pytest.raises(DocsToKGError) as caught:
        call(server)
    assert SECRET not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("shape", ["[", '{"a":'])
def test_json_nested_too_deep_is_a_wrong_answer(server: Foreign, client: str, shape: str) -> None:
    server.parts = lambda: iter([shape.encode() * 20_000])
    if client == "anthropic, streamed":
        server.kind, server.parts = EVENTS, lambda: iter([b"data: " + shape.encode() * 20_000])
    kind = Unavailable if client == "keys" else (WrongAnswer, Unavailable)
    assert isinstance(failure(CLIENTS[client], server), kind)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_is_followed(server: Foreign, client: str, status: int) -> None:
    with foreign() as other:
        server.status, server.headers = status, {"Location": f"{other.url}/stolen"}
        failure(CLIENTS[client], server)
        assert other.asked == []
    assert len(server.asked) == 1


def endless(block: bytes) -> Callable[[], Iterator[bytes]]:
    """Give 100 MB, more than any client may read."""
    return lambda: iter([block * (1 << 20)] * 100)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("kind", [EVENTS, JSON])
def test_no_client_reads_long_replies_to_the_end(server: Foreign, client: str, kind: str) -> None:
    server.kind, server.parts = kind, endless(b"A")
    failure(CLIENTS[client], server)
    assert server.done.wait(60)
    assert server.sent < 80 << 20  # an embedder may read 64 MiB, the others less


@pytest.mark.parametrize("client", MODELS)
def test_streams_of_tiny_events_end_at_their_limit(server: Foreign, client: str) -> None:
    server.kind, server.parts = EVENTS, endless(b": \n")
    failure(MODELS[client], server)
    assert server.done.wait(60)
    assert server.sent < 40 << 20


@pytest.mark.parametrize("client", CLIENTS)
def test_compressed_bytes_count_when_they_are_unpacked(server: Foreign, client: str) -> None:
    import gzip

    packed = gzip.compress(b"A" * (100 << 20))
    server.headers, server.parts = {"Content-Encoding": "gzip"}, lambda: iter([packed])
    failure(CLIENTS[client], server)


def event(data: str) -> bytes:
    return f"data: {data}\n\n".encode()


PIECE = '{"choices": [{"index": 0, "delta": {"content": "It is so [1]."}}]}'
STOP = '{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}'


def streamed(server: Foreign, *parts: bytes) -> tuple[Any, list[str]]:
    server.kind, server.parts = EVENTS, lambda: iter(parts)
    seen: list[str] = []
    return completion_call("gateway/m", lambda text: not seen.append(text))(server), seen


@pytest.mark.parametrize(
    "parts",
    [
        [event(PIECE), event(STOP), event("[DONE]")],
        [event(PIECE), event(STOP)],
        [event(PIECE), event("[DONE]"), b"not read\n"],
        [b": ping\n\n", b"event: x\n", event(PIECE).replace(b"\n", b"\r\n"), event("[DONE]")],
        [bytes([byte]) for byte in event(PIECE) + event(STOP)],
    ],
)
def test_events_are_read_as_servers_write_them(server: Foreign, parts: list[bytes]) -> None:
    answer, seen = streamed(server, *parts)
    assert (answer.text, answer.cut, seen) == ("It is so [1].", None, ["It is so [1]."])


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ([event('{"error": {"message": "overloaded"}}')], Unavailable),
        ([event(PIECE), event("{")], WrongAnswer),
        ([event(PIECE), event('{"choices": 7}')], WrongAnswer),
        ([b"data: " + b" " * (3 << 20)], WrongAnswer),
    ],
)
def test_a_broken_stream_is_no_answer(
    server: Foreign, parts: list[bytes], kind: type[DocsToKGError]
) -> None:
    with pytest.raises(kind):
        streamed(server, *parts)


@pytest.mark.parametrize("end", [[], [event('{"error": {"message": "overloaded"}}')]])
def test_a_stream_that_breaks_keeps_its_text(server: Foreign, end: list[bytes]) -> None:
    answer, _ = streamed(server, event(PIECE), *end)
    assert (answer.text, answer.cut) == ("It is so [1].", "broken")


def test_a_stream_that_hangs_keeps_its_text(server: Foreign) -> None:
    silent = threading.Event()

    def parts() -> Iterator[bytes]:
        yield event(PIECE)
        silent.wait(30)

    server.kind, server.parts = EVENTS, parts
    try:
        answer = completion_call("gateway/m", lambda text: True, 0.5)(server)
        assert (answer.text, answer.cut) == ("It is so [1].", "time")
        asking = lambda: [t for t in threading.enumerate() if t.name.startswith("call model")]  # noqa: E731
        assert eventually(lambda: not asking(), 5)
    finally:
        silent.set()


def test_keys_that_drip_are_left_in_time(server: Foreign) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(200):
            time.sleep(0.1)
            yield b" "

    server.parts = parts
    error = failure(signed_in, server)
    assert isinstance(error, Unavailable)
    assert isinstance(error.__cause__, Timeout)

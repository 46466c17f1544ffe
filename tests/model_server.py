"""A real HTTP server on loopback that speaks the OpenAI protocol, well and badly."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.loopback import Quiet

Answer = str | Callable[[dict[str, Any]], str]
_PASSAGE = re.compile(r"<<<PASSAGE (\d+)\n(.*?)\nPASSAGE \1>>>", re.DOTALL)
USAGE = {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150}


@dataclass
class ModelServer:
    """The server's behaviour and its requests; change `mode` between calls.

    Modes: ok, hang (never answers), drip (a byte each 0.2 s), slow (after `delay_s`), refuse_429,
    error_500, error_503, unauthorized, not_json, wrong_shape, null_content, empty, break_off.
    Embeddings and rerank requests obey the same modes.
    """

    answer: Answer = "It is so [1]."
    mode: str = "ok"
    delay_s: float = 1.0
    dimension: int = 8
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    connections: int = 0
    hang_up: bool = False
    released: threading.Event = field(default_factory=threading.Event)
    port: int = 0
    tamper: Callable[[str, Any], Any] | None = None
    failing_models: set[str] = field(default_factory=set)
    closes: bool = False
    key: str | None = None
    """The one bearer key that is taken; None = any."""

    @property
    def url(self) -> str:
        """The address to configure, as providers give it."""
        return f"http://127.0.0.1:{self.port}/v1"


@contextmanager
def serving(server: ModelServer | None = None) -> Iterator[ModelServer]:
    """Serve until the block ends; hanging requests are let go at its end."""
    state = server or ModelServer()

    class Handler(Quiet, BaseHTTPRequestHandler):
        def setup(self) -> None:
            state.connections += 1
            super().setup()

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length) or b"{}")
            state.requests.append((self.path, body))
            state.headers.append(dict(self.headers.items()))
            try:
                self._misbehave_or_answer(body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _misbehave_or_answer(self, body: dict[str, Any]) -> None:
            mode = state.mode
            if body.get("model") in state.failing_models:
                mode = "error_500"
            if state.key and self.headers.get("Authorization") != f"Bearer {state.key}":
                mode = "unauthorized"
            if state.released.is_set():
                # A kept-alive connection must not outlive the server.
                self.close_connection = True
                return
            failures = {
                "refuse_429": (429, "rate_limit_exceeded"),
                "error_500": (500, "server_error"),
                "error_503": (503, "overloaded"),
                "unauthorized": (401, "invalid_api_key"),
            }
            if mode == "hang":
                state.released.wait(60)
                self.close_connection = True
                return
            if mode == "break_off":
                start_reply(self, 200, 1000)
                self.wfile.write(b'{"choices": [')
                self.close_connection = True
                self.connection.close()
                return
            if mode in failures:
                status, code = failures[mode]
                error = {"message": code, "type": code, "code": code}
                self._send(status, json.dumps({"error": error}).encode())
                return
            if mode == "slow":
                time.sleep(state.delay_s)
            payload = reply(state, self.path, body)
            if state.tamper is not None:
                payload = state.tamper(self.path, payload)
            data = b"<html>" if mode == "not_json" else json.dumps(payload).encode()
            if mode == "drip":
                start_reply(self, 200, len(data))
                for byte in data:
                    if state.released.wait(0.2):
                        break
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
                self.close_connection = True
                return
            self._send(200, data)

        def _send(self, status: int, data: bytes) -> None:
            send_bytes(self, status, data, **({"Connection": "close"} if state.closes else {}))
            # Closed without a word, as a server does that is restarted or tired of waiting.
            self.close_connection = self.close_connection or state.hang_up

    with listening(Handler) as state.port:
        try:
            yield state
        finally:
            state.released.set()


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Answer on a free loopback port until the block ends; give the port."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield http.server_address[1]
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def start_reply(handler: BaseHTTPRequestHandler, status: int, length: int, **headers: str) -> None:
    """Send the head of an answer of `length` bytes."""
    handler.send_response(status)
    usual = {"Content-Type": "application/json", "Content-Length": str(length)}
    for name, value in (usual | headers).items():
        handler.send_header(name, value)
    handler.end_headers()


def send_bytes(handler: BaseHTTPRequestHandler, status: int, data: bytes, **headers: str) -> None:
    """Send one whole answer."""
    start_reply(handler, status, len(data), **headers)
    handler.wfile.write(data)


def send_json(handler: BaseHTTPRequestHandler, status: int, payload: object) -> None:
    """Send one whole answer as JSON."""
    send_bytes(handler, status, json.dumps(payload).encode())


def completion(model: str | None, text: str | None, finish: str = "stop") -> dict[str, Any]:
    """Return the payload of an answer to a chat."""
    message = {"role": "assistant", "content": text}
    return {
        "id": "c-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
        "usage": USAGE,
    }


def reply(state: ModelServer, path: str, body: dict[str, Any]) -> Any:
    """Give the payload of a well-formed answer for the path."""
    if path.endswith("/embeddings"):
        data = [
            {"object": "embedding", "index": place, "embedding": vector(text, state.dimension)}
            for place, text in enumerate(body["input"])
        ]
        return {"object": "list", "model": body.get("model"), "data": data}
    if path.endswith("/invoke") and "inputText" in body:
        return {"embedding": vector(body["inputText"], state.dimension), "inputTextTokenCount": 3}
    if path.endswith("/invoke") and "texts" in body:
        floats = [vector(text, state.dimension) for text in body["texts"]]
        return {"embeddings": {"float": floats}, "response_type": "embeddings_by_type"}
    if path.endswith(("/rerank", "/invoke")):
        words = set(body["query"].casefold().split())
        scores = [
            len(words & set(text.casefold().split())) / max(1, len(words))
            for text in body["documents"]
        ]
        order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
        results = [{"index": place, "relevance_score": scores[place]} for place in order]
        return {"model": body.get("model"), "results": results}
    if path.endswith("/feature-extraction") or "inputs" in body:
        return [vector(text, state.dimension) for text in body["inputs"]]
    text: str | None = state.answer(body) if callable(state.answer) else state.answer
    if state.mode == "null_content":
        text = None
    if state.mode == "empty":
        text = "   "
    if state.mode == "wrong_shape":
        return {"id": "x", "object": "chat.completion", "result": text}
    return completion(body.get("model"), text)


def passages_of(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Return rank and text of each passage in the prompt of a request."""
    return _PASSAGE.findall(body["messages"][-1]["content"])


def vector(text: str, dimension: int) -> list[float]:
    """Give a deterministic non-zero vector for a text (word counts by hash)."""
    values = [0.01] * dimension
    for word in text.casefold().split():
        values[sum(word.encode()) % dimension] += 1.0
    return values

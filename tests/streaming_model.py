"""A real model server on loopback that streams, word by word, as slowly as it is told to."""

import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.loopback import Quiet
from tests.model_server import USAGE, completion, listening, send_json


@dataclass
class StreamingModel:
    """`ways`: how it may go wrong: hang_after N pieces, break_after N pieces, finish by length.

    It waits for `going_on` before the piece `wait_before`. `key`: the one bearer key it takes.

    `open_calls`: answers under way; `left`: those whose reader hung up before the end.
    """

    answer: str = "It is so [1]."
    piece_s: float = 0.0
    hang_after: int | None = None
    break_after: int | None = None
    wait_before: int | None = None
    going_on: threading.Event = field(default_factory=threading.Event)
    key: str | None = None
    finish: str = "stop"
    think: str = ""
    port: int = 0
    open_calls: int = 0
    left: int = 0
    asked: list[dict[str, Any]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """The address to configure."""
        return f"http://127.0.0.1:{self.port}/v1"

    def pieces(self) -> list[str]:
        """Cut the answer into words with the blank before each."""
        words = (self.think + self.answer).split(" ")
        return [words[0], *(f" {word}" for word in words[1:])]


@contextmanager
def streaming(model: StreamingModel) -> Iterator[StreamingModel]:
    """Serve until the block ends."""

    class Handler(Quiet, BaseHTTPRequestHandler):
        def end_headers(self) -> None:
            """Keep no connection: a command that a test runs here would leave it open."""
            self.send_header("Connection", "close")
            super().end_headers()

        def do_GET(self) -> None:
            model.asked.append({"path": self.path})
            send_json(self, 200, {"object": "list", "data": [{"id": "tiny", "object": "model"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            model.asked.append(body)
            with model.lock:
                model.open_calls += 1
            try:
                self._answer(body)
            except OSError:
                with model.lock:
                    model.left += 1
                self.close_connection = True
            finally:
                with model.lock:
                    model.open_calls -= 1

        def _answer(self, body: dict[str, Any]) -> None:
            if model.key and self.headers.get("Authorization") != f"Bearer {model.key}":
                send_json(self, 401, {"error": {"message": "no", "type": "invalid_api_key"}})
                return
            if not body.get("stream"):
                text = model.think + model.answer
                send_json(self, 200, completion(body["model"], text, model.finish))
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for place, piece in enumerate(model.pieces()):
                if place == model.hang_after:
                    self._hang()
                if place == model.break_after:
                    self.connection.close()
                    return
                if place == model.wait_before and not model.going_on.wait(60):
                    raise ConnectionResetError
                time.sleep(model.piece_s)
                self._event({**_head(body), "choices": [_choice({"content": piece}, None)]})
            self._event({**_head(body), "choices": [_choice({}, model.finish)]})
            self._event({**_head(body), "choices": [], "usage": USAGE})
            self.wfile.write(b"data: [DONE]\n\n")

        def _hang(self) -> None:
            """Say nothing more until the reader hangs up, or the server ends."""
            while not model.released.wait(0.05):
                readable, _, _ = select.select([self.connection], [], [], 0)
                if readable and not self.connection.recv(1, socket.MSG_PEEK):
                    raise ConnectionResetError
            raise ConnectionResetError

        def _event(self, value: dict[str, Any]) -> None:
            self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())
            self.wfile.flush()

    with listening(Handler) as model.port:
        try:
            yield model
        finally:
            model.released.set()


def _head(body: dict[str, Any]) -> dict[str, Any]:
    return {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}


def _choice(delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": reason}

"""A server on loopback that gives every request the answer a test decides."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[[str, Mapping[str, str], bytes], tuple[int, Any]]
"""Path, headers and body of a request -> status, and bytes or what JSON can say."""


class Loopback:
    """Answers `status` and `answer`, or what `reply` gives; `asked`: path and body of each request.

    Attributes:
        waits: cleared, no request is answered until it is set, or for at most twenty seconds.
        headers: what each answer has besides its type and length.
    """

    def __init__(self, reply: Reply | None = None, port: int = 0) -> None:
        self.status, self.answer, self.reply = 200, {}, reply
        self.headers: dict[str, str] = {}
        self.asked: list[tuple[str, bytes]] = []
        self.waits = threading.Event()
        self.waits.set()
        self._server = _bound(self._handler(), port)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self.waits.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        here = self

        class Requests(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                here.asked.append((self.path, body))
                here.waits.wait(20)
                status, said = here.status, here.answer
                if here.reply is not None:
                    status, said = here.reply(self.path, self.headers, body)
                raw = said if isinstance(said, bytes) else json.dumps(said).encode()
                known = {"content-type": "application/json", "content-length": str(len(raw))}
                with suppress(ConnectionError):  # whoever asked may wait no longer
                    self.send_response(status)
                    for name, value in (known | here.headers).items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(raw)

            do_GET = do_POST = do_PUT = do_DELETE = _any

            def log_message(self, *_: object) -> None:
                """Stay quiet."""

        return Requests


def _bound(handler: type[BaseHTTPRequestHandler], port: int) -> ThreadingHTTPServer:
    """A fixed port may be held by another run on this machine for a while."""
    until = time.monotonic() + 300
    while True:
        try:
            server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(1)
        else:
            server.daemon_threads = True
            return server


@contextmanager
def answering(answer: Any = None, status: int = 200) -> Iterator[Loopback]:
    """Serve one answer for as long as it is needed."""
    server = Loopback()
    server.answer, server.status = {} if answer is None else answer, status
    try:
        yield server
    finally:
        server.close()

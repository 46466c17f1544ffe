"""A server on loopback that gives every request the answer a test decides."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Reply = Callable[[BaseHTTPRequestHandler, bytes], tuple[int, Any] | tuple[int, Any, Mapping]]
"""A request and its body -> status, bytes or what JSON can say, and headers."""


class Quiet(BaseHTTPRequestHandler):
    """A handler that keeps connections open and writes nothing at the terminal."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


class Loopback:
    """Answers `status` and `answer`, or the result of `reply`; `asked`: paths and bodies.

    Attributes:
        waits: cleared, no request is answered until it is set, or for at most twenty seconds.
        tls: a certificate and its key.
        headers: what each answer has besides its type and length.
    """

    def __init__(
        self, reply: Reply | None = None, port: int = 0, tls: tuple[Path, Path] | None = None
    ) -> None:
        self.status, self.answer, self.reply = 200, {}, reply
        self.headers: dict[str, str] = {}
        self.asked: list[tuple[str, bytes]] = []
        self._open: list[socket.socket] = []
        self.waits = threading.Event()
        self.waits.set()
        self._server = _bound(self._handler(), port)
        self.port = self._server.server_port
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def cut_connections(self) -> None:
        """Shut every connection, as time does to those of a snapshot."""
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def close(self) -> None:
        """Stop answering."""
        self.waits.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Requests(Quiet):
            def setup(self) -> None:
                super().setup()
                server._open.append(self.connection)

            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                server.asked.append((self.path, body))
                server.waits.wait(20)
                response = (
                    (server.status, server.answer)
                    if server.reply is None
                    else server.reply(self, body)
                )
                status, content, *extra_headers = response
                raw = content if isinstance(content, bytes) else json.dumps(content).encode()
                headers = {"content-type": "application/json", **server.headers}
                headers |= extra_headers[0] if extra_headers else {}
                headers |= {} if status == 204 else {"content-length": str(len(raw))}
                with suppress(ConnectionError):  # whoever asked may wait no longer
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    if self.command != "HEAD":
                        self.wfile.write(raw)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _any

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

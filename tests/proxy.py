"""A TCP proxy that behaves as badly as a test asks, between a client and a real server."""

import contextlib
import socket
import threading
import time
from typing import Literal

_METHODS = (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"DELETE ")
Mood = Literal["pass", "slow", "drip", "cut", "garbage"]


class Proxy:
    """Forwards to a loopback port; `mood` says what happens to the server's bytes.

    With `only`, the mood holds only for answers to requests whose first bytes contain it.
    """

    def __init__(self, port: int) -> None:
        self.mood: Mood = "pass"
        self.only: bytes = b""
        self.delay_s = 5.0
        self._target = port
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def connections(self) -> int:
        """Count the clients connected now."""
        with self._lock:
            return len(self._open) // 2

    def close(self) -> None:
        self._listener.close()
        with self._lock:
            for end in self._open:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target), timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                self._open |= {client, server}
            line = _Line()
            for work, source, sink in (
                (self._forward_request, client, server),
                (self._answer, server, client),
            ):
                threading.Thread(target=work, args=(source, sink, line), daemon=True).start()

    def _forward_request(self, client: socket.socket, server: socket.socket, line: "_Line") -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if not self.only or data.startswith(_METHODS):  # a body may come by itself
                    line.chosen = self.only in data
                server.sendall(data)
        self._end(client, server)

    def _answer(self, server: socket.socket, client: socket.socket, line: "_Line") -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                mood = self.mood if line.chosen else "pass"
                if mood == "cut":
                    break
                if mood == "garbage":
                    data = b"\x00\xff" * 20 + b"\r\n\r\n"
                if mood == "slow":
                    time.sleep(self.delay_s)
                if mood != "drip":
                    client.sendall(data)
                    continue
                for place in range(len(data)):
                    client.sendall(data[place : place + 1])
                    time.sleep(0.02)
        self._end(client, server)

    def _end(self, *ends: socket.socket) -> None:
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        with self._lock:
            self._open -= set(ends)


class _Line:
    chosen = True

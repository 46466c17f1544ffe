"""What one connection of the server gives to its socket."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from docstokg_local.server.connections import TOGETHER_BYTES, BoundedProtocol, OneSend, limits

REQUEST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
Message = dict[str, Any]


class Wire(asyncio.Transport):
    """The system's end of a connection: what each call to it sent."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.sent: list[bytes] = []
        self.closed_after: int | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.closed_after = len(self.sent)

    def is_closing(self) -> bool:
        return self.closed_after is not None

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def answering(*parts: bytes, wait: Callable[[], Any] | None = None) -> Any:
    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 503, "headers": []})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
            if wait is not None:
                await wait()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


async def exchange(app: Any, request: bytes = REQUEST) -> Wire:
    config = uvicorn.Config(app, lifespan="off", access_log=False, **limits())
    config.load()
    protocol = BoundedProtocol(config, ServerState(), {})
    wire = Wire()
    protocol.connection_made(wire)
    protocol.data_received(request)
    for _ in range(20):
        await asyncio.sleep(0)
    protocol.connection_lost(None)
    return wire


def test_an_answer_is_sent_by_one_call() -> None:
    wire = asyncio.run(exchange(answering(b"refused")))
    (whole,) = wire.sent
    assert whole.startswith(b"HTTP/1.1 503")
    assert b"refused" in whole


def test_the_last_answer_is_sent_before_the_connection_is_closed() -> None:
    closing = REQUEST.replace(b"Host: a", b"Host: a\r\nConnection: close")
    wire = asyncio.run(exchange(answering(b"refused"), closing))
    assert b"refused" in wire.sent[0]
    assert wire.closed_after == 1


def test_what_a_stream_has_goes_out_while_it_waits_for_more() -> None:
    wire = asyncio.run(exchange(answering(b"one", b"two", wait=lambda: asyncio.sleep(0))))
    assert [(b"one" in sent, b"two" in sent) for sent in wire.sent[:2]] == [
        (True, False),
        (False, True),
    ]


def test_a_permission_to_go_on_is_sent_before_the_body_is_waited_for() -> None:
    asking = REQUEST.replace(b"Host: a", b"Host: a\r\nExpect: 100-continue").removesuffix(b"{}")
    wire = asyncio.run(exchange(answering(b"never"), asking))
    assert wire.sent[0].startswith(b"HTTP/1.1 100")


@pytest.mark.parametrize("size", [TOGETHER_BYTES + 1, 3 * TOGETHER_BYTES])
def test_little_is_held_back(size: int) -> None:
    async def written() -> Wire:
        wire = Wire()
        one = OneSend(wire, asyncio.get_running_loop())
        one.write(b"x" * size)
        return wire

    assert sum(map(len, asyncio.run(written()).sent)) == size


class Own(asyncio.Protocol):
    """A connection over one end of a pair of sockets, and what became of it."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()
        self.error: Exception | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self.lost.set()


def test_a_refusal_goes_to_the_socket_itself() -> None:
    near, far = socket.socketpair()
    wire = Wire()
    wire._extra["socket"] = near
    wire.get_write_buffer_size = lambda: 0

    async def said() -> None:
        OneSend(wire, asyncio.get_running_loop()).at_once(b"refused")

    with near, far:
        asyncio.run(said())
        assert far.recv(100) == b"refused"
    assert wire.sent == []  # the transport would have given the interpreter away


def test_what_a_socket_does_not_take_follows_in_order() -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    parts = [bytes([letter]) * size for letter, size in ((65, 3_000_000), (66, 5), (67, 700))]

    async def said() -> bytes:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(Own, sock=near)
        one = OneSend(transport, loop)
        for part in parts:
            one.at_once(part)
        heard = bytearray()
        while len(heard) < sum(map(len, parts)):
            heard += await asyncio.wait_for(loop.sock_recv(far, 1 << 20), 20)
        transport.close()
        return bytes(heard)

    with far:
        assert asyncio.run(said()) == b"".join(parts)


def test_a_client_that_has_gone_ends_its_connection_only() -> None:
    near, far = socket.socketpair()
    near.setblocking(False)

    async def said() -> Own:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(Own, sock=near)
        one = OneSend(transport, loop)
        far.close()
        for _ in range(3):
            one.at_once(b"refused")
        await asyncio.wait_for(protocol.lost.wait(), 20)
        one.at_once(b"refused")  # after its end
        return protocol

    asyncio.run(said())

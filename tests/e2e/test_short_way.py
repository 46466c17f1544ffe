"""A full server refuses by the short way what the long way would refuse, in the same words."""

import asyncio
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from docstokg.settings import Settings
from docstokg_local.server import connections
from docstokg_local.server.connections import BoundedProtocol
from docstokg_local.server.serving import application, options
from tests.unit.test_connections import Wire

PATHS = ("/v1/search", "/v1/answer", "/v1/chat/completions")
QUESTION = {"query": "What are seizures?", "model": "extractive", "budget": {"timeout_s": 3}}
OF_ONE = re.compile(rb"[0-9A-HJKMNP-TV-Z]{26}")


def request(path: str, **headers: str) -> bytes:
    body = json.dumps(QUESTION)
    given = {"Host": "localhost", "Content-Type": "application/json", **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in given.items())
    return f"POST {path} HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n{body}".encode()


class Full:
    """The application `docstokg serve` runs, and connections to it while every slot is taken."""

    def __init__(self, settings: Settings) -> None:
        self.config = uvicorn.Config(application(settings, "127.0.0.1"), **options(settings))
        self.config.lifespan = "off"
        self.config.load()
        self.refuse = self.config.app.state.refuse  # type: ignore[union-attr]
        self.endpoints = self.refuse.__self__
        self.state = ServerState()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Let work that takes ten seconds hold every slot."""
        go, gone = threading.Event(), asyncio.create_task(asyncio.sleep(60))
        held = []
        for gate in (self.endpoints._quick, self.endpoints._remote):
            gate._of("long").learn(100.0)
            ends = time.monotonic() + 60
            for _ in range(gate._slots):
                run = gate.run(lambda: go.wait(30), caller="x", kind="long", ends=ends, gone=gone)
                held.append(asyncio.create_task(run))
        while not (self.endpoints._quick.is_taken() and self.endpoints._remote.is_taken()):
            await asyncio.sleep(0)
        try:
            yield
        finally:
            go.set()
            await asyncio.gather(*held)
            gone.cancel()

    def connection(self, short: bool = True) -> tuple[Any, Wire]:
        protocol = BoundedProtocol(
            self.config, self.state, {"refuse": self.refuse} if short else {}
        )
        wire = Wire()
        protocol.connection_made(wire)
        return protocol, wire


async def heard(wire: Wire, after: int = 0) -> bytes:
    until = time.monotonic() + 20
    while len(wire.sent) == after and time.monotonic() < until:
        await asyncio.sleep(0.001)
    return wire.sent[-1]


@pytest.fixture(scope="module")
def full(small_store: Path, cache_dir: Path) -> Iterator[Full]:
    url = f"sqlite:///{small_store}"
    made = Full(Settings(index_url=url, graph_url=url, cache_dir=str(cache_dir)))
    yield made
    made.endpoints._quick.close()


@pytest.mark.parametrize("path", PATHS)
def test_both_ways_say_the_same(full: Full, path: str) -> None:
    async def said() -> list[bytes]:
        async with full.taken():
            answers = []
            for short in (True, False):
                protocol, wire = full.connection(short)
                protocol.data_received(request(path))
                assert bool(wire.sent) == short  # the short way has answered by now
                answers.append(await heard(wire))
            return answers

    short, long = asyncio.run(said())
    assert short.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"\r\nretry-after: " in short
    assert OF_ONE.sub(b"ID", short) == OF_ONE.sub(b"ID", long)
    assert len(set(OF_ONE.findall(short))) == 1


def test_a_connection_goes_on_after_a_refusal(full: Full) -> None:
    async def said() -> list[bytes]:
        protocol, wire = full.connection()
        async with full.taken():
            for count in range(3):
                protocol.data_received(request("/v1/search"))
                await heard(wire, count)
            half = request("/v1/search")
            protocol.data_received(half[:90])  # arrives in pieces: the long way
            protocol.data_received(half[90:])
            await heard(wire, 3)
        protocol.data_received(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await heard(wire, 4)
        assert protocol.timeout_keep_alive_task is not None
        protocol.timeout_keep_alive_handler()
        assert wire.closed_after == 5
        return wire.sent

    *refused, healthy = asyncio.run(said())
    assert [sent.split(b" ")[1] for sent in refused] == [b"503"] * 4
    assert healthy.startswith(b"HTTP/1.1 200")


def test_who_asks_again_too_soon_is_told_so_a_moment_later(
    full: Full, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PAUSE_S", 0.5)
    ask = request("/v1/search")

    async def said() -> tuple[list[int], int]:
        counts = []
        async with full.taken():
            protocol, wire = full.connection()
            protocol.data_received(ask)
            counts.append(len(wire.sent))  # the first time at once
            protocol.data_received(ask)
            counts.append(len(wire.sent))
            assert protocol.is_working()  # it is none of the idle ones, which give way
            protocol.data_received(ask)  # did not wait for the answer: it comes before the next
            counts.append(len(wire.sent))
            await heard(wire, 2)
            counts.append(len(wire.sent))
            protocol._not_before = 0.0  # it has waited as long as it was told to
            protocol.data_received(ask)
            counts.append(len(wire.sent))
            protocol.data_received(ask)
            protocol.shutdown()  # what was begun is answered
            counts.append(len(wire.sent))
            gone, left = full.connection()
            gone.data_received(ask)
            gone.data_received(ask)
            gone.connection_lost(None)
            await asyncio.sleep(0.6)
        return counts, len(left.sent)

    assert asyncio.run(said()) == ([1, 1, 2, 3, 4, 5], 1)


def test_a_connection_that_was_refused_is_closed_when_it_stays_silent(full: Full) -> None:
    async def said() -> Wire:
        protocol, wire = full.connection()
        protocol.timeout_keep_alive = 0.05
        async with full.taken():
            protocol.data_received(request("/v1/search"))
        until = time.monotonic() + 20
        while wire.closed_after is None and time.monotonic() < until:
            await asyncio.sleep(0.01)
        return wire

    assert asyncio.run(said()).closed_after == 1


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/search", {"Host": "evil.example"}, b"403"),
        ("/v1/answer", {"Content-Type": "text/plain"}, b"415"),
        ("/v1/nothing", {}, b"404"),
        ("/v1/models", {}, b"405"),
        ("/v1/search", {"Expect": "100-continue"}, b"100"),
    ],
)
def test_what_the_long_way_says_first_it_still_says(
    full: Full, path: str, headers: dict[str, str], status: bytes
) -> None:
    async def said() -> bytes:
        async with full.taken():
            protocol, wire = full.connection()
            protocol.data_received(request(path, **headers))
            assert not wire.sent
            return await heard(wire)

    assert asyncio.run(said()).split(b" ")[1] == status


def test_an_unknown_key_is_told_so_and_a_known_one_is_refused(
    small_store: Path, cache_dir: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"right": {"sub": "s", "namespaces": ["*"], "groups": ["*"]}}))
    url = f"sqlite:///{small_store}"
    full = Full(
        Settings(
            index_url=url, graph_url=url, cache_dir=str(cache_dir), auth="keys", keys_file=str(keys)
        )
    )

    async def said(**headers: str) -> bytes:
        async with full.taken():
            protocol, wire = full.connection()
            protocol.data_received(request("/v1/search", **headers))
            return (await heard(wire)).split(b" ")[1]

    assert asyncio.run(said()) == b"401"
    assert asyncio.run(said(X_Api_Key="wrong")) == b"401"
    assert asyncio.run(said(X_Api_Key="right")) == b"503"
    assert asyncio.run(said(Authorization="Bearer right")) == b"503"


def test_where_there_is_room_nothing_is_refused(full: Full) -> None:
    async def said() -> bytes:
        protocol, wire = full.connection()
        protocol.data_received(request("/v1/search"))
        assert not wire.sent
        return await heard(wire)

    assert b'"path":"$.model"' in asyncio.run(said())  # it was begun, and its body judged

"""The wire to Neo4j against sockets that nobody answers: nothing stays open, nobody waits on."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from docstokg.adapters.neo4j.server import Server
from docstokg.domain.deadline import Deadline
from docstokg.errors import Timeout, Unavailable


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port that takes connections into its queue and says nothing."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(0)
        yield sock


@pytest.fixture
def server(listener: socket.socket) -> Iterator[Server]:
    server = Server(
        url=f"bolt://127.0.0.1:{listener.getsockname()[1]}", user="neo4j", password="secret"
    )
    yield server
    server.close()


def sockets() -> set[str]:
    """Name the sockets this process holds."""
    targets = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the folder's own, closed by now
            targets.add(str(entry.readlink()))
    return {name for name in targets if name.startswith("socket:")}


@pytest.fixture
def full(listener: socket.socket) -> Iterator[None]:
    """Its queue is full: who comes now is neither taken nor refused."""
    with ExitStack() as stack:
        for _ in range(4):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        yield


@pytest.mark.usefixtures("full")
def test_a_timed_out_connection_leaves_no_socket(server: Server) -> None:
    before = sockets()
    for _ in range(3):
        with pytest.raises(Timeout):
            server.read("RETURN 1", {}, Deadline.after(0.2))
    server.close()
    assert not sockets() - before  # others may have ended one of theirs


@pytest.mark.usefixtures("full")
def test_closing_while_it_connects_leaves_no_socket(server: Server) -> None:
    before = sockets()
    server.begin(server.explain("RETURN 1", {}))
    while len(sockets() - before) < 3:  # two of the loop, and the one that connects
        time.sleep(0.01)
    server.close()
    assert not sockets() - before  # others may have ended one of theirs


def test_closing_ends_running_queries(server: Server, listener) -> None:
    outcome: list[Exception] = []

    def query() -> None:
        try:
            server.read("RETURN 1", {}, Deadline.after(60))
        except Unavailable as exc:
            outcome.append(exc)

    asking = threading.Thread(target=query, daemon=True)
    asking.start()
    taken, _ = listener.accept()
    with taken:
        server.close()
        asking.join(20)
    assert [str(error) for error in outcome] == ["the connection to Neo4j was closed meanwhile"]

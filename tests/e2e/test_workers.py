"""Several processes behind one port answer as one, and outlive the loss of any of them."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from docstokg_local.server.lease import Lease
from docstokg_local.server.serving import SPREADS_CONNECTIONS
from tests.builders import eventually
from tests.e2e.test_serving import Serving, served

pytestmark = pytest.mark.timeout(240)
ASK = {"query": "What are seizures in children?"}


@pytest.fixture(scope="module")
def server(small_store, cache_dir) -> Iterator[Serving]:
    limits = {"DOCSTOKG_GRAPH_BUDGET_PER_MINUTE": "3"}
    serving = Serving(small_store, cache_dir, "--workers", "2", **limits)
    yield serving
    assert serving.stop() == 0


def workers(server: Serving) -> set[int]:
    """The processes that hold the listening port open, but for the one that supervises."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    return {pid for pid in map(int, children.read_text().split()) if _sockets(pid)}


def _sockets(pid: int) -> set[str]:
    """The inodes of a process's TCP sockets."""
    names = set()
    with suppress(OSError):  # it may have ended just now
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                names.add(str(link.readlink()))
    return {name[8:-1] for name in names if name.startswith("socket:[")}


def worker_of(client: httpx.Client, server: Serving) -> int:
    """Return the worker at the other end of a client's kept connection."""
    client.get("/openapi.json")
    stream = client._transport._pool.connections[0]._connection._network_stream
    mine: socket.socket = stream.get_extra_info("socket")
    suffix = f":{mine.getsockname()[1]:04X}"
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {row[9] for row in rows if row[2].endswith(suffix)}
    (worker,) = [pid for pid in workers(server) if _sockets(pid) & inodes]
    return worker


@pytest.fixture
def each(server) -> Iterator[Callable[[], dict[int, httpx.Client]]]:
    """Give a connection to every worker, connecting until each has answered."""
    with ExitStack() as opened:

        def connect() -> dict[int, httpx.Client]:
            by_worker: dict[int, httpx.Client] = {}
            until = time.monotonic() + 60
            while len(by_worker) < 2 and time.monotonic() < until:
                client = opened.enter_context(httpx.Client(base_url=server.url, timeout=30))
                by_worker.setdefault(worker_of(client, server), client)
            assert len(by_worker) == 2
            return by_worker

        yield connect


def test_every_worker_tells_the_metrics_of_all(each) -> None:
    first, second = each().values()
    before = served(first)
    for client, times in ((first, 2), (second, 3)):
        for _ in range(times):
            assert client.post("/v1/search", json=ASK).status_code == 200
    assert served(first) == served(second) == before + 5


def test_a_budget_is_spent_in_all_of_them(each) -> None:
    clients = list(each().values())
    walk = {"seed_ids": ["HP:0001250"], "query": "seizures"}
    while time.time() % 60 > 50:
        time.sleep(0.5)  # the shared count is by calendar minute
    statuses = [clients[n % 2].post("/v1/traverse", json=walk).status_code for n in range(6)]
    assert statuses == [200] * 3 + [429] * 3


def test_dead_workers_are_replaced_and_their_counts_stay(server, each) -> None:
    clients = each()
    before = served(next(iter(clients.values())))
    dead = next(iter(clients))
    os.kill(dead, signal.SIGKILL)
    eventually(lambda: len(workers(server)) == 2 and dead not in workers(server), 60)
    fresh = each()
    assert dead not in fresh
    for client in fresh.values():
        assert client.post("/v1/search", json=ASK).status_code == 200
    assert {served(client) for client in fresh.values()} == {before + 2}


def test_exactly_one_holds_the_lease_until_it_ends(tmp_path) -> None:
    path = tmp_path / "lease"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        child_lease = Lease(path)
        os.write(writing, b"1" if child_lease.acquire() else b"0")
        time.sleep(60)
        os._exit(0)
    assert os.read(reading, 1) == b"1"
    lease = Lease(path)
    assert not lease.acquire()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert lease.acquire()
    assert lease.acquire()
    assert not Lease(path).acquire()
    lease.close()
    os.close(reading)
    os.close(writing)


@pytest.mark.skipif(not SPREADS_CONNECTIONS, reason="the kernel does not spread them")
def test_workers_share_clients_that_connect_at_once(server) -> None:
    """They all went to the worker that woke first, and the other cores stayed idle."""
    counts = {pid: len(_sockets(pid)) for pid in workers(server)}

    def received() -> list[int]:
        return [len(_sockets(pid)) - before for pid, before in counts.items()]

    with ExitStack() as opened:
        for _ in range(64):
            opened.enter_context(server.connect())
        assert eventually(lambda: sum(received()) >= 64, 10)
        assert len(received()) == 2
        assert min(received()) >= 10

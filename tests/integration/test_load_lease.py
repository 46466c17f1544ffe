"""One load at a time into a real index, whichever machine it comes from."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from docstokg.adapters.opensearch import lease as opensearch_lease
from docstokg.adapters.opensearch.lease import LoadLease
from docstokg.adapters.opensearch.server import Server, index_notes
from docstokg.adapters.opensearch.writer import OpenSearchWriter
from docstokg.domain.deadline import Deadline
from docstokg.errors import Timeout, Unavailable
from docstokg.loading.run.lease import TAKE_S
from tests.services import SERVICES

pytestmark = [*SERVICES]
HOLDS = """
import sys, time
from docstokg.adapters.opensearch.lease import LoadLease
from docstokg.adapters.opensearch.server import Server
LoadLease(Server(url=sys.argv[1]), sys.argv[2]).acquire(30)
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def leases(place: tuple[str, str]) -> Iterator[tuple[LoadLease, LoadLease]]:
    servers = [Server(url=place[0]) for _ in range(2)]
    leases = LoadLease(servers[0], place[1]), LoadLease(servers[1], place[1])
    yield leases
    for lease, server in zip(leases, servers, strict=True):
        lease.release()
        server.close()


def test_a_second_loader_waits_for_the_first(leases) -> None:
    first, second = leases
    first.acquire(Deadline.after(0))
    waited: list[int] = []
    with pytest.raises(Timeout, match="does not end"):
        second.acquire(Deadline.after(2), waited.append)
    assert sum(waited) >= 1
    first.check()
    first.release()
    second.acquire(Deadline.after(0))
    second.check()


def test_nobody_waits_for_a_killed_local_holder(place, leases) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDS, *place], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    leases[0].acquire(Deadline.after(20))  # of another machine it would take thirty


@pytest.mark.parametrize("run", ["", "one"])
def test_a_holder_stopped_too_long_writes_no_more(leases, monkeypatch, run) -> None:
    """Of another machine's process nobody here knows whether it lives: its lease runs out."""
    first, second = leases
    monkeypatch.setattr(opensearch_lease, "_process", lambda pid: "")
    monkeypatch.setattr(opensearch_lease, "RENEW_S", 600.0)
    monkeypatch.setattr(opensearch_lease, "LEASE_S", 3.0)
    first.acquire(Deadline.after(0), run=run)
    second.acquire(Deadline.after(30))
    monkeypatch.setattr(opensearch_lease, "CALL_S", 5.0)
    with pytest.raises(Unavailable, match="run it again"):
        first.check()
    second.check()


def test_only_tasks_of_one_run_share_a_lease(place, leases) -> None:
    first, second = leases
    stranger = LoadLease(Server(url=place[0]), place[1])
    try:
        first.acquire(Deadline.after(0), run="one")
        second.acquire(Deadline.after(0), run="one")
        for other in ("", "two"):
            with pytest.raises(Timeout, match="does not end"):
                stranger.acquire(Deadline.after(0), run=other)
        first._renew()
        second._renew()
        first.check()
        second.check()
        first.release(expires=True)
        second.check()
        with pytest.raises(Timeout):
            stranger.acquire(Deadline.after(0))
        second.release()  # of the run's last task
        stranger.acquire(Deadline.after(0))
        with pytest.raises(Timeout):
            second.acquire(Deadline.after(0), run="one")
    finally:
        stranger.release()
        stranger._server.close()


def test_the_lease_of_a_dead_run_passes_on(leases, monkeypatch) -> None:
    first, second = leases
    assert TAKE_S > opensearch_lease.LEASE_S
    monkeypatch.setattr(opensearch_lease, "LEASE_S", 3.0)
    first.acquire(Deadline.after(0), run="one")
    first.release(expires=True)
    second.acquire(Deadline.after(TAKE_S), run="two")
    second.check()


def test_namespace_loads_exclude_only_the_whole_index(place) -> None:
    servers = [Server(url=place[0]) for _ in range(4)]
    names = ("anna", "bert", "anna", "")
    anna, bert, again, whole = (
        LoadLease(server, place[1], name) for server, name in zip(servers, names, strict=True)
    )
    try:
        anna.acquire(Deadline.after(0))
        bert.acquire(Deadline.after(0))
        for other in (again, whole):
            with pytest.raises(Timeout, match="does not end"):
                other.acquire(Deadline.after(2))
        anna.release()
        with pytest.raises(Timeout):
            whole.acquire(Deadline.after(2))
        bert.release()
        whole.acquire(Deadline.after(5))
        for lease in (anna, bert):
            with pytest.raises(Timeout):
                lease.acquire(Deadline.after(0))
        whole.check()
        whole.release()
        again.acquire(Deadline.after(0))
    finally:
        for lease, server in zip((anna, bert, again, whole), servers, strict=True):
            lease.release()
            server.close()


def test_concurrent_loads_keep_all_their_notes(place) -> None:
    """The server keeps the notes of all loads as one value."""
    names = [f"n{number}" for number in range(6)]
    writers = [OpenSearchWriter(url=place[0], name=place[1]) for _ in names]
    try:
        with ThreadPoolExecutor(len(names)) as pool:
            opened = [
                pool.submit(writer.open_load, f"run-{name}", None, None, None, name)
                for writer, name in zip(writers, names, strict=True)
            ]
            for task in opened:
                task.result()
            notes = index_notes(Server(url=place[0]), place[1], Deadline.after(30.0))
            assert notes is not None
            assert notes["unfinished"] == {name: f"run-{name}" for name in names}
            closed = [
                pool.submit(writer.close_load, name)
                for writer, name in zip(writers[1:], names[1:], strict=True)
            ]
            for task in closed:
                task.result()
        notes = index_notes(Server(url=place[0]), place[1], Deadline.after(30.0))
        assert notes is not None and notes["unfinished"] == {"n0": "run-n0"}
    finally:
        for writer in writers:
            writer.close()

"""Jobs of several namespaces take turns, end when they are cancelled, and leave nothing behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from docstokg.adapters.sqlite.index_files import LoadLock
from docstokg.adapters.sqlite.jobs import SqliteJobs
from docstokg.contracts.documents import CANCELLED, Job, JobOrder, PostedDocument
from docstokg.contracts.envelope import Caller
from docstokg.domain.deadline import Deadline
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.server.jobs import start
from tests.builders import eventually


def order(job_id: str, namespace: str) -> JobOrder:
    documents = (PostedDocument(doc_id="d", text="x"),)
    return JobOrder(
        job_id=job_id, kind="load", caller=Caller(sub="s"), namespace=namespace, documents=documents
    )


def running(order: JobOrder) -> Job:
    return Job(job_id=order.job_id, namespace=order.namespace, kind=order.kind, state="running")


@pytest.fixture
def queue(tmp_path: Path) -> SqliteJobs:
    return SqliteJobs(tmp_path / "jobs")


def test_namespaces_take_turns_and_their_jobs_keep_order(queue: SqliteJobs) -> None:
    for job_id, namespace in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c")):
        assert queue.add(order(job_id, namespace))

    def turn() -> str:
        taken = queue.take()
        assert taken is not None
        queue.go_on(running(taken[0]), taken[0])
        return taken[0].job_id

    assert [turn() for _ in range(6)] == ["a1", "b1", "c1", "a1", "b1", "c1"]
    queue.finish(running(order("a1", "a")).model_copy(update={"state": "done"}))
    assert [turn() for _ in range(3)] == ["b1", "c1", "a2"]


def test_a_turn_that_ends_is_no_failed_attempt(queue: SqliteJobs) -> None:
    queue.add(order("a1", "a"))
    for attempts in (0, 1, 2):
        taken = queue.take()
        assert taken is not None and taken[1] == attempts
    queue.go_on(running(taken[0]), taken[0])
    taken = queue.take()
    assert taken is not None and taken[1] == 0


@pytest.mark.parametrize("begun", [False, True])
def test_a_cancelled_job_is_neither_taken_nor_revived(queue: SqliteJobs, begun: bool) -> None:
    job_order = order("a1", "a")
    queue.add(job_order)
    if begun:
        queue.take()
    queue.cancel("a1")
    queue.go_on(running(job_order), job_order)
    queue.finish(running(job_order).model_copy(update={"state": "done", "loaded": 1}))
    queue.cancel("a1")
    job = queue.get("a1")
    assert job is not None
    assert (job.state, job.reason, job.loaded) == ("failed", CANCELLED, 0)
    assert queue.take() is None
    assert not queue.unfinished()


def test_a_waiting_job_delays_no_other_namespace(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    stores = {"index_url": url, "graph_url": url, "cache_dir": str(tmp_path / "cache")}
    settings = Settings(**stores, embed_provider="none", sparse="none", names="rule")
    queue = Wiring(settings).job_queue()
    assert isinstance(queue, SqliteJobs)
    for namespace in ("a", "b"):
        queue.add(order(f"{namespace}1", namespace))
    loading = LoadLock(tmp_path / "store.sqlite", "a")
    loading.acquire(Deadline.after(0))
    worker = start(settings, queue.path)
    try:
        assert finished_job(queue, "b1").loaded == 1
        assert queue.unfinished() == {"a": 1}
        loading.release()
        assert finished_job(queue, "a1").loaded == 1
    finally:
        loading.release()
        worker.terminate()
        worker.wait(30)


def finished_job(queue: SqliteJobs, job_id: str) -> Job:
    def ended() -> Job | None:
        job = queue.get(job_id)
        return job if job and job.state in ("done", "failed") else None

    job: Job = eventually(ended, 90)
    assert job, queue.get(job_id)
    return job


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is read")
def test_what_converts_ends_with_whoever_asked() -> None:
    """The one that asked is killed in the middle of a page that takes a minute of processor."""
    asking = subprocess.Popen(
        [sys.executable, "-m", "docstokg.adapters.conversion.child", "60"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert asking.stdin is not None and asking.stdout is not None
    raw = b"<div>" * 400_000
    asking.stdin.write(
        json.dumps({"task": "convert", "suffix": ".html", "size": len(raw)}).encode() + b"\n" + raw
    )
    asking.stdin.flush()
    children = Path(f"/proc/{asking.pid}/task/{asking.pid}/children")
    (fork,) = map(int, eventually(lambda: children.read_text().split(), 60))
    asking.stdin.close()
    asking.wait(30)
    asking.stdout.close()
    ended = eventually(lambda: not is_alive(fork), 10)
    with contextlib.suppress(ProcessLookupError):
        os.kill(fork, signal.SIGKILL)
    assert ended


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"

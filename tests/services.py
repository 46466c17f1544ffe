"""The real servers for tests: started once for a test run, never a server that is in use."""

import atexit
import fcntl
import os
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.jvm import servers as services
from tests.jvm.servers import Endpoint, Engine

CACHE = Path(os.environ.get("DOCSTOKG_CACHE_DIR", services.DEFAULT_CACHE)).expanduser()
REQUIRED = "java" in os.environ.get("DOCSTOKG_REQUIRE", "").replace(",", " ").split()
SERVICES = (
    pytest.mark.services,
    pytest.mark.xdist_group("services"),
    pytest.mark.flaky(reruns=2, reruns_delay=5),
)
"""Marks of a test on the real servers: one worker has them, the other has the processors.

A server that was killed a moment ago may need a second try on a busy machine; reruns are shown.
"""
RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", "") or secrets.token_hex(8)


def server(engine: Engine) -> Endpoint:
    """Give this run's server, shared by all its workers; skip where it cannot run.

    With `java` in DOCSTOKG_REQUIRE a reason to skip is a failure.
    """
    with _IN_PROCESS:
        if engine not in _STARTED:
            _STARTED[engine] = _start(engine)
    endpoint = _STARTED[engine]
    if isinstance(endpoint, Endpoint):
        return endpoint
    if REQUIRED:
        pytest.fail(f"DOCSTOKG_REQUIRE=java, but {endpoint}", pytrace=False)
    pytest.skip(endpoint)


def start_own(engine: Engine, home: Path, **named: object) -> Endpoint:
    """Start a server for one test that breaks it."""
    return services.start(engine, home, cache=CACHE, port=services.free_port(), **named)  # type: ignore[arg-type]


@contextmanager
def own_home(engine: Engine) -> Iterator[Path]:
    """Give a folder for a server of one test's own; end that server and remove the folder."""
    home = _sessions() / f"own-{secrets.token_hex(6)}" / engine
    home.mkdir(parents=True)
    (home.parent / "users").mkdir()
    (home.parent / "users" / str(os.getpid())).touch()
    try:
        yield home
    finally:
        _end(home.parent)


@contextmanager
def alone(engine: Engine) -> Iterator[None]:
    """Keep other workers of this run off a server while one test rules it."""
    lock = _sessions() / f"{RUN}.{engine}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


_STARTED: dict[Engine, Endpoint | str] = {}
_IN_PROCESS = threading.Lock()


def _sessions() -> Path:
    return services.services_folder(CACHE) / "sessions"


def _start(engine: Engine) -> Endpoint | str:
    if reason := services.missing(engine, CACHE):
        return reason
    _sweep()
    folder = _sessions() / RUN
    users = folder / "users"
    users.mkdir(parents=True, exist_ok=True)
    (users / str(os.getpid())).touch()
    atexit.register(_leave)
    try:
        return start_own(engine, folder / engine)  # another worker's, when it was faster
    except services.ServiceError as error:
        return str(error)


def _leave() -> None:
    """Take this process off the list; the last one ends the servers."""
    folder = _sessions() / RUN
    if not folder.exists():
        return
    (folder / "users" / str(os.getpid())).unlink(missing_ok=True)
    if not any((folder / "users").iterdir()):
        _end(folder)


def _sweep() -> None:
    """End the servers of killed runs: folders without a living user."""
    for folder in _sessions().glob("*/"):
        users = [int(mark.name) for mark in (folder / "users").glob("*")]
        if users and not any(Path(f"/proc/{user}").exists() for user in users):
            _end(folder)


def _end(folder: Path) -> None:
    for engine in Engine:
        if (folder / engine).exists():
            services.stop(engine, folder / engine, kill=True)
    shutil.rmtree(folder, ignore_errors=True)

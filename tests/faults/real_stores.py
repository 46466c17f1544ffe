"""Shared by the fault tests of both real stores: loading, asking, and invariants."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from docstokg.contracts.response import RAGResponse
from docstokg.loading.pipeline import LoadOptions, LoadReport, load
from docstokg.loading.read.rejects import RejectLog
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.loading.stores import stores_of
from tests.builders import eventually
from tests.conftest import CORPUS, opened, write_corpus
from tests.jvm import servers as services
from tests.jvm.servers import Endpoint, Engine
from tests.services import CACHE, own_home, server, start_own

TIMEOUT_S = 4.0
SLACK_S = 0.3
ASK = {"query": "What follows seizures in Dravet syndrome?", "budget": {"timeout_s": TIMEOUT_S}}


def load_corpus(folder: Path, settings: Settings) -> LoadReport:
    """Load a folder as `docstokg load` does, into the stores that `settings` name."""
    wiring = Wiring(settings)
    stores = stores_of(wiring)
    try:
        return load([folder], LoadOptions(), stores, RejectLog(None))
    finally:
        wiring.close()


@dataclass
class Place:
    """A loaded server of a module's own, and the settings that point at it."""

    engine: Engine
    at: Endpoint
    home: Path
    settings: Settings
    models: dict[str, Any]

    @property
    def login(self) -> dict[str, str]:
        """Return address and credentials of the server."""
        return {"url": self.at.url, "user": self.at.user, "password": self.at.password}

    def revive(self) -> None:
        """Start the server again."""
        self.at = services.start(self.engine, self.home, cache=CACHE)


@contextmanager
def placed(
    engine: Engine, folder: Path, cache_dir: Path, models: dict[str, Any]
) -> Iterator[Place]:
    """Start a server, the other store being embedded, and load the small corpus."""
    server(engine)  # skips here when no server can run
    with own_home(engine) as home:
        at = start_own(engine, home)
        addresses = {"index_url": f"sqlite:///{folder / 'index.sqlite'}", "graph_url": at.url}
        addresses |= {"graph_user": at.user, "graph_password": at.password}
        if engine is Engine.OPENSEARCH:
            addresses = {"index_url": at.url, "graph_url": f"sqlite:///{folder / 'graph.sqlite'}"}
        settings = Settings(**addresses, cache_dir=str(cache_dir))
        report = load_corpus(write_corpus(folder / "corpus", CORPUS), settings)
        assert report.rejected == 0
        yield Place(engine, at, home, settings, models)


@contextmanager
def client(settings: Settings, **ports: object) -> Iterator[TestClient]:
    """The real application, with some ports given."""
    with opened(settings, ports) as made_client:
        yield made_client


def answer_of(client: TestClient, status: int = 200, **fields: Any) -> dict[str, Any]:
    """Ask once and check what every answer promises, however broken the stores are."""
    started = time.monotonic()
    response = client.post("/v1/answer", json={**ASK, **fields})
    wall = time.monotonic() - started
    body: dict[str, Any] = response.json()
    assert response.status_code == status, body
    assert wall <= TIMEOUT_S + SLACK_S, f"{wall:.2f} s"
    if status == 200:
        RAGResponse.model_validate(body)
        diagnostics = body["diagnostics"]
        assert diagnostics["degraded"] is bool(diagnostics["degraded_reasons"])
    return body


def warm(client: TestClient) -> None:
    """Wait until a server that just started answers everything: its first calls are slow."""

    def well() -> bool:
        answer = client.post("/v1/answer", json={**ASK, "budget": {"timeout_s": 20}})
        return answer.status_code == 200 and not reasons(answer.json())

    assert eventually(well, 180)


def reasons(body: dict[str, Any]) -> set[str]:
    return set(body["diagnostics"]["degraded_reasons"])


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A server that hangs: it accepts connections and never answers."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)

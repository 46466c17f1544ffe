"""`docstokg serve`: one process or several behind one port, each the same application."""

import os
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from docstokg.errors import DocsToKGError, Misconfigured
from docstokg.settings import Settings
from docstokg_local.cli.printing import say
from docstokg_local.server.balance import Shares
from docstokg_local.server.connections import WAITING_CONNECTIONS, BoundedProtocol, limits
from docstokg_local.server.guards import OwnHosts

if TYPE_CHECKING:
    from starlette.applications import Starlette

STOP_MARGIN_S = 2.0
MOST_BY_DEFAULT = 4
PATIENCE_S = 30
"""How long a worker may be too busy to say that it lives; then it is replaced."""


class Server(uvicorn.Server):
    """Says that it listens when it does, not before."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the port, then say so."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(WAITING_CONNECTIONS)
            if self.started:
                announce(listener)


class Supervisor(Multiprocess):
    """uvicorn's: replaces a dead worker, passes signals on; says when all of them answer."""

    def init_processes(self) -> None:
        """Start the workers and wait until each accepts, unless one fails or is told to stop."""
        super().init_processes()
        for worker in self.processes:
            while not (self.signal_queue or worker.is_ready(timeout=1)):
                if not worker.process.is_alive():
                    return
                time.sleep(0.1)
        if not self.signal_queue:
            for listener in self.sockets:
                listener.listen(WAITING_CONNECTIONS)
                announce(listener)


def serve(settings: Settings, host: str, port: int, workers: int | None = None) -> None:
    """Serve until interrupted; what was begun is finished.

    `Misconfigured` when the port is not free or the settings are refused.
    """
    count = workers or min(os.cpu_count() or 1, MOST_BY_DEFAULT)
    with listening(host, port) as listener:
        if count == 1:
            app = application(settings, host)
            Server(uvicorn.Config(app, **options(settings))).run(sockets=[listener])
            return
        with tempfile.TemporaryDirectory(prefix="docstokg-") as folder:
            # The metrics library looks for it when a worker first imports it.
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
            shared = settings.model_copy(update={"process_dir": folder})
            config = uvicorn.Config(
                partial(worker_application, shared, host),
                factory=True,
                workers=count,
                timeout_worker_healthcheck=PATIENCE_S,
                **options(settings),
            )
            Supervisor(config, sockets=[listener]).run()


def application(settings: Settings, host: str) -> "Starlette":
    """Make the application of this process; it closes its stores when the server stops."""
    from docstokg.entry import freeze_garbage
    from docstokg.observability import Telemetry
    from docstokg.wiring import Wiring
    from docstokg_local.server import application as server
    from docstokg_local.server.memory import few_arenas
    from docstokg_local.server.prometheus import PrometheusSink

    few_arenas()
    sink = PrometheusSink(settings.process_dir)
    telemetry = Telemetry(sink, level=settings.log_level, reveal=settings.rag_log_snippets)
    wiring = Wiring(settings, telemetry)
    app = server.application(settings, wiring, sink, host)
    if settings.auth == "off":
        app.add_middleware(OwnHosts, listed=settings.hosts)

    @asynccontextmanager
    async def life(_: object) -> AsyncIterator[dict[str, object]]:
        freeze_garbage()
        yield {"refuse": app.state.refuse}
        wiring.close()

    app.router.lifespan_context = life
    return app


def worker_application(settings: Settings, host: str) -> "Starlette":
    """Make a worker's application; one that can never start is not started again."""
    assert settings.process_dir is not None
    BoundedProtocol.shares = Shares(Path(settings.process_dir))
    try:
        return application(settings, host)
    except DocsToKGError as exc:
        say(f"docstokg: {exc}", err=True)
        sys.exit(STARTUP_FAILURE)


def announce(listener: socket.socket) -> None:
    """Name the address that answers."""
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    say(f"listening on http://{shown}:{port} (Ctrl-C ends)", err=True)


def listening(host: str, port: int) -> socket.socket:
    """Bind the port; nothing is accepted before a server listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as exc:
        listener.close()
        raise Misconfigured(f"cannot listen on {host}:{port}: {exc.strerror or exc}") from exc
    listener.set_inheritable(True)
    return listener


def options(settings: Settings) -> dict[str, Any]:
    """Give uvicorn's settings for one process."""
    return {
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": int(settings.max_timeout_s + STOP_MARGIN_S),
        **limits(),
    }

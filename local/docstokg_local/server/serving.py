"""`docstokg serve`."""

import ctypes
import os
import platform
import resource
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import uvicorn
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from ulid import ULID
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from docstokg.errors import DocsToKGError, Misconfigured
from docstokg.settings import Settings
from docstokg.usecases.problems import problem_reply
from docstokg_local.cli.printing import echo
from docstokg_local.server.guards import OwnHosts

if TYPE_CHECKING:
    from starlette.applications import Starlette

STOP_MARGIN_S = 2.0
KEEP_ALIVE_S = 5
HEADER_BYTES = 16_384
MOST_CONNECTIONS = 512
BODY_HEADERS = (b"content-length", b"transfer-encoding")
# Requests of one address whose bodies have not arrived completely.
MOST_UNREAD = 32
LISTEN_BACKLOG = 256
# Whether the kernel balances a port's sockets; else workers share one.
SPREADS_CONNECTIONS = sys.platform == "linux"

TOO_MANY = "This process has all the connections it may; see Retry-After."
M_ARENA_MAX = -8  # from glibc's malloc.h
ARENAS = 2
MOST_BY_DEFAULT = 4
# Seconds that a busy worker may miss health checks.
HEALTHCHECK_S = 30


class Server(uvicorn.Server):
    """Announces its address once open."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the port, then print its address."""
        await super().startup(sockets)
        if self.started:
            for listener in sockets or ():
                announce(listener)


class Connection(H11Protocol):
    """uvicorn's connection with limits: connections, header size, unread bodies per address."""

    # Requests by client address whose bodies have not arrived completely.
    unread: ClassVar[Counter[str]] = Counter()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._answers = self.app
        self.app = self._within_limits

    async def _within_limits(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._answers(scope, receive, send)
            return
        address, names = str((scope["client"] or ("",))[0]), {name for name, _ in scope["headers"]}
        headers = {"Connection": "close"}
        if len(self.connections) >= most_connections() or self.unread[address] >= MOST_UNREAD:
            status, code, detail = 503, "overloaded", TOO_MANY
            headers["Retry-After"] = "1"
        elif sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > HEADER_BYTES:
            status, code = 431, "headers_too_large"
            detail = f"Send at most {HEADER_BYTES} bytes of headers."
        elif names.issuperset(BODY_HEADERS):  # request smuggling, RFC 9112 section 6.3
            status, code = 400, "invalid_request"
            detail = "Send Content-Length or Transfer-Encoding, not both."
        else:
            await self._counted(address, scope, receive, send)
            return
        reply = problem_reply(status, code, detail, str(ULID()), headers=headers)
        await Response(reply.body, reply.statusCode, reply.headers)(scope, receive, send)

    async def _counted(self, address: str, scope: Scope, receive: Receive, send: Send) -> None:
        unread = int(
            any(name in BODY_HEADERS and value != b"0" for name, value in scope["headers"])
        )
        self.unread[address] += unread

        def read() -> None:
            nonlocal unread
            self.unread[address] -= unread
            unread = 0
            if not self.unread[address]:
                del self.unread[address]

        async def counting() -> Message:
            message = await receive()
            if not message.get("more_body"):
                read()
            return message

        try:
            await self._answers(scope, counting, send)
        finally:
            read()


class Supervisor(Multiprocess):
    """uvicorn's supervisor; announces the address."""

    def init_processes(self) -> None:
        """Start the workers and wait until each accepts, fails, or a signal arrives."""
        super().init_processes()
        for worker in self.processes:
            while not (self.signal_queue or worker.is_ready(timeout=1)):
                if not worker.process.is_alive():
                    return
                time.sleep(0.1)
        if not self.signal_queue:
            for listener in self.sockets:
                announce(listener)


def serve(settings: Settings, host: str, port: int, workers: int | None = None) -> None:
    """Serve until interrupted; raise `Misconfigured` if the port cannot be bound.

    Invalid settings raise it too, except in `workers` (default: one per core, at most 4): these
    exit.
    """
    count = workers or min(os.cpu_count() or 1, MOST_BY_DEFAULT)
    with listening(host, port, shared=count > 1 and SPREADS_CONNECTIONS) as listener:
        if count == 1:
            app = application(settings, host)
            Server(uvicorn.Config(app, **options(settings))).run(sockets=[listener])
            return
        with tempfile.TemporaryDirectory(prefix="docstokg-") as folder:
            # Read by the metrics library in each worker.
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
            shared = settings.model_copy(update={"process_dir": folder})
            config = uvicorn.Config(
                partial(worker_application, shared, host),
                factory=True,
                workers=count,
                timeout_worker_healthcheck=HEALTHCHECK_S,
                **options(settings),
            )
            Supervisor(config, sockets=[listener]).run()


def application(settings: Settings, host: str) -> "Starlette":
    """Return this process's application; it closes its stores; raise `Misconfigured` if invalid."""
    from docstokg.entry import freeze_garbage
    from docstokg.observability import Telemetry
    from docstokg.wiring import Wiring
    from docstokg_local.server import application as server
    from docstokg_local.server.prometheus import PrometheusSink

    few_arenas()
    sink = PrometheusSink(settings.process_dir)
    telemetry = Telemetry(sink, level=settings.log_level, reveal=settings.rag_log_snippets)
    wiring = Wiring(settings, telemetry)
    app = server.application(wiring, sink, host)
    if settings.auth == "off":
        app.add_middleware(OwnHosts, listed=settings.hosts)

    @asynccontextmanager
    async def life(_: object) -> AsyncIterator[None]:
        freeze_garbage()
        yield
        wiring.close()

    app.router.lifespan_context = life
    return app


def worker_application(settings: Settings, host: str) -> "Starlette":
    """Return a worker's application; print a product error and exit with STARTUP_FAILURE."""
    try:
        return application(settings, host)
    except DocsToKGError as exc:
        echo(f"docstokg: {exc}", err=True)
        sys.exit(STARTUP_FAILURE)


def few_arenas() -> None:
    """Limit glibc to two malloc arenas; the default of eight per core retains freed memory."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, ARENAS)


def most_connections() -> int:
    """Return a process's maximum connections: a third of its files, at most 512."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return min(MOST_CONNECTIONS, files // 3)


def announce(listener: socket.socket) -> None:
    """Print the address of the server to standard error."""
    host, port = listener.getsockname()[:2]
    address = f"[{host}]" if ":" in host else host
    echo(f"listening on http://{address}:{port} (Ctrl-C ends)", err=True)


class SharedPort(socket.socket):
    """A port that every worker binds itself."""

    def __reduce__(self) -> tuple[Any, ...]:
        host, port = self.getsockname()[:2]
        return _bound, (host, port, SharedPort)


def listening(host: str, port: int, *, shared: bool) -> socket.socket:
    """Bind the port without accepting connections; raise `Misconfigured` if that fails."""
    listener = _bound(host, port, socket.socket)  # fails if another server has the port
    if not shared:
        return listener
    with listener:
        host, port = listener.getsockname()[:2]
    return _bound(host, port, SharedPort)


def _bound(host: str, port: int, kind: type[socket.socket]) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = kind(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if kind is SharedPort:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
    except OSError as exc:
        listener.close()
        raise Misconfigured(f"cannot listen on {host}:{port}: {exc.strerror or exc}") from exc
    listener.set_inheritable(True)
    return listener


def options(settings: Settings) -> dict[str, Any]:
    """Return uvicorn's settings for one process."""
    return {
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": int(settings.max_timeout_s + STOP_MARGIN_S),
        "http": Connection,
        "h11_max_incomplete_event_size": HEADER_BYTES,
        "timeout_keep_alive": KEEP_ALIVE_S,
        "backlog": LISTEN_BACKLOG,
    }

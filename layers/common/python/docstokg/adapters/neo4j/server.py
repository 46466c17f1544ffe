"""Neo4j connection."""

import asyncio
import concurrent.futures
import logging
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NotRequired, TypedDict, TypeVar, Unpack

from neo4j import (
    READ_ACCESS,
    WRITE_ACCESS,
    AsyncDriver,
    AsyncGraphDatabase,
    NotificationMinimumSeverity,
    Query,
    Record,
)
from neo4j import exceptions as vendor

from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, Misconfigured, Refused, Timeout, Unavailable, WrongAnswer

PLAN_S = 60.0
# The server reads 0 as no limit.
LEAST_S = 0.001
DEADLOCK = "Neo.TransientError.Transaction.DeadlockDetected"
# `IF NOT EXISTS` raises it if another transaction makes the same constraint or index.
MADE_BY_OTHERS = "Neo.ClientError.Schema.EquivalentSchemaRuleAlreadyExists"
Returned = TypeVar("Returned")
logging.getLogger("neo4j").addHandler(logging.NullHandler())  # its messages are also raised

# The first match wins; codes are compared, never messages.
_BY_CODE: tuple[tuple[str, type[DocsToKGError], str], ...] = (
    ("Neo.ClientError.Transaction.TransactionTimedOut", Timeout, "ended the query: out of time"),
    ("Neo.TransientError.", Unavailable, "cannot serve this now"),
    ("Neo.ClientError.Security.Forbidden", Misconfigured, "does not allow this to our user"),
    ("Neo.ClientError.Security.", Refused, "refused the credentials"),
    ("Neo.ClientError.Statement.AccessMode", Misconfigured, "allows reading only"),
    ("Neo.ClientError.General.ForbiddenOnReadOnlyDatabase", Misconfigured, "is read only"),
    ("Neo.ClientError.General.WriteOnReadOnlyAccessDatabase", Misconfigured, "is read only"),
    ("Neo.ClientError.Cluster.NotALeader", Unavailable, "is not the leader"),
    ("Neo.ClientError.Database.", Misconfigured, "does not know this database"),
    ("Neo.DatabaseError.General.", Unavailable, "failed inside"),
    ("", WrongAnswer, "refused the query"),
)


class Connection(TypedDict):
    """Address and credentials of a database."""

    url: str
    user: str
    password: str | None
    database: NotRequired[str]


class Server:
    """One Neo4j address, on one background loop."""

    def __init__(self, **at: Unpack[Connection]) -> None:
        self._address = (at["url"], at["user"], at["password"] or "")
        self._database = at.get("database", "neo4j")
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._driver: AsyncDriver | None = None

    def read(self, text: str, parameters: Mapping[str, object], deadline: Deadline) -> list[Record]:
        """Return the records of a reading query, retried once on a dead pooled connection.

        Raise errors as `run`.
        """
        try:
            return self.run(self.query(text, parameters, deadline, READ_ACCESS), deadline)
        except Unavailable as exc:
            if not isinstance(exc.__cause__, vendor.SessionExpired) or deadline.is_over():
                raise
        return self.run(self.query(text, parameters, deadline, READ_ACCESS), deadline)

    def write(
        self, text: str, parameters: Mapping[str, object], deadline: Deadline
    ) -> list[Record]:
        """Return the records of a writing query, one transaction; raise errors as `run`."""
        return self.run(self.query(text, parameters, deadline, WRITE_ACCESS), deadline)

    def run(self, work: Coroutine[Any, Any, Returned], deadline: Deadline) -> Returned:
        """Return the result of `work`, run on the loop.

        Raise `Timeout`, `Unavailable` (unreachable, closed), or server errors as `translated`.
        """
        seconds = deadline.remaining()

        async def bounded() -> Returned:
            async with asyncio.timeout(seconds):
                return await work

        try:
            future = asyncio.run_coroutine_threadsafe(bounded(), self._running())
        except BaseException:
            work.close()
            raise
        try:
            return future.result()
        except TimeoutError:
            raise Timeout(f"Neo4j did not answer in {seconds:.3f} s") from None
        except concurrent.futures.CancelledError:
            raise Unavailable("the connection to Neo4j was closed meanwhile") from None
        except vendor.Neo4jError as exc:
            raise translated(exc) from exc
        except (vendor.DriverError, OSError) as exc:
            if _is_late(exc):
                raise Timeout("Neo4j did not answer a new connection in time") from exc
            raise Unavailable(
                f"Neo4j could not be reached, or broke off: {type(exc).__name__}"
            ) from exc

    def begin(self, work: Coroutine[Any, Any, None]) -> Callable[[], bool]:
        """Start `work` on the loop without waiting; return a function that cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._running()).cancel

    async def query(
        self, text: str, parameters: Mapping[str, object], deadline: Deadline, access: str
    ) -> list[Record]:
        """Return the records of one query, run on the loop; raise the driver's errors."""
        session = self._opened().session(
            database=self._database, default_access_mode=access, fetch_size=-1
        )
        async with session:
            result = await session.run(
                Query(text, timeout=max(LEAST_S, deadline.remaining())), dict(parameters)
            )
            return [record async for record in result]

    async def explain(
        self, text: str, parameters: Mapping[str, object]
    ) -> tuple[dict[str, Any] | None, str | None]:
        """Return a query's plan and kind (r, w, rw, s), None if not sent, without running it."""
        session = self._opened().session(database=self._database, default_access_mode=READ_ACCESS)
        async with session:
            result = await session.run(Query("EXPLAIN " + text, timeout=PLAN_S), dict(parameters))
            summary = await result.consume()
            return summary.plan, summary.query_type

    def _opened(self) -> AsyncDriver:
        if self._driver is None:
            url, user, password = self._address
            self._driver = AsyncGraphDatabase.driver(
                url,
                auth=(user, password),
                max_connection_pool_size=8,
                connection_timeout=1.0,
                connection_acquisition_timeout=1.5,
                max_transaction_retry_time=0,
                max_connection_lifetime=300,
                liveness_check_timeout=10,
                telemetry_disabled=True,
                notifications_min_severity=NotificationMinimumSeverity.OFF,
            )
        return self._driver

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = _Loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="neo4j", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """Cancel running queries, close driver and loop; a later call opens new ones."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._shut(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    async def _shut(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        driver, self._driver = self._driver, None
        if driver is not None:
            await driver.close()


class _Loop(asyncio.SelectorEventLoop):
    """Closes the socket of a timed-out connection, which the driver leaves open."""

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        try:
            await super().sock_connect(sock, address)
        except asyncio.CancelledError:
            sock.close()
            raise


def has_code(exc: DocsToKGError, code: str) -> bool:
    """Return whether the server answered with this code."""
    cause = exc.__cause__
    return isinstance(cause, vendor.Neo4jError) and cause.code == code


def _is_late(exc: BaseException) -> bool:
    behind: BaseException | None = exc
    while behind is not None and not isinstance(behind, TimeoutError):
        behind = behind.__cause__ or behind.__context__
    return behind is not None


def translated(exc: vendor.Neo4jError) -> DocsToKGError:
    """Return the product's error for a server error code, by default `WrongAnswer`."""
    code = exc.code or ""
    error_class, message = next(row[1:] for row in _BY_CODE if code.startswith(row[0]))
    return error_class(f"Neo4j {message} ({code})")

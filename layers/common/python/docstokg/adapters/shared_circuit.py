"""One sandbox's open circuit spares the others their five failures: told through a DynamoDB table.

Nothing here is waited for: the table is read and written in the background, the last known word
counts, and without the table every sandbox has only its own circuit, as on a laptop.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from docstokg.adapters.aws import AwsService
from docstokg.contracts.graph import GraphSlice, SliceEntity, SliceRelation, SliceRequest
from docstokg.contracts.records import GraphInfo, Scope
from docstokg.errors import CircuitOpen, DocsToKGError
from docstokg.ports import KnowledgeGraph

Answer = TypeVar("Answer")
REFRESH_S = 5.0
TABLE_TIME_S = 10.0
RECOVERY_S = 30


class CircuitTable:
    """Until when (epoch seconds) a dependency is known to be down; key `name`, TTL `expires_at`."""

    def __init__(
        self,
        table: str,
        name: str,
        region: str | None = None,
        service: AwsService | None = None,
        refresh_s: float = REFRESH_S,
    ) -> None:
        self._table, self._name, self._refresh_s = table, name, refresh_s
        self._service = service or AwsService("dynamodb", region)
        self._background = ThreadPoolExecutor(1, thread_name_prefix="circuit")
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._open_until = 0.0

    def is_open(self) -> bool:
        """Tell what was known last; ask again in the background when that is old."""
        with self._lock:
            old = time.monotonic() - self._asked_at >= self._refresh_s
            if old:
                self._asked_at = time.monotonic()
                self._background.submit(self._read)
            return time.time() < self._open_until

    def open(self, seconds: int = RECOVERY_S) -> None:
        """Tell the others, in the background."""
        until = int(time.time()) + seconds
        with self._lock:
            if until <= self._open_until:
                return
            self._open_until = float(until)
        self._background.submit(self._write, until)

    def settle(self) -> None:
        """Wait for what is under way; for tests."""
        self._background.submit(lambda: None).result()

    def _read(self) -> None:
        key = {"name": {"S": self._name}}
        try:
            answer = self._service.call(
                lambda client: client.get_item(TableName=self._table, Key=key), TABLE_TIME_S
            )
            until = float(answer["Item"]["expires_at"]["N"]) if "Item" in answer else 0.0
        except (DocsToKGError, KeyError, ValueError):
            return
        with self._lock:
            # A read that began before this sandbox's own news must not undo them.
            self._open_until = max(self._open_until, until)

    def _write(self, until: int) -> None:
        item = {"name": {"S": self._name}, "expires_at": {"N": str(until)}}
        try:
            self._service.call(
                lambda client: client.put_item(TableName=self._table, Item=item), TABLE_TIME_S
            )
        except DocsToKGError:
            return


class GuardedGraph:
    """The KnowledgeGraph port over another one, behind what all sandboxes know of it."""

    def __init__(self, inner: KnowledgeGraph, table: CircuitTable) -> None:
        self._inner, self._table = inner, table

    def slice(self, request: SliceRequest, scope: Scope, timeout_s: float) -> GraphSlice:
        """See the port."""
        return self._guard(lambda: self._inner.slice(request, scope, timeout_s))

    def widen(
        self, frontier: Sequence[str], request: SliceRequest, scope: Scope, timeout_s: float
    ) -> GraphSlice:
        """See the port."""
        return self._guard(lambda: self._inner.widen(frontier, request, scope, timeout_s))

    def entities(
        self, ids: Sequence[str], scope: Scope, timeout_s: float
    ) -> tuple[SliceEntity, ...]:
        """See the port."""
        return self._guard(lambda: self._inner.entities(ids, scope, timeout_s))

    def names(
        self, ids: Sequence[str], scope: Scope, timeout_s: float
    ) -> dict[str, tuple[str, ...]]:
        """See the port."""
        return self._guard(lambda: self._inner.names(ids, scope, timeout_s))

    def vectors(self, ids: Sequence[str], scope: Scope, timeout_s: float) -> dict[str, bytes]:
        """See the port."""
        return self._guard(lambda: self._inner.vectors(ids, scope, timeout_s))

    def relations_of(
        self, ids: Sequence[str], scope: Scope, timeout_s: float
    ) -> tuple[SliceRelation, ...]:
        """See the port."""
        return self._guard(lambda: self._inner.relations_of(ids, scope, timeout_s))

    def info(self, timeout_s: float) -> GraphInfo:
        """See the port; health asks the graph itself, whatever the others say."""
        return self._inner.info(timeout_s)

    def warm(self) -> None:
        """Connect, and learn what the others know."""
        self._table.is_open()
        if callable(warm := getattr(self._inner, "warm", None)):
            warm()

    def close(self) -> None:
        """Give the connections back."""
        if callable(close := getattr(self._inner, "close", None)):
            close()

    def _guard(self, ask: Callable[[], Answer]) -> Answer:
        if self._table.is_open():
            raise CircuitOpen("the graph failed repeatedly elsewhere; it is not called for a while")
        try:
            return ask()
        except CircuitOpen:
            self._table.open()
            raise

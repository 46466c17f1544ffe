"""Circuit state in DynamoDB."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from docstokg.adapters.aws.clients import DynamoDbTable
from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, cause
from docstokg.observability import Telemetry

REFRESH_S = 5.0
TABLE_TIME_S = 10.0
RECOVERY_S = 30


class CircuitTable(DynamoDbTable):
    """A `SharedCircuit` of one dependency."""

    def __init__(
        self,
        table: str,
        name: str,
        telemetry: Telemetry | None = None,
    ) -> None:
        super().__init__(table)
        self._name = name
        self._telemetry = telemetry or Telemetry()
        self._background = ThreadPoolExecutor(1, thread_name_prefix="circuit")
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._open_until = 0.0

    def is_open(self) -> bool:
        """Return the last known state; refresh it in the background if it is old."""
        with self._lock:
            old = time.monotonic() - self._asked_at >= REFRESH_S
            if old:
                self._asked_at = time.monotonic()
                self._background.submit(self._read)
            return time.time() < self._open_until

    def open(self, seconds: int = RECOVERY_S) -> None:
        """Publish the open circuit for `seconds`, in the background; a failure is only logged."""
        until = int(time.time()) + seconds
        with self._lock:
            if until <= self._open_until:
                return
            self._open_until = float(until)
        self._background.submit(self._write, until)

    def _read(self) -> None:
        key = {"name": {"S": self._name}}
        try:
            answer = self._request("get_item", Deadline.after(TABLE_TIME_S), Key=key)
            until = float(answer["Item"]["expires_at"]["N"]) if "Item" in answer else 0.0
        except DocsToKGError as exc:
            self._telemetry.log("WARNING", "circuit_not_read", **cause(exc))
            return
        except (KeyError, ValueError) as exc:
            self._telemetry.log("WARNING", "circuit_not_read", error=f"{type(exc).__name__} in row")
            return
        with self._lock:
            # An older read must not undo this sandbox's own update.
            self._open_until = max(self._open_until, until)

    def _write(self, until: int) -> None:
        item = {"name": {"S": self._name}, "expires_at": {"N": str(until)}}
        try:
            self._request("put_item", Deadline.after(TABLE_TIME_S), Item=item)
        except DocsToKGError as exc:
            self._telemetry.log("WARNING", "circuit_not_shared", **cause(exc))

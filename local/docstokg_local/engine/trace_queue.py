"""Local trace queue."""

import atexit
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from docstokg.contracts.state import TraceMessage
from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, QuotaExceeded
from docstokg.observability import Telemetry
from docstokg.wiring import Handler
from docstokg_functions.record.handler import CLEAN_UP

MOST_WAITING = 1000
DELIVERIES = 3
PAUSE_S = 1.0
CLEAN_UP_EVERY_S = 86_400.0
CLOSE_TIME_S = 2.0


class LocalTraceQueue:
    """A `TraceSink` in memory; sending never waits for the store.

    A write is tried DELIVERIES times. Expired traces are removed daily.
    """

    def __init__(
        self,
        consumer: Handler,
        telemetry: Telemetry,
        pause_s: float = PAUSE_S,
        is_the_one: Callable[[], bool] = lambda: True,
    ) -> None:
        """`consumer`: handler of `record`; `is_the_one`: whether this process expires traces."""
        self._is_the_one = is_the_one
        self._consumer, self._telemetry, self._pause_s = consumer, telemetry, pause_s
        self._waiting: queue.Queue[TraceMessage | None] = queue.Queue(MOST_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def send(self, message: TraceMessage, deadline: Deadline) -> None:
        """Queue one message; raise `QuotaExceeded` if full; `deadline` is ignored."""
        try:
            self._waiting.put_nowait(message)
        except queue.Full as exc:
            raise QuotaExceeded("too many traces wait to be written") from exc
        with self._lock:
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._work, name="traces", daemon=True)
                self._thread.start()
                atexit.register(self.close)

    def close(self) -> None:
        """Write waiting messages for at most two seconds, and stop."""
        self._closing.set()
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
        if self._thread is not None:
            self._thread.join(CLOSE_TIME_S)

    def _work(self) -> None:
        clean_at = time.monotonic()
        while message := self._waiting.get():
            if time.monotonic() >= clean_at and self._is_the_one():
                clean_at = time.monotonic() + CLEAN_UP_EVERY_S
                self._clean_up()
            self._deliver(message)

    def _deliver(self, message: TraceMessage) -> None:
        record = {"messageId": message.request_id, "body": message.model_dump_json()}
        for delivery in range(DELIVERIES):
            if delivery and self._closing.wait(self._pause_s):
                break
            if not self._consumer({"Records": [record]}, None)["batchItemFailures"]:
                return
        self._telemetry.log("WARNING", "traces_lost", count=1)

    def _clean_up(self) -> None:
        try:
            self._consumer({"job": CLEAN_UP}, None)
        except DocsToKGError as exc:
            self._telemetry.log("WARNING", "traces_not_removed", error=str(exc))

"""One POST of JSON under one total deadline, so that no server can hang or drip a caller dry."""

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlsplit

from docstokg.domain.circuit import Circuit
from docstokg.errors import (
    CircuitOpen,
    DocsToKGError,
    Misconfigured,
    QuotaExceeded,
    Retryable,
    Timeout,
    Unavailable,
    WrongAnswer,
)

_LONGEST_ANSWER = 64 * 1024 * 1024


class Endpoint:
    """An address with its circuit: after five failures in a row nothing is sent for 30 s."""

    def __init__(
        self,
        url: str,
        api_key: str | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Misconfigured(f"{url!r} is no http(s) address")
        self.url = url
        self._api_key = api_key
        self._clock = clock
        self._circuit = Circuit()
        self._lock = threading.Lock()

    def post(self, payload: Mapping[str, Any], timeout_s: float) -> Any:
        """Send and return parsed JSON within `timeout_s` in all.

        `CircuitOpen`, `Timeout`, `QuotaExceeded` (429), `Unavailable` (refused, other statuses,
        broken off), `WrongAnswer` (no JSON). Messages never hold what was sent.
        """
        with self._lock:
            if not self._circuit.allows(self._clock()):
                raise CircuitOpen(f"{self._host()} failed repeatedly; it is left alone for a while")
            self._circuit = self._circuit.called(self._clock())
        try:
            answer = self._within(payload, timeout_s)
        except DocsToKGError:
            self.failed()
            raise
        with self._lock:
            self._circuit = self._circuit.succeeded()
        return answer

    def failed(self) -> None:
        """Count a failure, also one that only a look at the answer's content could find."""
        with self._lock:
            self._circuit = self._circuit.failed(self._clock())

    def _within(self, payload: Mapping[str, Any], timeout_s: float) -> Any:
        outcome: SimpleQueue[Any] = SimpleQueue()
        body = json.dumps(payload, ensure_ascii=False).encode("utf-8", "surrogatepass")

        def run() -> None:
            try:
                outcome.put(self._sent(body, timeout_s))
            except (OSError, http.client.HTTPException, ValueError, DocsToKGError) as exc:
                outcome.put(exc)

        threading.Thread(target=run, name="http-json", daemon=True).start()
        try:
            result = outcome.get(timeout=max(0.0, timeout_s))
        except Empty:
            raise Timeout(f"{self._host()} did not answer in {timeout_s:.2f} s") from None
        if isinstance(result, DocsToKGError):
            raise result
        if isinstance(result, TimeoutError):
            raise Timeout(f"{self._host()} did not answer in {timeout_s:.2f} s") from result
        if isinstance(result, OSError | http.client.HTTPException):
            raise Unavailable(f"{self._host()}: {type(result).__name__}") from result
        if isinstance(result, Exception):
            raise WrongAnswer(f"{self._host()} answered something that is no JSON") from result
        return result

    def _sent(self, body: bytes, timeout_s: float) -> Any:
        parts = urlsplit(self.url)
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(
                parts.hostname or "", parts.port, timeout=timeout_s, context=context
            )
        else:
            connection = http.client.HTTPConnection(
                parts.hostname or "", parts.port, timeout=timeout_s
            )
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        try:
            connection.request("POST", target, body, headers)
            response = connection.getresponse()
            data = response.read(_LONGEST_ANSWER + 1)
            if response.length and len(data) <= _LONGEST_ANSWER:
                raise http.client.IncompleteRead(data, response.length)
        finally:
            connection.close()
        if response.status == http.HTTPStatus.TOO_MANY_REQUESTS:
            raise QuotaExceeded(f"{self._host()} refused because of too many calls")
        if response.status != http.HTTPStatus.OK:
            raise Unavailable(f"{self._host()} answered with status {response.status}")
        if len(data) > _LONGEST_ANSWER:
            raise WrongAnswer(f"{self._host()} answered more than {_LONGEST_ANSWER} bytes")
        return json.loads(data)

    def _host(self) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]


def first_that_answers[Answer](
    endpoints: list[Endpoint],
    payload: Mapping[str, Any],
    read: Callable[[Any], Answer],
    timeout_s: float,
) -> Answer:
    """Ask endpoints in order until one gives what `read` accepts.

    Each but the last gets 60 % of the time that is left. `read` raises WrongAnswer, which counts
    as that endpoint's failure. The last error is raised when none answers.
    """
    until = time.monotonic() + timeout_s
    error: DocsToKGError = Timeout("no time was left to ask anyone")
    for position, endpoint in enumerate(endpoints):
        left = until - time.monotonic()
        if left <= 0:
            break
        share = left if position == len(endpoints) - 1 else 0.6 * left
        try:
            answer = endpoint.post(payload, share)
        except (Retryable, WrongAnswer) as exc:
            error = exc
            continue
        try:
            return read(answer)
        except WrongAnswer as exc:
            endpoint.failed()
            error = exc
    raise error

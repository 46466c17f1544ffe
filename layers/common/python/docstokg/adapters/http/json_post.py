"""One POST of JSON under one total deadline, so that no server can hang or drip a caller dry."""

import http.client
import json
import ssl
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from docstokg.adapters.bounded import within
from docstokg.adapters.breaker import Breaker
from docstokg.errors import (
    DocsToKGError,
    Misconfigured,
    QuotaExceeded,
    Refused,
    Retryable,
    Timeout,
    Unavailable,
    WrongAnswer,
)

_LONGEST_ANSWER = 64 * 1024 * 1024
_MOST_IDLE = 4


@lru_cache(maxsize=1)
def _tls_context() -> ssl.SSLContext:
    """Read the trusted certificates once: doing it for each call costs tens of milliseconds."""
    return ssl.create_default_context()


def _close_all(connections: deque[http.client.HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


class Endpoint:
    """An address with its circuit: after five failures in a row nothing is sent for 30 s.

    Connections are kept alive between calls, at most four idle ones.
    """

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
        self._idle: deque[http.client.HTTPConnection] = deque()
        weakref.finalize(self, _close_all, self._idle)
        self._breaker = Breaker(self._host(), counts=(DocsToKGError,), clock=clock)

    def post(self, payload: Mapping[str, Any], timeout_s: float) -> Any:
        """Send and return parsed JSON within `timeout_s` in all.

        `CircuitOpen`, `Timeout`, `QuotaExceeded` (429), `Refused` (401, 403), `Unavailable` (no
        connection, other statuses, broken off), `WrongAnswer` (no JSON). Messages never hold what
        was sent.
        """
        body = json.dumps(payload, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return self._breaker.call(lambda: self._within(body, timeout_s), timeout_s)

    def failed(self, exc: DocsToKGError) -> None:
        """Count a failure that only a look at the answer's content could find."""
        self._breaker.failed(exc)

    def _within(self, body: bytes, timeout_s: float) -> Any:
        try:
            return within(lambda: self._sent(body, timeout_s), timeout_s, self._host())
        except TimeoutError as exc:
            raise Timeout(f"{self._host()} did not answer in {timeout_s:.2f} s") from exc
        except (OSError, http.client.HTTPException) as exc:
            raise Unavailable(f"{self._host()}: {type(exc).__name__}") from exc
        except ValueError as exc:
            raise WrongAnswer(f"{self._host()} answered something that is no JSON") from exc

    def _sent(self, body: bytes, timeout_s: float) -> Any:
        try:
            connection = self._idle.pop()
        except IndexError:
            response, data = self._exchange(self._opened(timeout_s), body)
        else:
            connection.timeout = timeout_s
            if connection.sock is not None:
                connection.sock.settimeout(timeout_s)
            try:
                response, data = self._exchange(connection, body)
            except (http.client.RemoteDisconnected, ConnectionError):
                # The other side had closed it meanwhile: nothing was lost but the connection.
                response, data = self._exchange(self._opened(timeout_s), body)
        if response.status == http.HTTPStatus.TOO_MANY_REQUESTS:
            raise QuotaExceeded(f"{self._host()} refused because of too many calls")
        if response.status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
            raise Refused(f"{self._host()} refused the key ({response.status})")
        if response.status != http.HTTPStatus.OK:
            raise Unavailable(f"{self._host()} answered with status {response.status}")
        if len(data) > _LONGEST_ANSWER:
            raise WrongAnswer(f"{self._host()} answered more than {_LONGEST_ANSWER} bytes")
        return json.loads(data)

    def _opened(self, timeout_s: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
        return http.client.HTTPSConnection(
            host, parts.port, timeout=timeout_s, context=_tls_context()
        )

    def _exchange(
        self, connection: http.client.HTTPConnection, body: bytes
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Post and read all of the answer; the connection is kept for the next call, or closed."""
        parts = urlsplit(self.url)
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
        except BaseException:
            connection.close()
            raise
        if response.isclosed() and not response.will_close and len(self._idle) < _MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        return response, data

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
        except (Retryable, WrongAnswer, Refused) as exc:
            error = exc
            continue
        try:
            return read(answer)
        except WrongAnswer as exc:
            endpoint.failed(exc)
            error = exc
    raise error

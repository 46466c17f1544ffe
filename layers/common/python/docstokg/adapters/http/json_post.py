"""JSON POST with a circuit breaker and error mapping."""

import json
import ssl
import time
from collections.abc import Callable, Mapping
from functools import cache
from http import HTTPStatus
from typing import Any

import urllib3
from pydantic import TypeAdapter, ValidationError

from docstokg.adapters.breaker import Breaker
from docstokg.adapters.exchange import UNREAD, exchanged, host_of
from docstokg.domain.foreign_json import parsed
from docstokg.errors import (
    DocsToKGError,
    QuotaExceeded,
    Refused,
    Retryable,
    Timeout,
    Unavailable,
    WrongAnswer,
)

LONGEST_ANSWER = 64 * 1024 * 1024
"""Maximum bytes of a response, for vectors; other users of an `Endpoint` allow less."""
_MOST_IDLE = 4
_NOT_ACCEPTED = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)


@cache
def _connections() -> urllib3.PoolManager:
    context = ssl.create_default_context()
    return urllib3.PoolManager(maxsize=_MOST_IDLE, retries=False, ssl_context=context)


class NotAccepted(Unavailable):
    """The server did not accept the request (400 or 422)."""


class Endpoint:
    """An address with its circuit: after five consecutive failures nothing is sent for 30 s."""

    def __init__(
        self,
        url: str,
        api_key: str | None,
        clock: Callable[[], float] = time.monotonic,
        most: int = LONGEST_ANSWER,
    ) -> None:
        """`most`: maximum bytes of a response, after decompression."""
        self.url, self._host, self._api_key, self._most = url, host_of(url), api_key, most
        self._breaker = Breaker(self._host, counts=(DocsToKGError,), clock=clock)

    def post(
        self,
        payload: Mapping[str, Any],
        timeout_s: float,
        read: Callable[[Any], Any] = lambda answer: answer,
    ) -> Any:
        """Send, and return the result of `read` on the parsed JSON, within `timeout_s` in all.

        Raises `CircuitOpen`, `Timeout`, `QuotaExceeded` (429), `Refused` (401, 403), `NotAccepted`
        (400, 422), `Unavailable` (no connection, other statuses, redirects, broken off) and
        `WrongAnswer` (not JSON, too long, or by `read`): each counts as a failure of this address.
        Messages never contain the request.
        """
        if timeout_s <= 0:
            raise Timeout(f"no time was left to ask {self._host}")
        body = json.dumps(payload, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return self._breaker.call(lambda: read(self._sent(body, timeout_s)), timeout_s)

    def _sent(self, body: bytes, timeout_s: float) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        with_limit = {"headers": headers, "timeout": timeout_s, **UNREAD}
        status, _, data = exchanged(
            lambda: _connections().request("POST", self.url, body=body, **with_limit),
            self._host,
            timeout_s,
            self._most + 1,
        )
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            raise QuotaExceeded(f"{self._host} refused because of too many calls")
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise Refused(f"{self._host} refused the key ({status})")
        if status != HTTPStatus.OK:
            kind = NotAccepted if status in _NOT_ACCEPTED else Unavailable
            raise kind(f"{self._host} answered with status {status}")
        if len(data) > self._most:
            raise WrongAnswer(f"{self._host} answered more than {self._most} bytes")
        return parsed(data, self._host)


def checked[Shape](shape: type[Shape] | TypeAdapter[Shape], answer: Any, model: str) -> Shape:
    """Validate a response as `shape`, strictly; raise `WrongAnswer` without its content."""
    adapter = shape if isinstance(shape, TypeAdapter) else TypeAdapter(shape)
    try:
        return adapter.validate_python(answer, strict=True)
    except ValidationError as broken:
        first = broken.errors(include_input=False)[0]
        raise WrongAnswer(f"{model}: {first['loc']}: {first['msg']}") from None


def first_that_answers[Answer](
    endpoints: list[Endpoint],
    payload: Mapping[str, Any],
    read: Callable[[Any], Answer],
    timeout_s: float,
) -> Answer:
    """Call endpoints in order until `read` accepts a response; raise the last error if none does.

    Each but the last gets 60 % of the remaining time.
    """
    until = time.monotonic() + timeout_s
    error: DocsToKGError = Timeout("no time was left to ask anyone")
    for position, endpoint in enumerate(endpoints):
        left = until - time.monotonic()
        if left <= 0:
            break
        share = left if position == len(endpoints) - 1 else 0.6 * left
        try:
            answer: Answer = endpoint.post(payload, share, read)
            return answer
        except (Retryable, WrongAnswer, Refused) as exc:
            error = exc
    raise error

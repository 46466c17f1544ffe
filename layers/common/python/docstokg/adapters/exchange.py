"""HTTP requests."""

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import urllib3

from docstokg.adapters.bounded import within
from docstokg.domain.deadline import Deadline
from docstokg.errors import (
    DocsToKGError,
    Misconfigured,
    QuotaExceeded,
    Refused,
    Timeout,
    Unavailable,
    WrongAnswer,
)
from docstokg.observability import note, traced

# Options of a request whose response `exchanged` reads.
UNREAD: dict[str, Any] = {"redirect": False, "preload_content": False}
_BLOCK = 1 << 16
# A connection refuses a limit of 0 s.
LEAST_S = 0.001
_MOST_IDLE = 4
_REFUSALS = {
    400: "400, the request or the model's name",
    401: "401, the key",
    403: "403, the rights of key or role",
    404: "404, no such model there",
}


class NeverSent(Unavailable):
    """No connection, so nothing was executed."""


class NotAccepted(Misconfigured):
    """Status 400 or 422."""


def host_of(url: str) -> str:
    """Return host and port of a URL, as given; raise `Misconfigured` unless it is http(s)."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Misconfigured(f"{url!r} is no http(s) address")
    return parts.netloc.rpartition("@")[2]


def refusal(whom: str, status: int) -> DocsToKGError:
    """Return the error for a status.

    `QuotaExceeded` (429), `NotAccepted` (400, 422), `Refused` (401, 403), `Misconfigured` (other
    4xx) or `Unavailable`.
    """
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return QuotaExceeded(f"{whom} refused because of too many calls (429)")
    if not 400 <= status < 500:
        return Unavailable(f"{whom} failed ({status})")
    is_unaccepted = status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
    is_refused = status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    kind = NotAccepted if is_unaccepted else Refused if is_refused else Misconfigured
    return kind(f"{whom} refused the call ({_REFUSALS.get(status, status)})")


@cache
def _connections() -> urllib3.PoolManager:
    context = ssl.create_default_context()
    return urllib3.PoolManager(maxsize=_MOST_IDLE, retries=False, ssl_context=context)


def send(
    method: str,
    url: str,
    deadline: Deadline,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> urllib3.BaseHTTPResponse:
    """Send a request, and return its unread response."""
    options = {"timeout": max(LEAST_S, deadline.remaining()), **UNREAD}
    return _connections().request(method, url, headers=headers, body=body, **options)


def exchanged(
    request: Callable[[], urllib3.BaseHTTPResponse], whom: str, deadline: Deadline, max_bytes: int
) -> tuple[int, Mapping[str, str], bytes]:
    """Return status, headers and body of a response; limits and errors as in `read_within`."""
    return read_within(
        request,
        whom,
        deadline,
        max_bytes,
        lambda response, parts: (response.status, response.headers, b"".join(parts)),
    )


def read_within[Answer](
    request: Callable[[], urllib3.BaseHTTPResponse],
    whom: str,
    deadline: Deadline,
    max_bytes: int,
    parse: Callable[[urllib3.BaseHTTPResponse, Iterator[bytes]], Answer],
) -> Answer:
    """Return the result of `parse` on a response and the blocks of its body, within `deadline`.

    `request`: sends a request with the options `UNREAD`. Raises `NeverSent`, `Timeout`,
    `Unavailable` (broken off) or `WrongAnswer` (more than `max_bytes`, after decompression).
    """
    seconds = deadline.remaining()
    opened: list[urllib3.BaseHTTPResponse] = []

    def ask_and_read() -> Answer:
        with translated(whom, seconds):
            response = request()
            opened.append(response)
            note(status=response.status)
            try:
                return parse(response, blocks(response, whom, max_bytes, deadline))
            finally:
                response.release_conn() if response.closed else response.close()

    try:
        with traced("HTTP", server=whom):
            return within(ask_and_read, deadline, whom)
    except Timeout:
        for response in opened:
            wake(response)
        raise


@contextmanager
def translated(whom: str, seconds: float) -> Iterator[None]:
    """Raise `NeverSent`, `Timeout` or `Unavailable`, naming `whom`, for errors of a connection."""
    try:
        yield
    except urllib3.exceptions.NewConnectionError as exc:  # the library calls it a timeout
        raise NeverSent(f"{whom} could not be reached") from exc
    except (TimeoutError, urllib3.exceptions.TimeoutError) as exc:
        raise Timeout(f"{whom} did not answer in {seconds:.2f} s") from exc
    except (OSError, urllib3.exceptions.HTTPError) as exc:
        raise Unavailable(f"{whom} broke off ({type(exc).__name__})") from exc


def blocks(
    response: urllib3.BaseHTTPResponse, whom: str, max_bytes: int, deadline: Deadline
) -> Iterator[bytes]:
    """Yield the blocks of a body.

    Raise `WrongAnswer` above `max_bytes`, TimeoutError after `deadline`.
    """
    remaining = max_bytes
    while block := response.read1(min(_BLOCK, remaining + 1)):
        remaining -= len(block)
        if remaining < 0:
            raise WrongAnswer(f"{whom} sent more than {max_bytes} bytes")
        if deadline.is_over():
            raise TimeoutError
        yield block


def wake(response: urllib3.BaseHTTPResponse) -> None:
    """End another thread's read; a closed response is ignored."""
    with suppress(ValueError, RuntimeError, OSError):  # already closed
        response.shutdown()

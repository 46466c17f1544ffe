"""HTTP request with a byte limit and a total deadline."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import urllib3

from docstokg.adapters.bounded import within
from docstokg.errors import Misconfigured, Timeout, Unavailable

UNREAD: Final[dict[str, Any]] = {"redirect": False, "preload_content": False}
"""Options of a request whose response `exchanged` reads."""
_BLOCK: Final = 1 << 16


class NeverSent(Unavailable):
    """No connection, so nothing was executed."""


def host_of(url: str) -> str:
    """Return the host of a URL without credentials; raise `Misconfigured` unless it is http(s)."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Misconfigured(f"{url!r} is no http(s) address")
    return parts.netloc.rpartition("@")[2]


def exchanged(
    ask: Callable[[], urllib3.BaseHTTPResponse], host: str, timeout_s: float, most: int
) -> tuple[int, Mapping[str, str], bytes]:
    """Return status, headers and at most `most` bytes of a response, within `timeout_s` in all.

    `ask`: sends a request with the options `UNREAD`. Raises `NeverSent`, `Timeout` or `Unavailable`
    (broken off). Messages never contain the request.
    """
    until = time.monotonic() + timeout_s

    def read() -> tuple[int, Mapping[str, str], bytes]:
        response, body = ask(), bytearray()
        try:
            while len(body) < most and (block := response.read1(min(_BLOCK, most - len(body)))):
                body += block
                if time.monotonic() >= until:
                    raise TimeoutError
            return response.status, response.headers, bytes(body)
        finally:
            response.release_conn() if response.closed else response.close()

    try:
        return within(read, timeout_s, host)
    except urllib3.exceptions.NewConnectionError as exc:  # the library calls it a timeout
        raise NeverSent(f"{host} cannot be reached") from exc
    except (TimeoutError, urllib3.exceptions.TimeoutError) as exc:
        raise Timeout(f"{host} did not answer in {timeout_s:.2f} s") from exc
    except (OSError, urllib3.exceptions.HTTPError) as exc:
        raise Unavailable(f"{host}: the connection broke off ({type(exc).__name__})") from exc

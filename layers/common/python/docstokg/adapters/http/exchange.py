"""One HTTP request under one total deadline, so that no server can hang or drip a caller dry."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import urllib3

from docstokg.adapters.bounded import within
from docstokg.errors import Misconfigured, Timeout, Unavailable

UNREAD: Final[dict[str, Any]] = {"redirect": False, "preload_content": False}
"""What a request is made with whose answer is read by `exchanged`."""


class NeverSent(Unavailable):
    """No connection: whatever was asked, nothing was begun."""


def host_of(url: str) -> str:
    """Name the host of an address without its credentials; `Misconfigured` for no http(s) URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Misconfigured(f"{url!r} is no http(s) address")
    return parts.netloc.rpartition("@")[2]


def exchanged(
    ask: Callable[[], urllib3.BaseHTTPResponse], host: str, timeout_s: float, most: int
) -> tuple[int, Mapping[str, str], bytes]:
    """Give status, headers and at most `most` bytes of an answer, within `timeout_s` in all.

    `ask`: makes a request that is `UNREAD`. `NeverSent`, `Timeout`, `Unavailable` (broken off).
    Messages never hold what was sent.
    """

    def read() -> tuple[int, Mapping[str, str], bytes]:
        response = ask()
        try:
            return response.status, response.headers, response.read(most)
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

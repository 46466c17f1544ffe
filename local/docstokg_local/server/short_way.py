"""The short way of a request that is refused: read and written without what an answer needs.

A server that is asked far too much says little else than no. Only a request of the usual shape
that has arrived whole goes this way; what differs by one letter is judged by the long one.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from docstokg.contracts.envelope import Reply

LONGEST_BYTES = 65_536
"""Head and body; what is longer goes the long way."""

_HEAD = re.compile(
    r"POST (/[a-z0-9/]{1,64}) HTTP/1\.1\r\n"
    r"((?:[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}:[\t -~]{0,2048}\r\n){1,32})\r\n"
)
_DIFFERENT = ("transfer-encoding", "expect", "upgrade", "x-forwarded-for", "x-forwarded-proto")
"""Headers that change how a request is read, or who it is of."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that arrived whole: its path, its headers by their names in small letters."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reply, the id of the request it refuses, and the seconds to wait before another."""

    reply: Reply
    request_id: str
    retry_after_s: int


Refuse = Callable[[Arrival, str], Refusal | None]
"""Give the refusal of a request from an address, or None when the long way has to answer."""


def read(data: bytes) -> Arrival | None:
    """Read one whole request, nothing before or behind it; None when it is of another shape."""
    if len(data) > LONGEST_BYTES:
        return None
    head = _HEAD.match(data.decode("latin-1"))
    if head is None:
        return None
    lines = head[2].removesuffix("\r\n").split("\r\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip(" \t")
    if len(headers) < len(lines) or "host" not in headers:
        return None
    if headers.get("connection", "keep-alive").lower() != "keep-alive":
        return None
    if any(name in headers for name in _DIFFERENT):
        return None
    body = data[head.end() :]
    if headers.get("content-length") != str(len(body)):
        return None
    return Arrival(head[1], headers, body)


def written(refusal: Refusal, more: list[tuple[bytes, bytes]]) -> bytes:
    """Write a refusal as the bytes of a response; `more`: headers of every response."""
    reply = refusal.reply
    body = reply.body.encode()
    lines = [f"HTTP/1.1 {reply.statusCode} {HTTPStatus(reply.statusCode).phrase}".encode()]
    lines += [name + b": " + value for name, value in more]
    lines += [f"{name.lower()}: {value}".encode("latin-1") for name, value in reply.headers.items()]
    lines.append(f"content-length: {len(body)}\r\nx-request-id: {refusal.request_id}".encode())
    return b"\r\n".join([*lines, b"", body])

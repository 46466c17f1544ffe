"""What a cursor remembers, so that the next page can be made by a server that remembers nothing."""

import base64
import binascii
import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from docstokg.errors import InvalidCursor
from functions.mcp.paging import Position, dump, leaves

_PACKED = struct.Struct(">B8s8s16sII")
_FORMAT = 1
# Differs between two runs of the same request over the same stores.
_VOLATILE = "retrieved_at"


@dataclass(frozen=True, slots=True)
class Cursor:
    """Which request of which caller (`request`), what it found (`facts`), and how far it got.

    `run` names the first page's call: under it the stored response is found again.
    """

    request: bytes
    facts: bytes
    run: bytes
    position: Position

    def __str__(self) -> str:
        """Write it as 55 letters that mean nothing to anybody else; always the same length."""
        at = self.position
        packed = _PACKED.pack(_FORMAT, self.request, self.facts, self.run, at.leaf, at.character)
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def cursor_from(text: str, request: bytes) -> Cursor:
    """Read a cursor; `InvalidCursor` when it is none, or one of another request or caller."""
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        version, asked, facts, run, leaf, character = _PACKED.unpack(packed)
    except (binascii.Error, ValueError, struct.error) as exc:
        raise InvalidCursor("this is no cursor of this service") from exc
    if version != _FORMAT or asked != request:
        raise InvalidCursor("the cursor belongs to another request")
    return Cursor(asked, facts, run, Position(leaf, character))


def request_digest(tool: str, arguments: dict[str, Any], caller: str) -> bytes:
    """Name a request: the tool, its arguments in any order, and who asks."""
    ordered = dump(sorted(leaves(arguments), key=lambda leaf: dump(leaf[0])))
    return _digest(tool, caller, ordered)


def facts_digest(document: dict[str, Any], keys: Sequence[str]) -> bytes:
    """Name what was found: the given top-level values, without the time they were read at."""
    found = [
        leaf
        for key in keys
        for leaf in leaves(document.get(key), (key,))
        if leaf[0][-1] != _VOLATILE
    ]
    return _digest(dump(found))


def run_name(request_id: str) -> bytes:
    """Name a first page's call."""
    return hashlib.sha256(request_id.encode("utf-8", "replace")).digest()[:16]


def _digest(*parts: str) -> bytes:
    return hashlib.sha256("\x00".join(parts).encode("utf-8", "replace")).digest()[:8]

"""Signed cursors of paged results."""

import hashlib
import struct
from collections.abc import Sequence
from typing import NamedTuple

from docstokg.contracts import Json
from docstokg.contracts.envelope import Caller
from docstokg.domain import base64url
from docstokg.errors import InvalidCursor
from docstokg_functions.mcp.paging import Position, dump, leaves

_PACKED = struct.Struct(">B8s16sII")
# 48 bytes with the seal are exactly 64 base64 letters, without unused bits.
_FORMAT = 3
# Differs between two runs of the same request on the same stores.
_VOLATILE = "retrieved_at"


class Cursor(NamedTuple):
    """Digest of a request's result (`facts`) and the next position.

    `run`: finds the cached response.
    """

    facts: bytes
    run: bytes
    position: Position

    def sealed(self, request: bytes, key: bytes) -> str:
        """Return the cursor, signed with `key` and bound to one request."""
        at = self.position
        packed = _PACKED.pack(_FORMAT, self.facts, self.run, at.leaf, at.character)
        return base64url.sealed(packed, request, key)


def cursor_from(text: str, request: bytes, key: bytes) -> Cursor:
    """Parse a cursor; raise `InvalidCursor` if it is forged or of another request or caller.

    `request`: of `request_digest`; `key`: the service's.
    """
    try:
        _, facts, run, leaf, character = _PACKED.unpack(base64url.unsealed(text, request, key))
    except struct.error as exc:  # of an earlier version
        raise InvalidCursor("this is no cursor of this service") from exc
    return Cursor(facts, run, Position(leaf, character))


def request_digest(tool: str, arguments: Json, caller: Caller) -> bytes:
    """Return the digest of a request: tool, arguments in any order, caller and rights."""
    ordered = dump(sorted(leaves(arguments), key=lambda leaf: dump(leaf[0])))
    rights = dump([sorted(set(caller.namespaces)), sorted(set(caller.groups))])
    return _digest(tool, caller.sub, rights, ordered)


def facts_digest(document: Json, keys: Sequence[str]) -> bytes:
    """Return the digest of a result: the given top-level values, without read times."""
    facts = [
        leaf
        for key in keys
        for leaf in leaves(document.get(key), (key,))
        if leaf[0][-1] != _VOLATILE
    ]
    return _digest(dump(facts))[:8]


def run_name(request_id: str) -> bytes:
    """Return the digest of the first page's request id."""
    return hashlib.sha256(request_id.encode("utf-8", "replace")).digest()[:16]


def _digest(*parts: str) -> bytes:
    return hashlib.sha256("\x00".join(parts).encode("utf-8", "replace")).digest()

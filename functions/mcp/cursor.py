"""What a cursor remembers, so that the next page can be made by a server that remembers nothing."""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from docstokg.contracts.envelope import Caller
from docstokg.domain import base64url
from docstokg.errors import InvalidCursor
from docstokg_functions.mcp.paging import Position, dump, leaves

_PACKED = struct.Struct(">B8s16sII")
# 48 bytes with the seal: as 64 letters of base64 they leave no bit that could be changed unseen.
_FORMAT = 3
# Differs between two runs of the same request over the same stores.
_VOLATILE = "retrieved_at"


@dataclass(frozen=True, slots=True)
class Cursor:
    """What a request found (`facts`), and how far it got.

    `run` names the first page's call: under it the stored response is found again.
    """

    facts: bytes
    run: bytes
    position: Position

    def sealed(self, request: bytes, key: bytes) -> str:
        """Write it as 64 letters; only who holds `key` can make them, for this request alone."""
        at = self.position
        packed = _PACKED.pack(_FORMAT, self.facts, self.run, at.leaf, at.character)
        return base64url.sealed(packed, request, key)


def cursor_from(text: str, request: bytes, key: bytes) -> Cursor:
    """Read a cursor; `InvalidCursor` when it is none of ours, or one of another request or caller.

    A single changed letter is refused: facts, run, position and request are all under the seal.
    """
    try:
        _, facts, run, leaf, character = _PACKED.unpack(base64url.unsealed(text, request, key))
    except struct.error as exc:  # of an earlier version
        raise InvalidCursor("this is no cursor of this service") from exc
    return Cursor(facts, run, Position(leaf, character))


def request_digest(tool: str, arguments: dict[str, Any], caller: Caller) -> bytes:
    """Name a request: the tool, its arguments in any order, and who asks with which rights."""
    ordered = dump(sorted(leaves(arguments), key=lambda leaf: dump(leaf[0])))
    rights = dump([sorted(set(caller.namespaces)), sorted(set(caller.groups))])
    return _digest(tool, caller.sub, rights, ordered)


def facts_digest(document: dict[str, Any], keys: Sequence[str]) -> bytes:
    """Name what was found: the given top-level values, without the time they were read at."""
    facts = [
        leaf
        for key in keys
        for leaf in leaves(document.get(key), (key,))
        if leaf[0][-1] != _VOLATILE
    ]
    return _digest(dump(facts))[:8]


def run_name(request_id: str) -> bytes:
    """Name a first page's call."""
    return hashlib.sha256(request_id.encode("utf-8", "replace")).digest()[:16]


def _digest(*parts: str) -> bytes:
    return hashlib.sha256("\x00".join(parts).encode("utf-8", "replace")).digest()

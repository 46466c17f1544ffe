"""Base64url and signed cursors."""

import base64
import hmac

from docstokg.errors import InvalidCursor

TAG_BYTES = 15


def encode(content: bytes) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def decode(text: str) -> bytes:
    """Decode the output of `encode`; raise ValueError for an invalid letter or length."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def sealed(content: bytes, request: bytes, key: bytes) -> str:
    """Return a cursor signed with `key` and bound to one request."""
    return encode(_tag(content, request, key) + content)


def unsealed(cursor: str, request: bytes, key: bytes) -> bytes:
    """Return the content of a cursor from `sealed`; raise `InvalidCursor` for any other cursor."""
    try:
        whole = decode(cursor)
    except ValueError as broken:
        raise InvalidCursor("this is no cursor of this service") from broken
    tag, content = whole[:TAG_BYTES], whole[TAG_BYTES:]
    if not hmac.compare_digest(tag, _tag(content, request, key)):
        raise InvalidCursor("the cursor is not this service's, or belongs to another request")
    return content


def _tag(content: bytes, request: bytes, key: bytes) -> bytes:
    return hmac.digest(key, request + b"\0" + content, "sha256")[:TAG_BYTES]

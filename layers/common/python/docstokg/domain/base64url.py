"""Base64url."""

import base64

_TEXT = ("utf-8", "surrogatepass")


def encode(content: bytes) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def decode(text: str) -> bytes:
    """Decode the output of `encode`; raise ValueError for an invalid letter or length."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def cursor_after(name: str) -> str:
    """Return the cursor of a list that continues after a name; also for lone surrogates."""
    return encode(name.encode(*_TEXT))


def name_before(cursor: str) -> str:
    """Return the name of `cursor_after`; raise ValueError for another text."""
    return decode(cursor).decode(*_TEXT)

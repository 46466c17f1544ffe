"""Bytes as text that a client hands back unread: letters that a URL takes as they are."""

import base64


def encode(content: bytes) -> str:
    """Write bytes as base64 without padding."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def decode(text: str) -> bytes:
    """Read what `encode` wrote; ValueError for anything with another letter or length."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)

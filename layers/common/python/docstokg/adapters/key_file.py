"""Key files."""

from pathlib import Path

from docstokg.errors import Misconfigured


def text_at(location: str) -> str:
    """Return the text of a key file; raise `Misconfigured` if it cannot be read."""
    try:
        return Path(location).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as broken:
        raise Misconfigured(f"key file {location} cannot be read: {broken}") from broken

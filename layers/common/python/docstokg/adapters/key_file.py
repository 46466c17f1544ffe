"""Key files."""

from pathlib import Path

from docstokg.errors import Misconfigured


def text_at(where: str) -> str:
    """Return the text of a key file; raise `Misconfigured` if it cannot be read."""
    try:
        return Path(where).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as broken:
        raise Misconfigured(f"key file {where} cannot be read: {broken}") from broken

"""Key files."""

from pathlib import Path

from docstokg.errors import Misconfigured


def text_at(path: str) -> str:
    """Return the text of a key file; raise `Misconfigured` if it cannot be read."""
    try:
        return Path(path).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as broken:
        raise Misconfigured(f"key file {path} cannot be read: {broken}") from broken

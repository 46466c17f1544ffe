"""Secret key files."""

import os
import secrets
from pathlib import Path

from docstokg.errors import Misconfigured

KEY_BYTES = 32


def read_or_make(path: Path) -> bytes:
    """Return the key in `path`, or create one that only this user can read.

    If the file is unwritable or damaged, the key is only valid in this process.
    """
    made = secrets.token_bytes(KEY_BYTES)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            fresh.touch(mode=0o600)
            fresh.write_bytes(made)
            # A link is atomic: no process reads half a key, and the first one wins.
            try:
                os.link(fresh, path)
            except FileExistsError:
                pass
            finally:
                fresh.unlink()
        key = path.read_bytes()
    except OSError:
        return made
    return key if len(key) == KEY_BYTES else made


def text_at(where: str) -> str:
    """Return the text of a key file; raise `Misconfigured` if it cannot be read."""
    try:
        return Path(where).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as broken:
        raise Misconfigured(f"key file {where} cannot be read: {broken}") from broken

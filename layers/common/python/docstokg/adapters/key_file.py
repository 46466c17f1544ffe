"""A secret that processes of one machine share: made by the first that needs it."""

import os
import secrets
from pathlib import Path

KEY_BYTES = 32


def read_or_make(path: Path) -> bytes:
    """Read the key of `path`, or make one that only this user can read.

    Where no file can be written the key is this process's own: what it sealed dies with it.
    """
    made = secrets.token_bytes(KEY_BYTES)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            fresh.touch(mode=0o600)
            fresh.write_bytes(made)
            # A link appears whole or not at all: nobody reads half a key, and the first one wins.
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

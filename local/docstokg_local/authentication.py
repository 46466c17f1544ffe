"""Who calls the local server: everybody (`off`), or whoever holds a key of the keys file."""

import hmac
import json
from pathlib import Path

from pydantic import ValidationError

from docstokg.contracts.envelope import Caller
from docstokg.contracts.model import Contract
from docstokg.errors import Misconfigured
from docstokg.settings import Settings

EVERYBODY = Caller(sub="local", namespaces=("*",), groups=("*",), load=("*",))


class KeyHolder(Contract):
    """What one key grants."""

    sub: str
    namespaces: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    load: tuple[str, ...] = ()


class Authentication:
    """Maps an `X-Api-Key` to a caller; the file is read once, at start."""

    def __init__(self, settings: Settings) -> None:
        self._keys: dict[str, Caller] | None = None
        if settings.auth == "keys":
            self._keys = _read(settings.keys_file)

    def caller(self, key: str | None) -> Caller | None:
        """Give the caller, or None when a key is needed and this one is not known."""
        if self._keys is None:
            return EVERYBODY
        found = None
        for known, caller in self._keys.items():
            if key is not None and hmac.compare_digest(known.encode(), key.encode()):
                found = caller
        return found


def _read(keys_file: str | None) -> dict[str, Caller]:
    if keys_file is None:
        raise Misconfigured("DOCSTOKG_AUTH=keys needs DOCSTOKG_KEYS_FILE")
    try:
        holders = json.loads(Path(keys_file).read_text(encoding="utf-8"))
        return {
            key: Caller.model_validate(KeyHolder.model_validate(holder).model_dump())
            for key, holder in holders.items()
        }
    except (OSError, ValueError, AttributeError, ValidationError) as exc:
        raise Misconfigured(
            f"DOCSTOKG_KEYS_FILE {keys_file}: {exc}; expected "
            '{"KEY": {"sub": "...", "namespaces": ["..."], "groups": ["..."], "load": ["..."]}}'
        ) from exc

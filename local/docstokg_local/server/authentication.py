"""Authentication of the local server."""

import hmac
import json
import threading
from pathlib import Path

from pydantic import ValidationError

from docstokg.contracts.envelope import Caller
from docstokg.errors import Misconfigured, cause
from docstokg.observability import Telemetry
from docstokg.settings import Settings

EVERYBODY = Caller(sub="local", namespaces=("*",), groups=("*",), load=("*",))


class Authentication:
    """Maps an `X-Api-Key` to a caller; a changed keys file applies at once.

    An invalid changed file rejects all callers; at the start it raises `Misconfigured`.
    """

    def __init__(self, settings: Settings, telemetry: Telemetry) -> None:
        self._open, self._file = settings.auth != "keys", settings.keys_file
        self._telemetry = telemetry
        self._lock = threading.Lock()
        self._keys: dict[str, Caller] = {}
        if not self._open:
            self._mark = _mark(self._file)
            self._keys = _read(self._file)

    def caller(self, key: str | None) -> Caller | None:
        """Return the caller, or None if a key is required and this one is unknown."""
        if self._open:
            return EVERYBODY
        owner = None
        for listed_key, caller in self._current().items():
            if key is not None and hmac.compare_digest(listed_key.encode(), key.encode()):
                owner = caller
        return owner

    def _current(self) -> dict[str, Caller]:
        mark = _mark(self._file)
        with self._lock:
            if mark != self._mark:
                self._mark, self._keys = mark, self._reread()
            return self._keys

    def _reread(self) -> dict[str, Caller]:
        try:
            keys = _read(self._file)
        except Misconfigured as broken:
            self._telemetry.log("ERROR", "keys_file_not_read", **cause(broken))
            return {}
        self._telemetry.log("INFO", "keys_file_read", keys=len(keys))
        return keys


def _mark(keys_file: str | None) -> tuple[int, int, int] | None:
    try:
        status = Path(keys_file or "").stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(keys_file: str | None) -> dict[str, Caller]:
    if keys_file is None:
        raise Misconfigured("DOCSTOKG_AUTH=keys needs DOCSTOKG_KEYS_FILE")
    try:
        holders = json.loads(Path(keys_file).read_text(encoding="utf-8"))
        return {key: Caller.model_validate(holder) for key, holder in holders.items()}
    except (OSError, ValueError, AttributeError, ValidationError) as exc:
        raise Misconfigured(
            f"DOCSTOKG_KEYS_FILE {keys_file}: {exc}; expected "
            '{"KEY": {"sub": "...", "namespaces": ["..."], "groups": ["..."], "load": ["..."]}}'
        ) from exc

"""Lambda handlers."""

import gc
import math
import os
import time
from collections.abc import Callable
from typing import Any

from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, Refused
from docstokg.settings import Settings, unknown_variables
from docstokg.wiring import WARM_TIME_S, Handler, Wiring, by_name, with_secrets

# Seconds to prepare after a restore; Lambda allows the hooks 10 s, of which secrets may take 5.
RESTORE_TIME_S = 3.0
SECRETS_TIME_S = 300.0
# Minimum seconds between two reads of refused secrets.
REFUSED_TIME_S = 10.0
# Seconds per secret, inside a request whose credential was refused.
READ_AGAIN_S = 1.0
# Threshold of the garbage collector, in new objects; a question creates 5,000.
GARBAGE_AFTER = 20_000


def freeze_garbage() -> None:
    """Freeze start-up objects so that the garbage collector skips them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_AFTER, *gc.get_threshold()[1:])


class Entry:
    """A Lambda handler that renews credentials and connections.

    Secrets are read again every SECRETS_TIME_S, and after a refused credential, when the event is
    retried.
    """

    def __init__(self, build: Callable[[Wiring], Handler], settings: Settings) -> None:
        self._build, self._bare = build, settings
        self._secrets: dict[str, dict[str, str]] = {}
        self._settings = with_secrets(settings, self._secrets)
        self._wiring = Wiring(self._settings)
        self._handler = build(self._wiring)
        self._read_at = time.monotonic()
        self._refused_at = -math.inf
        self._refusal = False
        self._wiring.telemetry.on_error = self._note_refusal
        if unknown := unknown_variables(os.environ):
            self._wiring.telemetry.log("WARNING", "unknown_settings", error="; ".join(unknown))
        self._prepare(WARM_TIME_S)
        freeze_garbage()

    def __call__(self, event: dict[str, Any], context: object) -> dict[str, Any]:
        """Handle one event."""
        if self._settings.secrets and time.monotonic() - self._read_at >= SECRETS_TIME_S:
            self._look()
        self._refusal = False
        try:
            try:
                answer = self._handler(event, context)
            except Refused:
                if not self._refreshed():
                    raise
            else:
                if not (self._refusal and self._refreshed()):
                    return answer
            return self._handler(event, context)
        finally:
            self._wiring.telemetry.flush()

    def before_snapshot(self) -> None:
        """Close connections."""
        self._wiring.close()

    def after_restore(self) -> None:
        """Keep the models; renew secrets and connections."""
        self._renew(self._current())
        self._prepare(RESTORE_TIME_S)

    def _note_refusal(self, error: Exception) -> None:
        self._refusal = self._refusal or isinstance(error, Refused)

    def _refreshed(self) -> bool:
        if not self._settings.secrets or time.monotonic() - self._refused_at < REFUSED_TIME_S:
            return False
        self._refused_at = time.monotonic()
        return self._look(READ_AGAIN_S)

    def _look(self, time_s: float | None = None) -> bool:
        current = self._current(time_s)
        if current == self._settings:
            return False
        self._wiring.telemetry.log("INFO", "secrets_changed")
        self._wiring.close()
        self._renew(current)
        return True

    def _current(self, time_s: float | None = None) -> Settings:
        self._read_at = time.monotonic()
        try:
            return with_secrets(self._bare, self._secrets, time_s)
        except DocsToKGError as exc:
            self._wiring.telemetry.log("WARNING", "secrets_unreadable", error=str(exc))
            return self._settings

    def _renew(self, settings: Settings) -> None:
        self._settings = settings
        self._wiring = Wiring(settings, self._wiring.telemetry, self._wiring.models())
        self._handler = self._build(self._wiring)

    def _prepare(self, time_s: float) -> None:
        if "cache" in by_name(self._settings.tables):
            self._wiring.response_cache()  # creating its client takes longer than a call may take
        self._wiring.warm(Deadline.after(time_s))


def entry_point(
    build: Callable[[Wiring], Handler], module: dict[str, Any]
) -> Callable[[str], Handler]:
    """Return a module's `__getattr__`, which creates `handler` on first access, not on import.

    Other names raise AttributeError.
    """

    def attribute(name: str) -> Handler:
        if name != "handler":
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        from docstokg.adapters.aws.snapshots import around_snapshot

        entry = Entry(build, Settings.from_environment(os.environ, strict=False))
        around_snapshot(entry.before_snapshot, entry.after_restore)
        module[name] = entry
        return entry

    return attribute

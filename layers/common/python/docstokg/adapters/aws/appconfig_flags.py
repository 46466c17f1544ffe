"""AppConfig feature flags."""

import http.client
import math
import threading
import time

from pydantic import TypeAdapter

from docstokg.domain.deadline import Deadline
from docstokg.errors import Misconfigured, Timeout, Unavailable, WrongAnswer

HOST, PORT = "localhost", 2772
KEEP_S = 10.0
Flag = bool | float
_FLAGS = TypeAdapter(dict[str, bool | int | float])


class AppConfigFlags:
    """Current flags of `APPLICATION/ENVIRONMENT/PROFILE`."""

    def __init__(self, path: str) -> None:
        parts = path.split("/")
        if len(parts) != 3 or not all(parts):
            raise Misconfigured(
                f"DOCSTOKG_APPCONFIG {path!r} is not APPLICATION/ENVIRONMENT/PROFILE"
            )
        application, environment, profile = parts
        self._path = (
            f"/applications/{application}/environments/{environment}/configurations/{profile}"
        )
        self._lock = threading.Lock()
        self._read_at = -math.inf
        self._flags: dict[str, Flag] = {}

    def current(self, deadline: Deadline) -> dict[str, Flag]:
        """Return the flags by name, cached for KEEP_S seconds.

        Raise `Timeout`, `Unavailable` or `WrongAnswer`.
        """
        with self._lock:
            if time.monotonic() - self._read_at >= KEEP_S:
                self._flags = self._read(deadline)
                self._read_at = time.monotonic()
            return dict(self._flags)

    def _read(self, deadline: Deadline) -> dict[str, Flag]:
        connection = http.client.HTTPConnection(HOST, PORT, timeout=deadline.remaining())
        try:
            connection.request("GET", self._path)
            answer = connection.getresponse()
            body = answer.read()
        except TimeoutError as exc:
            raise Timeout("the flag agent did not answer") from exc
        except (OSError, http.client.HTTPException) as exc:
            raise Unavailable("the flag agent cannot be reached") from exc
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise Unavailable(f"the flag agent answered {answer.status}")
        try:
            flags: dict[str, Flag] = _FLAGS.validate_json(body, strict=True)
        except ValueError as exc:
            raise WrongAnswer("the flags are not a JSON object of booleans and numbers") from exc
        return flags

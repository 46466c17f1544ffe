"""The envelope of a request: route, caller, and the body's bytes."""

import json
from collections.abc import Mapping
from typing import Any

from docstokg.contracts.envelope import Caller, Envelope

EVERYBODY = Caller(sub="s", namespaces=("*",), groups=("*",))


def envelope(
    body: object,
    route: Any = "answer",
    caller: Caller | Mapping[str, Any] = EVERYBODY,
    request_id: str = "r",
) -> Envelope:
    """The envelope of a body: bytes as they are, or what JSON can say."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Envelope.of(route, request_id, Caller.model_validate(caller), raw)


def event(body: object, *fields: Any) -> dict[str, Any]:
    """The same as the event that Lambda hands over."""
    return envelope(body, *fields).model_dump(mode="json")

"""Size limit of state data."""

import json
from typing import Any

from pydantic_core import from_json, to_json

from docstokg.contracts import compact_json
from docstokg.domain.budget import STATE_LIMIT_BYTES


class DataLimitExceeded(BaseException):
    """Ends an execution whose data grew too large; `States.ALL` does not catch it."""


def measured(value: Any, subject: str) -> bytes:
    """Return JSON as UTF-8; raise `DataLimitExceeded` over 262,144 bytes.

    Counted like Step Functions: no spaces, no ASCII escapes, and a lone surrogate as three bytes.
    """
    try:
        data = to_json(value)
    except ValueError:  # three times as fast, but rejects lone surrogates
        text = compact_json(value)
        data = text.encode("utf-8", "surrogatepass")
    if len(data) > STATE_LIMIT_BYTES:
        raise DataLimitExceeded(f"{subject}: {len(data)} bytes")
    return data


def transferred(value: Any, subject: str) -> tuple[Any, int]:
    """Return JSON after a round trip through `measured` text, and the bytes of that text.

    Raises `DataLimitExceeded`.
    """
    data = measured(value, subject)
    try:
        return from_json(data), len(data)
    except ValueError:
        return json.loads(data.decode("utf-8", "surrogatepass")), len(data)

"""The size at which data ends an execution, and JSON as it travels between two steps."""

import json
from typing import Any

from pydantic_core import from_json, to_json

from docstokg.domain.budget import STATE_LIMIT_BYTES


class DataLimitExceeded(BaseException):
    """Ends an execution whose data grew too large.

    AWS lets no `States.ALL` catch it (Step Functions guide, error names), so no Catch sees it here.
    """


def measured(value: Any, what: str) -> bytes:
    """Return JSON as text in UTF-8; raise `DataLimitExceeded` over 262,144 bytes.

    It is counted as Step Functions does: no spaces, no ASCII escapes, and half a surrogate pair,
    which JSON allows, as three bytes.
    """
    try:
        data = to_json(value)
    except ValueError:  # compiled code takes a third of the time, and knows no half pairs
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        data = text.encode("utf-8", "surrogatepass")
    if len(data) > STATE_LIMIT_BYTES:
        raise DataLimitExceeded(f"{what}: {len(data)} bytes")
    return data


def transferred(value: Any, what: str) -> tuple[Any, int]:
    """Return JSON as it arrives after having been text, and the bytes of that text."""
    data = measured(value, what)
    try:
        return from_json(data), len(data)
    except ValueError:
        return json.loads(data.decode("utf-8", "surrogatepass")), len(data)

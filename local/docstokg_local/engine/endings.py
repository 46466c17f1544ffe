"""What ends an execution past every Catch, and the size at which data does it."""

import json
from typing import Any

from pydantic_core import from_json, to_json

from docstokg.domain.budget import STATE_LIMIT_BYTES


class MachineTimedOut(BaseException):
    """Ends an execution past its own TimeoutSeconds; no Catch may see it."""


class DataLimitExceeded(BaseException):
    """Ends an execution whose data grew too large.

    AWS lets no `States.ALL` catch it (Step Functions guide, error names), so no Catch sees it here.
    """


class Halted(BaseException):
    """Ends a branch or an iteration because another one beside it has failed."""


def compact(value: Any) -> str:
    """Write JSON as Step Functions counts it: no spaces, no ASCII escapes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def text_bytes(text: str) -> int:
    """Count UTF-8 bytes; half a surrogate pair, which JSON allows, counts as three."""
    return len(text.encode("utf-8", "surrogatepass"))


def hold_limit(value: Any, what: str) -> int:
    """Give the bytes of a value as JSON; raise `DataLimitExceeded` over 262,144 of them."""
    size = text_bytes(compact(value))
    if size > STATE_LIMIT_BYTES:
        raise DataLimitExceeded(f"{what}: {size} bytes")
    return size


def sent(value: Any) -> tuple[Any, int]:
    """Give a JSON value as it arrives after having been text, and the bytes of that text.

    By compiled code, in a third of the time, wherever that knows the texts: half a surrogate pair
    it does not.
    """
    try:
        data = to_json(value)
        return from_json(data), len(data)
    except ValueError:
        text = compact(value)
        return json.loads(text), text_bytes(text)


def returned(value: Any) -> tuple[Any, int]:
    """Do the same with what a function returned; TypeError for what no Lambda could return."""
    text = compact(value)
    data = text.encode("utf-8", "surrogatepass")
    try:
        return from_json(data), len(data)
    except ValueError:
        return json.loads(text), len(data)

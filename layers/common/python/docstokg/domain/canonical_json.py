"""Canonical JSON (RFC 8785), for signatures."""

import json
import math
from decimal import Decimal
from typing import Any

# Largest whole number that every JSON reader keeps exactly (RFC 7493).
MOST_EXACT = 2**53 - 1

_PLAIN_DIGITS = 21
# Exponents between which ECMAScript writes a number without an `e` (Number::toString).
_SMALLEST_PLAIN = -6


def canonical_json(value: object) -> bytes:
    """Return the canonical JSON of a value as UTF-8.

    Raises ValueError for values without one: NaN, infinity, whole numbers of 2**53 or more, lone
    surrogates, and types that are not JSON.
    """
    return _text(value).encode("utf-8")


def signed_part(body: dict[str, Any]) -> bytes:
    """Return the canonical JSON of a response without `diagnostics` and the receipt's signature.

    Raise KeyError (null: AttributeError) without a receipt.
    """
    receipt = {name: one for name, one in body["receipt"].items() if name != "signature"}
    covered = {name: one for name, one in body.items() if name != "diagnostics"}
    return canonical_json({**covered, "receipt": receipt})


def _text(value: object) -> str:
    if value is None or isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, dict):
        names = sorted(value, key=_utf16)
        return f"{{{','.join(f'{_text(name)}:{_text(value[name])}' for name in names)}}}"
    raise ValueError(f"{type(value).__name__} is not a JSON type")


def _utf16(name: object) -> bytes:
    if not isinstance(name, str):
        raise ValueError("a name of a JSON object must be a string")
    return name.encode("utf-16-be")


def _number(value: float) -> str:
    if isinstance(value, int):
        if abs(value) > MOST_EXACT:
            raise ValueError(f"{value} is not exact in JSON")
        return str(value)
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a JSON number")
    if value == 0:
        return "0"
    # repr has the shortest digits that read as the same number, as ECMAScript demands.
    _, places, exponent = Decimal(repr(abs(value))).as_tuple()
    digits = "".join(map(str, places)).lstrip("0")
    point = len(digits) + int(exponent)
    digits = digits.rstrip("0")
    return ("-" if value < 0 else "") + _placed(digits, point)


def _placed(digits: str, point: int) -> str:
    if len(digits) <= point <= _PLAIN_DIGITS:
        return digits.ljust(point, "0")
    if 0 < point <= _PLAIN_DIGITS:
        return f"{digits[:point]}.{digits[point:]}"
    if _SMALLEST_PLAIN < point <= 0:
        return f"0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"

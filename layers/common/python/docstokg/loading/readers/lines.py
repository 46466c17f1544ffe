"""Strict JSON lines."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from docstokg.contracts import Json
from docstokg.contracts.model import StrictContract, wrong_in_words
from docstokg.loading.read.rejects import Rejected, Unreadable

LONGEST_LINE = 16 * 1024 * 1024
# Maximum nesting; serialising a value recurses once per level.
DEEPEST = 64


class Line(StrictContract):
    """One JSON object of a file; unknown keys are in `model_extra`."""

    model_config = ConfigDict(extra="allow")


def json_lines(path: Path) -> Iterator[tuple[int, Json | Rejected]]:
    """Yield (line number from 1, object or reject); blank lines are skipped.

    Only LF ends a line. Raises `Unreadable` for a bad file.
    """
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if stripped := raw.strip():
                    try:
                        yield number, parse_object(stripped)
                    except Rejected as rejected:
                        yield number, rejected
    except OSError as broken:
        raise Unreadable(path, broken) from broken


def parse_object(raw: bytes) -> Json:
    """Parse one line; raise `Rejected` unless it is an object of finite, well-formed values."""
    if len(raw) > LONGEST_LINE:
        raise Rejected(f"the line is longer than {LONGEST_LINE} bytes")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as broken:
        raise Rejected(f"not UTF-8 at byte {broken.start + 1} of the line") from broken
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except Rejected:
        raise
    except json.JSONDecodeError as broken:
        raise Rejected(f"not JSON: {broken.msg} at column {broken.colno}") from broken
    except (ValueError, RecursionError) as broken:
        raise Rejected("not JSON: nested too deeply, or a number is too long") from broken
    if not isinstance(value, dict):
        raise Rejected("not a JSON object")
    check_depth(value)
    # Only escapes can produce them: raw ones are not valid UTF-8 or JSON.
    if "\\u0000" in text or "\\ud" in text or "\\uD" in text:
        check_text(value)
    return value


def check_depth(value: object) -> None:
    """Raise `Rejected` for nesting deeper than DEEPEST, without recursion."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [
            below
            for item in level
            if isinstance(item, dict | list)
            for below in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise Rejected(f"lists and objects are nested deeper than {DEEPEST} levels")


def check_text(value: object) -> None:
    """Raise `Rejected` for NUL and lone surrogates anywhere in a JSON value."""
    if isinstance(value, str):
        if "\x00" in value:
            raise Rejected("a string contains the NUL character")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise Rejected("a string contains a lone surrogate")
    elif isinstance(value, dict):
        for key, item in value.items():
            check_text(key)
            check_text(item)
    elif isinstance(value, list):
        for item in value:
            check_text(item)


def checked[Row: BaseModel](kind: type[Row], line: Json) -> Row:
    """Validate an object as a row; raise `Rejected` with all its errors."""
    try:
        return kind.model_validate(line)
    except ValidationError as error:
        raise Rejected(reasons(error)) from error


def reasons(error: ValidationError) -> str:
    """Return all errors of one line as a single line."""
    messages = []
    for problem in error.errors(include_url=False, include_context=False):
        place = ".".join(str(part) for part in problem["loc"])
        message = wrong_in_words(problem)
        messages.append(f"{place}: {message}" if place else message)
    return "; ".join(dict.fromkeys(messages))


def _no_constant(name: str) -> float:
    raise Rejected(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Rejected(f"the number {text} is too large")
    return number

"""The YAML block before a document's text: fields of its chunks, and metadata."""

import datetime
import math
import re
from typing import Any

import yaml

from docstokg.loading.read.rejects import Rejected
from docstokg.loading.readers.lines import DEEPEST

LONGEST = 65_536
"""Characters of front matter; a person writes a few hundred."""

_FRONT = re.compile(
    r"\ufeff?---[ \t]*\r?\n(.*?)(?:^)---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_FIELDS = ("doc_id", "title", "document_name", "uri", "topics", "acl")


class _Bounded(yaml.SafeLoader):
    """A few hundred bytes of aliases stand for billions of values, or for a value inside itself.

    Reading costs the square of the depth, and how deep Python may go is for a process to say.
    """

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Refuse an alias where a value is expected, and what is nested too deep."""
        if self.check_event(yaml.AliasEvent):
            raise Rejected("front matter uses a YAML alias (*name), which is not read")
        if self.depth > DEEPEST:
            raise Rejected(f"front matter is nested deeper than {DEEPEST} levels")
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def front_matter(text: str) -> tuple[dict[str, Any], int]:
    """Give the block's keys as JSON values, and where the text after it begins.

    `Rejected` for what is no mapping, too long, nested too deep, or made of aliases.
    """
    match = _FRONT.match(text)
    if match is None:
        return {}, 1 if text.startswith("\ufeff") else 0
    try:
        if len(match[1]) > LONGEST:
            raise Rejected(f"front matter is longer than {LONGEST} characters")
        front = yaml.load(match[1], _Bounded)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as broken:
        mark = getattr(broken, "problem_mark", None)
        line = f" in line {mark.line + 2}" if mark is not None else ""
        raise Rejected(f"front matter is no YAML{line}") from broken
    except ValueError as broken:
        raise Rejected(f"front matter: {broken}") from broken
    if front is None:
        return {}, match.end()
    if not isinstance(front, dict):
        raise Rejected("front matter is no mapping of keys to values")
    return {str(key): _plain(value) for key, value in front.items()}, match.end()


def summary_span(text: str) -> tuple[int, int] | None:
    """Find the stretch of the block that tells what the document is about, or None.

    That is its `description`, with its `title` where that is the line before or after: what
    stands between others is metadata, which is never searched.
    """
    match = _FRONT.match(text)
    if match is None:
        return None
    node = _Bounded(match[1]).get_single_node()
    if not isinstance(node, yaml.MappingNode):
        return None
    keys = [key.value for key, _ in node.value]
    if "description" not in keys:
        return None
    place = keys.index("description")
    first, last = place, place
    if keys[place - 1 : place] == ["title"]:
        first -= 1
    elif keys[place + 1 : place + 2] == ["title"]:
        last += 1
    start = match.start(1) + node.value[first][0].start_mark.index
    piece = text[start : match.start(1) + node.value[last][1].end_mark.index]
    return start, start + len(piece.rstrip())


def understood(front: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split front matter into fields of a chunk and metadata."""
    fields: dict[str, Any] = {}
    for key in _FIELDS:
        value = front.get(key)
        if value is None:
            continue
        if key in ("topics", "acl"):
            many = value if isinstance(value, list) else [value]
            if not all(isinstance(item, str) for item in many):
                raise Rejected(f"front matter: {key} must be strings")
            fields[key] = tuple(dict.fromkeys(many))
        elif isinstance(value, str | int) and not isinstance(value, bool):
            fields[key] = str(value)
        else:
            raise Rejected(f"front matter: {key} must be a string")
    return fields, {key: value for key, value in front.items() if key not in _FIELDS}


def _plain(value: Any) -> Any:
    """Turn what YAML knows and JSON does not into JSON values."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set):
        return sorted((_plain(item) for item in value), key=str)
    if isinstance(value, datetime.date | datetime.datetime | datetime.time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        raise Rejected("front matter holds a number that is not finite")
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
            raise Rejected("front matter holds NUL or a lone surrogate")
        return value
    if isinstance(value, bool | int | float) or value is None:
        return value
    return str(value)

"""YAML front matter."""

import datetime
import math
import re
from typing import Any, NamedTuple

import yaml

from docstokg.contracts import Json
from docstokg.loading.read.rejects import Rejected
from docstokg.loading.readers.lines import DEEPEST

# Maximum characters; usual front matter has a few hundred.
LONGEST = 65_536

_FRONT = re.compile(
    r"\ufeff?---[ \t]*\r?\n(.*?)(?:^)---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_ACL = re.compile(r"\bacl[\"']?\s*:")
_KEY = re.compile(r"[\w-]+:")
_FIELDS = ("doc_id", "title", "document_name", "uri", "topics", "acl")


class _Bounded(yaml.SafeLoader):
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise Rejected("uses a YAML alias (*name)")
        if self.depth > DEEPEST:
            raise Rejected(f"is nested deeper than {DEEPEST} levels")
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class FrontMatter(NamedTuple):
    """The front matter of a text.

    `values`: its keys as JSON values. `end`: offset of the text after the block, 0 or 1 if the
    block is text. `summary`: the searched range. `note`: why the block was read as text, or "".
    """

    values: Json
    end: int
    summary: tuple[int, int] | None = None
    note: str = ""


def front_matter(text: str) -> FrontMatter:
    """Parse the YAML block at the beginning of a text.

    A block that is not a YAML mapping is text; with a line for `acl`, raise `Rejected`.
    """
    match = _FRONT.match(text)
    begin = 1 if text.startswith("\ufeff") else 0
    if match is None:
        return FrontMatter({}, begin)
    block = match[1]
    try:
        if len(block) > LONGEST:
            raise Rejected(f"is longer than {LONGEST:,} characters")
        loader = _Bounded(block)
        node = loader.get_single_node()
        if node is None:
            return FrontMatter({}, match.end())
        if isinstance(node, yaml.ScalarNode):
            return FrontMatter({}, begin)  # text between two horizontal rules
        if not isinstance(node, yaml.MappingNode):
            raise Rejected("is not a mapping of keys to values")
        loaded = loader.construct_document(node)
        values = {str(key): _plain(value) for key, value in loaded.items()}
    except (yaml.YAMLError, ValueError, Rejected) as broken:
        mark = getattr(broken, "problem_mark", None)
        line = f" (line {mark.line + 2})" if mark is not None else ""
        why = str(broken) if isinstance(broken, Rejected) else f"is not valid YAML{line}"
        if _ACL.search(block):
            raise Rejected(f"front matter {why} and has an acl: correct it") from broken
        note = f"front matter {why}; it was read as text"
        if _KEY.match(block.lstrip()) and len(block) <= LONGEST:
            stretch = _stretch(match.start(1), block)
            return FrontMatter({}, match.end(), stretch, note)
        return FrontMatter({}, begin, None, note)
    return FrontMatter(values, match.end(), _described(node, match.start(1), block))


def _described(node: yaml.MappingNode, begin: int, block: str) -> tuple[int, int] | None:
    keys = [key.value for key, _ in node.value]
    if "description" not in keys:
        return None
    first = last = keys.index("description")
    if keys[first - 1 : first] == ["title"]:
        first -= 1
    elif keys[first + 1 : first + 2] == ["title"]:
        last += 1
    start, end = node.value[first][0].start_mark.index, node.value[last][1].end_mark.index
    return _stretch(begin + start, block[start:end])


def _stretch(start: int, piece: str) -> tuple[int, int]:
    return start, start + len(piece.rstrip())


def understood(front: Json) -> tuple[Json, Json]:
    """Return the fields of chunks (such as title and acl) and the rest, which is metadata.

    Raises `Rejected` for a field of the wrong type.
    """
    fields: Json = {}
    for key in _FIELDS:
        value = front.get(key)
        if value is None:
            continue
        if key in ("topics", "acl"):
            count = value if isinstance(value, list) else [value]
            if not all(isinstance(item, str) for item in count):
                raise Rejected(f"front matter: {key} must be strings")
            fields[key] = tuple(dict.fromkeys(count))
        elif isinstance(value, str | int) and not isinstance(value, bool):
            fields[key] = str(value)
        else:
            raise Rejected(f"front matter: {key} must be a string")
    return fields, {key: value for key, value in front.items() if key not in _FIELDS}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set):
        return sorted((_plain(item) for item in value), key=str)
    if isinstance(value, datetime.date | datetime.datetime | datetime.time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        raise Rejected("has a number that is not finite")
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
            raise Rejected("has a NUL character or a lone surrogate")
        return value
    if isinstance(value, bool | int | float) or value is None:
        return value
    return str(value)

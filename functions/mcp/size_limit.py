"""Results within a size limit."""

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

from docstokg.contracts import Json, compact_json
from docstokg.domain.base64url import cursor_after

# Texts that may be shortened if one element of a list alone exceeds the limit.
_TEXTS = frozenset(
    ("answer", "passage", "snippet", "full_text", "text", "before", "after", "sentence", "detail")
)
_SHORTEST_TEXT = 20
_ELLIPSIS = "…"


class TooLarge(ValueError):
    """A result that cannot be cut to the limit."""


def cut(document: Json, parts: Sequence[str], max_bytes: int | None) -> Json:
    """Return a result with at most `max_bytes` bytes of JSON.

    Removes the last elements of the lists named in `parts`, in this order, then shortens texts.
    `more` is the number of removed elements, in addition to the result's own. Part `graph` is cut
    to its first nodes and the edges between them. Raise `TooLarge` if the limit is too small.
    """
    document = {"more": 0, **document}
    if max_bytes is None or byte_count(document) <= max_bytes:
        return document
    for part in parts:
        document = _cut_part(document, part, max_bytes, min_count=int(part == parts[-1]))
        if byte_count(document) <= max_bytes:
            return document
    return _shortened(document, max_bytes)


def _cut_part(document: Json, part: str, max_bytes: int, min_count: int) -> Json:
    elements = document.get(part) or ()
    length = len(elements["nodes"] if part == "graph" and elements else elements)
    if length <= min_count:
        return document

    def exceeds(count: int) -> bool:
        return byte_count(_first(document, part, count)) > max_bytes

    counts = range(min_count + 1, length + 1)
    return _first(document, part, min_count + bisect_left(counts, True, key=exceeds))


def _first(document: Json, part: str, count: int) -> Json:
    if part == "graph":
        return {**document, "graph": _first({"more": 0, **document["graph"]}, "nodes", count)}
    elements = document[part]
    removed = len(elements) - count
    result = {**document, part: elements[:count], "more": document["more"] + removed}
    if part == "nodes":
        ids = {node["id"] for node in result["nodes"]}
        result["edges"] = [edge for edge in result["edges"] if {edge["src"], edge["dst"]} <= ids]
    if part == "documents" and removed:
        result["cursor"] = cursor_after(elements[count - 1]["doc_id"])
    return result


def _shortened(document: Json, max_bytes: int) -> Json:
    document = json.loads(dump(document))
    while (excess := byte_count(document) - max_bytes) > 0:
        places = _texts(document)
        parent, key = max(places, key=lambda place: len(place[0][place[1]]), default=({}, ""))
        text = parent.get(key, "").encode()
        if len(text) <= _SHORTEST_TEXT:
            raise TooLarge
        length = max(len(text) // 2, len(text) - excess - len(_ELLIPSIS.encode()))
        parent[key] = text[:length].decode(errors="ignore").rstrip(_ELLIPSIS) + _ELLIPSIS
    return document


def _texts(value: Any) -> Iterator[tuple[Json, str]]:
    if isinstance(value, dict):
        yield from ((value, key) for key in _TEXTS & value.keys() if isinstance(value[key], str))
        value = list(value.values())
    for below in value if isinstance(value, list) else ():
        yield from _texts(below)


def dump(value: Any) -> str:
    """Return compact JSON; lone surrogates become question marks."""
    text = compact_json(value)
    return text.encode("utf-8", "replace").decode("utf-8")


def byte_count(value: Any) -> int:
    """Return the size of a value as compact JSON in UTF-8."""
    return len(dump(value).encode())

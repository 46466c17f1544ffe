"""Paging of results."""

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from docstokg.contracts import Json

Path = tuple[str | int, ...]
Leaf = tuple[Path, Any]


class Position(NamedTuple):
    """Start of a page: the leaf in document order, and the code point within its text."""

    leaf: int = 0
    character: int = 0


START = Position()


class Page(NamedTuple):
    """One page as JSON text; `after` is the start of the next page, None for the last."""

    text: str
    after: Position | None = None


class NoSuchPosition(ValueError):
    """No content at the requested position."""


class PageTooSmall(ValueError):
    """The limit fits no leaf with its path."""


def page_of(
    document: Json,
    start: Position,
    max_bytes: int | None,
    cursor_of: Callable[[Position], str | None],
) -> Page:
    """Return the page that starts at `start` and has at most `max_bytes` bytes of UTF-8.

    Later pages have `continues_at`: the JSON pointer (RFC 6901) of their first leaf. Top-level
    values and elements of top-level lists are split only if they exceed a page. Raise
    `PageTooSmall` if no code point fits, `NoSuchPosition` for a `start` past the end.
    """
    rest = _rest(document, start)
    pointer = json_pointer(rest[0][0]) if start != START and rest else None

    def written(pieces: Sequence[Leaf], after: Position | None) -> str:
        head: Json = {"truncated": after is not None}
        head["next_cursor"] = None if after is None else cursor_of(after)
        if pointer is not None:
            head["continues_at"] = pointer
        return dump(rebuilt(head, pieces))

    def fits(text: str) -> bool:
        return max_bytes is None or len(text.encode("utf-8")) <= max_bytes

    def first(count: int) -> str:
        return written(rest[:count], Position(start.leaf + count))

    if max_bytes is None or _least_bytes(rest) <= max_bytes:
        whole = written(rest, None)
        if fits(whole):
            return Page(whole)
    ends = _unit_ends(rest)
    for choice in (ends, range(1, ends[0] + 1)):
        most = bisect_left(choice, True, key=lambda end: end == len(rest) or not fits(first(end)))
        if most:
            count = choice[most - 1]
            return Page(first(count), Position(start.leaf + count))
    return _cut(rest[0], start, fits, written)


def _rest(document: Json, start: Position) -> list[Leaf]:
    rest = list(leaves(document))[start.leaf :]
    if start != START and not rest:
        raise NoSuchPosition
    if start.character:
        path, text = rest[0]
        if not isinstance(text, str) or start.character >= len(text):
            raise NoSuchPosition
        rest[0] = (path, text[start.character :])
    return rest


def _cut(
    leaf: Leaf,
    start: Position,
    fits: Callable[[str], bool],
    written: Callable[[Sequence[Leaf], Position | None], str],
) -> Page:
    path, text = leaf
    if not isinstance(text, str):
        raise PageTooSmall(json_pointer(path))

    def part(length: int) -> tuple[str, Position]:
        after = Position(start.leaf, start.character + length)
        return written([(path, text[:length])], after), after

    lengths = range(1, len(text))
    most = bisect_left(lengths, True, key=lambda length: not fits(part(length)[0]))
    if most == 0:
        raise PageTooSmall(json_pointer(path))
    return Page(*part(lengths[most - 1]))


def leaves(value: Any, path: Path = ()) -> Iterator[Leaf]:
    """Yield the leaves below the root in document order: scalars and empty containers."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from leaves(below, (*path, key))
    elif isinstance(value, list) and value:
        for place, below in enumerate(value):
            yield from leaves(below, (*path, place))
    elif path:
        yield path, value


def rebuilt(head: Json, pieces: Sequence[Leaf]) -> Json:
    """Rebuild nested data from leaves, after `head`; lists contain only the given elements."""
    made: dict[Path, Any] = {(): dict(head)}

    def put(parent: Path, key: str | int, value: Any) -> None:
        if isinstance(key, int):
            made[parent].append(value)
        else:
            made[parent][key] = value

    for path, value in pieces:
        for depth in range(1, len(path)):
            if path[:depth] not in made:
                made[path[:depth]] = [] if isinstance(path[depth], int) else {}
                put(path[: depth - 1], path[depth - 1], made[path[:depth]])
        put(path[:-1], path[-1], value)
    whole: Json = made[()]
    return whole


def dump(value: Any) -> str:
    """Return compact JSON; lone surrogates become question marks."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode("utf-8")


def json_pointer(path: Path) -> str:
    """Return a path as an RFC 6901 JSON pointer."""
    return "".join(
        f"/{part}" if isinstance(part, int) else "/" + part.replace("~", "~0").replace("/", "~1")
        for part in path
    )


def _unit_ends(rest: Sequence[Leaf]) -> list[int]:
    keys = [path[: 2 if len(path) > 1 and isinstance(path[1], int) else 1] for path, _ in rest]
    return [
        place
        for place in range(1, len(keys) + 1)
        if place == len(keys) or keys[place] != keys[place - 1]
    ]


def _least_bytes(rest: Sequence[Leaf]) -> int:
    return sum(len(value.encode("utf-8", "replace")) for _, value in rest if isinstance(value, str))

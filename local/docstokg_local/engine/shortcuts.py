"""JSONata that needs no evaluator: what most expressions of a state machine are made of.

Variables and their fields, texts, `null`, `=`, `!=`, `and`, `$exists`, `[...]`, `{...}`, and
`$append` and `$merge` with them, on values where JSONata does nothing of its own: objects, plain
values, lists of texts. Anything else is left to the evaluator, which costs a question a
millisecond and a half; a test holds both to the same results.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

Values = Mapping[str, Any]
Node = Callable[[Values], Any]

MISSING = object()
"""What JSONata calls undefined."""

_TOKEN = re.compile(r"\s*(\$\w+(?:\.[A-Za-z_]\w*)*|[A-Za-z]+|'[^'\\]*'|!=|[=\[\]{}(),:])")
_PATH = re.compile(r"\$[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


class Unsure(Exception):
    """The evaluator has to say what an expression gives."""


def shortcut(code: str) -> Node | None:
    """Prepare an expression; None when it is made of anything else.

    What is given back gives a JSON value or raises `Unsure`.
    """
    marks: list[str] = []
    place = 0
    code = code.rstrip()
    while place < len(code):
        match = _TOKEN.match(code, place)
        if match is None:
            return None
        marks.append(match[1])
        place = match.end()
    try:
        reader = _Reader(marks)
        whole = reader.both()
        reader.end()
    except Unsure:
        return None
    return lambda values: _sure(whole(values))


class _Reader:
    """Reads marks from left to right; `Unsure` at the first that it does not know."""

    def __init__(self, marks: list[str]) -> None:
        self._marks = marks
        self._at = 0

    def both(self) -> Node:
        parts = [self._compared()]
        while self._skipped("and"):
            parts.append(self._compared())
        if len(parts) == 1:
            return parts[0]
        return lambda values: all(_truth(part(values)) for part in parts)

    def end(self) -> None:
        if self._at < len(self._marks):
            raise Unsure

    def _compared(self) -> Node:
        left = self._one()
        if self._skipped("="):
            right = self._one()
            return lambda values: _is_equal(left(values), right(values)) is True
        if self._skipped("!="):
            right = self._one()
            return lambda values: _is_equal(left(values), right(values)) is False
        return left

    def _one(self) -> Node:
        mark = self._taken()
        if mark == "null":
            return lambda _: None
        if mark[0] == "'":
            text = mark[1:-1]
            return lambda _: text
        if mark == "[":
            items = self._list("]")
            return lambda values: [
                text for item in items for text in _texts(item(values), one=True)
            ]
        if mark == "{":
            return self._object()
        if mark in _FUNCTIONS and self._skipped("("):
            return _FUNCTIONS[mark](self)
        if _PATH.fullmatch(mark):
            return _path(mark)
        raise Unsure

    def _list(self, end: str) -> list[Node]:
        nodes: list[Node] = []
        while not self._skipped(end):
            if nodes:
                self._expect(",")
            nodes.append(self._one())
        return nodes

    def _object(self) -> Node:
        members: dict[str, Node] = {}
        while not self._skipped("}"):
            if members:
                self._expect(",")
            name = self._taken()
            if name[0] != "'" or name[1:-1] in members:
                raise Unsure
            is_list = self._marks[self._at + 1 : self._at + 2] == ["["]
            self._expect(":")
            value = self._one()
            members[name[1:-1]] = value if is_list else _plain(value)

        def made(values: Values) -> dict[str, Any]:
            pairs = ((name, member(values)) for name, member in members.items())
            return {name: value for name, value in pairs if value is not MISSING}

        return made

    def exists(self) -> Node:
        (argument,) = self._arguments(1)
        return lambda values: argument(values) is not MISSING

    def append(self) -> Node:
        first, second = self._arguments(2)
        return lambda values: _texts(first(values)) + _texts(second(values), missing=True)

    def merge(self) -> Node:
        """Read `$merge([...])`, whose list is of objects."""
        self._expect("[")
        parts = self._list("]")
        self._expect(")")

        def merged(values: Values) -> dict[str, Any]:
            whole: dict[str, Any] = {}
            for part in parts:
                value = part(values)
                if not isinstance(value, dict):
                    raise Unsure
                whole.update(value)
            return whole

        return merged

    def _arguments(self, count: int) -> list[Node]:
        nodes = self._list(")")
        if len(nodes) != count:
            raise Unsure
        return nodes

    def _taken(self) -> str:
        if self._at == len(self._marks):
            raise Unsure
        self._at += 1
        return self._marks[self._at - 1]

    def _skipped(self, mark: str) -> bool:
        if self._marks[self._at : self._at + 1] == [mark]:
            self._at += 1
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._skipped(mark):
            raise Unsure


_FUNCTIONS: Mapping[str, Callable[[_Reader], Node]] = {
    "$exists": _Reader.exists,
    "$append": _Reader.append,
    "$merge": _Reader.merge,
}


def _path(text: str) -> Node:
    first, *fields = text[1:].split(".")

    def reached(values: Values) -> Any:
        value = values.get(first, MISSING)
        for name in fields:
            if value is MISSING:
                return MISSING
            if not isinstance(value, dict):
                raise Unsure  # a list is looked through item by item
            value = value.get(name, MISSING)
        return value

    return reached


def _plain(node: Node) -> Node:
    """Leave lists that are members of an object to the evaluator: one of one item is that item."""

    def plain(values: Values) -> Any:
        value = node(values)
        if isinstance(value, list):
            raise Unsure
        return value

    return plain


def _texts(value: Any, *, missing: bool = False, one: bool = False) -> list[str]:
    """Give a list of texts; `missing` or `one` text may stand for a list."""
    if missing and value is MISSING:
        return []
    if one and isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Unsure
    return value


def _is_equal(left: Any, right: Any) -> bool | None:
    """Compare texts, `null`, and an object with one of these; None when either is missing."""
    if left is MISSING or right is MISSING:
        return None
    kinds = {type(left), type(right)}
    if kinds - {str, dict, type(None)} or kinds == {dict}:
        raise Unsure
    return bool(left == right)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Unsure
    return value


def _sure(value: Any) -> Any:
    if value is MISSING:
        raise Unsure
    return value

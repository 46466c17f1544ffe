"""Rows of Markdown tables as sentences: `key: column value; column value`."""

import re
from collections.abc import Sequence
from typing import Final

_BORDER: Final = re.compile(r"(?<!\\)\|")
_NAMED_COLUMN: Final = 3
_EMPTY: Final = frozenset({"", "-", "\u2013", "\u2014"})


def cells(line: str) -> tuple[str, ...]:
    """Return the cells of one line of a table, without the borders around it; () for no row."""
    line = line.strip()
    if not line.startswith("|") or len(_BORDER.findall(line)) < 2:
        return ()
    inner = _BORDER.split(line)[1:]
    if not inner[-1].strip():
        inner = inner[:-1]
    return tuple(cell.replace("\\|", "|").strip() for cell in inner)


def is_rule(parts: Sequence[str]) -> bool:
    """Tell whether cells are the rule between head and rows: `|---|:--:|`."""
    return bool(parts) and all("-" in cell and not cell.strip(":- ") for cell in parts)


def header(sentence: str) -> tuple[str, ...]:
    """Return the names of the columns when a sentence is the head of a table, else ()."""
    lines = sentence.strip().split("\n")
    if len(lines) < 2 or not is_rule(cells(lines[-1])):
        return ()
    return cells(lines[-2])


def row(sentence: str, columns: Sequence[str]) -> str:
    """Write a row so that it can be read alone; "" when the sentence is no row with two values.

    With three columns or more each value stands behind its column's name, as far as `columns` are
    known; of two columns the second says what the first is.
    """
    parts = cells(sentence)
    line = sentence.strip()
    if "\n" in line or len(parts) < 2 or parts[0] in _EMPTY or is_rule(parts):
        return ""
    has_names = len(parts) >= _NAMED_COLUMN and len(columns) == len(parts)
    names = columns if has_names else ("",) * len(parts)
    values = [
        f"{name}: {value}" if name else value
        for name, value in zip(names[1:], parts[1:], strict=True)
        if value not in _EMPTY
    ]
    return f"{parts[0]}: {'; '.join(values)}" if values else ""


def readings(sentences: Sequence[str]) -> tuple[str, ...]:
    """Return every row among the sentences of a passage as `row` writes it, with its columns."""
    made: list[str] = []
    columns: tuple[str, ...] = ()
    for sentence in sentences:
        if not sentence.lstrip().startswith("|"):
            columns = ()
        elif head := header(sentence):
            columns = head
        elif written := row(sentence, columns):
            made.append(written)
    return tuple(made)

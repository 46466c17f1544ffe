"""Table header rows."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

# Maximum header rows of a table.
MOST_HEADS = 3

LONGEST_LABEL = 80

_AMOUNT = re.compile(r"[-+~<>≤≥±$€£¥(]{0,3}\s?[.,]?\d")
_PERIOD = re.compile(
    r"(?:[A-Za-z]{1,9}\.?[ -])?(?:1[5-9]|20)\d\d(?:\s?[/–-]\s?\d{2,4})?[*]?(?: \([^()]{1,20}\))?"
)
_CODE = re.compile(r"[A-Za-z]{1,3}[ -]?\d{1,4}")


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell; `text` None continues the cell above.

    `head`: it is marked as a header. `strong`: it is bold. `box`: its place on a page, as in
    `Place`.
    """

    text: str | None
    columns: int = 1
    rows: int = 1
    head: bool = False
    box: tuple[int, int, int, int] | None = None
    strong: bool = False


def header_rows(rows: Sequence[Sequence[Cell]]) -> int:
    """Return the number of header rows at the top, at most `MOST_HEADS`."""
    marked = 0
    while marked < min(len(rows), MOST_HEADS) and all(cell.head for cell in rows[marked]):
        marked += 1
    if marked or len(rows) < 2 or len(rows[0]) < 2 or any(cell.head for cell in rows[0]):
        return marked
    if len(rows) > 2 and _spans(rows[0], rows[1]) and not _amounts(_texts(rows[1])):
        return 2
    return int(_names_columns(rows[0], rows[1:]))


def begins_a_table(rows: Sequence[Sequence[Cell]]) -> bool:
    """Return whether the first row is, or looks like, a header; raise IndexError without rows."""
    first, below = rows[0], rows[1:]
    if any(cell.head for cell in first):
        return True
    if not below or not header_rows(rows):
        return False
    if all(cell.strong for cell in first if cell.text):
        return True
    return any(
        cell.text
        and _kind(cell.text) == "words"
        and all(_kind(row[at].text or "") != "words" for row in below if at < len(row))
        for at, cell in enumerate(first)
    )


def column_names(rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Join the header rows: one name per column, "" if it has none."""
    names: list[str] = []
    for row in filled_right(rows):
        names += [""] * (len(row) - len(names))
        for at, cell in enumerate(row):
            if cell.text and cell.text not in names[at]:
                names[at] = f"{names[at]} {cell.text}".strip()
    return names


def filled_right(rows: Sequence[Sequence[Cell]]) -> list[list[Cell]]:
    """Return header rows with names repeated to the right in empty cells with text below.

    The first column's name is not repeated.
    """
    filled_rows = [list(row) for row in rows]
    for row, below in pairwise(filled_rows):
        for at in range(2, len(row)):
            if not row[at].text and row[at - 1].text and at < len(below) and below[at].text:
                row[at] = replace(row[at], text=row[at - 1].text)
    return filled_rows


def _spans(first: Sequence[Cell], second: Sequence[Cell]) -> bool:
    if len(first) != len(second) or not all(cell.text for cell in second[1:]):
        return False
    grouped = filled_right((first, second))[0]
    pairs = [(above.text, cell.text) for above, cell in zip(grouped, second, strict=True)]
    joins = any(above.text and above.text == before.text for before, above in pairwise(grouped[1:]))
    return joins and all(cell.text for cell in grouped[1:]) and len(set(pairs)) == len(pairs)


def _names_columns(first: Sequence[Cell], below: Sequence[Sequence[Cell]]) -> bool:
    texts = _texts(first)
    if not all(texts[1:]) or len(set(texts)) < len(texts) or max(map(len, texts)) > LONGEST_LABEL:
        return False
    if all(cell.strong for cell in first if cell.text):
        return not all(cell.strong for cell in below[0] if cell.text)
    columns = [[row[at].text or "" for row in below if at < len(row)] for at in range(len(first))]
    figures = [(text, column) for text, column in zip(texts, columns, strict=True) if _figure(text)]
    if not figures:
        return True
    if len(first) == 2 and texts[0]:
        return False
    if _figure(texts[0]) and not _PERIOD.fullmatch(texts[0]):
        return False
    return not texts[0] or all(_differs(text, column) for text, column in figures)


def _differs(name: str, values: Sequence[str]) -> bool:
    kinds = [_kind(value) for value in values if value]
    return bool(kinds) and kinds.count(_kind(name)) * 2 < len(kinds) and _kind(name) != "amount"


def _kind(text: str) -> str:
    if _PERIOD.fullmatch(text):
        return "period"
    if _CODE.fullmatch(text):
        return "code"
    if text.isdecimal():
        return "integer"
    return "amount" if _AMOUNT.match(text) else "words"


def _figure(text: str) -> bool:
    return _kind(text) != "words" or any(character.isdigit() for character in text[:2])


def _amounts(texts: Sequence[str]) -> bool:
    return any(_kind(text) in ("amount", "integer") for text in texts[1:])


def _texts(row: Sequence[Cell]) -> list[str]:
    return [cell.text or "" for cell in row]

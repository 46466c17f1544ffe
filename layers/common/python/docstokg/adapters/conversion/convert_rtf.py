"""RTF converter."""

import re
from collections import Counter
from itertools import groupby

from striprtf.striprtf import destinations, rtf_to_text

from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.adapters.conversion.marks import (
    DELETED,
    HIDDEN,
    LEVEL,
    LOWERED,
    RAISED,
    STRUCK_OUT,
    TINY,
    UNKNOWN_BACKGROUND,
)
from docstokg.adapters.conversion.table_header import Cell
from docstokg.contracts.outline import Outline
from docstokg.errors import LoadError

# Escape of a UTF-16 unit, which is a signed number.
_CHARACTER = re.compile(r"\\u(-?\d+)")
_TOKEN = re.compile(
    r"(?:\\\*)?\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'..|\\[^a-zA-Z]|[{}]|[^\\{}]+", re.DOTALL
)
_LEFT_OUT = {"v": HIDDEN, "strike": STRUCK_OUT, "striked": STRUCK_OUT,
             "deleted": DELETED}  # fmt: skip
_WHITE = re.compile(r"\\red255\\green255\\blue255")
_SHIFTS = {"super": RAISED, "up": RAISED, "sub": LOWERED, "dn": LOWERED, "nosupersub": ""}
_CHANGES = _LEFT_OUT.keys() | _SHIFTS.keys() | {"plain", "fs", "cf"}
_COUNTED = {"annotation": "comments not read", "header": "headers or footers not read",
            "footer": "headers or footers not read", "mmath": "formulas not read",
            "moMath": "formulas not read", "formfield": "form fields not read"}  # fmt: skip
# The printed number of a paragraph and the text of a footnote are read.
_READ = {"pntext": "", "footnote": " ("}
# Separates the cells of a row.
CELL = "\x1f"
_CELL_END = re.compile(r"\\cell(?![a-z]) ?")
_PARAGRAPH = re.compile(r"\\par(?![a-z]) ?")
_UNKNOWN = r"\u65533"


def convert(raw: bytes) -> tuple[Outline, ...]:
    """Return an RTF document's paragraphs as one outline; raise `LoadError` for other files."""
    if not raw.lstrip().startswith(b"{\\rtf"):
        raise LoadError("not an RTF file")
    maker = TextMaker()
    # Non-ASCII bytes are escapes in the encoding that the file declares.
    text = _CHARACTER.sub(_unit, raw.decode("latin-1"))
    text = _visible(_with_cells(text), maker.left_out)
    lines = rtf_to_text(text, errors="replace").split("\n")
    for is_table, group in groupby(lines, lambda line: CELL in line):
        texts = list(group)
        if is_table:
            rows = (line.rpartition(CELL)[0].split(CELL) for line in texts)
            maker.table([Cell(one_line(cell)) for cell in row] for row in rows)
        for line in () if is_table else texts:
            maker.add("text", one_line(line))
    return (maker.outline(),)


def _with_cells(text: str) -> str:
    """Replace the ends of cells by `CELL`, and paragraph ends inside a table row by spaces."""
    parts: list[str] = []
    for part in text.split("\\trowd"):
        row, end, following = part.partition("\\row") if parts else ("", "", part)
        parts.append(_PARAGRAPH.sub(" ", row) + end + following)
    return _CELL_END.sub(CELL, "\\trowd".join(parts))


def _visible(text: str, left_out: Counter[str]) -> str:
    parts: list[str] = []
    stack: list[dict[str, str]] = []
    state: dict[str, str] = {}
    shift = before = ""
    colours = text[text.find("{\\colortbl") :].partition("}")[0].split(";")
    white = {str(at) for at, colour in enumerate(colours) if _WHITE.search(colour)}
    for token in _TOKEN.finditer(text):
        word = token[1] or token[0]
        if word == "{":
            stack.append(state)
            state = {**state, "end": ""}
        elif word == "}":
            parts.append(state.get("end", ""))
            state = stack.pop() if stack else {}
        elif word in _READ:
            parts.append(_READ[word])
            state = {"end": ")", "note": "yes"} if word == "footnote" else {}
            continue
        elif word in destinations or token[0].startswith("\\*"):
            left_out[_COUNTED.get(word, "")] += 1
            state = {"unread": "yes"}
        elif token[1] and word != "u":
            state = _changed(state, word, token[2] or "", white)
        elif "unread" not in state and word.strip():
            kind = state.get("kind", "")
            left_out[kind] += kind != before
            before = kind
            if kind and kind != UNKNOWN_BACKGROUND:
                continue
            if state.get("shift", "") != shift:
                parts.append(LEVEL * bool(shift) + state.get("shift", ""))
                shift = state.get("shift", "")
        parts.append(" " if word == "par" and "note" in state else token[0])
    return "".join(parts)


def _changed(state: dict[str, str], word: str, value: str, white: set[str]) -> dict[str, str]:
    if word not in _CHANGES:
        return state
    if word == "plain":
        return {key: setting for key, setting in state.items() if key in ("unread", "end", "note")}
    kind = _LEFT_OUT.get(word, "")
    if word == "fs" and value.isdecimal() and int(value) < 4:
        kind = TINY
    elif word == "cf" and value in white:
        kind = UNKNOWN_BACKGROUND
    if kind or word in ("fs", "cf"):
        return {**state, "kind": kind if value != "0" else ""}
    return {**state, "shift": _SHIFTS[word] if value != "0" else ""}


def _unit(escape: re.Match[str]) -> str:
    number = escape[1]
    is_unit = len(number) <= 6 and -0x8000 <= int(number) <= 0xFFFF
    return escape[0] if is_unit else _UNKNOWN

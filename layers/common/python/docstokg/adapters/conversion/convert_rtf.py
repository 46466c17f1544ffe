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
_LEFT_OUT = {"v": HIDDEN, "strike": STRUCK_OUT, "striked": STRUCK_OUT,
             "deleted": DELETED}  # fmt: skip
_WHITE = re.compile(r"\\red255\\green255\\blue255")
_SHIFTS = {"super": RAISED, "up": RAISED, "sub": LOWERED, "dn": LOWERED, "nosupersub": ""}
_CHANGES = _LEFT_OUT.keys() | _SHIFTS.keys() | {"plain", "fs", "cf"}
_COUNTED = {"annotation": "comments not read", "header": "headers or footers not read",
            "footer": "headers or footers not read", "mmath": "formulas not read",
            "moMath": "formulas not read", "formfield": "form fields not read"}  # fmt: skip
# Borders of a footnote.
NOTE, NOTE_END = "\x1d", "\x1e"
_NOTE_BORDER = re.compile(f"{NOTE} *|(?<! ) *{NOTE_END}")
# The printed number of a paragraph and the text of a footnote are read.
_READ = {"pntext": "", "footnote": NOTE}
# Unread destinations that striprtf needs.
_NEEDED = ("", "fonttbl", "fldinst")
_WORDS = rf"(?:{'|'.join(_CHANGES | _READ.keys())})(?![a-zA-Z])"
# A brace, a control word that changes the state or begins a group, or a run of other text.
_TOKEN = re.compile(
    rf"[{{}}]|(?:\\\*|(?<={{)(?!\\u-?\d)|(?=\\{_WORDS}))\\([a-zA-Z]{{1,32}})(-?\d{{1,10}})? ?"
    rf"|(?:[^\\{{}}]++|\\(?!\*|{_WORDS})(?:[a-zA-Z]++|.))++|\\\*",
    re.DOTALL,
)
# striprtf matches each character, so a long text passes it as one character of a private plane.
_LONG_TEXT = re.compile(
    r"(?:\\(?:[a-zA-Z]++(?:-?\d++)?+ ?+|.))++|([^\\{}\r\n]{4})([^\\{}\r\n]{8,}+)", re.DOTALL
)
# Up to four characters after a Unicode escape are its replacement; a file may have characters of
# that plane, escaped as bytes of UTF-8.
_LONG_SKIP = re.compile(r"\\uc(?:[5-9]|\d\d)|\\'f3\s*\\'b", re.IGNORECASE)
_PLANE = 0xF0000
_PASSED = re.compile("[\U000f0000-\U000fffff]")
_CONTROL = re.compile(r"\\(?!u-?\d)[a-zA-Z]+(?:-?\d+)? ?")
# Separates the cells of a row.
CELL = "\x1f"
_CELL_END = re.compile(r"\\cell(?![a-z]) ?")
_PARAGRAPH = re.compile(r"\\par(?![a-z]) ?")
_UNKNOWN = r"\u65533"


def convert(raw: bytes) -> Outline:
    """Return an RTF document's paragraphs as one outline; raise `LoadError` for other files."""
    if not raw.lstrip().startswith(b"{\\rtf"):
        raise LoadError("not an RTF file")
    maker = TextMaker()
    # Non-ASCII bytes are escapes in the encoding that the file declares.
    text = _CHARACTER.sub(_unit, raw.decode("latin-1"))
    texts: list[str] = []
    text = _visible(_with_cells(text), maker.left_out, texts)
    plain = rtf_to_text(text, errors="replace")
    if texts:
        plain = _PASSED.sub(lambda passed: texts[ord(passed[0]) - _PLANE], plain)
    lines = _NOTE_BORDER.sub(lambda m: " (" if NOTE in m[0] else ")", plain).split("\n")
    for is_table, group in groupby(lines, lambda line: CELL in line):
        if is_table:
            rows = (line.rpartition(CELL)[0].split(CELL) for line in group)
            maker.table([Cell(one_line(cell)) for cell in row] for row in rows)
        for line in () if is_table else group:
            maker.add("text", one_line(line))
    return maker.outline()


def _with_cells(text: str) -> str:
    """Replace the ends of cells by `CELL`, and paragraph ends inside a table row by spaces."""
    parts: list[str] = []
    for part in text.split("\\trowd"):
        row, end, following = part.partition("\\row") if parts else ("", "", part)
        parts.append(_PARAGRAPH.sub(" ", row) + end + following)
    return _CELL_END.sub(CELL, "\\trowd".join(parts))


def _visible(  # noqa: C901 - one branch a kind of token
    text: str, left_out: Counter[str], texts: list[str]
) -> str:
    def passed(long: re.Match[str]) -> str:
        if not long[2] or len(texts) > 0xFFFF:
            return long[0]
        texts.append(long[2])
        return f"{long[1]}{chr(_PLANE + len(texts) - 1)}"

    parts: list[str] = []
    stack: list[dict[str, str]] = []
    state: dict[str, str] = {}
    shift = before = ""
    may_pass = _LONG_SKIP.search(text) is None
    colours = text[text.find("{\\colortbl") :].partition("}")[0].split(";")
    white = {str(at) for at, colour in enumerate(colours) if _WHITE.search(colour)}
    for token in _TOKEN.finditer(text):
        piece, word = token[0], token[1] or ""
        if piece == "{":
            stack.append(state)
            state = {**state, "end": ""} if "end" in state else state
        elif piece == "}":
            parts.append(state.get("end", ""))
            state = stack.pop() if stack else {}
        elif word in _READ:
            parts.append(_READ[word])
            state = {"end": NOTE_END, "note": "yes"} if word == "footnote" else {}
            continue
        elif word in destinations or piece.startswith("\\*"):
            left_out[_COUNTED.get(word, "")] += 1
            state = {"unread": word or "*"}
        elif word in _CHANGES:
            state = _changed(state, word, token[2] or "", white)
        elif state.get("unread", "") not in _NEEDED:
            continue
        elif not word and "unread" not in state:
            kind, place = state.get("kind", ""), state.get("shift", "")
            if (kind or before or place != shift) and _CONTROL.sub("", piece).strip():
                left_out[kind] += kind != before
                before = kind
                if kind and kind != UNKNOWN_BACKGROUND:
                    piece = "".join(_CONTROL.findall(piece))
                elif place != shift:
                    parts.append(LEVEL * bool(shift) + place)
                    shift = place
            piece = _LONG_TEXT.sub(passed, piece) if may_pass else piece
        parts.append(_PARAGRAPH.sub(" ", piece) if "note" in state else piece)
    return "".join(parts)


def _changed(state: dict[str, str], word: str, value: str, white: set[str]) -> dict[str, str]:
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

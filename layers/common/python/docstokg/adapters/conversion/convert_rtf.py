"""RTF converter."""

import re
from collections import Counter

from striprtf.striprtf import destinations, rtf_to_text

from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.adapters.conversion.marks import DELETED, HIDDEN, LEVEL, LOWERED, RAISED, STRUCK_OUT
from docstokg.contracts.outline import Outline
from docstokg.errors import LoadError

# Escape of a UTF-16 unit, which is a signed number.
_CHARACTER = re.compile(r"\\u(-?\d+)")
_TOKEN = re.compile(r"\\([a-z]{1,32})(-?\d{1,10})? ?|\\'..|\\[^a-z]|[{}]|[^\\{}]+", re.DOTALL)
_LEFT_OUT = {"v": HIDDEN, "strike": STRUCK_OUT, "striked": STRUCK_OUT,
             "deleted": DELETED}  # fmt: skip
_SHIFTS = {"super": RAISED, "up": RAISED, "sub": LOWERED, "dn": LOWERED, "nosupersub": ""}
_COUNTED = {"annotation": "comments not read", "header": "headers or footers not read",
            "footer": "headers or footers not read"}  # fmt: skip
# The printed number of a paragraph and the text of a footnote are read.
_READ = {"pntext": "", "footnote": " ("}
_UNKNOWN = r"\u65533"


def convert(raw: bytes) -> tuple[Outline, ...]:
    """Return an RTF document's paragraphs as one outline; raise `LoadError` for other files."""
    if not raw.lstrip().startswith(b"{\\rtf"):
        raise LoadError("not an RTF file")
    maker = TextMaker()
    # Non-ASCII bytes are escapes in the encoding that the file declares.
    text = _CHARACTER.sub(_unit, raw.decode("latin-1"))
    text = _visible(text, maker.left_out)
    for line in rtf_to_text(text, errors="replace").split("\n"):
        maker.add("text", one_line(line.removesuffix("|").replace("|", " | ")))
    return (maker.outline(),)


def _visible(text: str, left_out: Counter[str]) -> str:  # noqa: C901 - one branch per control word
    parts: list[str] = []
    stack: list[dict[str, str]] = []
    state: dict[str, str] = {}
    shift = before = ""
    for token in _TOKEN.finditer(text):
        word, is_on = token[1], token[2] != "0"
        if token[0] == "{":
            stack.append(state)
            state = {key: value for key, value in state.items() if key != "end"}
        elif token[0] == "}":
            parts.append(state.get("end", ""))
            state = stack.pop() if stack else {}
        elif word in _LEFT_OUT:
            state = {**state, word: _LEFT_OUT[word] if is_on else ""}
        elif word in _SHIFTS:
            state = {**state, "shift": _SHIFTS[word] if is_on else ""}
        elif word in _READ:
            parts.append(_READ[word])
            state = {"end": ")" if word == "footnote" else ""}
            continue
        elif word == "plain":
            state = {key: value for key, value in state.items() if key in ("unread", "end")}
        elif word in destinations or token[0] == "\\*":
            left_out[_COUNTED.get(word, "")] += 1
            state = {"unread": "yes"}
        elif (not word or word == "u") and "unread" not in state and token[0].strip():
            kind = next(filter(None, (state.get(name, "") for name in _LEFT_OUT)), "")
            left_out[kind] += bool(kind) and kind != before
            before = kind
            if kind:
                continue
            if state.get("shift", "") != shift:
                parts.append(LEVEL * bool(shift) + state.get("shift", ""))
                shift = state.get("shift", "")
        parts.append(token[0])
    return "".join(parts)


def _unit(escape: re.Match[str]) -> str:
    number = escape[1]
    is_unit = len(number) <= 6 and -0x8000 <= int(number) <= 0xFFFF
    return escape[0] if is_unit else _UNKNOWN

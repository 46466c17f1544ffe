"""Text whose meaning is in its formatting: raised, lowered and numbered text, formulas."""

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from xml.etree.ElementTree import Element

from docstokg.domain.text.words import is_visible

# Control characters that enclose raised and lowered text until `render`.
RAISED, LOWERED, LEVEL = "\3", "\4", "\5"

# Kinds of notes that several formats have.
STRUCK_OUT = "struck-out texts not read"
HIDDEN = "hidden texts not read"
SAME_COLOUR = "texts in the colour of their background not read"
TINY = "texts below 2 points not read"
DELETED = "deleted texts not read"
UNKNOWN_BACKGROUND = "white texts on an unknown background, read"

WHITE = "FFFFFF"
_OFF = frozenset(("", "none", "0", "false", "off", "noStrike"))
_STRIKES = frozenset(("strike", "dstrike", "text-line-through-style", "text-line-through-type"))
_SIZE = re.compile(r"(\d{1,6}(?:\.\d+)?)(?:pt)?")
_LEVEL_SIZES = frozenset(("", "normal", "baseline"))
# Properties of text that change what a reader sees.
LOOKS = _STRIKES.union(
    ("vanish", "display", "visibility", "sz", "font-size", "color", "background-color"),
    ("vertAlign", "baseline", "text-position"),
)

# Raised or lowered texts above this length are prose.
LONGEST_SHIFT = 12
DEEPEST_SHIFT = 9

_BORDER = re.compile(f"([{RAISED}{LOWERED}{LEVEL}])")
SIGNS = "0123456789+-−=()"
_FORMS = {RAISED: ("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾", "^"), LOWERED: ("₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎", "_")}
_TYPED_POWER = re.compile(rf"(?<=\d)[{_FORMS[RAISED][0]}]+")
_TYPED_SIGNS = str.maketrans(_FORMS[RAISED][0], SIGNS.replace("−", "-"))
_ENDING = re.compile(r"st|nd|rd|th|ers?|res?|nde?|[eè]me|ère|tm|sm|[™®©℠]", re.IGNORECASE)
_SHORT_ENDING = re.compile(r"[\dIVX][eaoºª]|[nN][oº]")
_NUMBER_BEFORE = re.compile(r"[0-9)\]}][.,;:]?\Z")
_SIMPLE = re.compile(r"[-−]?[\w.,∞′]*|\([^()]*\)")
_DIGIT_MARKER = re.compile(r"\d{1,3}[.)]")
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"),
          (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip
_SCRIPTS = dict.fromkeys(("sSup", "msup", "mover", "limUpp"), "^") | dict.fromkeys(
    ("sSub", "msub", "munder", "limLow"), "_"
)
_SUMS = frozenset("∑∏∫∮⋃⋂")
_SEPARATORS = {"mr": ", ", "mtr": ", ", "m": "; ", "mtable": "; ", "eqArr": "; ", "func": " "}


class Words:
    """Marks text by its properties; hidden text is skipped and counted in `left_out`.

    `smallest`: minimum text size in the file's units. `background`: colour behind the text (RGB,
    capitals), "" if unknown.
    """

    def __init__(self, left_out: Counter[str], smallest: int = 2, background: str = WHITE) -> None:
        self.left_out, self.background, self._smallest = left_out, background, smallest

    def marked(self, text: str, look: Mapping[str, str]) -> str:
        """Return a text with marks if raised or lowered, "" if hidden."""
        if not look:
            return text
        background = look.get("background-color", self.background)
        kind = hidden_kind(look, background, self._smallest)
        if not kind and not background and look.get("color") == WHITE:
            kind = UNKNOWN_BACKGROUND
        place = look.get("vertAlign") or look.get("baseline") or look.get("text-position") or "0"
        place = place.partition(" ")[0]
        is_level = place.strip("0%") in _LEVEL_SIZES
        if (is_level and not kind) or not is_visible(text):
            return text
        if kind:
            self.left_out[kind] += 1
            if kind != UNKNOWN_BACKGROUND:
                return ""
        if is_level:
            return text
        return f"{LOWERED if place.startswith(('sub', '-')) else RAISED}{text}{LEVEL}"


def hidden_kind(look: Mapping[str, str], background: str, smallest: int) -> str:
    """Return the note's kind for text that its properties hide on a background, or ""."""
    if look.get("vanish", "off") not in _OFF or look.get("display") == "none":
        return HIDDEN
    if not _OFF.issuperset([look.get(name, "") for name in _STRIKES]):
        return STRUCK_OUT
    if _points(look.get("sz") or look.get("font-size", "")) < smallest:
        return TINY
    return SAME_COLOUR if background and look.get("color") == background else ""


@lru_cache(1_000)
def _points(text: str) -> float:
    size = _SIZE.fullmatch(text)
    return float("inf") if size is None else float(size[1])


def render(text: str) -> str:
    """Return a text with its raised and lowered parts written out.

    `10^6` and `(a+b)^2` after digits and brackets, because NFKC reads a Unicode exponent as `106`;
    else Unicode (`m²`, `CO₂`), or `e^x` and `x_max`. Ordinal endings and trade marks stay plain.
    """
    if _BORDER.search(text):
        levels: list[tuple[str, list[str]]] = [("", [])]
        # A line may end before its mark.
        for piece in filter(None, _BORDER.split(text + LEVEL * DEEPEST_SHIFT)):
            if piece in _FORMS:
                levels.append((piece, []))
            elif piece != LEVEL:
                levels[-1][1].append(piece)
            elif len(levels) > 1:
                shift, parts = levels.pop()
                outer = levels[-1][1]
                outer.append(_shifted(shift, "".join(parts), "".join(outer[-2:])[-2:]))
        text = "".join(part for _, parts in levels for part in parts)
    if text.isascii():
        return text
    return _TYPED_POWER.sub(lambda power: f"^{power[0].translate(_TYPED_SIGNS)}", text)


def _shifted(shift: str, text: str, before: str) -> str:
    words, (forms, sign) = text.strip(), _FORMS[shift]
    if len(words) > LONGEST_SHIFT:
        return f" {words} "
    if _ENDING.fullmatch(words) or _SHORT_ENDING.fullmatch(before[-1:] + words):
        return text
    follows_number = _NUMBER_BEFORE.search(before) if shift == RAISED else before[-1:].isdecimal()
    if not follows_number and all(character in SIGNS for character in words):
        return words.translate(str.maketrans(SIGNS, forms))
    return sign + grouped(words) if before.strip() else text


def grouped(text: str) -> str:
    """Return a part of a formula, in brackets unless it is a word, number or bracket."""
    return text if _SIMPLE.fullmatch(text) else f"({text})"


def numeral(number: int, style: str) -> str:
    """Write a number in the style `1`, `a`, `A`, `i` or `I`; beyond 1 to 3999 in digits."""
    kind, letters = style.lower(), ""
    if not 0 < number < 4000 or kind not in ("a", "i"):
        return str(number)
    if kind == "a":
        while number:
            number, letter = divmod(number - 1, 26)
            letters = chr(ord("a") + letter) + letters
    else:
        for value, sign in _ROMAN:
            letters += sign * (number // value)
            number %= value
    return letters.upper() if style.isupper() else letters


def list_line(marker: str, words: str, indent: str = "") -> str:
    """Return a list line; the line of a marker such as `b)` or `2.2` begins with a dash."""
    dash = "" if marker == "-" or _DIGIT_MARKER.fullmatch(marker) else "- "
    return f"{indent}{dash}{marker} {words}"


def linear(element: Element) -> str:
    """Return an Office or MathML formula in one line, as `(a+b)/2`, `x^2`, `√(n+1)`."""
    tag = element.tag
    if tag in ("annotation", "annotation-xml"):
        return ""
    parts = [linear(part) for part in element if not part.tag.endswith("Pr")]
    first, second, third = (*parts, "", "", "")[:3]
    if tag in ("f", "mfrac"):
        return f"{grouped(first)}/{grouped(second)}"
    if tag in _SCRIPTS:
        return f"{first}{_SCRIPTS[tag]}{grouped(second)}"
    if tag in ("sSubSup", "msubsup", "munderover"):
        between = " " if first in _SUMS else ""
        return f"{first}_{grouped(second)}^{grouped(third)}{between}"
    if tag == "nary":
        limits = [f"{s}{grouped(part)}" for s, part in zip("_^", parts, strict=False) if part]
        return f"{_character(element, 'chr', '∫')}{''.join(limits)} {third}"
    if tag in ("rad", "mroot"):
        index, base = (first, second) if tag == "rad" else (second, first)
        return f"{render(f'{RAISED}{index}{LEVEL}')}√{grouped(base)}"
    if tag == "msqrt":
        return f"√{grouped(''.join(parts))}"
    if tag == "d":
        inner = _character(element, "sepChr", "|").join(parts)
        return f"{_character(element, 'begChr', '(')}{inner}{_character(element, 'endChr', ')')}"
    text = (element.text or "") if tag == "t" else (element.text or "").strip()
    return text + _SEPARATORS.get(tag, "").join(parts)


def _character(element: Element, name: str, default: str) -> str:
    holder = element.find(f"{element.tag}Pr/{name}")
    return default if holder is None else holder.get("val", default)

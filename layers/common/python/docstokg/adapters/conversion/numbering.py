"""Automatic numbers of headings, clauses and list items."""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple
from xml.etree.ElementTree import Element

from docstokg.adapters.conversion.marks import numeral
from docstokg.adapters.conversion.package import MISSING, part_of

# Number formats of Word and PowerPoint as styles of `numeral`.
STYLES = {"bullet": "", "none": "", "": "", "lowerLetter": "a", "upperLetter": "A",
          "lowerRoman": "i", "upperRoman": "I", "alphaLc": "a", "alphaUc": "A", "romanLc": "i",
          "romanUc": "I"}  # fmt: skip
_PLACE = re.compile(r"%(\d{1,2})")
DEEPEST = 9


class Level(NamedTuple):
    """A level of a list.

    `style`: as in `numeral`, "" for a bullet. `text`: with `%2` for the number of level 2. `start`:
    first number. `is_legal`: all numbers in digits. `restarts`: after an item of a higher level.
    `paragraphs`: the paragraph style at this level.
    """

    style: str
    text: str
    start: int = 1
    is_legal: bool = False
    restarts: bool = True
    paragraphs: str = ""


def printed(levels: Mapping[int, Level], level: int, counts: Mapping[int, int]) -> str:
    """Return the printed number of an item, "-" for a bullet; `counts`: numbers by level."""
    form = levels.get(level)
    if form is None or not form.style:
        return "-"

    def number(place: re.Match[str]) -> str:
        at = int(place[1])
        style = levels[at].style if at in levels and not form.is_legal else "1"
        return numeral(counts.get(at, 1), style)

    return _PLACE.sub(number, form.text).strip() or "-"


class Numbering:
    """Counts numbered paragraphs in document order (`numbering.xml`, ECMA-376 17.9).

    `styles`: the document's styles by id.
    """

    def __init__(self, numbering: Element, styles: Element) -> None:
        self.styles = {style.get("styleId", ""): style for style in styles.iter("style")}
        abstract = {
            kind.get("abstractNumId", ""): _levels(kind) for kind in numbering.iter("abstractNum")
        }
        self._lists: dict[str, tuple[str, dict[int, Level], dict[int, int]]] = {}
        for num in numbering.iter("num"):
            kind = value_of(num, "abstractNumId")
            levels, restarts = dict(abstract.get(kind, {})), dict[int, int]()
            for override in num.iter("lvlOverride"):
                levels |= _levels(override)
                if (start := value_of(override, "startOverride")).isdecimal():
                    restarts[integer(override.get("ilvl"), 0) + 1] = int(start)
            self._lists[num.get("numId", "")] = kind, levels, restarts
        self._counts: dict[str, dict[int, int]] = defaultdict(dict)
        self._places: dict[str, tuple[str, str]] = {"": ("", "")}

    def marker(self, properties: Element) -> str | None:
        """Count a paragraph; return its printed number, "-" for a bullet, None without a list."""
        style = value_of(properties, "pStyle")
        number, place = self._place(properties, style)
        if number in ("", "0"):
            return None
        kind, levels, restarts = self._lists.get(number, ("", {}, {}))
        linked = (at for at, form in levels.items() if style and form.paragraphs == style)
        level = min(integer(place, 0) + 1 if place else next(linked, 1), DEEPEST)
        counts = self._counts[kind]
        if level in restarts:
            counts[level] = restarts.pop(level)
        elif level in counts:
            counts[level] += 1
        for at in range(1, level + 1):
            counts.setdefault(at, levels[at].start if at in levels else 1)
        for deeper in range(level + 1, DEEPEST + 1):
            if deeper not in levels or levels[deeper].restarts:
                counts.pop(deeper, None)
        return printed(levels, level, counts)

    def _place(self, properties: Element, style: str) -> tuple[str, str]:
        holder = part_of(properties, "numPr")
        number, level = value_of(holder, "numId"), value_of(holder, "ilvl")
        if style not in self._places:
            self._places[style] = "", ""  # a style may be based on itself
            based = self.styles.get(style, MISSING)
            self._places[style] = self._place(part_of(based, "pPr"), value_of(based, "basedOn"))
        above = self._places[style]
        return number or above[0], level or above[1]


def _levels(holder: Element) -> dict[int, Level]:
    return {
        integer(level.get("ilvl"), 0) + 1: Level(
            STYLES.get(value_of(level, "numFmt"), "1"),
            value_of(level, "lvlText"),
            integer(value_of(level, "start")),
            level.find("isLgl") is not None,
            value_of(level, "lvlRestart") != "0",
            value_of(level, "pStyle"),
        )
        for level in holder.iter("lvl")
    }


def value_of(element: Element, tag: str) -> str:
    """Return the `val` of an element's part, "" if missing."""
    return part_of(element, tag).get("val", "")


def integer(text: str | None, default: int = 1) -> int:
    """Return a number of at most six digits, or the default."""
    digits = (text or "")[:6]
    return int(digits) if digits.isdecimal() else default

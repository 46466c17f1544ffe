"""Automatic numbers of Word paragraphs."""

import re
from collections import defaultdict
from xml.etree.ElementTree import Element

from docstokg.adapters.conversion.marks import numeral

_FORMATS = {"lowerLetter": "a", "upperLetter": "A", "lowerRoman": "i", "upperRoman": "I"}
_PLACE = re.compile(r"%([1-9])")
DEEPEST = 9


class Numbering:
    """Counts numbered paragraphs in document order (`numbering.xml`, ECMA-376 17.9).

    `styles`: the document's styles by id.
    """

    def __init__(self, numbering: Element, styles: Element) -> None:
        self._abstract = {
            kind.get("abstractNumId", ""): {level.get("ilvl", "0"): level for level in kind}
            for kind in numbering.findall("abstractNum")
        }
        self._lists: dict[str, tuple[str, dict[str, Element]]] = {}
        for num in numbering.findall("num"):
            overrides = {level.get("ilvl", "0"): level for level in num.findall("lvlOverride")}
            self._lists[num.get("numId", "")] = value_of(num, "abstractNumId"), overrides
        self.styles = {style.get("styleId", ""): style for style in styles.iter("style")}
        self._counts: dict[str, dict[int, int]] = defaultdict(dict)
        self._restarted: set[tuple[str, int]] = set()

    def marker(self, properties: Element | None) -> str | None:
        """Count a paragraph; return its printed number, "-" for a bullet, None without a list."""
        number, level = self._place(properties)
        kind, overrides = self._lists.get(number, ("", {}))
        if not number or number == "0":
            return None
        counts = self._counts[kind]
        levels = [self._level(kind, overrides, at) for at in range(level + 1)]
        start = value_of(overrides.get(str(level)), "startOverride")
        if start.isdecimal() and (number, level) not in self._restarted:
            self._restarted.add((number, level))
            counts[level] = int(start)
        elif level in counts:
            counts[level] += 1
        for at, each in enumerate(levels):
            if at not in counts:
                first = value_of(each, "start")
                counts[at] = int(first) if first.isdecimal() else 1
        for deeper in range(level + 1, DEEPEST):
            if value_of(self._level(kind, overrides, deeper), "lvlRestart") != "0":
                counts.pop(deeper, None)
        last = levels[-1]
        form = value_of(last, "numFmt")
        if last is None or form in ("bullet", "none", ""):
            return "-"
        legal = last.find("isLgl") is not None

        def printed(place: re.Match[str]) -> str:
            at = int(place[1]) - 1
            style = _FORMATS.get(value_of(levels[at], "numFmt"), "1") if at <= level else "1"
            return numeral(counts.get(at, 1), "1" if legal else style)

        return _PLACE.sub(printed, value_of(last, "lvlText")).strip() or "-"

    def _level(self, kind: str, overrides: dict[str, Element], level: int) -> Element | None:
        override = overrides.get(str(level))
        replacement = override.find("lvl") if override is not None else None
        return (
            replacement if replacement is not None else self._abstract.get(kind, {}).get(str(level))
        )

    def _place(self, properties: Element | None) -> tuple[str, int]:
        number = level = ""
        name = style = value_of(properties, "pStyle")
        steps = 0
        while properties is not None and steps <= DEEPEST:
            holder = properties.find("numPr")
            number, level = number or value_of(holder, "numId"), level or value_of(holder, "ilvl")
            style_element = self.styles.get(style)
            properties = style_element.find("pPr") if style_element is not None else None
            style, steps = value_of(style_element, "basedOn"), steps + 1
        if not level:
            levels = self._abstract.get(self._lists.get(number, ("", {}))[0], {})
            linked = (at for at, each in levels.items() if value_of(each, "pStyle") == name)
            level = next(linked, "0")
        return number, min(int(level), DEEPEST - 1) if level.isdecimal() else 0


def value_of(element: Element | None, tag: str) -> str:
    """Return the `val` of an element's part, "" if missing."""
    part = element.find(tag) if element is not None else None
    return part.get("val", "") if part is not None else ""

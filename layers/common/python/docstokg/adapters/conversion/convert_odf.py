"""OpenDocument converter."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from xml.etree.ElementTree import Element

from docstokg.adapters.conversion.convert_lines import TextMaker, filled, one_line
from docstokg.adapters.conversion.convert_sheets import write_sheet
from docstokg.adapters.conversion.marks import (
    DELETED,
    HIDDEN,
    LOOKS,
    WHITE,
    Words,
    linear,
    list_line,
)
from docstokg.adapters.conversion.numbering import DEEPEST, Level, integer, printed
from docstokg.adapters.conversion.package import MISSING, Package
from docstokg.adapters.conversion.table_header import Cell
from docstokg.contracts.outline import Outline

# Maximum copies of a repeated row or cell.
MOST_REPEATED = 1_000

_NO_WORDS = frozenset(("annotation", "note", "tracked-changes", "bookmark"))
_SPACES = frozenset(("s", "tab", "line-break"))
_COLLAPSED = ("collapse", "filter")
_COLOURS = {"color", "background-color"}
_FAMILIES = {"span": "text", "p": "paragraph", "h": "paragraph"}
_COUNTED = {"annotation": "comments not read", "checkbox": "form fields not read",
            "deletion": DELETED}  # fmt: skip


def convert(raw: bytes) -> Outline:
    """Return one outline of a text, presentation or spreadsheet.

    Raises `LoadError` for an unreadable file.
    """
    package = Package(raw, "OpenDocument file")
    content = package.tree("content.xml")
    reader = _Reader(package, content)
    body = next(content.iter("body"), MISSING)
    for part in body:
        reader.background = WHITE if part.tag == "text" else ""
        reader.walk(part, part.tag == "spreadsheet")
    for tag, kind in _COUNTED.items():
        reader.maker.left_out[kind] += len(list(body.iter(tag)))
    return reader.maker.outline(package.title("meta.xml"))


class _Reader(Words):
    """Writes parts with the numbers and without the hidden text of their styles."""

    def __init__(self, package: Package, content: Element) -> None:
        self.maker = TextMaker()
        super().__init__(self.maker.left_out)
        self._package = package
        self._styles = {
            (style.get("family", style.tag), style.get("name", "")): style
            for tree in (package.optional("styles.xml"), content)
            for holder in tree
            if holder.tag in ("styles", "automatic-styles")
            for style in holder
        }
        self._looks: dict[tuple[str, str], dict[str, str]] = {}
        self._outline = _levels(self._styles.get(("outline-style", "Outline"), MISSING))
        self._headings: dict[int, int] = {}
        self._lists: dict[str, int] = {}
        self._levels: dict[str, dict[int, Level]] = {}

    def walk(  # noqa: C901 - one branch a kind of part
        self, parts: Iterable[Element], sheets: bool = False
    ) -> None:
        caption = ""
        for number, (part, following) in enumerate(pairwise([*parts, MISSING]), 1):
            if part.tag == "page":
                self.maker.page(part.get("name") or str(number))
            if kind := self._hidden_part(part):
                self.maker.left_out[kind] += 1
            elif part.tag == "h":
                self._heading(part)
            elif part.tag == "p" and self._is_caption(part, following):
                caption = self._words(part)
            elif part.tag in ("p", "object"):
                self.maker.add("text", self._words(part))
            elif part.tag == "list" and next(part.iter("h"), None) is None:
                self.maker.add("list", "\n".join(self._items(part, "", 1, {})))
            elif part.tag == "table" and sheets:
                write_sheet(self.maker, part.get("name", ""), enumerate(self._sheet(part), 1))
            elif part.tag == "table":
                self.maker.table(self._rows(part), name=caption)
                caption = ""
            elif part.tag not in _NO_WORDS:
                self.walk(part)
            self.walk(_notes(part))

    def _is_caption(self, part: Element, following: Element) -> bool:
        if following.tag != "table" or self._hidden_part(following):
            return False
        name, steps = part.get("style-name", ""), 0
        while not name.lower().endswith("caption") and steps < DEEPEST:
            style = self._styles.get(("paragraph", name), MISSING)
            name, steps = style.get("parent-style-name", ""), steps + 1
        return name.lower().endswith("caption")

    def _hidden_part(self, part: Element) -> str:
        if part.get("display") == "none":
            return HIDDEN
        name = part.get("style-name", "")
        if part.tag == "page" and self._look("drawing-page", name).get("visibility") == "hidden":
            return "hidden slides not read"
        is_shown = part.tag != "table" or self._look("table", name).get("display") != "false"
        return "" if is_shown else "hidden sheets not read"

    def _look(self, family: str, name: str) -> dict[str, str]:
        look = self._looks.get((family, name))
        if look is None:
            look = self._looks[family, name] = {}  # a style may be based on itself
            style = self._styles.get((family, name), MISSING)
            if style is not MISSING:
                look |= self._look(family, style.get("parent-style-name", ""))
            for properties in style:
                for key in LOOKS.intersection(properties.keys()):
                    look[key] = properties.attrib[key]
            for key in _COLOURS & look.keys():
                look[key] = look[key].removeprefix("#").upper()
            if look.get("background-color") == "TRANSPARENT":
                del look["background-color"]
        return look

    def _heading(self, part: Element) -> None:
        level = integer(part.get("outline-level"))
        form = self._outline.get(level)
        marker = ""
        if form and form.style and part.get("is-list-header") != "true":
            count = self._headings.get(level, form.start - 1) + 1
            self._headings = {at: n for at, n in self._headings.items() if at < level}
            self._headings[level] = count
            marker = printed(self._outline, level, self._headings)
        self.maker.heading(f"{marker} {self._words(part)}".strip(), level)

    def _sheet(self, table: Element) -> Iterator[list[str]]:
        hidden, at = set[int](), 0
        for column in table.iter("table-column"):
            times = _times(column, "number-columns-repeated")
            if column.get("visibility") in _COLLAPSED:
                hidden.update(range(at, at + times))
            at += times
        self.maker.left_out["hidden columns not read"] += len(hidden)
        for row in filled(self._rows(table)):
            yield [cell.text or "" for at, cell in enumerate(row) if at not in hidden]

    def _rows(self, table: Element, head: bool = False) -> Iterator[list[Cell]]:
        for part in table:
            times = min(_times(part, "number-rows-repeated"), MOST_REPEATED)
            if part.tag == "table-row" and part.get("visibility") in _COLLAPSED:
                self.maker.left_out["hidden rows not read"] += times
            elif part.tag == "table-row":
                row = [self._cell(cell, head) for cell in part if cell.tag == "table-cell"]
                while row and not row[-1][0].text:
                    row.pop()
                cells = [cell for cell, repeated in row for _ in range(repeated)]
                yield from [cells] * times
            elif part.tag.startswith("table-"):
                yield from self._rows(part, part.tag == "table-header-rows")

    def _cell(self, cell: Element, head: bool) -> tuple[Cell, int]:
        around = self.background
        fill = self._look("table-cell", cell.get("style-name", ""))
        self.background = fill.get("background-color", around)
        text = " ".join(self._words(part) for part in cell if part.tag in ("p", "list", "h"))
        self.background = around
        columns, rows = (_times(cell, f"number-{way}-spanned") for way in ("columns", "rows"))
        return Cell(one_line(text), columns, rows, head), _times(cell, "number-columns-repeated")

    def _items(
        self, listing: Element, name: str, level: int, above: dict[int, int]
    ) -> Iterator[str]:
        name = listing.get("style-name") or name
        if name not in self._levels:
            self._levels[name] = _levels(self._styles.get(("list-style", name), MISSING))
        levels = self._levels[name]
        count = levels[level].start - 1 if level in levels else 0
        if listing.get("continue-numbering") == "true":
            count = self._lists.get(name, count)
        for item in listing:
            is_item = item.tag == "list-item"
            count = integer(item.get("start-value"), count + 1) if is_item else count
            counts = {**above, level: count}
            marker = printed(levels, level, counts) if is_item else ""
            parts = (self._words(part) for part in item if part.tag in ("p", "h"))
            if words := one_line(" ".join(parts)):
                yield list_line(marker or "-", words, "  " * (level - 1))
            for inner in item.findall("list"):
                yield from self._items(inner, name, level + 1, counts)
        if level == 1:
            self._lists[name] = count

    def _words(self, element: Element) -> str:
        tag = element.tag
        if tag == "object":
            return self._object(element.get("href", "").strip("./"))
        look = self._look(_FAMILIES[tag], element.get("style-name", "")) if tag in _FAMILIES else {}
        around = self.background
        self.background = look.get("background-color", around)
        parts = [element.text or ""]
        for part in element:
            if part.tag in _SPACES:
                parts.append(" ")
            elif part.tag not in _NO_WORDS:
                parts.append(self._words(part))
            parts.append(part.tail or "")
        text = self.marked("".join(parts), look)
        self.background = around
        if tag == "ruby-text":
            return f"({text})"
        return one_line(text) if tag in ("p", "h") else text

    def _object(self, name: str) -> str:
        formula = self._package.optional(f"{name}/content.xml")
        if formula.tag == "math":
            return linear(formula)
        self.maker.left_out["embedded objects not read"] += 1
        return ""


def _levels(style: Element) -> dict[int, Level]:
    return {level: _level(form, level) for form in style for level in [_times(form, "level")]}


def _level(form: Element, level: int) -> Level:
    first = level + 1 - _times(form, "display-levels")
    numbers = ".".join(f"%{at}" for at in range(max(first, 1), level + 1))
    text = f"{form.get('num-prefix', '')}{numbers}{form.get('num-suffix', '')}"
    return Level(form.get("num-format", ""), text, _times(form, "start-value"))


def _notes(part: Element) -> Iterator[Element]:
    if part.tag in ("h", "p", "list", "table"):
        for note in part.iter("note-body"):
            yield from note


def _times(element: Element, name: str) -> int:
    text = element.get(name)
    return 1 if text is None else min(integer(text), MOST_REPEATED)

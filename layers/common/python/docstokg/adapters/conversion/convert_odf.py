"""OpenDocument converter."""

from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element

from docstokg.adapters.conversion.convert_lines import TextMaker, filled, one_line
from docstokg.adapters.conversion.convert_sheets import write_sheet
from docstokg.adapters.conversion.marks import (
    DELETED,
    HIDDEN,
    LEVEL,
    LOWERED,
    RAISED,
    SAME_COLOUR,
    STRUCK_OUT,
    TINY,
    linear,
    list_line,
    numeral,
)
from docstokg.adapters.conversion.package import Package
from docstokg.adapters.conversion.table_header import Cell
from docstokg.contracts.outline import Outline
from docstokg.domain.text.words import is_visible

# Maximum copies of a repeated row or cell.
MOST_REPEATED = 1_000

# Maximum depth of styles based on styles.
DEEPEST_STYLE = 9

_NO_WORDS = frozenset(("annotation", "note", "tracked-changes", "bookmark"))
_SPACES = frozenset(("s", "tab", "line-break"))
_COLLAPSED = ("collapse", "filter")
_FAMILIES = {"span": "text", "p": "paragraph", "h": "paragraph"}
_COUNTED = {"annotation": "comments not read", "checkbox": "form fields not read",
            "deletion": DELETED}  # fmt: skip


def convert(raw: bytes) -> tuple[Outline, ...]:
    """Return one outline of a text, presentation or spreadsheet.

    Raises `LoadError` for an unreadable file.
    """
    package = Package(raw, "OpenDocument file")
    content = package.tree("content.xml")
    reader = _Reader(package, content)
    body = content.find("body")
    for part in body if body is not None else ():
        reader.background = "#ffffff" if part.tag == "text" else ""
        reader.walk(part, part.tag == "spreadsheet")
    for part in body.iter() if body is not None else ():
        if part.tag in _COUNTED:
            reader.maker.left_out[_COUNTED[part.tag]] += 1
    title = next(package.optional("meta.xml").iter("title"), None)
    return (reader.maker.outline((title.text or "") if title is not None else ""),)


class _Reader:
    """Writes parts with the numbers and without the hidden text of their styles."""

    def __init__(self, package: Package, content: Element) -> None:
        self.maker = TextMaker()
        # Colour behind the text, "" if unknown.
        self.background = ""
        self._package = package
        self._styles = {
            (style.get("family", style.tag), style.get("name", "")): style
            for tree in (package.optional("styles.xml"), content)
            for holder in tree
            if holder.tag in ("styles", "automatic-styles")
            for style in holder
        }
        self._outline = _levels(self._styles.get(("outline-style", "Outline")))
        self._headings: dict[int, int] = {}
        self._lists: dict[str, int] = {}

    def walk(self, parts: Iterable[Element], sheets: bool = False) -> None:
        for number, part in enumerate(parts, 1):
            if part.tag == "page":
                self.maker.page(part.get("name") or str(number))
            if kind := self._hidden_part(part):
                self.maker.left_out[kind] += 1
            elif part.tag == "h":
                self._heading(part)
            elif part.tag in ("p", "object"):
                self.maker.add("text", self._words(part))
            elif part.tag == "list" and part.find(".//h") is None:
                self.maker.add("list", "\n".join(self._items(part, "", 1, {})))
            elif part.tag == "table" and sheets:
                write_sheet(self.maker, part.get("name", ""), enumerate(self._sheet(part), 1))
            elif part.tag == "table":
                self.maker.table(self._rows(part))
            elif part.tag not in _NO_WORDS:
                self.walk(part)
            self.walk(_notes(part))

    def _hidden_part(self, part: Element) -> str:
        if part.get("display") == "none":
            return HIDDEN
        name = part.get("style-name", "")
        if part.tag == "page" and self._style("drawing-page", name).get("visibility") == "hidden":
            return "hidden slides not read"
        is_shown = part.tag != "table" or self._style("table", name).get("display") != "false"
        return "" if is_shown else "hidden sheets not read"

    def _style(self, family: str, name: str) -> dict[str, str]:
        column_cells: dict[str, str] = {}
        for _ in range(DEEPEST_STYLE):
            style = self._styles.get((family, name))
            if style is None:
                break
            for properties in style:
                column_cells = {**properties.attrib, **column_cells}
            name = style.get("parent-style-name", "")
        return column_cells

    def _heading(self, part: Element) -> None:
        level = _times(part, "outline-level")
        form = self._outline.get(level)
        marker = ""
        if form is not None and form.get("num-format") and part.get("is-list-header") != "true":
            count = self._headings.get(level, _times(form, "start-value") - 1) + 1
            self._headings = {at: n for at, n in self._headings.items() if at < level}
            self._headings[level] = count
            marker = _marker(self._outline, level, self._headings)
        self.maker.heading(one_line(f"{marker} {self._words(part)}"), level)

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
        fill = self._style("table-cell", cell.get("style-name", "")).get("background-color", "")
        self.background = around if fill in ("", "transparent") else fill
        text = " ".join(self._words(part) for part in cell if part.tag in ("p", "list", "h"))
        self.background = around
        columns, rows = (_times(cell, f"number-{way}-spanned") for way in ("columns", "rows"))
        return Cell(one_line(text), columns, rows, head), _times(cell, "number-columns-repeated")

    def _items(
        self, listing: Element, name: str, level: int, above: dict[int, int]
    ) -> Iterator[str]:
        name = listing.get("style-name") or name
        levels = _levels(self._styles.get(("list-style", name)))
        form = levels.get(level)
        count = _times(form, "start-value") - 1 if form is not None else 0
        if listing.get("continue-numbering") == "true":
            count = self._lists.get(name, count)
        for item in listing:
            if item.tag == "list-item":
                count = _times(item, "start-value") if item.get("start-value") else count + 1
            counts = {**above, level: count}
            marker = _marker(levels, level, counts) if item.tag == "list-item" else ""
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
        family = _FAMILIES.get(tag, "")
        style = self._style(family, element.get("style-name", "")) if family else {}
        around = self.background
        shade = style.get("background-color", "transparent")
        self.background = around if shade == "transparent" else shade
        parts = [element.text or ""]
        for part in element:
            if part.tag in _SPACES:
                parts.append(" ")
            elif part.tag not in _NO_WORDS:
                parts.append(self._words(part))
            parts.append(part.tail or "")
        text = "".join(parts)
        kind = self._kind(style) if style and is_visible(text) else ""
        self.background = around
        if kind:
            self.maker.left_out[kind] += 1
            return ""
        place = style.get("text-position", "0").split()[0] if tag == "span" else "0"
        if place not in ("0", "0%", "normal"):
            is_low = place == "sub" or place.startswith("-")
            text = f"{LOWERED if is_low else RAISED}{text}{LEVEL}"
        if tag == "ruby-text":
            return f"({text})"
        return one_line(text) if tag in ("p", "h") else text

    def _kind(self, style: dict[str, str]) -> str:
        if style.get("display") == "none":
            return HIDDEN
        lines = (style.get(f"text-line-through-{way}", "none") for way in ("style", "type"))
        if any(line != "none" for line in lines):
            return STRUCK_OUT
        size = style.get("font-size", "").removesuffix("pt")
        if size.replace(".", "", 1).isdecimal() and float(size) < 2:
            return TINY
        is_same = self.background and style.get("color") == self.background
        return SAME_COLOUR if is_same else ""

    def _object(self, name: str) -> str:
        formula = self._package.optional(f"{name}/content.xml")
        if formula.tag == "math":
            return linear(formula)
        self.maker.left_out["embedded objects not read"] += 1
        return ""


def _levels(style: Element | None) -> dict[int, Element]:
    return {_times(level, "level"): level for level in style} if style is not None else {}


def _marker(levels: dict[int, Element], level: int, counts: dict[int, int]) -> str:
    form = levels.get(level)
    if form is None or not form.get("num-format"):
        return "-"
    first = level + 1 - _times(form, "display-levels")
    numbers = [
        numeral(counts.get(at, 1), levels[at].get("num-format", "1"))
        for at in range(first, level + 1)
        if at in levels
    ]
    return f"{form.get('num-prefix', '')}{'.'.join(numbers)}{form.get('num-suffix', '')}".strip()


def _notes(part: Element) -> Iterator[Element]:
    if part.tag in ("h", "p", "list", "table"):
        for note in part.iter("note-body"):
            yield from note


def _times(element: Element, name: str) -> int:
    text = element.get(name, "1")[:6]
    return min(int(text), MOST_REPEATED) if text.isdecimal() else 1

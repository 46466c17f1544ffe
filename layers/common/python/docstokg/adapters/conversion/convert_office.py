"""DOCX and PPTX."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from xml.etree.ElementTree import Element

from docstokg.adapters.conversion import marks
from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.adapters.conversion.marks import WHITE, linear, list_line, numeral
from docstokg.adapters.conversion.number_format import EPOCH, shown
from docstokg.adapters.conversion.numbering import STYLES, Numbering, integer, value_of
from docstokg.adapters.conversion.package import MISSING, Package, part_of
from docstokg.adapters.conversion.table_header import Cell
from docstokg.contracts.outline import Outline
from docstokg.domain.text.words import is_visible

_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
_HOLDERS = frozenset(
    ("sdt", "sdtContent", "customXml", "ins", "smartTag", "AlternateContent", "Choice")
)
_SIGNS = {"tab": " ", "br": " ", "cr": " ", "noBreakHyphen": "-"}
_NO_WORDS = frozenset(("Fallback", "txbxContent", "rt", "rPr", "pPr"))
# Numbers of clauses (`2.2`) begin a paragraph, others (`2.`, `b)`) a list item.
_CLAUSE = re.compile(r"\D{0,3}\d+\.\d")
_SLIDE_NUMBER = re.compile(r"([a-z]+(?:Lc|Uc)?)(\w*)")
_BRACKETS = {"ParenBoth": "(%)", "ParenR": "%)", "Period": "%."}
_NOTES = ("footnote", "endnote")
_ON = ("1", "true", "on")
_PARTS = ("styles", "numbering", "footnotes", "endnotes")
_PRIVATE = range(0xE000, 0xF900)

# Parts that may contain text: name pattern -> wording of the note.
UNREAD = (
    (re.compile(r"/(?:header|footer)\d*\.xml"), "headers or footers"),
    (re.compile(r"/comments?[^/]*/?[^/]*\.xml"), "lists of comments"),
    (re.compile(r"/diagrams/data\d*\.xml"), "diagrams"),
    (re.compile(r"/charts/chart[^/]*\.xml"), "charts"),
    (re.compile(r"/drawings/drawing\d*\.xml"), "drawings with text"),
    (re.compile(r"/glossary/document\.xml"), "glossaries"),
)


class Words(marks.Words):
    """Reads Office words; `looks`: text properties of Word's styles by id."""

    looks: Mapping[str, Mapping[str, str]] = {}

    def on(self, background: str | None, element: Element) -> str:
        """Return the words of a part that has its own background, unless None."""
        around = self.background
        self.background = around if background is None else background
        words = self.of(element)
        self.background = around
        return words

    def of(self, element: Element) -> str:
        """Return the words of a part; breaks and tabs become spaces.

        Hidden, struck-out and deleted text is skipped.
        """
        tag = element.tag
        if tag == "t":
            return element.text or ""
        if tag in _SIGNS:
            return _SIGNS[tag]
        if tag == "sym":
            return self._symbol(element.get("char", ""))
        if tag == "oMath":
            return linear(element)
        if tag == "checkBox":
            checked = element.find("checked")
            return (
                "☒ " if is_on(part_of(element, "default") if checked is None else checked) else "☐ "
            )
        if tag in ("del", "moveFrom"):
            words = "".join(part.text or "" for part in element.iter("delText"))
            self.left_out[marks.DELETED] += is_visible(words)
            return ""
        if tag == "rPh":
            self.left_out["readings not read"] += 1
            return ""
        text = "".join([self.of(part) for part in element if part.tag not in _NO_WORDS])
        if tag == "r" and (direct := element.find("rPr")) is not None:
            look = look_of(direct)
            return self.marked(text, {**self.looks.get(look.get("rStyle", ""), {}), **look})
        reading = element.find("rt") if tag == "ruby" else None
        return f"{text}({self.of(reading)})" if reading is not None else text

    def _symbol(self, code: str) -> str:
        number = int(code, 16) if re.fullmatch(r"[0-9A-Fa-f]{1,5}", code) else 0xF000
        if number in _PRIVATE:  # its shape depends on the font
            self.left_out["symbols of a font not read"] += 1
            return ""
        return chr(number)

    def count(self, package: Package, read: Iterable[str]) -> None:
        """Count package parts with text that are not in `read`."""
        done = set(read)
        for name in package.names:
            kind = next((kind for part, kind in UNREAD if part.search(f"/{name}")), "")
            if kind and name not in done and _has_text(package.tree(name)):
                self.left_out[f"{kind} not read"] += 1


def convert_docx(raw: bytes) -> Outline:
    """Return one outline of the body in order; text boxes and notes follow their paragraph.

    Raises `LoadError` for an unreadable file.
    """
    package = Package(raw, "DOCX document")
    main = package.main()
    links = list(package.links(main).values())
    parts = {kind: package.optional(name) for kind, name in links if kind in _PARTS}
    body = _Body(parts)
    document = package.tree(main)
    page = document.find("background")
    body.words.background = WHITE if page is None else page.get("color", "")
    body.write(part_of(document, "body"))
    charts = [name for kind, name in links if kind == "chart"]
    for name in charts:
        write_chart(body.maker, package.tree(name))
    furniture = [name for kind, name in links if kind in ("header", "footer")]
    body.words.background = ""
    for words in dict.fromkeys(body.words.of(package.tree(name)) for name in furniture):
        body.maker.add("row", one_line(words))
    body.words.count(package, [*charts, *furniture])
    return body.maker.outline(body.title or package.title())


class _Body:
    def __init__(self, parts: Mapping[str, Element]) -> None:
        self.maker, self.title = TextMaker(), ""
        self.words = Words(self.maker.left_out, 4)
        styles = parts.get("styles", MISSING)
        self._numbering = Numbering(parts.get("numbering", MISSING), styles)
        self.words.looks = {
            style.get("styleId", ""): look_of(part_of(style, "rPr"))
            for style in styles.iter("style")
        }
        self._notes = {
            (kind, note.get("id", "")): note
            for kind in _NOTES
            for note in parts.get(f"{kind}s", MISSING).iter(kind)
            if note.get("type", "normal") == "normal"
        }
        self._items: list[str] = []

    def write(self, holder: Element) -> None:
        caption = ""
        for part, following in pairwise([*_named(holder, "p", "tbl"), MISSING]):
            if part.tag == "tbl":
                self._flush()
                self.maker.table(map(self._row, _named(part, "tr")), name=caption)
            caption = self._paragraph(part, following.tag == "tbl") if part.tag == "p" else ""
            for hanging in [*_boxes(part), *self._noted(part)]:
                self._flush()
                around, self.words.background = self.words.background, ""
                self.write(hanging)
                self.words.background = around
        self._flush()

    def _noted(self, part: Element) -> Iterator[Element]:
        for kind in _NOTES:
            for reference in part.iter(f"{kind}Reference"):
                if (note := self._notes.pop((kind, reference.get("id", "")), None)) is not None:
                    yield note

    def _paragraph(self, part: Element, is_above_table: bool) -> str:
        properties = part_of(part, "pPr")
        style = self._numbering.styles.get(value_of(properties, "pStyle"), MISSING)
        name = value_of(style, "name") or value_of(properties, "pStyle")
        shade = shade_of(properties)
        words = one_line(
            self.words.on(shade_of(part_of(style, "pPr")) if shade is None else shade, part)
        )
        marker = self._numbering.marker(properties) if words else None
        printed = f"{marker} {words}" if marker and marker != "-" else words
        heading = _HEADING.match(name)
        if words and not heading and (marker or name.startswith("List")):
            if marker and _CLAUSE.match(marker):
                self._flush()
                self.maker.add("text", printed)
            else:
                self._items.append(list_line(marker or "-", words))
            return ""
        self._flush()
        if heading or name == "Title":
            self.title = self.title or (words if name == "Title" else "")
            self.maker.heading(printed if words else "", int(heading[1]) if heading else 1)
        elif is_above_table and name.lower().endswith("caption"):
            return words
        else:
            self.maker.add("text", words)
        return ""

    def _row(self, row: Element) -> list[Cell]:
        head = row.find("trPr/tblHeader") is not None
        return [cell_of(cell, self.words, head) for cell in _named(row, "tc")]

    def _flush(self) -> None:
        self.maker.add("list", "\n".join(self._items))
        self._items.clear()


def convert_pptx(raw: bytes) -> Outline:
    """Return one outline of the slides in order: shapes, charts, speaker notes.

    Raises `LoadError` for an unreadable file.
    """
    package = Package(raw, "PPTX presentation")
    main = package.main()
    links = package.links(main)
    maker, charts = TextMaker(), list[str]()
    words = Words(maker.left_out, 200)
    slides = dict.fromkeys(node.get("rel:id", "") for node in package.tree(main).iter("sldId"))
    for number, slide in enumerate(slides, 1):
        name = links.get(slide, ("", ""))[1]
        content = package.tree(name)
        if not is_on(content, "show", "1"):
            maker.left_out["hidden slides not read"] += 1
            continue
        maker.page(str(number))
        _shapes(content, maker, words)
        for kind, part in package.links(name).values():
            if kind == "chart":
                charts.append(part)
                write_chart(maker, package.tree(part))
            elif kind == "notesSlide":
                _shapes(package.tree(part), maker, words, notes=True)
    words.count(package, charts)
    return maker.outline(package.title())


def write_chart(maker: TextMaker, chart: Element) -> None:
    """Write a chart as a table: a row per category, a column per series."""
    title = next(chart.iter("title"), MISSING)
    maker.add("text", one_line(" ".join(t.text or "" for t in title.iter("t"))))
    series = list(chart.iter("ser"))
    names = [one_line(" ".join(_points(node, "tx").values())) for node in series]
    columns: list[dict[int, str]] = [{}]
    for node in series:
        columns[0] |= _points(node, "cat", "xVal")
        columns.append(_points(node, "val", "yVal"))
    rows = [
        [Cell(column.get(at, "")) for column in columns] for at in sorted(set().union(*columns[1:]))
    ]
    head = [Cell(text, head=True) for text in ("", *names)]
    maker.table([head, *rows] if any(names) else rows)


def _points(series: Element, *tags: str) -> dict[int, str]:
    points: dict[int, str] = {}
    for holder in (series.find(tag) for tag in tags):
        if points or holder is None:
            continue
        code = next(holder.iter("formatCode"), MISSING).text or ""
        points = {
            integer(point.get("idx"), 0): one_line(shown(point.findtext("v") or "", code, EPOCH))
            for point in holder.iter("pt")
        } or {0: one_line(holder.findtext("v") or "")}
    return {at: value for at, value in points.items() if value}


def _shapes(slide: Element, maker: TextMaker, words: Words, notes: bool = False) -> None:
    for shape in slide.iter():
        if shape.tag == "tbl":
            marked = is_on(part_of(shape, "tblPr"), "firstRow")
            maker.table(
                [cell_of(cell, words, marked and not at) for cell in _named(row, "tc")]
                for at, row in enumerate(shape.iter("tr"))
            )
        elif shape.tag == "sp":
            holder = part_of(shape, "nvSpPr/nvPr/ph")
            kind = "" if holder is MISSING else holder.get("type", "body")
            if (notes and kind != "body") or kind in ("sldNum", "dt", "ftr"):
                continue
            if is_on(part_of(shape, "nvSpPr/cNvPr"), "hidden"):
                maker.left_out["hidden shapes not read"] += _has_text(shape)
                continue
            words.background = colour_of(part_of(shape, "spPr"))
            lines = list(_slide_lines(shape, words))
            if kind in ("title", "ctrTitle"):
                maker.heading(" ".join(line[1] for line in lines), 2)
            elif len(lines) == 1 and lines[0][0] == "-":
                maker.add("list", lines[0][1])
            else:
                maker.add("list", "\n".join(list_line(*line) for line in lines))


def _slide_lines(shape: Element, words: Words) -> Iterator[tuple[str, str, str]]:
    counts: dict[int, int] = {}
    for paragraph in shape.iter("p"):
        if not (text := one_line(words.of(paragraph))):
            continue
        properties = part_of(paragraph, "pPr")
        level, numbered = integer(properties.get("lvl"), 0), properties.find("buAutoNum")
        form = None if numbered is None else _SLIDE_NUMBER.match(numbered.get("type", ""))
        counts = {at: n for at, n in counts.items() if at < level + (numbered is not None)}
        marker = "-"
        if form is not None and numbered is not None:
            counts[level] = counts.get(level, integer(numbered.get("startAt")) - 1) + 1
            number = numeral(counts[level], STYLES.get(form[1], "1"))
            marker = _BRACKETS.get(form[2], "%").replace("%", number)
        yield marker, text, "  " * level


def _boxes(part: Element) -> Iterator[Element]:
    for inner in part if next(part.iter("txbxContent"), None) is not None else ():
        if inner.tag == "txbxContent":
            yield inner
        elif inner.tag == "AlternateContent":
            yield from next(filter(None, (list(_boxes(node)) for node in inner)), [])
        elif inner.tag not in ("del", "moveFrom"):
            yield from _boxes(inner)


def _named(element: Element, *tags: str) -> Iterator[Element]:
    for part in element:
        if part.tag in tags:
            yield part
        elif part.tag in _HOLDERS:
            yield from _named(part, *tags)


def cell_of(cell: Element, words: Words, head: bool) -> Cell:
    """Return a Word or PowerPoint table cell; text None if merged with the cell above."""
    properties = part_of(cell, "tcPr")
    merged = properties.find("vMerge")
    span = integer(cell.get("gridSpan") or value_of(properties, "gridSpan"))
    if is_on(cell, "vMerge") or (
        merged is not None and merged.get("val", "continue") == "continue"
    ):
        return Cell(None, span, head=head)
    if is_on(cell, "hMerge"):
        return Cell("", head=head)
    words.background = shade_of(properties) or colour_of(properties)
    text = one_line(" ".join(words.of(p) for p in cell.iter("p")))
    words.background = WHITE
    runs = [run for run in cell.iter("r") if _has_text(run)]
    bold = [look_of(part_of(run, "rPr")).get("b") in _ON for run in runs]
    return Cell(text, span, head=head, strong=bool(bold) and all(bold))


def _has_text(part: Element) -> bool:
    return any(
        is_visible(node.text or "") for node in part.iter() if node.tag in ("t", "text", "v")
    )


def is_on(element: Element, name: str = "val", default: str = "") -> bool:
    """Return whether a switch of an element is on; `val` is on by default."""
    default = default or ("1" if name == "val" else "0")
    return element is not MISSING and element.get(name, default) in _ON


def look_of(properties: Element) -> dict[str, str]:
    """Return text properties by name, with the colours of text and background as RGB."""
    if properties is MISSING:
        return {}
    look = {part.tag: part.get("val", "1") for part in properties} | properties.attrib
    look["color"] = colour_of(properties)
    if (shade := shade_of(properties)) is not None:
        look["background-color"] = shade
    return look


def colour_of(properties: Element) -> str:
    """Return the text or fill colour (RGB, capitals) of properties, "" without a fixed one."""
    for part in properties:
        colour = part.find("srgbClr") if part.tag == "solidFill" else part
        if colour is not None and part.tag in ("color", "fgColor", "solidFill"):
            value = colour.get("val") or colour.get("rgb") or ""
            return WHITE if colour.get("theme") == "0" else value[-6:].upper()
    return ""


def shade_of(properties: Element) -> str | None:
    """Return the shade or highlight of a Word part; None without."""
    if highlight := value_of(properties, "highlight").replace("none", ""):
        return WHITE if highlight == "white" else highlight
    fill = part_of(properties, "shd").get("fill", "auto")
    return None if fill == "auto" else fill.upper()

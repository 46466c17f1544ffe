"""DOCX and PPTX."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element

from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.adapters.conversion.number_format import EPOCH, shown
from docstokg.adapters.conversion.package import Package
from docstokg.adapters.conversion.table_header import Cell
from docstokg.contracts.outline import Outline
from docstokg.domain.text.words import is_visible

_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
_HOLDERS = frozenset(
    ("sdt", "sdtContent", "customXml", "ins", "smartTag", "AlternateContent", "Choice")
)
_BREAKS = frozenset(("tab", "br", "cr"))
_NO_WORDS = frozenset(("Fallback", "del", "moveFrom", "txbxContent", "rt"))
_NOTES = ("footnote", "endnote")
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


class Words:
    """Reads Office words and counts skipped texts."""

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()

    def of(self, element: Element) -> str:
        """Return a paragraph's words; breaks and tabs become spaces, hidden text is skipped."""
        if element.tag in ("t", "m:t"):
            return element.text or ""
        if element.tag in _BREAKS:
            return " "
        if element.tag == "noBreakHyphen":
            return "-"
        if element.tag == "sym":
            return self._symbol(element.get("char", ""))
        if element.tag == "r" and _is_on(element.find("rPr/vanish")):
            self.left_out["hidden texts"] += _has_text(element)
            return ""
        return "".join(self.of(part) for part in element if part.tag not in _NO_WORDS)

    def _symbol(self, code: str) -> str:
        number = int(code, 16) if re.fullmatch(r"[0-9A-Fa-f]{1,5}", code) else 0xF000
        if number in _PRIVATE:  # its shape depends on the font
            self.left_out["symbols of a font"] += 1
            return ""
        return chr(number)

    def notes(self, package: Package, read: Iterable[str]) -> tuple[str, ...]:
        """Return notes on skipped texts and on package parts not in `read`."""
        done = set(read)
        for name in package.names:
            kind = next((kind for part, kind in UNREAD if part.search(f"/{name}")), "")
            if kind and name not in done and _has_text(package.tree(name)):
                self.left_out[kind] += 1
        return tuple(f"{kind} not read: {n}" for kind, n in self.left_out.items() if n)


def convert_docx(raw: bytes) -> tuple[Outline, ...]:
    """Return one outline of the body in order; text boxes and notes follow their paragraph.

    Raises `LoadError` for an unreadable file.
    """
    package = Package(raw, "DOCX document")
    main = package.main()
    links = list(package.links(main).values())
    parts = dict(links)
    styles = {
        style.get("styleId", ""): _value(style, "name")
        for style in package.optional(parts.get("styles", "")).iter("style")
    }
    notes = {
        (kind, note.get("id", "")): note
        for kind in _NOTES
        for note in package.optional(parts.get(f"{kind}s", "")).iter(kind)
        if note.get("type", "normal") == "normal"
    }
    body = _Body(styles, notes)
    body.write(package.tree(main).find("body"))
    charts = [name for kind, name in links if kind == "chart"]
    for name in charts:
        write_chart(body.maker, package.tree(name))
    outline = body.maker.outline(body.title or package.title())
    return (outline.noted(body.words.notes(package, charts)),)


class _Body:
    def __init__(self, styles: dict[str, str], notes: dict[tuple[str, str], Element]) -> None:
        self.maker, self.words, self.title = TextMaker(), Words(), ""
        self._styles, self._notes = styles, notes
        self._items: list[str] = []

    def write(self, holder: Element | None) -> None:
        for part in _parts(holder):
            if part.tag == "tbl":
                self._flush()
                self.maker.table([self._row(row) for row in _named(part, "tr")])
            else:
                self._paragraph(part)
            for hanging in [*_boxes(part), *self._noted(part)]:
                self._flush()
                self.write(hanging)
        self._flush()

    def _noted(self, part: Element) -> Iterator[Element]:
        for kind in _NOTES:
            for reference in part.iter(f"{kind}Reference"):
                if (note := self._notes.pop((kind, reference.get("id", "")), None)) is not None:
                    yield note

    def _paragraph(self, part: Element) -> None:
        words = one_line(self.words.of(part))
        properties = part.find("pPr")
        name = _value(properties, "pStyle")
        style = self._styles.get(name, name)
        heading = _HEADING.match(style)
        numbered = properties is not None and properties.find("numPr") is not None
        if words and (style.startswith("List") or (numbered and not heading)):
            self._items.append(f"- {words}")
            return
        self._flush()
        if heading or style == "Title":
            self.title = self.title or (words if style == "Title" else "")
            self.maker.heading(words, int(heading[1]) if heading else 1)
        else:
            self.maker.add("text", words)

    def _row(self, row: Element) -> list[Cell]:
        head = row.find("trPr/tblHeader") is not None
        return [cell_of(cell, self.words, head) for cell in _named(row, "tc")]

    def _flush(self) -> None:
        self.maker.add("list", "\n".join(self._items))
        self._items.clear()


def convert_pptx(raw: bytes) -> tuple[Outline, ...]:
    """Return one outline of the slides in order: shapes, charts, speaker notes.

    Raises `LoadError` for an unreadable file.
    """
    package = Package(raw, "PPTX presentation")
    main = package.main()
    links = package.links(main)
    maker, words, charts = TextMaker(), Words(), list[str]()
    slides = dict.fromkeys(one.get("rel:id", "") for one in package.tree(main).iter("sldId"))
    for number, slide in enumerate(slides, 1):
        name = links.get(slide, ("", ""))[1]
        maker.page(str(number))
        _shapes(package.tree(name), maker, words)
        for kind, part in package.links(name).values():
            if kind == "chart":
                charts.append(part)
                write_chart(maker, package.tree(part))
            elif kind == "notesSlide":
                _shapes(package.tree(part), maker, words, notes=True)
    return (maker.outline(package.title()).noted(words.notes(package, charts)),)


def write_chart(maker: TextMaker, chart: Element) -> None:
    """Write a chart as a table: a row per category, a column per series."""
    title = next(chart.iter("title"), Element("none"))
    maker.add("text", one_line(" ".join(t.text or "" for t in title.iter("t"))))
    series = list(chart.iter("ser"))
    names = [one_line(" ".join(_points(one.find("tx")).values())) for one in series]
    categories: dict[int, str] = {}
    for one in series:
        categories |= _points(one.find("cat")) or _points(one.find("xVal"))
    values = [_points(one.find("val")) or _points(one.find("yVal")) for one in series]
    head = [Cell(text, head=True) for text in ("", *names)]
    rows = [
        [Cell(text) for text in (categories.get(at, ""), *(own.get(at, "") for own in values))]
        for at in sorted({at for own in values for at in own})
    ]
    maker.table([head, *rows] if any(names) else rows)


def _points(holder: Element | None) -> dict[int, str]:
    if holder is None:
        return {}
    code = next(holder.iter("formatCode"), Element("none")).text or ""
    found = {
        _number(point.get("idx", "0")): shown(point.findtext("v") or "", code, EPOCH)
        for point in holder.iter("pt")
    } or {0: holder.findtext("v") or ""}
    return {at: one_line(value) for at, value in found.items() if value}


def _shapes(slide: Element, maker: TextMaker, words: Words, notes: bool = False) -> None:
    for shape in slide.iter():
        if shape.tag == "tbl":
            marked = _is_on(shape.find("tblPr"), "firstRow")
            rows = enumerate(shape.iter("tr"))
            maker.table(
                [
                    [cell_of(cell, words, marked and not at) for cell in _named(row, "tc")]
                    for at, row in rows
                ]
            )
        elif shape.tag == "sp":
            holder = shape.find("nvSpPr/nvPr/ph")
            kind = holder.get("type", "body") if holder is not None else ""
            lines = list(filter(None, (one_line(words.of(p)) for p in shape.iter("p"))))
            if notes and kind != "body":
                continue
            if kind in ("title", "ctrTitle"):
                maker.heading(" ".join(lines), 2)
            elif kind not in ("sldNum", "dt", "ftr"):
                maker.add("list", "\n".join(lines))


def _parts(body: Element | None) -> Iterator[Element]:
    for part in body if body is not None else ():
        if part.tag in ("p", "tbl"):
            yield part
        elif part.tag in _HOLDERS:
            yield from _parts(part)


def _boxes(part: Element) -> Iterator[Element]:
    for inner in part:
        if inner.tag == "txbxContent":
            yield inner
        elif inner.tag == "AlternateContent":
            yield from next(filter(None, (list(_boxes(one)) for one in inner)), [])
        elif inner.tag not in ("del", "moveFrom"):
            yield from _boxes(inner)


def _named(element: Element, tag: str) -> Iterator[Element]:
    for part in element:
        if part.tag == tag:
            yield part
        elif part.tag in _HOLDERS:
            yield from _named(part, tag)


def cell_of(cell: Element, words: Words, head: bool) -> Cell:
    """Return a Word or PowerPoint table cell; text None if merged with the cell above."""
    properties = cell.find("tcPr")
    merged = properties.find("vMerge") if properties is not None else None
    goes_on = merged is not None and merged.get("val", "continue") == "continue"
    if goes_on or cell.get("vMerge") in ("1", "true"):
        return Cell(None, _number(_value(properties, "gridSpan")), head=head)
    if cell.get("hMerge") in ("1", "true"):
        return Cell("", head=head)
    text = one_line(" ".join(words.of(p) for p in cell.iter("p")))
    runs = [run for run in cell.iter("r") if _has_text(run)]
    bold = [_is_on(run.find("rPr/b")) or _is_on(run.find("rPr"), "b") for run in runs]
    span = _number(cell.get("gridSpan") or _value(properties, "gridSpan"))
    return Cell(text, span, head=head, strong=bool(bold) and all(bold))


def _has_text(part: Element) -> bool:
    return any(is_visible(one.text or "") for one in part.iter() if one.tag in ("t", "text", "v"))


def _is_on(element: Element | None, name: str = "val") -> bool:
    default = "1" if name == "val" else "0"
    return element is not None and element.get(name, default) in ("1", "true", "on")


def _value(element: Element | None, tag: str) -> str:
    found = element.find(tag) if element is not None else None
    return found.get("val", "") if found is not None else ""


def _number(text: str) -> int:
    return int(text[:6]) if text[:6].isdecimal() else 1

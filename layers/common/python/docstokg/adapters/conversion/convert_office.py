"""DOCX and PPTX: paragraphs by style, lists, tables, slides; no link or macro is followed."""

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from docstokg.adapters.conversion.convert_lines import Cell, TextMaker, one_line
from docstokg.adapters.conversion.package import Package
from docstokg.contracts.outline import Outline

_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
_HOLDERS = frozenset(
    ("sdt", "sdtContent", "customXml", "ins", "smartTag", "AlternateContent", "Choice")
)
_BREAKS = frozenset(("tab", "br", "cr"))
_NO_WORDS = frozenset(("Fallback", "del", "moveFrom", "txbxContent"))


def convert_docx(raw: bytes) -> tuple[Outline, ...]:
    """Take the body in reading order; headers, footers, comments and macros are left out."""
    package = Package(raw, "DOCX document")
    main = package.main()
    parts = dict(package.links(main).values())
    styles = {
        style.get("styleId", ""): _value(style, "name")
        for style in package.optional(parts.get("styles", "")).iter("style")
    }
    maker, items, title = TextMaker(), list[str](), ""
    for part in _parts(package.tree(main).find("body")):
        if part.tag == "tbl":
            _flush(items, maker)
            maker.table(map(_row, _named(part, "tr")))
            continue
        words = one_line(_words(part))
        properties = part.find("pPr")
        name = _value(properties, "pStyle")
        style = styles.get(name, name)
        heading = _HEADING.match(style)
        numbered = properties is not None and properties.find("numPr") is not None
        if words and (style.startswith("List") or (numbered and not heading)):
            items.append(f"- {words}")
            continue
        _flush(items, maker)
        if heading or style == "Title":
            title = title or (words if style == "Title" else "")
            maker.heading(words, int(heading[1]) if heading else 1)
        else:
            maker.add("text", words)
    _flush(items, maker)
    return (maker.outline(title or package.title()),)


def convert_pptx(raw: bytes) -> tuple[Outline, ...]:
    """Take the slides in their order: titles, text, tables, then the speaker's notes."""
    package = Package(raw, "PPTX presentation")
    main = package.main()
    links = package.links(main)
    maker = TextMaker()
    slides = dict.fromkeys(one.get("rel:id", "") for one in package.tree(main).iter("sldId"))
    for number, slide in enumerate(slides, 1):
        name = links.get(slide, ("", ""))[1]
        maker.page(str(number))
        _shapes(package.tree(name), maker)
        for kind, notes in package.links(name).values():
            if kind == "notesSlide":
                _shapes(package.tree(notes), maker, notes=True)
    return (maker.outline(package.title()),)


def _shapes(slide: Element, maker: TextMaker, notes: bool = False) -> None:
    """Write the shapes of a slide, of its notes only the notes themselves."""
    for shape in slide.iter():
        if shape.tag == "tbl":
            maker.table(map(_row, shape.iter("tr")))
        elif shape.tag == "sp":
            holder = shape.find("nvSpPr/nvPr/ph")
            kind = holder.get("type", "body") if holder is not None else ""
            lines = list(filter(None, (one_line(_words(p)) for p in shape.iter("p"))))
            if notes and kind != "body":
                continue
            if kind in ("title", "ctrTitle"):
                maker.heading(" ".join(lines), 2)
            elif kind not in ("sldNum", "dt", "ftr"):
                maker.add("list", "\n".join(lines))


def _parts(body: Element | None) -> Iterator[Element]:
    """Give paragraphs and tables in order, out of what holds them for other reasons."""
    for part in body if body is not None else ():
        if part.tag in ("p", "tbl"):
            yield part
        elif part.tag in _HOLDERS:
            yield from _parts(part)


def _named(element: Element, tag: str) -> Iterator[Element]:
    """Give an element's rows, or a row's cells; not those of tables inside."""
    for part in element:
        if part.tag == tag:
            yield part
        elif part.tag in _HOLDERS:
            yield from _named(part, tag)


def _row(row: Element) -> list[Cell]:
    head = row.find("trPr/tblHeader") is not None
    return [_cell(cell, head) for cell in _named(row, "tc")]


def _cell(cell: Element, head: bool) -> Cell:
    properties = cell.find("tcPr")
    merged = properties.find("vMerge") if properties is not None else None
    goes_on = merged is not None and merged.get("val", "continue") == "continue"
    if goes_on or cell.get("vMerge") in ("1", "true"):
        return Cell(None, _number(_value(properties, "gridSpan")), head=head)
    if cell.get("hMerge") in ("1", "true"):
        return Cell("", head=head)
    text = one_line(" ".join(_words(p) for p in cell.iter("p")))
    return Cell(text, _number(_value(properties, "gridSpan")), head=head)


def _words(element: Element) -> str:
    """Give the words of a paragraph; breaks and tabs become spaces."""
    if element.tag in ("t", "m:t"):
        return element.text or ""
    if element.tag in _BREAKS:
        return " "
    return "".join(_words(part) for part in element if part.tag not in _NO_WORDS)


def _value(element: Element | None, tag: str) -> str:
    found = element.find(tag) if element is not None else None
    return found.get("val", "") if found is not None else ""


def _number(text: str) -> int:
    return int(text[:6]) if text[:6].isdecimal() else 1


def _flush(items: list[str], maker: TextMaker) -> None:
    maker.add("list", "\n".join(items))
    items.clear()

"""OpenDocument converter."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from xml.etree.ElementTree import Element

from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.adapters.conversion.convert_sheets import write_sheet
from docstokg.adapters.conversion.package import Package
from docstokg.adapters.conversion.table_header import Cell
from docstokg.contracts.outline import Outline

# Maximum copies of a repeated row or cell.
MOST_REPEATED = 1_000

_NO_WORDS = frozenset(("annotation", "note", "tracked-changes", "bookmark"))
_SPACES = frozenset(("s", "tab", "line-break"))


def convert(raw: bytes) -> tuple[Outline, ...]:
    """Return one outline of a text, presentation or spreadsheet.

    Raises `LoadError` for an unreadable file.
    """
    package = Package(raw, "OpenDocument file")
    body = package.tree("content.xml").find("body")
    maker = TextMaker()
    for content in body if body is not None else ():
        _walk(content, maker, content.tag == "spreadsheet")
    title = next(package.optional("meta.xml").iter("title"), None)
    outline = maker.outline((title.text or "") if title is not None else "")
    comments = len(list(body.iter("annotation"))) if body is not None else 0
    return (outline.noted((f"comments not read: {comments}",) if comments else ()),)


def _walk(parts: Iterable[Element], maker: TextMaker, sheets: bool = False) -> None:
    for number, part in enumerate(parts, 1):
        if part.tag == "page":
            maker.page(part.get("name") or str(number))
        if part.tag == "h":
            maker.heading(_words(part), _times(part, "outline-level"))
        elif part.tag == "p":
            maker.add("text", _words(part))
        elif part.tag == "list":
            maker.add("list", "\n".join(_items(part, "")))
        elif part.tag == "table" and sheets:
            rows = ([cell.text or "" for cell in row] for row in _rows(part))
            write_sheet(maker, part.get("name", ""), enumerate(rows, 1))
        elif part.tag == "table":
            maker.table(_rows(part))
        elif part.tag not in _NO_WORDS:
            _walk(part, maker)
        _walk(_notes(part), maker)


def _notes(part: Element) -> Iterator[Element]:
    if part.tag in ("h", "p", "list", "table"):
        for note in part.iter("note-body"):
            yield from note


def _rows(table: Element, head: bool = False) -> Iterator[list[Cell]]:
    for part in table:
        if part.tag == "table-row":
            row = [_cell(cell, head) for cell in part if cell.tag.endswith("table-cell")]
            while row and not row[-1].text:
                row.pop()
            cells = [replace(cell, columns=1) for cell in row for _ in range(cell.columns)]
            yield from [cells] * min(_times(part, "number-rows-repeated"), MOST_REPEATED)
        elif part.tag.startswith("table-"):
            yield from _rows(part, part.tag == "table-header-rows")


def _cell(cell: Element, head: bool) -> Cell:
    text = " ".join(_words(part) for part in cell if part.tag in ("p", "list", "h"))
    return Cell(one_line(text), _times(cell, "number-columns-repeated"), head=head)


def _items(listing: Element, indent: str) -> Iterator[str]:
    for item in listing:
        words = one_line(" ".join(_words(part) for part in item if part.tag in ("p", "h")))
        if words:
            yield f"{indent}- {words}"
        for inner in item.findall("list"):
            yield from _items(inner, f"{indent}  ")


def _words(element: Element) -> str:
    made = [element.text or ""]
    for part in element:
        if part.tag in _SPACES:
            made.append(" ")
        elif part.tag not in _NO_WORDS:
            made.append(_words(part))
        made.append(part.tail or "")
    return one_line("".join(made)) if element.tag in ("p", "h") else "".join(made)


def _times(element: Element, name: str) -> int:
    text = element.get(name, "1")[:6]
    return min(int(text), MOST_REPEATED) if text.isdecimal() else 1

"""DOCX by python-docx: paragraphs by their styles, lists, tables; no link is followed."""

import io
import re
import zipfile

import docx
from docx.opc.exceptions import PackageNotFoundError
from docx.table import Table, _Cell, _Row
from docx.text.paragraph import Paragraph

from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.contracts.outline import Outline
from docstokg.errors import LoadError

LARGEST = 200 * 1024 * 1024
"""Bytes of a package's parts, unpacked."""

_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)


def convert(raw: bytes) -> tuple[Outline, ...]:
    """Take the body in reading order; headers, footers, comments and macros are left out."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as package:
            size = sum(part.file_size for part in package.infolist())
            # For a package without styles the library would open a file of its own.
            has_styles = "word/styles.xml" in package.namelist()
        if size > LARGEST:
            raise LoadError(f"it unpacks to {size:,} bytes, more than {LARGEST:,}")
        document = docx.Document(io.BytesIO(raw))
    # lxml's error for XML that is broken or multiplies entities is a SyntaxError.
    except (
        zipfile.BadZipFile,
        PackageNotFoundError,
        KeyError,
        ValueError,
        SyntaxError,
    ) as broken:
        raise LoadError("it is no DOCX document") from broken
    maker = TextMaker()
    items: list[str] = []
    title = ""
    for part in document.iter_inner_content():
        if isinstance(part, Table):
            _flush(items, maker)
            maker.add("table", "\n".join(filter(None, map(_row, part.rows))))
            continue
        words = one_line(part.text)
        style = (part.style.name if has_styles and part.style is not None else "") or ""
        heading = _HEADING.match(style)
        if _is_item(part, style) and words:
            items.append(f"- {words}")
            continue
        _flush(items, maker)
        if heading and 1 <= int(heading[1]) <= 6:
            maker.add("heading", words, int(heading[1]), words)
        elif style == "Title":
            title = title or words
            maker.add("heading", words, 1, words)
        else:
            maker.add("text", words)
    _flush(items, maker)
    return (maker.outline(title or (document.core_properties.title or "")),)


def _row(row: _Row) -> str:
    # The elements themselves: `row.cells` lists a merged cell for every column it claims to span.
    cells = [one_line(_Cell(element, row.table).text) for element in row._tr.tc_lst]
    return " | ".join(cells) if any(cells) else ""


def _is_item(paragraph: Paragraph, style: str) -> bool:
    properties = paragraph._p.pPr
    numbered = properties is not None and properties.numPr is not None
    return style.startswith("List") or (numbered and not _HEADING.match(style))


def _flush(items: list[str], maker: TextMaker) -> None:
    maker.add("list", "\n".join(items))
    items.clear()

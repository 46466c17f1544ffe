"""PDF by PDFium: words with their places, page by page; no action, link or script is followed."""

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pypdfium2 as pdfium
from pypdfium2 import raw as raw_pdfium

from docstokg.adapters.conversion.convert_lines import TextMaker
from docstokg.adapters.conversion.pdf_page import Box, PageView, Word, lines_of, rules_of
from docstokg.adapters.conversion.pdf_scan import Reading, is_scanned
from docstokg.adapters.conversion.pdf_tables import Table, tables_of
from docstokg.contracts.outline import Outline, Place
from docstokg.errors import LoadError

MOST_PAGES = 20_000
LARGEST_PICTURE = 2_000_000
MOST_PIXELS = 1_600
"""Of a page's picture, along its longer side."""


def convert(raw: bytes, readings: Mapping[str, Reading] | None = None) -> tuple[Outline, ...]:
    """Take every page's text; `LoadError` for an encrypted file and one without pages to read.

    `readings`: what `read` gave, by the number of the page.
    """
    document = opened(raw)
    if len(document) > MOST_PAGES:
        raise LoadError(f"it has more than {MOST_PAGES:,} pages")
    maker = TextMaker()
    readings, unread = readings or {}, []
    for number, page in enumerate(document, 1):
        maker.page(str(number))
        view = PageView(page)
        reading = readings.get(str(number), [])
        lines = [[Word(text, box) for text, box, _ in line] for line in reading]
        lines, done = lines or lines_of(page, view), len(maker.places)
        for part in _parts(lines, *rules_of(page, view)):
            if isinstance(part, Table):
                maker.table(part.rows, part.named)
            else:
                maker.lines([[(word.text, word.box) for word in line] for line in part])
        if reading:
            maker.places[done:] = (_read(place, reading) for place in maker.places[done:])
        elif str(number) not in readings and is_scanned(page):
            unread.append(number)
        page.close()
    made = maker.outline(document.get_metadata_value("Title").replace("\0", ""))
    if not made.text.strip() and not unread:
        raise LoadError("it has no text layer")
    return (replace(made, scanned=tuple(unread)),)


def _read(place: Place, reading: Reading) -> Place:
    """Say how sure the least sure word at a place was read."""
    x0, y0, x1, y1 = place[2:6]
    inside = [
        sure
        for line in reading
        for _, (left, top, right, bottom), sure in line
        if x0 <= (left + right) / 2 <= x1 and y0 <= (top + bottom) / 2 <= y1
    ]
    return place._replace(ocr=max(1, min(inside, default=1)))


def render(raw: bytes, number: int) -> bytes:
    """Draw a page as PNG of at most LARGEST_PICTURE bytes; `LoadError` where there is none."""
    document = opened(raw)
    if not 1 <= number <= len(document):
        raise LoadError(f"it has {len(document)} pages")
    page = document[number - 1]
    scale = min(2.0, MOST_PIXELS / max(page.get_size()))
    picture = _png(page, scale)
    while len(picture) > LARGEST_PICTURE:
        scale *= 0.7
        picture = _png(page, scale)
    return picture


def _png(page: pdfium.PdfPage, scale: float) -> bytes:
    drawn = page.render(
        scale=scale, force_bitmap_format=raw_pdfium.FPDFBitmap_BGR, rev_byteorder=True
    )
    pixels, row = bytes(drawn.buffer), 3 * drawn.width
    lines = (pixels[at : at + row] for at in range(0, drawn.stride * drawn.height, drawn.stride))
    head = struct.pack(">IIBBBBB", drawn.width, drawn.height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + line for line in lines), 6)
    dots = struct.pack(">IIB", *[round(scale * 72 / 0.0254)] * 2, 1)  # a metre
    parts = ((b"IHDR", head), (b"pHYs", dots), (b"IDAT", body), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def opened(raw: bytes) -> pdfium.PdfDocument:
    """Open a file; `LoadError` says why it cannot be read."""
    try:
        return pdfium.PdfDocument(raw)
    except pdfium.PdfiumError as broken:
        encrypted = "password" in str(broken).lower()
        reason = "it is encrypted" if encrypted else "it is no PDF that can be read"
        raise LoadError(reason) from broken


def _parts(
    lines: Sequence[Sequence[Word]], level: list[Box], upright: list[Box]
) -> Iterator[Table | list[Sequence[Word]]]:
    """Give a page's paragraphs and tables in the order of their first words."""
    words = [word for line in lines for word in line]
    first = {min(table.words): table for table in tables_of(words, level, upright)}
    inside = frozenset(at for table in first.values() for at in table.words)
    paragraph: list[Sequence[Word]] = []
    at = 0
    for line in lines:
        places = range(at, at + len(line))
        at += len(line)
        rest = [words[place] for place in places if place not in inside]
        tables = [first[place] for place in places if place in first]
        if paragraph and (tables or not rest or _begins(paragraph, rest)):
            yield paragraph
            paragraph = []
        yield from tables
        if rest:
            paragraph.append(rest)
    if paragraph:
        yield paragraph


def _begins(above: Sequence[Sequence[Word]], line: Sequence[Word]) -> bool:
    """Tell whether a line begins a paragraph: further below than lines are, or of other size."""
    last, here = above[-1][0].box, line[0].box
    high, before = here[3] - here[1], last[3] - last[1]
    return not 0 <= here[1] - last[1] <= 1.7 * high or not 0.8 < high / max(before, 1) < 1.25

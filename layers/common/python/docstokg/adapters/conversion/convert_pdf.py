"""PDF converter."""

import struct
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pypdfium2 as pdfium
from pypdfium2 import raw as raw_pdfium

from docstokg.adapters.conversion.convert_lines import TextMaker
from docstokg.adapters.conversion.pdf_flow import (
    SAMPLE,
    Furniture,
    PageParts,
    move_rest,
    parts_of,
)
from docstokg.adapters.conversion.pdf_page import (
    Drawings,
    PageView,
    Word,
    form_values,
    lines_of,
    unstruck,
    with_values,
)
from docstokg.adapters.conversion.pdf_scan import Reading, is_scanned
from docstokg.adapters.conversion.pdf_tables import Table
from docstokg.contracts.outline import Outline, Place
from docstokg.errors import LoadError

MOST_PAGES = 20_000
LARGEST_PICTURE = 2_000_000
# Maximum longer side of a page picture, in pixels.
MOST_PIXELS = 1_600


def convert(raw: bytes, readings: Mapping[str, Reading] | None = None) -> Outline:
    """Return one outline of all pages; those without text or reading are `scanned`.

    Raises `LoadError` if unreadable, encrypted, too long, or without text and scans. `readings`:
    results of `pdf_scan.read`, by page number ("1" first).
    """
    document = opened(raw)
    count = len(document)
    if count > MOST_PAGES:
        raise LoadError(f"has more than {MOST_PAGES:,} pages")
    document.init_forms()
    readings = readings or {}
    writer = _Writer()
    reader = _Pages(document, readings, writer.maker.left_out)
    middle = max(0, (count - SAMPLE) // 2)
    sampled = {at: reader.page(at) for at in range(middle, min(count, middle + SAMPLE))}
    furniture = Furniture(sampled.values())
    before: PageParts | None = None
    for at in range(count):
        page = sampled.pop(at, None) or reader.page(at)
        furniture.remove(page)
        if before:
            move_rest(before, page)
            writer.write(before)
        before = page
    if before:
        writer.write(before)
    made = writer.maker.outline(document.get_metadata_value("Title").replace("\0", ""))
    if not made.text.strip() and not reader.unread:
        raise LoadError("has no text layer")
    metadata = {"page_furniture": furniture.texts} if furniture.texts else {}
    return replace(made, scanned=tuple(sorted(reader.unread)), metadata=metadata)


class _Pages:
    def __init__(
        self, document: pdfium.PdfDocument, readings: Mapping[str, Reading], left_out: Counter[str]
    ) -> None:
        self._document, self._readings, self.left_out = document, readings, left_out
        self.unread: set[int] = set()

    def page(self, at: int) -> PageParts:
        page = self._document[at]
        view = PageView(page)
        number = str(at + 1)
        reading = self._readings.get(number, [])
        drawings = Drawings(page, view)
        lines = [[Word(text, box) for text, box, _ in line] for line in reading]
        if not lines:
            lines = lines_of(page, view, drawings.fills, self.left_out)
            if not lines and number not in self._readings and is_scanned(page):
                self.unread.add(at + 1)
            scan = (
                (word.text, word.box, 1000) for line in lines for word in line if word.is_scanned
            )
            reading = [list(scan)]
            if drawings.level:
                lines = unstruck(lines, drawings.level, self.left_out)
            values = form_values(self._document, page, view, self.left_out)
            lines = with_values(lines, values)
        parts = list(parts_of(lines, drawings.level, drawings.upright))
        page.close()
        return PageParts(at + 1, view.size[1], parts, reading)


class _Writer:
    def __init__(self) -> None:
        self.maker = TextMaker()
        self._names: list[str] = []

    def write(self, page: PageParts) -> None:
        maker = self.maker
        maker.page(str(page.number))
        done = len(maker.places)
        for at, part in enumerate(page.parts):
            if isinstance(part, Table):
                above = self._names if at == 0 else []
                self._names = maker.table(part.rows, part.named, above)
                continue
            self._names = []
            words = [[(word.text, word.box) for word in line] for line in part]
            maker.lines(words, page.ending if at + 1 == len(page.parts) else "")
        if any(page.reading):
            maker.places[done:] = (_read(place, page.reading) for place in maker.places[done:])


def _read(place: Place, reading: Reading) -> Place:
    x0, y0, x1, y1 = place[2:6]
    inside = [
        sure
        for line in reading
        for _, (low_x, top, right, bottom), sure in line
        if x0 <= (low_x + right) / 2 <= x1 and y0 <= (top + bottom) / 2 <= y1
    ]
    return place._replace(ocr=max(1, min(inside)) if inside else 0)


def render(raw: bytes, number: int) -> bytes:
    """Draw a page (from 1) as a PNG of at most LARGEST_PICTURE bytes.

    Raise `LoadError` if page or file cannot be read.
    """
    document = opened(raw)
    if not 1 <= number <= len(document):
        raise LoadError(f"the file has {len(document)} pages")
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
    dots = struct.pack(">IIB", *[round(scale * 72 / 0.0254)] * 2, 1)  # pixels per metre
    parts = ((b"IHDR", head), (b"pHYs", dots), (b"IDAT", body), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def opened(raw: bytes) -> pdfium.PdfDocument:
    """Open a file; raise `LoadError` if it cannot be read."""
    try:
        return pdfium.PdfDocument(raw)
    except pdfium.PdfiumError as broken:
        encrypted = "password" in str(broken).lower()
        reason = "the file is encrypted" if encrypted else "not a readable PDF"
        raise LoadError(reason) from broken

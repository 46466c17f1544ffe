"""PDF page contents."""

import ctypes
import itertools
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter, sub

import pypdfium2 as pdfium
from pypdfium2 import raw

from docstokg.adapters.conversion.convert_lines import GOES_ON
from docstokg.adapters.conversion.marks import (
    LEVEL,
    LOWERED,
    RAISED,
    SAME_COLOUR,
    SIGNS,
    STRUCK_OUT,
    TINY,
    UNKNOWN_BACKGROUND,
    render,
)

# Red, green, blue and alpha of PDFium's last answer, and pointers to each.
_RGBA = (ctypes.c_uint * 4)()
_CHANNELS = [ctypes.c_uint.from_buffer(_RGBA, 4 * at) for at in range(4)]

# Left, top, right, bottom in tenths of a point from the upper left corner of the visible page.
Box = tuple[int, int, int, int]

Point = tuple[float, float]
# Left, top, right, bottom in points; the top is the larger.
Corners = Sequence[float]
# Red, green and blue, 0 to 255.
Colour = tuple[int, int, int]
# An area and its colour, None for a picture or pattern.
Fill = tuple[Box, Colour | None]

DRAWN = (raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_SHADING)
COMMENTS = (raw.FPDF_ANNOT_TEXT, raw.FPDF_ANNOT_FREETEXT)
PAPER = (255, 255, 255)
# Maximum difference of equal colours.
NEAR_COLOUR = 3
# Minimum height of a visible word: 2 points of font size with its line gap.
SMALLEST = 24
# Heights of a line that strikes a word out, as shares of the word's.
STRIKE = 0.35, 0.72
# Height of raised and lowered letters, as a share of the others'.
SMALL = 0.85
# Least cosine of the angle of level text.
UPRIGHT = 0.99
SCANNED = "scanned"
MOST_FILLS = 2_000
MOST_CHARACTERS = 100_000
MOST_SEGMENTS = 20_000
DEEPEST_FORM = 4
MOST_FIELDS = 5_000
LONGEST_FIELD = 20_000
# Maximum thickness of a drawn line; closer lines are joined.
THIN = 25


@dataclass(slots=True, eq=False)
class Word:
    """A word with its box, font name, and whether it is the text layer of a picture."""

    text: str
    box: Box
    font: str = ""
    is_scanned: bool = False

    @property
    def middle(self) -> tuple[float, float]:
        """Return the centre."""
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2


class PageView:
    """Maps page coordinates to the rotated and cropped page, in tenths of a point."""

    def __init__(self, page: pdfium.PdfPage) -> None:
        self._page = page
        width, height = page.get_size()
        self.size = round(width * 10), round(height * 10)
        at = [self._device(x, y) for x, y in ((0.0, 0.0), (1000.0, 0.0), (0.0, 1000.0))]
        self._origin = at[0]
        self._steps = [((x - at[0][0]) / 1000, (y - at[0][1]) / 1000) for x, y in at[1:]]

    def _device(self, x: float, y: float) -> tuple[int, int]:
        across, top = ctypes.c_int(), ctypes.c_int()
        raw.FPDF_PageToDevice(self._page, 0, 0, *self.size, 0, x, y, across, top)
        return across.value, top.value

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Map a page point (in points) to the visible page (tenths of a point)."""
        (ax, ay), (bx, by) = self._steps
        return self._origin[0] + ax * x + bx * y, self._origin[1] + ay * x + by * y

    def box(self, x0: float, y0: float, x1: float, y1: float) -> Box:
        """Map two corners, like `point`, to a rounded (left, top, right, bottom)."""
        return _between(self.point(x0, y0), self.point(x1, y1))


def _between(start: Point, end: Point) -> Box:
    (ax, ay), (bx, by) = start, end
    return round(min(ax, bx)), round(min(ay, by)), round(max(ax, bx)), round(max(ay, by))


def union(boxes: Iterable[Box]) -> Box:
    """Return the bounding box (minima, maxima); raise ValueError without boxes."""
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def lines_of(
    page: pdfium.PdfPage, view: PageView, fills: Sequence[Fill], left_out: Counter[str]
) -> list[list[Word]]:
    """Return the text layer's lines of visible words, in file order; count the others.

    Words in render mode 3 over a picture are the text layer of a scan. `fills`: of `Drawings`.
    """
    textpage = page.get_textpage()
    text = textpage.raw  # without a conversion in each call
    count = min(raw.FPDFText_CountChars(text), MOST_CHARACTERS)
    code_of, box_of = raw.FPDFText_GetUnicode, raw.FPDFText_GetLooseCharBox
    lines: list[list[Word]] = [[]]
    letters: list[int] = []
    boxes: list[Corners] = []
    corners = (ctypes.c_float * 4)()
    rectangle = raw.FS_RECTF.from_buffer(corners)
    corners_of = memoryview(corners).cast("B").cast("f").tolist
    font, flags = ctypes.create_string_buffer(80), ctypes.c_int()
    before, breaks = "", False
    for at in itertools.chain(range(count), (-1,)):
        code = code_of(text, at) if at >= 0 else 10
        if code > 32 and code not in (0xA0, 0xFFFE, 0xFFFF):
            letters.append(code)
            if box_of(text, at, rectangle):
                boxes.append(corners_of())
            continue
        if code == ord(GOES_ON):  # PDFium's code for a line-end hyphen
            letters.append(code)
        if letters and boxes:
            last = at - 1 if at >= 0 else count - 1
            raw.FPDFText_GetFontInfo(text, last, font, 80, flags)
            lefts, tops, rights, bottoms = zip(*boxes, strict=True)
            box = view.box(min(lefts), max(tops), max(rights), min(bottoms))
            kind = _kind(text, last, box, fills)
            if kind in ("", UNKNOWN_BACKGROUND, SCANNED):
                spelt = _spelt(letters, boxes, text, last)
                name = font.value.decode("latin-1")
                _append(lines, Word(spelt, box, name, kind == SCANNED), breaks)
                breaks = False
            if kind not in ("", SCANNED):
                left_out[kind] += kind != before
            before = kind
        letters, boxes = [], []
        if code == ord(GOES_ON):
            lines.append([])
        breaks = breaks or code in (10, 13)
    return [line for line in lines if line]


def _append(lines: list[list[Word]], word: Word, breaks: bool) -> None:
    if not breaks or not lines[-1]:
        lines[-1].append(word)
        return
    # PDFium ends a line before and after a raised or lowered text.
    last, here = lines[-1][-1].box, word.box
    heights = last[3] - last[1], here[3] - here[1]
    overlap, gap = min(last[3], here[3]) - max(last[1], here[1]), here[0] - last[2]
    if overlap < 0.4 * min(heights) or not -0.2 * max(heights) <= gap <= max(heights):
        lines.append([word])
    elif heights[1] < SMALL * heights[0] and gap < 0.15 * heights[0]:
        mark = RAISED if here[1] + here[3] < last[1] + last[3] else LOWERED
        text = render(f"{lines[-1][-1].text}{mark}{word.text}{LEVEL}")
        lines[-1][-1] = replace(lines[-1][-1], text=text, box=union((last, here)))
    else:
        lines[-1].append(word)


def _spelt(
    letters: Sequence[int], boxes: Sequence[Corners], page: pdfium.PdfTextPage, end: int
) -> str:
    text = "".join(map(chr, letters))
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if len(text) != len(boxes) or len(text) < 2:
        return render(text)
    is_level = len({(box[1], box[3]) for box in boxes}) == 1
    if is_level and not any(map(str.isdecimal, text)):
        return render(text)
    # Boxes of turned text say nothing of levels.
    if math.cos(raw.FPDFText_GetCharAngle(page, end)) < UPRIGHT:
        return render(text)
    highest = max(boxes, key=_height)
    spelt = shift = ""
    for letter, box, at in zip(text, boxes, range(end + 1 - len(text), end + 1), strict=True):
        mark = _mark(letter, box, highest, page, at)
        spelt += (LEVEL * bool(shift) + mark if mark != shift else "") + letter
        shift = mark
    return render(spelt + LEVEL * bool(shift))


def _height(box: Corners) -> float:
    return box[1] - box[3]


def _mark(letter: str, box: Corners, highest: Corners, page: pdfium.PdfTextPage, at: int) -> str:
    if not (letter.isalnum() or letter in SIGNS):
        return ""
    height = _height(highest)
    above, below = box[3] - highest[3], highest[1] - box[1]
    if _height(box) < SMALL * height:
        return "" if abs(above - below) < 0.15 * height else RAISED if above > below else LOWERED
    if not letter.isdecimal():
        return ""
    # A raised digit of the font itself has the full line height, an invisible one no height.
    x0, right, bottom, top = (ctypes.c_double() for _ in range(4))
    raw.FPDFText_GetCharBox(page, at, x0, right, bottom, top)
    if not 0.1 * height < top.value - bottom.value <= 0.55 * height:
        return ""
    low = (bottom.value - highest[3]) / height
    return RAISED if low > 0.42 else LOWERED if low < 0.16 else ""


def _kind(text: pdfium.PdfTextPage, at: int, box: Box, fills: Sequence[Fill]) -> str:
    if box[3] - box[1] < SMALLEST and box[2] - box[0] < SMALLEST * 20:
        return TINY
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    behind = [colour for (x0, y0, x1, y1), colour in fills if x0 <= x <= x1 and y0 <= y <= y1]
    part = raw.FPDFText_GetTextObject(text, at)
    if part and raw.FPDFTextObj_GetTextRenderMode(part) == raw.FPDF_TEXTRENDERMODE_INVISIBLE:
        return SCANNED if None in behind else "invisible texts not read"
    raw.FPDFText_GetFillColor(text, at, *_CHANNELS)
    colour = tuple(_RGBA[:3])
    background = behind[-1] if behind else PAPER
    if background is None:
        return UNKNOWN_BACKGROUND if colour == PAPER else ""
    return SAME_COLOUR if max(map(abs, map(sub, colour, background))) <= NEAR_COLOUR else ""


class Drawings:
    """The page's filled areas from the back, and its horizontal and vertical lines."""

    def __init__(self, page: pdfium.PdfPage, view: PageView) -> None:
        self.fills: list[Fill] = []
        self.level: list[Box] = []
        self.upright: list[Box] = []
        objects = page.get_objects(DRAWN, max_depth=DEEPEST_FORM)
        drawings = list(itertools.islice(objects, MOST_SEGMENTS))
        for drawn in drawings[:MOST_FILLS]:
            self._fill(drawn, view)
        paths = (drawn for drawn in drawings if drawn.type == raw.FPDF_PAGEOBJ_PATH)
        lines = itertools.chain.from_iterable(_segments(path, view) for path in paths)
        for ends in itertools.islice(lines, MOST_SEGMENTS):
            box = _between(*ends)
            wide, high = box[2] - box[0], box[3] - box[1]
            if high <= THIN < wide:
                self.level.append(box)
            elif wide <= THIN < high:
                self.upright.append(box)

    def _fill(self, drawn: pdfium.PdfObject, view: PageView) -> None:
        colour: Colour | None = None
        if drawn.type == raw.FPDF_PAGEOBJ_PATH:
            mode, stroke = ctypes.c_int(), ctypes.c_int()
            raw.FPDFPath_GetDrawMode(drawn.raw, mode, stroke)
            raw.FPDFPageObj_GetFillColor(drawn.raw, *_CHANNELS)
            red, green, blue, alpha = _RGBA
            if not mode.value or not alpha:
                return
            colour = red, green, blue
        box = view.box(*drawn.get_bounds())
        if box[3] - box[1] > THIN and box[2] - box[0] > THIN:
            self.fills.append((box, colour))


def unstruck(
    lines: Iterable[Sequence[Word]], level: Iterable[Box], left_out: Counter[str]
) -> list[list[Word]]:
    """Return the lines without words that a level rule crosses in the middle; count them."""
    rules = sorted(level, key=itemgetter(1))
    tops = [rule[1] for rule in rules]
    visible: list[list[Word]] = []
    for line in lines:
        words = []
        for word in line:
            x0, top, x1, bottom = word.box
            low, high = (bisect_left(tops, top + share * (bottom - top)) for share in STRIKE)
            if low < high and any(a < (x0 + x1) / 2 < b for a, _, b, _ in rules[low:high]):
                left_out[STRUCK_OUT] += 1
            else:
                words.append(word)
        if words:
            visible.append(words)
    return visible


def _segments(drawn: pdfium.PdfObject, view: PageView) -> Iterator[tuple[Point, Point]]:
    x, y = ctypes.c_float(), ctypes.c_float()
    matrix, path = drawn.get_matrix(), drawn.raw
    first = before = None
    for at in range(raw.FPDFPath_CountSegments(path)):
        segment = raw.FPDFPath_GetPathSegment(path, at)
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        point = view.point(*matrix.on_point(x.value, y.value))
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            first = point
        elif kind == raw.FPDF_SEGMENT_LINETO and before is not None:
            yield before, point
        if raw.FPDFPathSegment_GetClose(segment) and first is not None:
            yield point, first
        before = point


def form_values(
    document: pdfium.PdfDocument, page: pdfium.PdfPage, view: PageView, left_out: Counter[str]
) -> list[Word]:
    """Return the filled form fields, with the field name as `font`; count comments."""
    form = document.formenv
    values: list[Word] = []
    for at in range(min(raw.FPDFPage_GetAnnotCount(page), MOST_FIELDS)):
        field = raw.FPDFPage_GetAnnot(page, at)
        subtype = raw.FPDFAnnot_GetSubtype(field)
        left_out["comments not read"] += subtype in COMMENTS
        if form and subtype == raw.FPDF_ANNOT_WIDGET:
            place = raw.FS_RECTF()
            kind = raw.FPDFAnnot_GetFormFieldType(form, field)
            ticked = kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)
            value = _said(raw.FPDFAnnot_GetFormFieldValue, form, field)
            if ticked:
                value = "yes" if raw.FPDFAnnot_IsChecked(form, field) else ""
            if value and kind != raw.FPDF_FORMFIELD_PUSHBUTTON:
                raw.FPDFAnnot_GetRect(field, place)
                name = _said(raw.FPDFAnnot_GetFormFieldAlternateName, form, field)
                name = name or _said(raw.FPDFAnnot_GetFormFieldName, form, field)
                box = view.box(place.left, place.bottom, place.right, place.top)
                values.append(Word(value, box, name))
        raw.FPDFPage_CloseAnnot(field)
    return values


def _said(getter: Callable[..., int], form: pdfium.PdfFormEnv, field: object) -> str:
    size = min(getter(form, field, None, 0), LONGEST_FIELD)
    room = ctypes.create_string_buffer(size)
    getter(form, field, ctypes.cast(room, ctypes.POINTER(ctypes.c_ushort)), size)
    return " ".join(room.raw[: max(size - 2, 0)].decode("utf-16-le", "replace").split())


def with_values(lines: list[list[Word]], values: Sequence[Word]) -> list[list[Word]]:
    """Append form values, with stops, to the lines left of them or as own lines; return `lines`."""
    for value in values:
        if value.text[-1] not in ".!?":
            value = replace(value, text=f"{value.text}.")  # noqa: PLW2901 - the same value
        x0, top, _, bottom = value.box
        before = [
            line
            for line in lines
            if top - THIN <= line[-1].middle[1] <= bottom + THIN and line[-1].box[2] <= x0 + THIN
        ]
        if before:
            max(before, key=lambda line: line[-1].box[2]).append(value)
        else:
            lines.append([Word(f"{value.font}:", value.box), value] if value.font else [value])
    return lines

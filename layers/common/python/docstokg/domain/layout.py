"""Page layout."""

import base64
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from docstokg.contracts.outline import Place
from docstokg.contracts.response import PageBox

MOST_BOXES = 40
# Prefix of layouts with OCR confidence; without it the confidence is 0.
READ = "~"


def packed(places: Sequence[Place], start: int, end: int) -> str:
    """Pack the whole places that overlap start..end, from `start`, for `unpacked`; "" if none."""
    first = bisect_left(places, start, key=lambda place: place.end - 1)
    last = bisect_left(places, end, key=lambda place: place.start)
    if first >= last:
        return ""
    overlapping = places[first:last]
    mark = READ if any(place.ocr for place in overlapping) else ""
    columns = list(zip(*overlapping, strict=True))[: None if mark else -1]
    numbers = [n - start * (at < 2) for at, column in enumerate(columns) for n in column]
    return mark + base64.b64encode(zlib.compress(array("i", numbers).tobytes(), 9)).decode()


def unpacked(layout: str, start: int, end: int) -> list[Place]:
    """Return the places of a packed chunk in `text[start:end]`."""
    if not layout:
        return []
    numbers = array("i", zlib.decompress(base64.b64decode(layout.removeprefix(READ))))
    rows = len(numbers) // (len(Place._fields) - (not layout.startswith(READ)))
    columns = (numbers[at : at + rows] for at in range(0, len(numbers), rows))
    places = (Place(*row) for row in zip(*columns, strict=True))
    return [place for place in places if place.start < end and place.end > start]


def boxes(places: Sequence[Place], page: int) -> tuple[PageBox, ...]:
    """Return a box per line, at most 40, around the words; points from the upper left corner."""
    lines = ([round(n / 10, 1) for n in line] for line in _lines(places))
    page_boxes = [PageBox(page=page, x0=x0, y0=y0, x1=x1, y1=y1) for x0, y0, x1, y1 in lines]
    return tuple(page_boxes[:MOST_BOXES])


def certainty(places: Sequence[Place]) -> float | None:
    """Return the lowest OCR confidence of the words, 0 to 1; None without OCR."""
    return min((place.ocr / 1000 for place in places if place.ocr), default=None)


def _lines(places: Sequence[Place]) -> Iterator[tuple[int, int, int, int]]:
    line: tuple[int, int, int, int] | None = None
    for place in places:
        box = place.x0, place.y0, place.x1, place.y1
        if line is not None and line[0] <= box[0] and _level(line, box):
            line = line[0], min(line[1], box[1]), max(line[2], box[2]), max(line[3], box[3])
            continue
        if line is not None:
            yield line
        line = box
    if line is not None:
        yield line


def _level(line: tuple[int, int, int, int], box: tuple[int, int, int, int]) -> bool:
    shared = min(line[3], box[3]) - max(line[1], box[1])
    return 2 * shared > min(line[3] - line[1], box[3] - box[1])

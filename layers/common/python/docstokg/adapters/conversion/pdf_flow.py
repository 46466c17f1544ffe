"""PDF text flow."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from docstokg.adapters.conversion.convert_lines import GOES_ON
from docstokg.adapters.conversion.pdf_page import Box, Word
from docstokg.adapters.conversion.pdf_scan import Reading
from docstokg.adapters.conversion.pdf_tables import Table, tables_of

# Consecutive middle pages that are checked for repeated lines.
SAMPLE = 12

FEWEST = 3
# Share of the sampled pages that must have a line.
SHARE = 0.4

# Top and bottom margins, as a share of the page height.
MARGIN = 0.12

# Maximum vertical distance of repeated lines, in tenths of a point.
SAME_PLACE = 60

# Maximum words moved to the page where their sentence begins.
LONGEST_REST = 80

_NUMBER = re.compile(r"(?<!\d)\d{1,6}(?!\d)")
_END = re.compile(r"[.!?:;…。！？][\"'”’»)\]]*\Z")

Line = Sequence[Word]
# A line's text, or its text with a number relative to the page's, and whether it is at the top.
Mark = tuple[str, bool]


@dataclass
class PageParts:
    """Paragraphs (lines of words) and tables in reading order; `height` is the page's."""

    number: int
    height: int
    parts: list[Table | list[Line]]
    reading: Reading = field(default_factory=list)
    ending: str = ""


def parts_of(
    lines: Sequence[Line], level: list[Box], upright: list[Box]
) -> Iterator[Table | list[Line]]:
    """Yield a page's paragraphs and tables by their first words, columns of prose in turn."""
    words = [word for line in lines for word in line]
    inside = {word: table for table in tables_of(words, level, upright) for word in table.words}
    begun = set[Table]()
    paragraph: list[Line] = []
    for line in lines:
        outside = [word for word in line if word not in inside]
        reached = dict.fromkeys(inside[word] for word in line if word in inside)
        tables = [table for table in reached if table not in begun]
        begun.update(tables)
        if paragraph and (tables or not outside or _begins(paragraph, outside)):
            yield paragraph
            paragraph = []
        for table in tables:
            if not table.columns:
                yield table
            for column in table.columns:
                yield from parts_of(column, [], [])
        if outside:
            paragraph.append(outside)
    if paragraph:
        yield paragraph


def _begins(above: Sequence[Line], line: Line) -> bool:
    last, here = above[-1][0].box, line[0].box
    high, before = here[3] - here[1], last[3] - last[1]
    return not 0 <= here[1] - last[1] <= 1.7 * high or not 0.8 < high / max(before, 1) < 1.25


class Furniture:
    """Lines at the same place that are equal, or but for one number that counts the pages."""

    def __init__(self, pages: Collection[PageParts]) -> None:
        places: dict[Mark, list[int]] = defaultdict(list)
        for page in pages:
            for mark, line in _marks(page):
                places[mark].append(line[0].box[1])
        self._marks = {
            mark
            for mark, tops in places.items()
            if len(tops) >= max(FEWEST, SHARE * len(pages)) and max(tops) - min(tops) <= SAME_PLACE
        }
        self._kept: set[Mark] = set()
        self.texts: list[str] = []

    def remove(self, page: PageParts) -> None:
        """Remove repeated lines; each one's first occurrence moves to the page's end."""
        repeated = {id(line): mark for mark, line in _marks(page) if mark in self._marks}
        if not repeated:
            return
        parts: list[Table | list[Line]] = []
        first_lines: list[Line] = []
        for part in page.parts:
            if isinstance(part, Table):
                parts.append(part)
                continue
            if unrepeated := [line for line in part if id(line) not in repeated]:
                parts.append(unrepeated)
            for line in part:
                if id(line) in repeated and repeated[id(line)] not in self._kept:
                    self._kept.add(repeated[id(line)])
                    self.texts.append(" ".join(word.text for word in line))
                    first_lines.append(line)
        page.parts = [*parts, *([line] for line in first_lines)]


def _marks(page: PageParts) -> Iterator[tuple[Mark, Line]]:
    top, bottom = page.height * MARGIN, page.height * (1 - MARGIN)
    for part in page.parts:
        for line in () if isinstance(part, Table) else part:
            is_top = line[0].box[3] < top
            if is_top or line[0].box[1] > bottom:
                text = " ".join(word.text for word in line)
                yield (text, is_top), line
                for number in _NUMBER.finditer(text):
                    relative = f"#{int(number[0]) - page.number}"
                    yield (text[: number.start()] + relative + text[number.end() :], is_top), line


def move_rest(page: PageParts, following: PageParts) -> None:
    """Move the end of an unfinished sentence from the top of the following page to `page.ending`.

    Not after a stop or table, with a capital, or over LONGEST_REST words.
    """
    if not page.parts or not following.parts:
        return
    last, first = page.parts[-1], following.parts[0]
    if isinstance(last, Table) or isinstance(first, Table):
        return
    end, begin = last[-1][-1].text, first[0][0].text
    if _END.search(end) or not begin[:1].islower():
        return
    words = [word for line in first for word in line]
    stop = next((at for at, word in enumerate(words, 1) if _END.search(word.text)), len(words))
    if stop > LONGEST_REST:
        return
    text = " ".join(word.text for word in words[:stop]).replace(f"{GOES_ON} ", "")
    page.ending = ("" if end.endswith(GOES_ON) else " ") + text.replace(GOES_ON, "-")
    unmoved = [[word for word in line if word not in words[:stop]] for line in first]
    first_lines: list[Line] = [line for line in unmoved if line]
    following.parts[:1] = [first_lines] if first_lines else []

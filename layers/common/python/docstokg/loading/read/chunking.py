"""Cutting at headings and paragraphs."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from docstokg.contracts.outline import Block, Outline
from docstokg.domain.text.sentences import Span, sentence_spans
from docstokg.domain.text.words import is_visible
from docstokg.ports import PieceCounter

ENCODER_PIECES = 256
# Special tokens of the encoder and separators of its input.
MARKS = 4

# Maximum pieces of title and headings; outer headings are dropped.
CONTEXT_PIECES = 64

OVERLAP_PIECES = 24
# Blocks that are always separate passages.
ALONE = ("row", "quote")
SEPARATOR = " > "


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with those above it; `page` if the document has pages."""

    heading: Block | None = None
    above: tuple[Block, ...] = ()
    anchor: str = ""
    page: str = ""


class Cut(NamedTuple):
    """A future chunk: `text[start:end]` with its headings, outermost first."""

    start: int
    end: int
    section: Section
    headings: tuple[str, ...]


class _Unit(NamedTuple):
    start: int
    end: int
    block: Block | None = None
    label: str = ""


def cut_document(
    outline: Outline,
    begin: int,
    title: str,
    counter: PieceCounter,
    anchors: dict[int, str],
    summary: tuple[int, int] | None = None,
) -> Iterator[Cut]:
    """Cut `outline.text[begin:]`; cuts are in order and overlap only inside a long sentence.

    `anchors`: a heading's start -> its anchor. `summary`: a range before `begin` that comes first.
    Cuts cover everything except white space, rules and headings without content.
    """
    cutter = _Cutter(outline.text, title, counter)
    if summary is not None:
        yield from cutter.cut(Section(), [_Unit(*summary)])
    for section, units in _sections(outline, begin, anchors):
        yield from cutter.cut(section, units)


class _Cutter:
    def __init__(self, text: str, title: str, counter: PieceCounter) -> None:
        self._text = text
        self._title = title
        self._counter = counter
        self._starts = counter.starts(text)
        self._sizes: dict[tuple[str, ...], int] = {}

    def cut(self, section: Section, units: Sequence[_Unit]) -> Iterator[Cut]:
        over = tuple(block.label for block in section.above if block.label)
        inner = (
            (*over, section.heading.label) if section.heading and section.heading.label else over
        )
        inner = inner[1:] if inner and inner[0] == self._title else inner
        # Outer headings may fit, as the first chunk contains its own.
        room = min(self._room(inner), self._room(inner[:-1]))
        first = True
        for span, label in self._packed(units, room, ""):
            below = inner[:-1] if first and section.heading else inner
            first = False
            headings = self._fitting((*below, label) if label else below)
            yield Cut(span.start, span.end, section, headings)

    def _packed(self, units: Sequence[_Unit], room: int, label: str) -> Iterator[tuple[Span, str]]:
        soft = self._share(units, room)
        start = end = -1
        alone = False
        for before, unit in zip((units[0], *units), units, strict=False):
            size = self._size(unit.start, unit.end)
            follows_row, alone = alone, unit.block is not None and unit.block.kind in ALONE
            limit = 0 if alone or follows_row else room if size < soft // 4 else soft
            if start >= 0 and self._size(start, unit.end) <= limit:
                end = unit.end
                continue
            if start >= 0 and limit and self._leads(before, unit, room):
                if before.start > start:
                    kept = self._text[start : before.start].rstrip()
                    yield Span(start, start + len(kept)), label
                start, end = before.start, unit.end
                continue
            if start >= 0:
                yield Span(start, end), label
            start, end = (unit.start, unit.end) if size <= room else (-1, -1)
            if start < 0:
                yield from self._parts(unit, room, label)
        if start >= 0:
            yield Span(start, end), label

    def _leads(self, before: _Unit, unit: _Unit, room: int) -> bool:
        """Return whether the text of `before` announces that of `unit`, or asks for it."""
        is_open = self._text[before.end - 1] in ":=?\uff1f"
        return is_open and self._size(before.start, unit.end) <= room

    def _share(self, units: Sequence[_Unit], room: int) -> int:
        total = self._size(units[0].start, units[-1].end)
        chunks = max(1, -(-total // room))  # a private-use character may have no piece
        return min(room, -(-total // chunks) * 9 // 8)

    def _parts(self, unit: _Unit, room: int, label: str) -> Iterator[tuple[Span, str]]:
        block = unit.block
        if block and len(block.children) > 1:
            inner = list(_units(self._text, block.children, unit.start, unit.end))
            title = unit.label or label
            used = len(self._counter.starts(title)) if title else 0
            parts = list(self._packed(inner, max(room // 2, room - used), ""))
            # The first part contains the label's own line.
            yield from (
                (span, deeper or (title if number else label))
                for number, (span, deeper) in enumerate(parts)
            )
        elif block and len(block.children) == 1:
            (child,) = block.children
            whole = replace(child, start=unit.start, end=unit.end)
            only = _Unit(unit.start, unit.end, whole, unit.label or child.label)
            yield from self._parts(only, room, label)
        else:
            sentences = [
                _Unit(unit.start + span.start, unit.start + span.end)
                for span in sentence_spans(self._text[unit.start : unit.end])
            ]
            if len(sentences) > 1:
                yield from self._packed(sentences, room, label)
            else:
                yield from ((span, label) for span in self._windows(unit, room))

    def _windows(self, unit: _Unit, room: int) -> Iterator[Span]:
        first = bisect_left(self._starts, unit.start)
        last = bisect_left(self._starts, unit.end)
        place = first
        while True:
            stop = min(place + room, last)
            end = self._word_border(place, stop) if stop < last else unit.end
            begin = unit.start if place == first else self._starts[place]
            piece = self._text[begin:end]
            start = begin + len(piece) - len(piece.lstrip())
            if is_visible(piece):
                yield Span(start, begin + len(piece.rstrip()))
            if stop >= last:
                return
            following = bisect_left(self._starts, end)
            back = bisect_left(self._starts, self._word_border(place, following - OVERLAP_PIECES))
            place = back if place < back < following else following

    def _word_border(self, low: int, high: int) -> int:
        for number in range(high, max(low, high - 40), -1):
            if self._text[self._starts[number] - 1].isspace():
                return self._starts[number]
        return self._starts[high]

    def _size(self, start: int, end: int) -> int:
        return bisect_left(self._starts, end) - bisect_left(self._starts, start)

    def _room(self, headings: tuple[str, ...]) -> int:
        return ENCODER_PIECES - MARKS - self._context(self._fitting(headings))

    def _context(self, headings: tuple[str, ...]) -> int:
        if headings not in self._sizes:
            text = SEPARATOR.join(filter(None, (self._title, *headings)))
            self._sizes[headings] = len(self._counter.starts(text))
        return self._sizes[headings]

    def _fitting(self, headings: tuple[str, ...]) -> tuple[str, ...]:
        while headings and self._context(headings) > CONTEXT_PIECES:
            headings = headings[1:]
        return headings


def _sections(
    outline: Outline, begin: int, anchors: dict[int, str]
) -> Iterator[tuple[Section, list[_Unit]]]:
    section = Section()
    above: list[Block] = []
    start = begin
    inner: list[Block] = []
    for block in (*outline.blocks, None):
        if block and block.kind not in ("heading", "page"):
            inner.append(block)
            continue
        end = block.start if block else len(outline.text)
        path = max(start, section.heading.end) if section.heading else start
        # A heading without content adds nothing to its children.
        if any(True for _ in _units(outline.text, inner, path, end)):
            yield section, list(_units(outline.text, inner, start, end))
        if block is None:
            return
        start, inner = block.start, []
        if block.kind == "page":
            section = replace(section, heading=None, page=block.label)
            if above:
                section = replace(section, above=tuple(above))
            start = block.end
        else:
            above = [other for other in above if other.level < block.level]
            anchor = anchors.get(block.start, "")
            section = Section(block, tuple(above), anchor, section.page)
            above.append(block)


def _units(text: str, blocks: Iterable[Block], start: int, end: int) -> Iterator[_Unit]:
    parts = list(blocks)
    places = [n for n, block in enumerate(parts) if block.kind != "gap"]
    if not places:
        tight = text[start : parts[0].start if parts else end]
        if is_visible(tight):
            first = start + len(tight) - len(tight.lstrip())
            yield _Unit(first, start + len(tight.rstrip()))
        return
    for number, place in enumerate(places):
        low = parts[place].start if number else start
        if not number and place and not text[start : parts[0].start].strip():
            low = parts[place].start
        high = end if place + 1 == len(parts) else parts[place + 1].start
        piece = text[low:high]
        if is_visible(piece):
            first = low + len(piece) - len(piece.lstrip())
            yield _Unit(first, low + len(piece.rstrip()), parts[place], parts[place].label)

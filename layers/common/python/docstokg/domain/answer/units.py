"""What of a passage can be quoted by itself: a sentence, a row, a list, an option, code.

A passage is read line by line. Headings, questions, announcements and the head of a table are no
units: they are kept as what stands `above` the units below them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from docstokg.domain.answer import tables
from docstokg.domain.text.sentences import sentence_spans
from docstokg.domain.text.words import in_pairs

Kind = Literal["sentence", "row", "item", "list", "entry", "code"]

LONGEST: Final = 450
_LONGEST_HEAD: Final = 90
_SHORTEST_WORDS: Final = 3
_FENCE: Final = re.compile(r"\s*(?:`{3,}|~{3,})")
_HEADING: Final = re.compile(r"\A\s{0,99}+#{1,6}\s{1,99}+(?=\S)")
_RULE: Final = re.compile(r"\s*([=~^\"'`#*+.:_-])\1{2,}\s*\Z")
_ITEM: Final = re.compile(r"\A\s*(?:[-*+\u2022\u25cb\u00b7]|\(?(?:\d{1,3}|[a-z])[.)])\s+(?=\S)")
_CELLS: Final = re.compile(r"(?<=\S)\s*\|\s*(?=\S)")
_FIELD: Final = re.compile(r"[\w][\w .()/-]{0,40}: \S")
_OPTION: Final = re.compile(r"\s*-{1,2}[A-Za-z0-9?]")
_ENDS: Final = re.compile(r"[.!?;,:\u2026\u3002\uff01\uff1f][\"')\]*_`\u201d\u2019]*\s*\Z")
_CODE_END: Final = re.compile(r"(?:[;{}\\]|\*/|/>|\)\s*\{|=>)\s*\Z")
_PROMPT: Final = re.compile(r"\s*(?:[$%>] |>>> )\S")
# What only programs write: a heading that holds it names what stands below.
_NAME: Final = re.compile(
    r"`|\w\(|(?<![\w-])--?[a-z]|\w_\w|\w\.\w{1,60}+\b(?!\d)(?=[^ (]{0,99}+\()|[a-z]\.[a-z]"
)
_TERM: Final = re.compile(r"[^\s]*[-_/=()<>`.\d$][^\s]*|[A-Z_]{3,}\b|\S+\Z")
_STOPPED: Final = re.compile(
    r"[.!?\u2026\u3002\uff01\uff1f][^\w\s]{0,9}(?:\s?\[[\d\s,]{1,20}\]){0,4}\Z"
)
_LONGEST_STOP: Final = 80
_LIST_MARK: Final = r"(?:[-*+\u2022\u25cb\u00b7]|\(?(?:\d{1,3}|[a-z])[.)])[^\S\n]"
AT_ITEM: Final = re.compile(rf"([^\S\n]*){_LIST_MARK}")
_ITEM_BELOW: Final = re.compile(rf"[^\S\n]*\n(?:[^\S\n]*\n)?([^\S\n]*){_LIST_MARK}")


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch to quote, `text[start:end]`.

    `shown`: how it reads by itself. `above`: heading, question, announcement or term that stands
    above it. `before`: the sentence before it under the same heading, "" for none. `lead`: what
    announces it.
    """

    start: int
    end: int
    kind: Kind
    shown: str
    above: str = ""
    before: str = ""
    lead: str = ""


class _Line(NamedTuple):
    start: int
    end: int
    depth: int
    text: str


def _lines(text: str) -> list[_Line]:
    made, at, hidden = [], 0, False
    for raw in text.splitlines(keepends=True):
        hidden = hidden or raw.lstrip().startswith("<!--")
        body = "" if hidden else raw.strip()
        hidden = hidden and "-->" not in raw
        depth = len(raw) - len(raw.lstrip())
        made.append(_Line(at + depth if body else at, at + len(raw.rstrip()), depth, body))
        at += len(raw)
    return made


# Of a question's passages: what chooses among them and what quotes them read the same.
@lru_cache(maxsize=256)
def units(text: str, spans: tuple[tuple[int, int], ...]) -> tuple[Unit, ...]:
    """List what can be quoted, in order. `spans`: where the sentences of the text stand.

    Announcements of lists, and sentences that a border of lines cuts, are left out.
    """
    starts, ends = {start for start, _ in spans}, {end for _, end in spans}
    return tuple(
        one
        for one in _Reader(text, spans, _lines(text)).read()
        if _is_whole(one)
        and not (one.kind in ("sentence", "item") and announces(text, one.start, one.end))
        and not (one.kind == "sentence" and not (one.start in starts and one.end in ends))
    )


def announces(text: str, start: int, end: int) -> bool:
    """Return whether `text[start:end]` has no stop and a list follows, deeper than an item."""
    own = text[start:end].rstrip()
    if own.endswith((":", "\uff1a")):
        return True
    below = _ITEM_BELOW.match(text, end)
    if below is None or is_stopped(own):
        return False
    item = AT_ITEM.match(text, text.rfind("\n", 0, start) + 1)
    return item is None or len(item[1]) < len(below[1])


def is_stopped(text: str) -> bool:
    """Return whether a text ends with a stop, with closing marks and citation markers after it."""
    return _STOPPED.search(text[-_LONGEST_STOP:]) is not None


def _is_whole(unit: Unit) -> bool:
    if len(unit.shown) > LONGEST or unit.shown.rstrip().endswith(("?", "\uff1f")):
        return False
    words = (piece for word in unit.shown.split() for piece in in_pairs(word))
    is_free = unit.kind not in ("sentence", "item")
    return is_free or sum(1 for _ in words) >= _SHORTEST_WORDS


class _Reader:
    """Walks over the lines of a passage and keeps what stands above the one it is at."""

    def __init__(self, text: str, spans: Sequence[tuple[int, int]], lines: Sequence[_Line]) -> None:
        self.text, self.spans, self.lines = text, spans, lines
        self.heading = self.lead = self.before = self.name = ""

    def read(self) -> Iterator[Unit]:
        at = 0
        while at < len(self.lines):
            if not self.lines[at].text:
                at += 1
                continue
            stop = self._block(at)
            yield from self._units(at, stop)
            at = stop

    def _block(self, at: int) -> int:
        """Give the end of what begins at a line: fenced code, or lines up to a blank one."""
        lines = self.lines
        if _FENCE.match(lines[at].text):
            ends = (i for i in range(at + 1, len(lines)) if _FENCE.match(lines[i].text))
            return next(ends, len(lines) - 1) + 1
        if _HEADING.match(lines[at].text):
            return at + 1
        stop = at + 1
        while (
            stop < len(lines)
            and lines[stop].text
            and not _FENCE.match(lines[stop].text)
            and not _HEADING.match(lines[stop].text)
        ):
            stop += 1
        return stop

    def _units(self, at: int, stop: int) -> Iterator[Unit]:
        lines = self.lines[at:stop]
        first = lines[0]
        if _FENCE.match(first.text):
            yield from self._code(lines[1:-1] if _FENCE.match(lines[-1].text) else lines[1:])
        elif _HEADING.match(first.text):
            self._titled(_HEADING.sub("", first.text))
        elif len(lines) in (2, 3) and _RULE.match(lines[-1].text) and not _is_table(lines):
            self._titled(lines[-2].text)
        elif _is_table(lines):
            yield from self._rows(lines)
        elif len(lines) > 1 and all(_FIELD.match(line.text) for line in lines):
            yield self._made(lines, "row", "; ".join(line.text for line in lines))
        elif self._is_code(lines):
            yield from self._code(lines)
        elif any(_ITEM.match(line.text) for line in lines):
            yield from self._listed(lines)
        elif len(lines) == 1 and stop < len(self.lines) and _is_title(first.text):
            self._titled(first.text)
        else:
            yield from self._paragraph(lines)

    def _titled(self, heading: str) -> None:
        self.heading, self.lead, self.before = heading.strip("#*_ "), "", ""
        self.name = self.heading if _NAME.search(self.heading) else ""

    def _above(self) -> str:
        return f"{self.heading} {self.lead}".strip()

    def _made(self, lines: Sequence[_Line], kind: Kind, shown: str) -> Unit:
        above, lead = self._above(), self.lead
        return Unit(lines[0].start, lines[-1].end, kind, shown, above, self.before, lead)

    def _code(self, lines: Sequence[_Line]) -> Iterator[Unit]:
        own = [line for line in lines if line.text]
        if own:
            margin = min(line.depth for line in own)
            shown = "\n".join(
                " " * max(0, line.depth - margin) + line.text if line.text else "" for line in lines
            )
            yield self._made(own, "code", shown.strip("\n"))
        self.lead = ""

    def _is_code(self, lines: Sequence[_Line]) -> bool:
        if _PROMPT.match(lines[0].text):
            return True
        own = (line.text for line in lines if not _ITEM.match(line.text))
        ends = sum(_CODE_END.search(text) is not None for text in own)
        indented = bool(self.lead) and lines[0].depth >= 4 and not _ENDS.search(lines[-1].text)
        return 2 * ends > len(lines) or (indented and not _ITEM.match(lines[0].text))

    def _rows(self, lines: Sequence[_Line]) -> Iterator[Unit]:
        columns: tuple[str, ...] = ()
        for line in lines:
            cells = tables.cells(line.text) or tuple(_CELLS.split(line.text))
            if all(not cell.strip(":- |") for cell in cells):
                continue
            if not columns:
                columns = cells
                continue
            names = columns if len(columns) == len(cells) else ("",) * len(cells)
            said = [f"{n}: {c}" if n else c for n, c in zip(names[1:], cells[1:], strict=True) if c]
            if said:
                yield self._made([line], "row", f"{cells[0]}: {'; '.join(said)}")
        self.lead = ""

    def _listed(self, lines: Sequence[_Line]) -> Iterator[Unit]:
        """Take a list: each item, and all of them together with the line that announces them."""
        starts = [i for i, line in enumerate(lines) if _ITEM.match(line.text)]
        if starts[0]:
            yield from self._paragraph(lines[: starts[0]])
        items = [lines[a:b] for a, b in zip(starts, [*starts[1:], len(lines)], strict=True)]
        texts = [_ITEM.sub("", " ".join(line.text for line in own), count=1) for own in items]
        lead = self.lead or (self.heading and not self.before and f"{self.heading}:")
        if lead and len(items) > 1:
            shown = f"{lead} {'; '.join(text.rstrip('.;,') for text in texts)}."
            yield self._made(lines[starts[0] :], "list", shown)
        for own, text in zip(items, texts, strict=True):
            if len(text) <= LONGEST and len(self._within(own)) <= 2:
                yield self._made(own, "item", text)
            else:
                yield from self._sentences(own)

    def _paragraph(self, lines: Sequence[_Line]) -> Iterator[Unit]:
        """Take prose, or what is said below a term that stands above it, further left."""
        while (place := _term_at(lines)) is not None:
            yield from self._sentences(lines[:place])
            below = range(place + 2, len(lines))
            end = next((i for i in below if lines[i].depth <= lines[place].depth), len(lines))
            yield from self._entry(lines[place], lines[place + 1 : end])
            lines = lines[end:]
        yield from self._sentences(lines)

    def _entry(self, term: _Line, lines: Sequence[_Line]) -> Iterator[Unit]:
        self.lead, self.before = term.text, ""
        if _term_at(lines) is not None:
            yield from self._paragraph(lines)
            return
        for place, one in enumerate(self._sentences(lines)):
            is_cut = one.start not in {start for start, _ in self.spans}
            if not place and (is_cut or _TERM.match(term.text)):
                yield Unit(term.start, one.end, "entry", f"{term.text}: {one.shown}", self.heading)
            else:
                yield one

    def _within(self, lines: Sequence[_Line]) -> list[tuple[int, int]]:
        start, end = lines[0].start, lines[-1].end
        inside = [(max(a, start), min(b, end)) for a, b in self.spans if a < end and start < b]
        return inside or [(start, end)]

    def _sentences(self, lines: Sequence[_Line]) -> Iterator[Unit]:
        for start, end in self._within(lines) if lines else ():
            shown = _ITEM.sub("", " ".join(self.text[start:end].split()), count=1)
            if shown.endswith("?") and (start, end) == (lines[0].start, lines[-1].end):
                self._titled(shown)
            elif shown.endswith(":"):
                self.lead = shown
            elif self.name:
                yield Unit(start, end, "entry", f"{self.name}: {shown}", self._above())
                self.name = ""
            else:
                yield Unit(start, end, "sentence", shown, self._above(), self.before)
            self.before = shown


def _term_at(lines: Sequence[_Line]) -> int | None:
    """Give the place of the first short line that stands above a deeper one, as a term does."""
    for place, (line, below) in enumerate(pairwise(lines)):
        is_term = _OPTION.match(line.text) or not _ENDS.search(line.text)
        if is_term and below.depth > line.depth + 1 and len(line.text) <= _LONGEST_HEAD:
            return place
    return None


def _is_table(lines: Sequence[_Line]) -> bool:
    is_drawn = all(line.text.lstrip().startswith("|") or " | " in line.text for line in lines)
    counts = {len(_CELLS.split(line.text.strip("|"))) for line in lines}
    return is_drawn and len(lines) > 1 and min(counts) > 1 and len(counts) <= 2


def _is_title(text: str) -> bool:
    """Tell whether a line alone above more text is a title or a question."""
    return text.endswith("?") or (len(text) <= _LONGEST_HEAD and not _ENDS.search(text))


def borders(text: str, stored: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Return where the sentences of a passage stand, found here where they are not stored."""
    return stored or tuple((span.start, span.end) for span in sentence_spans(text))

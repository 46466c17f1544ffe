"""What of a passage can be quoted by itself: a sentence, an item with its option, a piece of code.

Borders are those stored at load; here they are put together again where a border would tear
apart what only means something whole.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from docstokg.domain.sentences import Span

Kind = Literal["prose", "code"]

LONGEST: Final = 450
_LONGEST_ITEM: Final = 350
_FENCE: Final = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*$", re.MULTILINE)
_BLANK_LINES: Final = re.compile(r"\n[^\S\n]*\n")
_BLANK: Final = re.compile(r"[^\S\n]*\n(?:[^\S\n]*\n)+")
_HEADING: Final = re.compile(r"#{1,6}[^\S\n]")
_LIST_ITEM: Final = re.compile(r"(?:[-*+\u2022\u25cb\u00b7]|\d{1,3}[.)])[^\S\n]")
# `-x, --extract, --get`, alone on its line or with two spaces before what it does.
_OPTION: Final = re.compile(r"(-{1,2}[A-Za-z0-9?][^\n]{0,90}?)(?:[^\S\n]*\n|[^\S\n]{2,}(?=\S))")
_CAPITALS: Final = re.compile(r"[A-Z][A-Z0-9 ,/&'-]{3,70}\n[^\S\n]*")
_LEANING: Final = re.compile(
    r"(?:it|its|this|these|those|they|their|he|she|such|here|then|for example|in this case)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch to quote, text[start:end], made of the sentences `parts`.

    `lead`: what introduces it and belongs to it (an option's names, a line that ends with a
    colon, the heading above code), "" where nothing does. `option`: the names of the option it is
    about. `leaning`: it speaks of something the sentence before names.
    """

    start: int
    end: int
    kind: Kind
    parts: tuple[int, ...]
    lead: str = ""
    option: str = ""
    leaning: bool = False


def units(text: str, spans: Sequence[tuple[int, int]]) -> tuple[Unit, ...]:
    """Put sentences together to what can be quoted, in order; headings and lone leads are none."""
    fences = _fences(text)
    made: list[Unit] = []
    heading = lead = option = ""
    at = 0
    while at < len(spans):
        start, end = spans[at]
        fence = next((f for f in fences if f.start < end and start < f.end), None)
        if fence is not None:
            last = at
            while last + 1 < len(spans) and spans[last + 1][0] < fence.end:
                last += 1
            made += _code(text, fence, spans, range(at, last + 1), lead or heading)
            lead, at = "", last + 1
            continue
        body = text[start:end]
        fresh = at == 0 or _BLANK.search(text, spans[at - 1][1], start) is not None
        if fresh or _LIST_ITEM.match(body):
            option = ""
        skipped = _CAPITALS.match(body)
        if skipped and skipped.end() < len(body):
            start += skipped.end()
            body = text[start:end]
        if _HEADING.match(body):
            heading, lead = body.lstrip("#").split("\n")[0].strip(), ""
        elif body.rstrip().endswith(":") and len(body) <= LONGEST:
            last = _listed(text, spans, at)
            if last > at and spans[last][1] - start <= LONGEST:
                made.append(Unit(start, spans[last][1], "prose", tuple(range(at, last + 1))))
            lead = " ".join(body.split())
        else:
            named = _OPTION.match(body)
            leaning = bool(_LEANING.match(body)) and not fresh
            parts: tuple[int, ...] = (at,)
            if named:
                following = spans[at + 1] if at + 1 < len(spans) else None
                if following and _explains(text, start, end, following):
                    # "This option makes ...": what an option does stands with its names.
                    end, parts, at = following[1], (at, at + 1), at + 1
                option = " ".join(named[1].split())
            lead_of = "" if named else option
            made.append(Unit(start, end, "prose", parts, lead_of, option, leaning))
            if not _LIST_ITEM.match(body):
                lead = ""
        at += 1
    return tuple(made)


def _explains(text: str, start: int, end: int, following: tuple[int, int]) -> bool:
    return (
        following[1] - start <= _LONGEST_ITEM
        and _BLANK.search(text, end, following[0]) is None
        and _LEANING.match(text, *following) is not None
    )


def _fences(text: str) -> list[Span]:
    found: list[Span] = []
    opened: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        if opened is None:
            opened = match
        elif match[1][0] == opened[1][0] and len(match[1]) >= len(opened[1]):
            found.append(Span(opened.start(), match.end()))
            opened = None
    if opened is not None:
        found.append(Span(opened.start(), len(text)))
    return found


def _code(
    text: str, fence: Span, spans: Sequence[tuple[int, int]], own: range, lead: str
) -> list[Unit]:
    """Take a fenced block whole, or, when it is long, its paragraphs one by one."""
    begin = text.find("\n", fence.start, fence.end) + 1
    closing = text.rfind("\n", begin, fence.end)
    stop = closing if closing > begin and _FENCE.match(text, closing + 1) else fence.end
    if not begin or not text[begin:stop].strip():
        return []
    borders = [begin, *(match.end() for match in _BLANK_LINES.finditer(text, begin, stop)), stop]
    if stop - begin <= LONGEST // 2:
        borders = [begin, stop]
    made = []
    for a, b in pairwise(borders):
        parts = tuple(i for i in own if spans[i][0] < b and a < spans[i][1])
        if text[a:b].strip() and b - a <= LONGEST:
            made.append(Unit(a, a + len(text[a:b].rstrip()), "code", parts or (own[0],), lead))
    return made


def _listed(text: str, spans: Sequence[tuple[int, int]], at: int) -> int:
    """Find the last of the list items that follow the sentence `at`; itself without any."""
    last = at
    while last + 1 < len(spans) and _LIST_ITEM.match(text, *spans[last + 1]):
        last += 1
    return last

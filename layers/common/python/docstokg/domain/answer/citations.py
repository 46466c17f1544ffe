"""Citation markers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import Literal, NamedTuple

MarkerKind = Literal["citation", "footnote", "malformed"]

# The plain hyphen comes last; elsewhere in a character class it would form a range.
_DASH = "\u2010\u2011\u2012\u2013\u2014\u2212-"
_DASHES = re.compile(f"[{_DASH}]")
_SEPARATOR = re.compile("[,;&]")
_LIST = rf"\s*\d{{1,9}}(?:\s*(?:[,;&]|[{_DASH}])\s*\d{{1,9}})*\s*"
_LINK = r"(?:\((?:https?:|www\.|mailto:|data:|javascript:|[/#.])[^)\s]{0,2000}+\))?"
# Brackets of digits, separators and an optional word for "source", well-formed or malformed.
_MARKER = re.compile(
    rf"(?P<good>\[(?P<list>{_LIST})\])(?P<link>{_LINK})(?P<colon>:(?=\s))?"
    rf"|(?P<bad>\[\s{{0,9}}(?:(?:sources?|citations?|cite|refs?|references?|docs?|documents?|passages?"
    rf"|blocks?|chunks?)\s{{0,9}}[:#.]?\s{{0,9}}\#?|\#|rank\s{{0,9}})?\d[\d\s,;&{_DASH}]{{0,60}}\](?:{_LINK})"
    r"|[\u3010\uff3b\u27e6]\s{0,9}[^\]\u3011\uff3d\u27e7\n]{0,40}?\d[^\]\u3011\uff3d\u27e7\n]{0,40}"
    r"[\]\u3011\uff3d\u27e7])",
    re.IGNORECASE | re.ASCII,
)
# A Markdown link or image; group 1 is its text. `grid[row][col]` does not match.
LINK = re.compile(
    r"(?<![^\W_])!?\[([^\[\]]{1,200}+)\]"
    r"(?:\((?:[^()\s]|\([^()\s]{0,100}+\)){0,400}+(?:\s[^()\n]{0,100}+)?\)|\[[^\[\]]{0,80}+\])"
)

_FENCE = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})[^\n]*$", re.MULTILINE)
_PARAGRAPH = re.compile(r"(?:[^\n]+\n?)+")
_INLINE = re.compile(r"(?<!`)(`++).+?(?<!`)\1(?!`)", re.DOTALL)
_WIDEST_RANGE = 100
_MOST_PASSES = 6


class Marker(NamedTuple):
    """A citation marker at `text[start:end]`, with its ranks in order."""

    start: int
    end: int
    ranks: tuple[int, ...]
    kind: MarkerKind


class CitedText(NamedTuple):
    """An answer with validated markers.

    `cited`: remaining ranks, ascending. `invalid`: removed markers in order, `[9]` for an unknown
    rank, a malformed marker verbatim.
    """

    text: str
    cited: tuple[int, ...]
    invalid: tuple[str, ...]


def find_markers(text: str) -> tuple[Marker, ...]:
    """Return all citation markers outside code, in order.

    Valid forms: `[1]`, `[1][2]`, `[1, 3]`, `[1-3]` (any dash), `[1](link)`. `[source 1]`, `[1,]`,
    `[3-1]` and full-width brackets with a number are malformed, `[1]:` at the start of a line is a
    footnote. `[^1]`, `[sic]` and `[1.5]` are ignored.
    """
    code = code_ranges(text)
    markers: list[Marker] = []
    at = 0
    for match in _MARKER.finditer(text):
        start, end = match.span()
        while at < len(code) and code[at][1] <= start:
            at += 1
        if at < len(code) and code[at][0] < end:
            continue
        ranks = _ranks(match["list"]) if match["good"] else None
        kind: MarkerKind = "malformed" if ranks is None else "citation"
        if match["colon"] and not text[text.rfind("\n", 0, start) + 1 : start].strip():
            kind = "footnote"
        elif match["colon"]:
            end -= 1
        markers.append(Marker(start, end, ranks or (), kind))
    return tuple(markers)


def check_markers(text: str, ranks: Collection[int]) -> CitedText:
    """Remove and list markers that are malformed, or whose ranks were not given to the model.

    Ranks are not renumbered: `[1, 99]` becomes `[1]`. A link after a marker is removed.
    """
    allowed = frozenset(ranks)
    invalid: dict[str, None] = {}
    for _ in range(_MOST_PASSES):
        text, changed = _one_pass(text, allowed, invalid, nested=False)
        if not changed:
            break
    else:
        text, _ = _one_pass(text, allowed, invalid, nested=True)
    cited = ranks_within(find_markers(text), 0, len(text))
    return CitedText(text, tuple(sorted(cited)), tuple(invalid))


def strip_markers(text: str) -> str:
    """Return `text` without all markers of `find_markers`."""
    markers = find_markers(text)
    return spliced(text, ((_gap(text, marker.start), marker.end, "") for marker in markers))


def spliced(text: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """Return a text with ranges replaced; `changes`: (start, end, new text) in order."""
    pieces, at = [], 0
    for start, end, replacement in changes:
        pieces += [text[at:start], replacement]
        at = end
    return "".join([*pieces, text[at:]])


def ranks_within(markers: Iterable[Marker], start: int, end: int) -> tuple[int, ...]:
    """Return the ranks cited between two offsets, without duplicates, in order of appearance."""
    ranks: dict[int, None] = {}
    for marker in markers:
        if marker.kind == "citation" and start <= marker.start < end:
            ranks.update(dict.fromkeys(marker.ranks))
    return tuple(ranks)


def _one_pass(
    text: str, allowed: frozenset[int], invalid: dict[str, None], *, nested: bool
) -> tuple[str, bool]:
    changes: list[tuple[int, int, str]] = []
    for marker in find_markers(text):
        marked = text[marker.start : marker.end]
        ranks = [rank for rank in marker.ranks if rank in allowed]
        orphans = [rank for rank in marker.ranks if rank not in allowed]
        sound = marker.kind != "malformed" and not orphans
        if sound:
            replacement = marked[: marked.index("]") + 1] + (":" * (marker.kind == "footnote"))
            if replacement == marked:
                continue
        else:
            invalid.update(dict.fromkeys([f"[{rank}]" for rank in orphans] or [marked]))
            replacement = f"[{', '.join(map(str, ranks))}]" if ranks else ""
            if nested and not replacement:
                # Round brackets cannot form a marker with adjacent text.
                replacement = re.sub(r"[^\d\s,]", "", marked).join("()")
        closes = not replacement and _closes_gap(text, marker.end)
        start = _gap(text, marker.start) if closes else marker.start
        changes.append((start, marker.end, replacement))
    return spliced(text, changes), bool(changes)


def _gap(text: str, end: int) -> int:
    while text[end - 1 : end] in (" ", "\t"):
        end -= 1
    return end


def _closes_gap(text: str, end: int) -> bool:
    return end >= len(text) or text[end].isspace() or text[end] in ".,;:!?)"


def _ranks(body: str) -> tuple[int, ...] | None:
    ranks: dict[int, None] = {}
    for part in _SEPARATOR.split(body):
        first, *ends = (int(number) for number in _DASHES.split(part))
        if len(ends) > 1 or not all(0 < last - first < _WIDEST_RANGE for last in ends):
            return None
        ranks.update(dict.fromkeys(range(first, (ends or [first])[0] + 1)))
    return tuple(ranks)


def code_ranges(text: str) -> list[tuple[int, int]]:
    """Return the ranges of fenced and inline code, in order, by CommonMark rules."""
    if "`" not in text and "~~~" not in text:
        return []
    fenced: list[tuple[int, int]] = []
    opened: tuple[int, str] | None = None
    for match in _FENCE.finditer(text):
        fence = match["fence"]
        if opened is None:
            info = match[0].strip().removeprefix(fence)
            if "`" in info if fence[0] == "`" else not info and _is_underline(text, match):
                continue
            opened = (match.start(), fence)
        elif fence.startswith(opened[1]) and match[0].strip() == fence:
            fenced.append((opened[0], match.end()))
            opened = None
    if opened is not None:
        fenced.append((opened[0], len(text)))
    ranges: list[tuple[int, int]] = []
    at = 0
    for start, end in [*fenced, (len(text), len(text))]:
        ranges += [
            code.span()
            for paragraph in _PARAGRAPH.finditer(text, at, start)
            for code in _INLINE.finditer(text, *paragraph.span())
        ]
        if start < end:
            ranges.append((start, end))
        at = end
    return ranges


def _is_underline(text: str, line: re.Match[str]) -> bool:
    """Return whether a line of tildes is at least as long as the text above it."""
    above = text[: line.start()].removesuffix("\n").rpartition("\n")[2].strip()
    return 0 < len(above) <= len(line["fence"])


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return `text` with `change` applied to everything except code."""
    pieces, at = [], 0
    for start, end in [*code_ranges(text), (len(text), len(text))]:
        pieces += [change(text[at:start]), text[start:end]]
        at = end
    return "".join(pieces)

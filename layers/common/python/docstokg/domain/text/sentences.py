"""Sentence segmentation."""

from __future__ import annotations

import re
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple


class Span(NamedTuple):
    """A half-open range of code points, `text[start:end]`."""

    start: int
    end: int


_ABBREVIATIONS = frozenset(
    Path(__file__).with_name("abbreviations.txt").read_text("utf-8").casefold().split()
)
# Abbreviations that often end a sentence: a border if a sentence start follows.
_MAY_END_TEXT = (
    "al co corp etc inc jr ltd sp spp sr st max min no ex jan feb mar jun jul aug sep sept oct nov "
    "dec mon tue tues wed thu thurs fri kr p"
)
_MAY_END = frozenset(_MAY_END_TEXT.split())
_CLOSERS = "\"'”’»)]}›】」』*_"
_OPENERS = "\"'“‘«([{‹【「『*_#>"
_MARKERS = r"(?:\[\s*\d{1,4}(?:\s*[,;\u2013\u2212-]\s*\d{1,4})*\s*\])"
# A terminator with its closing marks and adjacent citation markers.
_END = re.compile(
    rf"(?P<stop>[.!?\u2026]+|[\u3002\uff01\uff1f]+)(?P<close>[{re.escape(_CLOSERS)}]*"
    # A straight quote between two spaces after a stop can only close (`"allostasis. " Next`).
    rf"(?:{_MARKERS}[.]?)*(?:[ ]\"(?=\s|$))?)"
)
# Possessive quantifiers, so that a run of spaces is scanned once.
_PARAGRAPH = re.compile(r"\n(?:[^\S\n]*+\n)++")
_LIST_LINE = re.compile(r"\n(?=[^\S\n]*(?:[-*+\u2022]|\d{1,3}[.)]|#{1,6}|\|)[^\S\n])")
# The label of a clause or an option at the start of a line: "2.1", "2.1.", "b)".
_LABEL = r"(?:(?P<parents>(?:\d{1,3}\.){1,4})(?P<number>\d{1,3})[.)]?|(?P<letter>[a-z])[.)])"
_LABEL_LINE = re.compile(rf"(?:\A|\n)[^\S\n]*+\(?{_LABEL}(?=[^\S\n])")
# The line under a heading.
_UNDERLINE = re.compile(r"\n[^\S\n]*([=~^\"'`#*+:_-])\1{2,}[^\S\n]*(?=\n)")
_AFTER_HEADING = re.compile(r"(?:^|\n)[^\S\n]*#{1,6}[^\S\n][^\n]*(\n)")
# `claim. [2] Next`: the marker belongs to the preceding claim.
_TRAILING_MARKERS = re.compile(rf"[^\S\n]{{1,2}}(?:{_MARKERS}[^\S\n]?)+\.?(?=\s|$)")
# A citation marker before a stop ends a sentence, even before a lower-case letter.
_MARKED = re.compile(rf"{_MARKERS}\Z")
_LONGEST_MARKER = 24
_WORD_BEFORE = re.compile(r"[^\W\d_][\w.]*$|\d+$")
_TOKEN = re.compile(rf"[{re.escape(_OPENERS)}\s]*(\S+)")
# `am 3. Mai`, `im 19. Jahrhundert`, `der 2. Preis`: a number after such a word is an ordinal.
_ORDINAL = re.compile(r"\b(?:a[bm]|bis|das|de[mnrs]|die|im|seit|und|vo[mn]|zu[mr])\s\d{1,2}$", re.I)
_LIST_NUMBER = re.compile(
    r"(?:(?:^|\n)[^\S\n]*(?:\u00a7 ?)?(?:\d{1,3}|[a-z])"
    r"|(?:^|\n|[.:]\s)[^\S\n]*(?:\d{1,3}\.){1,4}\d{1,3})$"
)
_LONGEST_LIST_NUMBER = 24
_LONGEST_ASIDE = 300
_PAIRS = {")": "(", "]": "["}


def sentence_spans(text: str) -> tuple[Span, ...]:
    """Return the sentences of `text` in order, separated by white space only.

    Blank lines, list items, headings and lines under them end one too. Offsets are code points; no
    span begins or ends with white space.
    """
    cuts = sorted({*_hard_breaks(text), *_sentence_ends(text), len(text)})
    spans: list[Span] = []
    begin = 0
    for cut in cuts:
        piece = text[begin:cut]
        start = begin + len(piece) - len(piece.lstrip())
        end = begin + len(piece.rstrip())
        begin = cut
        if start >= end:
            continue
        if spans and not any(map(str.isalnum, piece)):
            # Punctuation without a word belongs to the previous sentence.
            spans[-1] = Span(spans[-1].start, end)
        else:
            spans.append(Span(start, end))
    return tuple(spans)


def sentences(text: str) -> tuple[str, ...]:
    """Return the texts of the sentences."""
    return tuple(text[span.start : span.end] for span in sentence_spans(text))


def _hard_breaks(text: str) -> list[int]:
    if "\n" not in text:
        return []
    breaks = [match.end() for match in _PARAGRAPH.finditer(text)]
    breaks += [match.start() for match in _LIST_LINE.finditer(text)]
    breaks += [match.end() for match in _UNDERLINE.finditer(text)]
    breaks += [match.end(1) for match in _AFTER_HEADING.finditer(text)]
    return breaks + _labelled_lines(text)


def _labelled_lines(text: str) -> list[int]:
    """Return the starts of lines whose label follows or precedes another line's: 2.1 and 2.2."""
    labels = {
        match.start(): (match["parents"], int(match["number"] or ord(match["letter"])))
        for match in _LABEL_LINE.finditer(text)
    }
    present = set(labels.values())
    return [
        start
        for start, (parents, number) in labels.items()
        if not present.isdisjoint({(parents, number - 1), (parents, number + 1)})
    ]


def _sentence_ends(text: str) -> list[int]:
    asides = _asides(text)
    ends: list[int] = []
    for match in _END.finditer(text):
        end = match.end()
        wide = match["stop"][0] in "\u3002\uff01\uff1f"
        if end < len(text) and not wide and not text[end].isspace():
            continue
        if _inside(asides, match.start()):
            continue
        trailing = _TRAILING_MARKERS.match(text, end)
        if trailing and not _starts_lower(text, trailing.end()):
            ends.append(trailing.end())
        elif wide or _is_marked(text, match.start()) or _is_border(text, match, end):
            ends.append(end)
    return ends


def _is_border(text: str, match: re.Match[str], end: int) -> bool:
    following = _TOKEN.match(text, end)
    if following is None:
        return True
    token = following[1]
    stop = match["stop"]
    if stop != ".":
        # `...`, `?` and `!` end a sentence unless a lower-case word follows.
        return not token[0].islower() or _mixed(token)
    if _LIST_NUMBER.search(text, max(0, match.start() - _LONGEST_LIST_NUMBER), match.start()):
        return False
    if _ORDINAL.search(text, max(0, match.start() - 8), match.start()) and not _common_start(token):
        return False
    before = _WORD_BEFORE.search(text, max(0, match.start() - 24), match.start())
    word = before[0] if before else ""
    if token[0].islower() and not _mixed(token):
        return False
    if not match["close"]:
        is_degree = text[match.start() - 2 : match.start() - 1] == "\u00b0"
        if len(word) == 1 and word.isupper() and not is_degree:
            return not token[0].isupper() or _common_start(token)
        if "." in word and all(len(part) <= 1 for part in word.split(".")):
            return token[0].isupper() and _common_start(token)
        # ED or NO in capitals is a name.
        if (word.islower() or word.istitle()) and word.casefold() in _ABBREVIATIONS:
            return word.casefold() in _MAY_END and _common_start(token)
    return True


def _is_marked(text: str, stop: int) -> bool:
    return _MARKED.search(text, max(0, stop - _LONGEST_MARKER), stop) is not None


def _starts_lower(text: str, at: int) -> bool:
    following = _TOKEN.match(text, at)
    return following is not None and following[1][0].islower()


def _mixed(token: str) -> bool:
    head = re.split(r"[^\w-]", token, maxsplit=1)[0]
    return any(char.isdigit() or char.isupper() for char in head[1:])


_STARTS_TEXT = (
    "a an the this these those that it its they their we our in on at by for from to with however "
    "moreover furthermore thus therefore here although while when if after before both as there "
    "but and no not he she his her his i you such all most many some several other"
)
_STARTS = frozenset(_STARTS_TEXT.split())


def _common_start(token: str) -> bool:
    word = token.rstrip(",;:")
    return word[:1].isupper() and word.casefold() in _STARTS


def _asides(text: str) -> tuple[list[int], list[int]]:
    stack: list[tuple[str, int]] = []
    spans: list[tuple[int, int]] = []
    for match in re.finditer(r"[()\[\]]", text):
        char = match[0]
        if char in "([":
            stack.append((char, match.start()))
        elif stack and stack[-1][0] == _PAIRS[char]:
            start = stack.pop()[1]
            if match.start() - start <= _LONGEST_ASIDE:
                spans.append((start, match.start()))
    spans.sort()
    starts: list[int] = []
    ends: list[int] = []
    for start, end in spans:
        if not ends or start > ends[-1]:
            starts.append(start)
            ends.append(end)
    return starts, ends


def _inside(asides: tuple[list[int], list[int]], at: int) -> bool:
    starts, ends = asides
    index = bisect_right(starts, at) - 1
    return index >= 0 and at < ends[index]

"""Whether a sentence of an answer is a quotation: whole sentences, rows or items of a passage."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

from docstokg.domain.answer.citations import strip_markers
from docstokg.domain.answer.statements import read_row
from docstokg.domain.answer.tables import cells, is_rule
from docstokg.domain.answer.units import borders, units
from docstokg.domain.text.sentences import Span, sentence_spans
from docstokg.domain.text.words import WORD, compatible, visible

LEAST_WORDS: Final = 3
"""Words of the shortest quotation; a row's key with its value may be shorter."""

_LINK: Final = re.compile(
    r"!?\[([^\[\]]{1,200}+)\](?:\([^()\s]{0,400}+(?:\s[^()\n]{0,100}+)?\)|\[[^\[\]]{0,80}+\])"
)
_TAG: Final = re.compile(r"</?[A-Za-z][^<>\n]{0,200}+>")
_LINE_MARKUP: Final = re.compile(
    r"^[^\S\n]*(?:(?:>|#{1,6}|[-*+\u2022\u25cb\u00b7]|\(?\d{1,3}[.)])[^\S\n]+)+", re.MULTILINE
)
_EMPHASIS: Final = re.compile(r"\*{2,3}|__|~~|(?<![^\W_])[*_](?=\S)|(?<=\S)[*_](?![^\W_])|`")
_QUOTES: Final = re.compile("(?<!\\d)[\"'\u2018-\u201f\u00ab\u00bb\u2039\u203a]")
_BRACKETS: Final = str.maketrans("[]{}\u3010\u3011", "()()()")
_DASHES: Final = re.compile("[\u2010-\u2015\u2212]")
# NFKC writes a raised digit as a plain one: 10 to the power of 2 would equal 102.
_RAISED: Final = re.compile("(?=[\u00b2\u00b3\u00b9\u2070\u2074-\u207f])")
_STOP: Final = re.compile(r"[.!?\u2026;,:|\u3002]+(?![^\W_])")
_SPACE: Final = re.compile(r"(?<!\d)\s+|\s+(?!\d)")


class Quotation(NamedTuple):
    """A quotation found in a passage: `start` and `end` in code points of its text."""

    start: int
    end: int


class _Piece(NamedTuple):
    start: int
    end: int
    is_short: bool
    """Whether it may be shorter than `LEAST_WORDS`."""


class _Pieces(NamedTuple):
    """Quotable stretches of a passage by their comparable form, and its sentences in a row.

    `joined`: the comparable forms of all sentences, one after the other; `cuts`: their ends in it.
    """

    single: dict[str, _Piece]
    joined: str
    cuts: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]


def comparable(text: str) -> str:
    """Return the form in which quotations are compared.

    NFKC and case folding, without markers, links, markup, quotation marks, white space (but between
    two digits) and stops that no letter or digit follows.
    """
    plain = _LINE_MARKUP.sub("", strip_markers(visible(text)))
    plain = _EMPHASIS.sub("", _TAG.sub("", _LINK.sub(r"\1", plain)))
    folded = compatible(_RAISED.sub("^", plain)).casefold().translate(_BRACKETS)
    folded = _STOP.sub("", _QUOTES.sub("", _DASHES.sub("-", folded)).strip())
    return re.sub(r"\s+", " ", _SPACE.sub("", folded))


def find_quotation(
    text: str, passage: str, sentences: tuple[tuple[int, int], ...]
) -> Quotation | None:
    """Return where a passage has `text` as whole sentences, rows, list items or lines of code.

    `sentences`: spans of the passage's sentences; found here if empty. None where the text is cut
    at either end, is shorter than three words and no row, or is not in the passage.
    """
    wanted = comparable(text)
    if not wanted:
        return None
    pieces = _pieces(passage, borders(passage, sentences))
    is_short = len(WORD.findall(text)) < LEAST_WORDS
    one = pieces.single.get(wanted)
    if one is not None and (one.is_short or not is_short):
        return Quotation(one.start, one.end)
    return None if is_short else _in_a_row(wanted, pieces)


def _in_a_row(wanted: str, pieces: _Pieces) -> Quotation | None:
    """Find several whole sentences that follow each other."""
    at = pieces.joined.find(wanted)
    starts = (0, *pieces.cuts)
    while at >= 0:
        first = bisect_left(starts, at)
        last = bisect_left(pieces.cuts, at + len(wanted))
        begins = first < len(starts) and starts[first] == at
        if begins and last < len(pieces.cuts) and pieces.cuts[last] == at + len(wanted):
            return Quotation(pieces.spans[first][0], pieces.spans[last][1])
        at = pieces.joined.find(wanted, at + 1)
    return None


# The passages of a question are compared with every sentence of its answer.
@lru_cache(maxsize=256)
def _pieces(passage: str, spans: tuple[tuple[int, int], ...]) -> _Pieces:
    own = tuple(span for span in spans if comparable(passage[slice(*span)]))
    texts = [comparable(passage[start:end]) for start, end in own]
    single: dict[str, _Piece] = {}
    for (start, end), text in zip(own, texts, strict=True):
        single.setdefault(text, _Piece(start, end, is_short=False))
    for unit in units(passage, spans):
        if unit.kind == "sentence":
            continue
        is_short = unit.kind in ("row", "code")
        whole = [unit.shown, *(unit.shown[slice(*span)] for span in sentence_spans(unit.shown))]
        if unit.kind == "code":
            whole = unit.shown.splitlines()
        for text in whole:
            single.setdefault(comparable(text), _Piece(unit.start, unit.end, is_short))
    for span, text in _rows(passage):
        single[comparable(text)] = _Piece(*span, is_short=True)
    single.pop("", None)
    return _Pieces(single, "".join(texts), tuple(accumulate(map(len, texts))), own)


def _rows(passage: str) -> Iterator[tuple[Span, str]]:
    """Yield the readings of each row of a drawn table: whole, with column names, key and value."""
    columns: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    for line in re.finditer(r"[^\n]+", passage):
        parts = cells(line[0])
        if not parts:
            columns = before = ()
        elif is_rule(parts):
            columns = before
        else:
            span = Span(*line.span())
            yield span, " ".join(parts)
            yield span, read_row(parts, ())
            if len(columns) == len(parts):
                yield span, read_row(parts, columns)
                for name, value in zip(columns[1:], parts[1:], strict=True):
                    if value:
                        yield span, f"{parts[0]} {name} {value}"
        before = parts

"""Detection of quotations."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from docstokg.domain.answer.citations import LINK, strip_markers
from docstokg.domain.answer.parts import (
    AT_ITEM,
    QUESTION_MARKS,
    STRUCK_OUT,
    Borders,
    Part,
    announces,
    is_short,
    is_stopped,
    parts,
    units,
)
from docstokg.domain.answer.statements import Statement
from docstokg.domain.text.sentences import Span, sentence_spans
from docstokg.domain.text.words import WORD, compatible, visible

# Only known HTML elements: `<LOD and >` compares numbers, `<FILE>` is an argument.
_ELEMENTS = (
    "a|abbr|b|big|blockquote|br|cite|code|dd|div|dl|dt|em|font|h[1-6]|hr|i|img|kbd|li|mark|ol|p|pre"
    "|q|small|span|strong|sub|sup|table|tbody|td|th|thead|tr|tt|u|ul|var"
)
_TAG = re.compile(
    rf"</?(?:{_ELEMENTS})(?:\s[^<>\n=]{{0,40}}+=[^<>\n]{{0,200}}+)?\s?/?>", re.IGNORECASE
)
_RAISED_TAG = re.compile(r"\s?<sup>\s?", re.IGNORECASE)
# `> 5 mg` at the start of a line is a comparison, not a block quote.
_LINE_MARKUP = re.compile(
    r"^[^\S\n]*(?:(?:>(?!\s*\d)|#{1,6}|[-*+\u2022\u25cb\u00b7]|\(?\d{1,3}[.)])[^\S\n]+)+",
    re.MULTILINE,
)
# `2**3` and `a_b` are not emphasis; struck-out text is not a statement.
_EMPHASIS = re.compile(
    r"(?<![^\W_])(?:(?<!\*)\*{1,3}+|(?<!_)_{1,2}+)(?=\S)"
    r"|(?:(?<=[^\s*])\*{1,3}+|(?<=[^\s_])_{1,2}+)(?![^\W_])|`"
)
_QUOTES = re.compile("(?<!\\d)[\"']|[\u2018-\u201f\u00ab\u00bb\u2039\u203a]")
_BRACKETS = str.maketrans("[]{}\u3010\u3011", "()()()")
_DASHES = re.compile("[\u2010-\u2015\u2212]")
# NFKC turns superscript digits into plain ones: 10 to the power of 2 would equal 102.
_RAISED = re.compile("(?=[\u00b2\u00b3\u00b9\u2070\u2074-\u207f])")
_LOWERED = re.compile("(?<=\\d)(?=[\u2080-\u2089])")
_ENDS = " \t\n.!\u2026;,:|\u3002"
_START = re.compile(r"[.!\u2026;,:|\u3002]++(?![^\W_])\s*+")
_SEPARATOR = re.compile(r"[;:|]+(?![^\W_])")
_SPACE = re.compile(r"(?<!\d)\s+|\s+(?!\d)")
_COMMENT = r"^[^\S\n]*(?:#+|//+|/?\*+|;+|--+|%+)"
_COMMENT_MARK = re.compile(_COMMENT, re.MULTILINE)
# Consecutive comments, or a line with its continuation lines.
_CODE_LINE = re.compile(rf"(?:{_COMMENT}[^\n]*(?:\n|\Z))+|(?:[^\n]*\\\n)*[^\n]+", re.MULTILINE)
_PREFIX = re.compile(r":\s+")
_MOST_PREFIXES = 3
_FRAGMENT = re.compile(r"[a-z]+\b")
_BREAK = "\n"


class _Piece(NamedTuple):
    """A quotable stretch `passage[start:end]`.

    `is_lead`: announces a list; quoted with a colon. `is_fragment`: may start within a sentence;
    quoted in lower case.
    """

    start: int
    end: int
    is_short: bool = False
    is_lead: bool = False
    is_fragment: bool = False


class _Cells(NamedTuple):
    """Cells of a row as compared, `forms` with column names, `keys` of its first cell."""

    span: Span
    keys: frozenset[str]
    forms: tuple[str, ...]

    @property
    def pattern(self) -> re.Pattern[str]:
        forms = map(re.escape, sorted(self.forms, key=len, reverse=True))
        return re.compile(rf"({'|'.join(forms)})[;:|]* ?")


class _Pieces(NamedTuple):
    single: dict[str, _Piece]
    rows: dict[str, _Piece]
    tables: list[_Cells]
    joined: str
    starts: dict[int, int]
    ends: dict[int, int]


def comparable(text: str) -> str:
    """Return the form in which quotations are compared.

    NFKC and case folding, without markup, quotation marks, final stop and white space (except
    between digits).
    """
    return _squeezed(_folded(text))


def _folded(text: str) -> str:
    # Answers escape `<` before a tag.
    plain = _LINE_MARKUP.sub("", strip_markers(visible(text.replace("&lt;", "<"))))
    plain = LINK.sub(r"\1", STRUCK_OUT.sub("", plain))
    plain = _TAG.sub(" ", _RAISED_TAG.sub("^", plain))
    plain = _LOWERED.sub(" ", _RAISED.sub("^", _EMPHASIS.sub("", plain)))
    folded = compatible(plain).casefold().translate(_BRACKETS)
    return _QUOTES.sub("", _DASHES.sub("-", folded))


def _squeezed(folded: str, *, is_open: bool = False) -> str:
    trimmed = folded.strip() if is_open else folded.strip().rstrip(_ENDS)
    start = None if is_open else _START.match(trimmed)
    text = trimmed[start.end() :] if start is not None else trimmed
    return re.sub(r"\s+", " ", _SPACE.sub("", text))


def _of_row(text: str) -> str:
    return _squeezed(_SEPARATOR.sub(" ", _folded(text)))


def find_statement(statement: Statement, passage: str, sentences: Borders = ()) -> Span | None:
    """Return the span of a passage that a statement of an answer quotes, or None.

    A row needs the same column names, an item its announcement.
    """
    spans = [find_quotation(text, passage, sentences) for text in statement.quotable]
    return spans[-1] if spans and all(spans) else None


def find_quotation(text: str, passage: str, sentences: Borders) -> Span | None:
    """Return the span of a passage that `text` quotes as whole sentences, rows, items or code.

    Also quotations: cells of one row, each with its column name, with the row's key, in any order;
    and a sentence after "WORDS: ", its own heading or list announcement. `sentences`: spans in the
    passage; computed if empty. None if truncated, missing, or under three words and not a row.
    """
    wanted = comparable(text)
    if not wanted:
        return None
    pieces = _pieces(passage, sentences)
    piece = pieces.single.get(wanted) or pieces.rows.get(_of_row(text))
    if piece is not None and _is_quoted(piece, text):
        return Span(piece.start, piece.end)
    span = _of_cells(_of_row(text), pieces.tables)
    if span is not None or is_short(text):
        return span
    return _in_a_row(wanted, pieces) or _under_heading(text, passage, sentences)


def _of_cells(wanted: str, tables: Sequence[_Cells]) -> Span | None:
    for row in tables:
        if not wanted.startswith(row.forms):
            continue
        pattern = row.pattern
        cells: list[str] = []
        at = 0
        while at < len(wanted) and (cell := pattern.match(wanted, at)) is not None:
            cells.append(cell[1])
            at = cell.end()
        is_complete = at == len(wanted) and len(cells) > 1 and len(cells) == len(set(cells))
        if is_complete and not row.keys.isdisjoint(cells):
            return row.span
    return None


def _under_heading(text: str, passage: str, borders: Borders) -> Span | None:
    for colon in islice(_PREFIX.finditer(text), _MOST_PREFIXES):
        heading, wanted = comparable(text[: colon.start()]), comparable(text[colon.end() :])
        for part in parts(passage, borders) if heading and wanted else ():
            above = (part.heading, part.lead, part.question)
            heads = (comparable(words.rstrip("".join(QUESTION_MARKS))) for words in above)
            texts = (comparable(text) for text in (passage[part.start : part.end], part.text))
            if heading in heads and wanted in texts:
                return Span(part.start, part.end)
    return None


def _is_quoted(piece: _Piece, text: str) -> bool:
    if piece.is_lead:
        return text.rstrip().endswith(":")
    if piece.is_fragment and (first := WORD.search(text)) is not None and first[0][0].isupper():
        return False
    return piece.is_short or not is_short(text)


def _in_a_row(wanted: str, pieces: _Pieces) -> Span | None:
    at = pieces.joined.find(wanted)
    while at >= 0:
        start, end = pieces.starts.get(at), pieces.ends.get(at + len(wanted))
        if start is not None and end is not None:
            return Span(start, end)
        at = pieces.joined.find(wanted, at + 1)
    return None


# Every sentence of an answer is compared with the same passages.
@lru_cache(maxsize=256)
def _pieces(passage: str, borders: Borders) -> _Pieces:
    pieces = _Pieces({}, {}, [], "", {}, {})
    joined: list[str] = []
    size = 0
    for piece in _sentences(passage, parts(passage, borders)):
        folded = _folded(passage[piece.start : piece.end])
        form = _squeezed(folded)
        if not form:
            continue
        pieces.single.setdefault(form, piece)
        if piece.is_lead or piece.is_fragment:
            joined.append(_BREAK)
            size += len(_BREAK)
            continue
        whole = _squeezed(folded, is_open=True)
        pieces.starts[size] = piece.start
        pieces.ends[size + whole.find(form) + len(form)] = piece.end
        joined.append(whole)
        size += len(whole)
    for part in parts(passage, borders):
        if part.kind == "row" and (not part.cells or (part.cells[0] and part.cells[1:])):
            text = " ".join(part.cells) or part.text
            pieces.rows.setdefault(_of_row(text), _Piece(part.start, part.end, is_short=True))
        if part.fields:
            pieces.tables.append(_cells(part))
    for unit in units(passage, borders):
        for span, text in _of_unit(unit, passage):
            piece = _Piece(*span, is_short=unit.kind == "code")
            pieces.single.setdefault(comparable(text), piece)
    pieces.single.pop("", None)
    pieces.rows.pop("", None)
    return pieces._replace(joined="".join(joined))


def _sentences(passage: str, sequence: tuple[Part, ...]) -> Iterator[_Piece]:
    for place, part in enumerate(sequence):
        if part.kind in ("code", "row", "head"):
            continue
        is_last = place == len(sequence) - 1
        if is_last and place > 0 and _is_cut(passage, sequence[place - 1], part):
            continue
        is_lead = announces(passage, part.start, part.end)
        is_fragment = place == 0 and _FRAGMENT.match(passage, part.start) is not None
        is_fragment = is_fragment and not is_lead
        yield _Piece(part.start, part.end, is_lead=is_lead, is_fragment=is_fragment)


def _is_cut(passage: str, before: Part, last: Part) -> bool:
    return (
        last.kind == "sentence"
        and "\n\n" not in passage[before.end : last.start]
        and is_stopped(passage[before.start : before.end])
        and not is_stopped(passage[last.start : last.end])
        and AT_ITEM.match(passage, last.start) is None
    )


def _cells(row: Part) -> _Cells:
    (name, key), *fields = row.fields
    keys = frozenset(filter(None, (_of_row(key), _of_row(f"{name}: {key}"))))
    cells = {_of_row(f"{name}: {value}") for name, value in fields if value}
    return _Cells(Span(row.start, row.end), keys, tuple({*keys, *cells} - {""}))


def _of_unit(unit: Part, passage: str) -> Iterator[tuple[Span, str]]:
    span = Span(unit.start, unit.end)
    if unit.kind == "code":
        yield from _of_code(passage, span)
    elif unit.question:  # without "A:"
        yield span, unit.text
    if unit.kind == "list":
        yield span, unit.text
        yield from ((span, unit.text[slice(*sentence)]) for sentence in sentence_spans(unit.text))


def _of_code(passage: str, block: Span) -> Iterator[tuple[Span, str]]:
    code = passage[slice(*block)]
    # Same length, so that sentence offsets apply to the code.
    bare = _COMMENT_MARK.sub(lambda mark: " " * len(mark[0]), code)
    whole = [sentence for sentence in sentence_spans(bare) if is_stopped(bare[slice(*sentence)])]
    ends = {line.end() for line in re.finditer(r"[^\n]+", bare)}
    wrapped = [
        sentence for sentence in whole if "\n" in bare[slice(*sentence)] and sentence.end in ends
    ]
    lines = [Span(*line.span()) for line in _CODE_LINE.finditer(code)]
    free = [line for line in lines if not any(a < line.end and line.start < b for a, b in wrapped)]
    for text, spans in ((bare, whole), (code, free)):
        for start, end in spans:
            yield Span(block.start + start, block.start + end), text[start:end]

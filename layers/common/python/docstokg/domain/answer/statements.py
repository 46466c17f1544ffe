"""The sentences of an answer: where each is, which ranks it cites, whether it claims anything."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from docstokg.domain.answer.citations import (
    code_ranges,
    find_markers,
    ranks_within,
    strip_markers,
)
from docstokg.domain.answer.notices import is_abstention
from docstokg.domain.answer.tables import cells as cells_of
from docstokg.domain.answer.tables import is_rule
from docstokg.domain.text.sentences import Span, sentence_spans
from docstokg.domain.text.words import WORD

MOST_STATEMENTS: Final = 100
"""Sentences of an answer that are checked; the rest is one statement, `too_long`."""
Unchecked = Literal["no_claim", "too_long"]
_LONGEST_CLAIM: Final = 1500
_FENCES: Final = ("```", "~~~")
_EDGES: Final = " \t\r\n*_-\u2022>#|"
_BARE: Final = " \t\r\n.,;:!?*_-"
_LINE: Final = re.compile(r"[^\s](?:[^\n]*[^\s])?")
_ITEM: Final = re.compile(r"\A\s*(?:[-*+\u2022]|\d{1,3}[.)])\s")
_STUMP: Final = re.compile(r"(?:see|compare|sources?|references?)(?: also)?", re.IGNORECASE)
_COURTESY: Final = re.compile(
    r"(?:sure|certainly|of course|thank you|thanks|i hope (?:this|that) helps|let me know)\b.{0,60}"
    r"|(?:here|below) (?:is|are)\b.{0,60}:|.{0,40}\bfollowing\b.{0,40}:",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an answer, a row of a table, a list item, or a line of code.

    `span`: its code points in the answer. `ranks`: what it cites. `text`: it without markers and
    list number. `claim`: `text` so that it can be read by itself: a row with its column names, an
    item after the line that announces its list. `quotable`: the texts that a passage has if the
    statement is a quotation of it, the statement's own last. `unchecked`: why it is not checked.
    """

    span: Span
    ranks: tuple[int, ...]
    text: str
    claim: str
    quotable: tuple[str, ...]
    unchecked: Unchecked | None = None

    @property
    def factual(self) -> bool:
        """Whether it is checked."""
        return self.unchecked is None


@dataclass(slots=True)
class _Context:
    """Ranks, list announcement and column names that the next statement may inherit."""

    ranks: tuple[int, ...] = ()
    lead: Statement | None = None
    columns: tuple[str, ...] = ()


def statements(answer: str) -> tuple[Statement, ...]:
    """Split an answer into statements, in order; each line of code and each table row is one.

    Every sentence with a marker or a number is a claim. Without either, questions, headings,
    announcements that end with a colon, courtesies, single words and the abstention are not. A
    list item without a marker cites what the announcement cites, a line of code what the line
    above the block cites.
    """
    markers = find_markers(answer)
    fences = [
        Span(*r) for r in code_ranges(answer) if answer[r[0] : r[0] + 6].lstrip()[:3] in _FENCES
    ]
    made: list[Statement] = []
    context = _Context()
    spans = _spans(answer, fences)
    for place, (span, fenced) in enumerate(spans):
        if place == MOST_STATEMENTS:
            rest = Span(span.start, spans[-1][0].end)
            made.append(Statement(rest, (), "", "", (), "too_long"))
            break
        raw = answer[span.start : span.end]
        ranks = ranks_within(markers, span.start, span.end)
        made.append(
            _of_code(raw, span, ranks, context) if fenced else _of_text(raw, span, ranks, context)
        )
    return tuple(made)


def _of_code(raw: str, span: Span, ranks: tuple[int, ...], context: _Context) -> Statement:
    text = strip_markers(raw).strip()
    return _judged(span, ranks or context.ranks, text, text, (text,), cited=True)


def _of_text(raw: str, span: Span, ranks: tuple[int, ...], context: _Context) -> Statement:
    text = strip_markers(raw).strip()
    is_item = _ITEM.match(raw) is not None
    text = _ITEM.sub("", text, count=1)  # the number of an item is not a value that it states
    lead = context.lead if is_item else None
    cells = cells_of(text.split("\n")[-1])
    if cells and is_rule(cells):
        context.ranks = ranks
        context.columns = cells_of(text.split("\n")[-2]) if "\n" in text else ()
        return Statement(span, ranks, "", "", (), "no_claim")
    if cells:
        context.ranks = ranks
        claim = read_row(cells, context.columns)
        return _judged(span, ranks, text, claim, (claim if context.columns else text,))
    if lead is not None:
        ranks = ranks or lead.ranks
    claim = text.strip(_EDGES)
    said = f"{lead.claim.rstrip(':')} {claim}" if lead is not None else claim
    own = _judged(span, ranks, text, said, (lead.text, text) if lead is not None else (text,))
    if claim.endswith(":"):
        context.lead = own
    elif not is_item:
        context.lead = None
    context.ranks, context.columns = ranks, ()
    return own


def _judged(
    span: Span,
    ranks: tuple[int, ...],
    text: str,
    claim: str,
    quotable: tuple[str, ...],
    *,
    cited: bool = False,
) -> Statement:
    unchecked = _unchecked(text, cited=cited or bool(ranks))
    return Statement(span, ranks, text, claim, quotable, unchecked)


def _unchecked(text: str, *, cited: bool) -> Unchecked | None:
    """Return why a sentence is not checked, None if it is."""
    plain = text.strip(_EDGES)
    words = WORD.findall(plain)
    if not words or is_abstention(plain) or _STUMP.fullmatch(plain.strip(_BARE)):
        return "no_claim"
    if len(plain) > _LONGEST_CLAIM:
        return "too_long"
    if any(map(str.isdigit, plain)):
        return None
    if plain.endswith(":") or (not cited and (len(words) == 1 or _claims_nothing(text, plain))):
        return "no_claim"
    return None


def _claims_nothing(text: str, plain: str) -> bool:
    """Return whether the form alone shows that a text without marker and number is no claim."""
    is_heading = text.startswith("#") or (
        text.startswith("**") and text.rstrip(" .").endswith("**")
    )
    return is_heading or plain.endswith("?") or _COURTESY.fullmatch(plain) is not None


def read_row(cells: Sequence[str], columns: Sequence[str]) -> str:
    """Return a row as text: the row's key, then each column name before its value."""
    named = columns if len(columns) == len(cells) else [""] * len(cells)
    values = [
        f"{name}: {cell}" if name else cell
        for name, cell in zip(named[1:], cells[1:], strict=True)
        if cell
    ]
    return f"{cells[0]}: {'; '.join(values)}" if values else cells[0]


def _spans(answer: str, fences: Sequence[Span]) -> list[tuple[Span, bool]]:
    """Return the sentences outside code and the lines inside it, each with whether it is code."""
    found: list[tuple[Span, bool]] = []
    at = 0
    for fence in (*fences, Span(len(answer), len(answer))):
        outside = sentence_spans(answer[at : fence.start])
        found += [(Span(at + span.start, at + span.end), False) for span in outside]
        for line in _LINE.finditer(answer, fence.start, fence.end):
            if not line[0].startswith(_FENCES):
                found.append((Span(*line.span()), True))
        at = fence.end
    return found


def without(answer: str, spans: Collection[Span]) -> str:
    """Return the answer without the given sentences and the space before each."""
    pieces: list[str] = []
    at = 0
    for span in sorted(spans):
        pieces.append(answer[at : span.start])
        at = span.end
        if not pieces[-1] or pieces[-1].endswith((" ", "\n")):
            while at < len(answer) and answer[at] in " \t":
                at += 1
    pieces.append(answer[at:])
    return "".join(pieces).strip()


def has_content(answer: str) -> bool:
    """Return whether an answer has a word or code besides markers and references to sources."""
    return bool(code_ranges(answer)) or any(
        WORD.search(one.text) and not _STUMP.fullmatch(one.text.strip(_BARE))
        for one in statements(answer)
    )


def without_stumps(text: str, original: str) -> str:
    """Return `text` without "See also" and the like whose marker was removed.

    `original`: the answer before its invalid markers were removed.
    """
    marked = {
        strip_markers(original[span.start : span.end]).strip(_BARE)
        for span in sentence_spans(original)
        if find_markers(original[span.start : span.end])
    }
    stumps = [
        span
        for span in sentence_spans(text)
        if not find_markers(text[span.start : span.end])
        and (plain := text[span.start : span.end].strip(_BARE)) in marked
        and _STUMP.fullmatch(plain)
    ]
    return without(text, stumps) if stumps else text


def with_markers(text: str, ranks: Mapping[int, int]) -> str:
    """Return `text` with markers before the final stop of sentences: {end of sentence: rank}."""
    pieces: list[str] = []
    at = 0
    for end in sorted(ranks):
        body = text[at:end].rstrip()
        stop = len(body.rstrip(".!?\u2026\u3002"))
        pieces.append(f"{body[:stop]} [{ranks[end]}]{body[stop:]}{text[at + len(body) : end]}")
        at = end
    pieces.append(text[at:])
    return "".join(pieces)

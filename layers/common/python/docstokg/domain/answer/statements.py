"""The sentences of an answer: where each is, which ranks it cites, whether it claims anything."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from docstokg.domain.answer.citations import (
    code_ranges,
    find_markers,
    ranks_within,
)
from docstokg.domain.answer.notices import is_abstention
from docstokg.domain.answer.parts import Part, parts
from docstokg.domain.text.sentences import Span
from docstokg.domain.text.words import WORD

MOST_STATEMENTS: Final = 100
"""Sentences of an answer that are checked; the rest is one statement, `too_long`."""
Unchecked = Literal["no_claim", "too_long"]
_LONGEST_CLAIM: Final = 1500
_EDGES: Final = " \t\r\n*_-\u2022>#|"
_BARE: Final = " \t\r\n.,;:!?*_-"
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


def statements(answer: str) -> tuple[Statement, ...]:
    """Split an answer into statements, in order; each line of code and each table row is one.

    Every sentence with a marker or a number is a claim. Without either, questions, headings,
    announcements that end with a colon, courtesies, single words and the abstention are not. A
    list item without a marker cites what the announcement cites, a line of code what the line
    above the block cites.
    """
    markers = find_markers(answer)
    found = parts(answer)
    made: list[Statement] = []
    lead: Statement | None = None
    above: tuple[int, ...] = ()
    for place, part in enumerate(found):
        if place == MOST_STATEMENTS:
            rest = Span(part.start, found[-1].end)
            made.append(Statement(rest, (), "", "", (), "too_long"))
            break
        ranks = ranks_within(markers, part.start, part.end)
        claim = part.shown if part.kind in ("row", "code") else part.shown.strip(_EDGES)
        quotable: tuple[str, ...] = (part.shown,)
        if part.kind == "code":
            ranks = ranks or above
        elif part.kind == "item" and lead is not None:
            ranks = ranks or lead.ranks
            claim = f"{lead.claim.rstrip(':')} {claim}"
            quotable = (lead.text, part.shown)
        unchecked = _unchecked(part, is_cited=bool(ranks) or part.kind == "code")
        span = Span(part.start, part.end)
        made.append(Statement(span, ranks, part.shown, claim, quotable, unchecked))
        if part.kind != "code":
            above = ranks
        if claim.endswith(":") and part.kind != "code":
            lead = made[-1]
        elif part.kind in ("sentence", "title", "heading"):
            lead = None
    return tuple(made)


def _unchecked(part: Part, *, is_cited: bool) -> Unchecked | None:
    """Return why a sentence is not checked, None if it is."""
    plain = part.shown.strip(_EDGES)
    words = WORD.findall(plain)
    if (
        part.kind == "head"
        or not words
        or is_abstention(plain)
        or _STUMP.fullmatch(plain.strip(_BARE))
    ):
        return "no_claim"
    if len(plain) > _LONGEST_CLAIM:
        return "too_long"
    if any(map(str.isdigit, plain)):
        return None
    is_free = not is_cited and (len(words) == 1 or _claims_nothing(part, plain))
    return "no_claim" if is_free or plain.endswith(":") else None


def _claims_nothing(part: Part, plain: str) -> bool:
    """Return whether the form alone shows that a text without marker and number is no claim."""
    is_bold = part.shown.startswith("**") and part.shown.rstrip(" .").endswith("**")
    is_heading = is_bold or part.kind == "heading"
    return is_heading or plain.endswith("?") or _COURTESY.fullmatch(plain) is not None


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

"""Statements of an answer."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from docstokg.domain.answer.citations import (
    code_ranges,
    find_markers,
    ranks_within,
    strip_markers,
)
from docstokg.domain.answer.notices import is_abstention
from docstokg.domain.answer.parts import Part, parts
from docstokg.domain.text.sentences import Span
from docstokg.domain.text.words import WORD

# Maximum number of checked sentences; the rest is one statement, `too_long`.
MOST_STATEMENTS = 100
Unchecked = Literal["no_claim", "too_long"]
_LONGEST_CLAIM = 1500
_EDGES = " \t\r\n*_-\u2022>#|"
_BARE = " \t\r\n.,;:!?*_-"
_STUMP = re.compile(r"(?:see|compare|sources?|references?)(?: also)?", re.IGNORECASE)
_COURTESY = re.compile(
    r"(?:sure|certainly|of course|thank you|thanks|i hope (?:this|that) helps|let me know)\b.{0,60}"
    r"|(?:here|below) (?:is|are)\b.{0,60}:|.{0,40}\bfollowing\b.{0,40}:",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, table row, list item or code line of an answer.

    `span`: its code points. `ranks`: cited ranks. `text`: without markers and list number. `claim`:
    `text` with column names or the list's announcement. `quotable`: texts that a quoted passage
    must contain. `unchecked`: reason for skipping the check.
    """

    span: Span
    ranks: tuple[int, ...]
    text: str
    claim: str
    quotable: tuple[str, ...]
    unchecked: Unchecked | None = None

    @property
    def factual(self) -> bool:
        """Whether the statement is checked."""
        return self.unchecked is None


def statements(answer: str) -> tuple[Statement, ...]:
    """Split an answer into statements, in order; each code line and table row is one.

    Sentences with a marker or number are claims. Others are not if they are questions, headings,
    announcements, courtesies, single words or the abstention. An unmarked list item inherits the
    announcement's ranks; a code line those of the line above. After 100, the rest is one,
    `too_long`.
    """
    markers = find_markers(answer)
    sequence = parts(answer)
    claims: list[Statement] = []
    lead: Statement | None = None
    above: tuple[int, ...] = ()
    for place, part in enumerate(sequence):
        if place == MOST_STATEMENTS:
            remainder = Span(part.start, sequence[-1].end)
            claims.append(Statement(remainder, (), "", "", (), "too_long"))
            break
        ranks = ranks_within(markers, part.start, part.end)
        claim = part.text if part.kind in ("row", "code") else part.text.strip(_EDGES)
        quotable: tuple[str, ...] = (part.text,)
        if part.kind == "code":
            ranks = ranks or above
        elif part.kind == "item" and lead is not None:
            ranks = ranks or lead.ranks
            claim = f"{lead.claim.rstrip(':')} {claim}"
            quotable = (lead.text, part.text)
        unchecked = _unchecked(part, is_cited=bool(ranks) or part.kind == "code")
        span = Span(part.start, part.end)
        claims.append(Statement(span, ranks, part.text, claim, quotable, unchecked))
        if part.kind != "code":
            above = ranks
        if claim.endswith(":") and part.kind != "code":
            lead = claims[-1]
        elif part.kind in ("sentence", "title", "heading"):
            lead = None
    return tuple(claims)


def _unchecked(part: Part, *, is_cited: bool) -> Unchecked | None:
    plain = part.text.strip(_EDGES)
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
    is_bold = part.text.startswith("**") and part.text.rstrip(" .").endswith("**")
    is_heading = is_bold or part.kind == "heading"
    return is_heading or plain.endswith("?") or _COURTESY.fullmatch(plain) is not None


def without(answer: str, spans: Collection[Span]) -> str:
    """Return the answer without the given spans and the space after each, stripped."""
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
    """Return whether an answer has a word or code apart from markers and references to sources."""
    return bool(code_ranges(answer)) or any(
        WORD.search(statement.text) and not _STUMP.fullmatch(statement.text.strip(_BARE))
        for statement in statements(answer)
    )


def with_markers(text: str, ranks: Mapping[int, int], spans: Collection[Span] = ()) -> str:
    """Insert markers before final stops; `ranks` maps the end of a sentence to a rank.

    Markers within `spans`, whose ends are in `ranks`, are removed.
    """
    pieces: list[str] = []
    at = 0
    starts = {span.end: span.start for span in spans}
    for end in sorted(ranks):
        start = starts.get(end, end)
        body = (text[at:start] + strip_markers(text[start:end])).rstrip()
        stop = len(body.rstrip(".!?\u2026\u3002"))
        space = text[len(text[:end].rstrip()) : end]
        pieces.append(f"{body[:stop]} [{ranks[end]}]{body[stop:]}{space}")
        at = end
    pieces.append(text[at:])
    return "".join(pieces)

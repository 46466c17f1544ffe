"""The grounding report: which sentences of an answer its sources carry."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from docstokg.contracts.response import Grounding, SentenceVerdict
from docstokg.domain.answer.citations import (
    code_ranges,
    find_markers,
    ranks_within,
    strip_markers,
)
from docstokg.domain.answer.clauses import (
    AUXILIARIES,
    has_verb,
    read_clauses,
    words_of,
)
from docstokg.domain.answer.lexicon import lexicon
from docstokg.domain.answer.notices import is_abstention
from docstokg.domain.answer.tables import cells as cells_of
from docstokg.domain.answer.tables import is_rule
from docstokg.domain.text.quantities import quantities
from docstokg.domain.text.sentences import Span, sentence_spans
from docstokg.domain.text.words import FOREIGN, STOP_WORDS, WORD, stem

MIN_COVERAGE: Final = 0.7
MOST_STATEMENTS: Final = 100
"""Sentences of an answer that are judged; what follows is `too_long`, as one."""
Unchecked = Literal["no_claim", "other_language", "too_long"]
_LONGEST_CLAIM: Final = 1500
_FENCES: Final = ("```", "~~~")
_EDGES: Final = " \t\r\n*_-\u2022>#|"
_BARE: Final = " \t\r\n.,;:!?*_-"
_LINE: Final = re.compile(r"[^\s](?:[^\n]*[^\s])?")
_ITEM: Final = re.compile(r"\A\s*(?:[-*+\u2022]|\d{1,3}[.)])\s")
_STUMP: Final = re.compile(r"(?:see|compare|sources?|references?)(?: also)?", re.IGNORECASE)
_FRAMING: Final = re.compile(
    r"^(?:sure|certainly|of course|i hope|let me know|here (?:is|are)|below (?:is|are)|in summary"
    r"|note|(?:see|compare)(?: also)?\W*$|sources?\W*$|references?\W*$"
    r"|(?:based on|according to) the (?:provided|given|available)|.{0,40}\bfollowing\b.{0,40}:$)",
    re.IGNORECASE,
)
_LEAD: Final = re.compile(r"^[^:\n]{1,120}:\s+(?=\S)")
_COMMENT: Final = re.compile(r"\s*(?:#+|//+|--|/?\*+|;+|%+|<!--)\s*")
_TRAILING: Final = re.compile(r"\s(?:#|//|--)\s+(?=\S)")
_ASKING: Final = AUXILIARIES | frozenset(
    ("what", "which", "who", "whom", "whose", "when", "where", "why", "how")
)
_LEAST_FOREIGN: Final = 4
_KNOWN: Final = 0.5


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an answer: its place, the ranks it cites, its words without markers.

    `unchecked`: why it is not judged, None where it is.
    """

    span: Span
    ranks: tuple[int, ...]
    claim: str
    unchecked: Unchecked | None = None

    @property
    def factual(self) -> bool:
        """Tell whether it is judged."""
        return self.unchecked is None


def statements(answer: str) -> tuple[Statement, ...]:
    """Split an answer into statements, each line of code and each row of a table its own.

    Every clause with a verb or a value is judged, in whatever form: heading, lead-in, a question
    that asserts, a cell, a comment. A question that asks, a heading that only names, a frame ("I
    hope this helps", "See also [2]"), the abstention and a single word without a marker claim
    nothing. A line of code cites what the line above the block cites; an item without a verb says
    what the line announces that leads its list.
    """
    markers = find_markers(answer)
    fences = [
        Span(*r) for r in code_ranges(answer) if answer[r[0] : r[0] + 6].lstrip()[:3] in _FENCES
    ]
    made: list[Statement] = []
    above: tuple[int, ...] = ()
    lead: Statement | None = None
    columns: tuple[str, ...] = ()
    spans = _spans(answer, fences)
    for place, (span, fenced) in enumerate(spans):
        if place == MOST_STATEMENTS:
            rest = Span(span.start, spans[-1][0].end)
            made.append(Statement(rest, (), "", "too_long"))
            break
        text = answer[span.start : span.end]
        ranks = ranks_within(markers, span.start, span.end)
        claim = strip_markers(text).strip()
        if not fenced:
            claim = _ITEM.sub("", claim, count=1)  # an item's number is no value of what it says
        cells = () if fenced else cells_of(claim.split("\n")[-1])
        if fenced:
            ranks = ranks or above
            claim = _of_code(claim)
        elif cells and is_rule(cells):
            columns, claim = cells_of(claim.split("\n")[-2]) if "\n" in claim else (), ""
        elif cells:
            claim = _of_row(cells, columns)
        elif lead is not None and _is_item(text) and not _says(claim):
            ranks = ranks or lead.ranks
            claim = f"{lead.claim.strip(_EDGES).rstrip(':')} {claim.strip(_EDGES)}"
        if not fenced:
            above = ranks
            columns = columns if cells else ()
            announces = claim.rstrip(_EDGES).endswith(":")
            lead = None if cells else lead
        own = Statement(span, ranks, claim)
        unchecked = _unchecked(_unframed(claim), cited=bool(ranks), fenced=fenced)
        plain = _unframed(claim) if fenced else _unframed(claim).strip(_EDGES)
        made.append(Statement(span, ranks, plain, unchecked))
        if not fenced and not cells:
            lead = own if announces else lead if _is_item(text) else None
    return tuple(made)


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


def _of_code(line: str) -> str:
    """Return what a line of code says: its comment where it has one with a verb, else itself."""
    after = _TRAILING.split(line, maxsplit=1)
    told = after[1] if len(after) > 1 and has_verb(after[1]) else line
    opened = _COMMENT.match(told)
    return told[opened.end() if opened else 0 :].removesuffix("*/").removesuffix("-->").rstrip()


def _of_row(cells: Sequence[str], columns: Sequence[str]) -> str:
    """Read a row aloud: what it is about and each column's name before each value."""
    named = columns if len(columns) == len(cells) else [""] * len(cells)
    return "; ".join(
        " ".join(part for part in (cells[0], named[at], cell) if part)
        for at, cell in enumerate(cells)
        if cell and (at or len(cells) == 1)
    )


def _is_item(text: str) -> bool:
    return _ITEM.match(text) is not None


def _unframed(claim: str) -> str:
    """Leave out a frame that leads a claim ("Based on the given sources, here it is: ...")."""
    lead = _LEAD.match(claim)
    return claim[lead.end() :] if lead is not None and _FRAMING.match(lead[0]) else claim


def _unchecked(claim: str, *, cited: bool, fenced: bool) -> Unchecked | None:
    """Tell why a statement is not judged, None where it is."""
    plain = claim.strip(_EDGES)
    words = WORD.findall(plain)
    if not words or is_abstention(plain):
        return "no_claim"
    if len(plain) > _LONGEST_CLAIM:
        return "too_long"
    if not quantities(plain) and (_FRAMING.match(plain) or not _asserts(claim, plain, fenced)):
        return "no_claim"
    if not (cited or fenced or len(words) > 1 or quantities(plain)):
        return "no_claim"
    return None if fenced or is_english(plain) else "other_language"


def _asserts(claim: str, plain: str, fenced: bool) -> bool:
    """Tell whether a text without a value states something."""
    if plain.endswith("?"):
        words = words_of(plain)
        return words[0] not in _ASKING or "that" in words[2:-1]
    if plain.endswith(":"):
        return _says(plain)
    is_heading = claim.lstrip().startswith("#") or (
        claim.strip().startswith("**") and claim.strip(" \t\r\n.").endswith("**")
    )
    return has_verb(plain) if fenced or is_heading else True


def _says(text: str) -> bool:
    """Tell whether a text has a verb with something behind it, or a value."""
    return bool(quantities(text)) or any(
        has_verb(clause.text) and clause.rest for clause in read_clauses(text)
    )


def is_english(text: str) -> bool:
    """Tell whether a text is written as English is: most of its small words are known ones."""
    small = [word for word in WORD.findall(text) if word.islower() and word.isalpha()]
    letters = sum(map(str.isalpha, text))
    if letters and sum(char.isascii() and char.isalpha() for char in text) < letters / 2:
        return False
    words, known = WORD.findall(text.casefold()), lexicon().rarities
    own, strange = (sum(word in some for word in words) for some in (STOP_WORDS, FOREIGN))
    if len(small) < _LEAST_FOREIGN and strange <= own:
        return True
    mine = [word for word in small if word not in FOREIGN]
    return sum(w in STOP_WORDS or stem(w) in known for w in mine) >= _KNOWN * len(small)


def report(
    verdicts: Sequence[SentenceVerdict],
    *,
    cited: Collection[int],
    ranks: Collection[int],
    invalid: Sequence[str],
) -> Grounding:
    """Make the report from one verdict per statement.

    coverage = factual sentences with a valid marker / factual sentences (1 when there is none);
    context_coverage = ranks cited / ranks given; grounded = every factual sentence is carried (see
    `is_carried`) and no marker is invalid.
    """
    factual = [verdict for verdict in verdicts if verdict.reasons != ("no_claim",)]
    carried = sum(bool(verdict.citations) for verdict in factual)
    return Grounding(
        coverage=round(carried / len(factual) if factual else 1.0, 4),
        context_coverage=round(len(set(cited)) / len(set(ranks)), 4) if ranks else 0.0,
        cited_count=len(set(cited)),
        total_citations=len(set(ranks)),
        invalid_citations=tuple(invalid),
        grounded=not invalid and all(map(is_carried, factual)),
        sentences=tuple(verdicts),
    )


def is_carried(verdict: SentenceVerdict) -> bool:
    """Tell whether nothing speaks against a factual sentence: supported, or weak for no reason."""
    reasons = set(verdict.reasons) - {"marker_added"}
    return verdict.verdict == "supported" or (verdict.verdict == "weak" and not reasons)


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


def says_something(answer: str) -> bool:
    """Tell whether an answer has a word or code beside markers and references to sources."""
    return bool(code_ranges(answer)) or any(
        WORD.search(statement.claim) and not _STUMP.fullmatch(statement.claim.strip(_BARE))
        for statement in statements(answer)
    )


def without_stumps(text: str, original: str) -> str:
    """Return `text` without "See also" and the like that lost the marker they were written for.

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

"""The grounding report: which sentences of an answer its sources carry."""

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from docstokg.contracts.response import Grounding, SentenceVerdict
from docstokg.domain.answer.citations import (
    Marker,
    code_ranges,
    find_markers,
    ranks_within,
    strip_markers,
)
from docstokg.domain.answer.notices import is_abstention
from docstokg.domain.text.sentences import Span, sentence_spans
from docstokg.domain.text.words import WORD

MIN_COVERAGE: Final = 0.7
_SHORTEST_CLAIM: Final = 2
_LONGEST_STUMP: Final = 3
_FENCES: Final = ("```", "~~~")
_EDGES: Final = " \t\r\n.,;:!?*_-"
_FRAMING: Final = re.compile(
    r"^(?:(?:here (?:is|are)|below (?:is|are)|the following|in summary:?$|sources?:|references?:"
    r"|note:?$|(?:see|compare)(?: also)?\W*$|i hope|let me know"
    r"|based on the (?:provided|given|available)[^,]*[,:]?$"
    r"|according to the (?:provided|given|available)[^,]*[,:]?$)|(?:#{1,6}|```|\|?[-:| ]+\|?$))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an answer: its place, the ranks it cites, its words without markers."""

    span: Span
    ranks: tuple[int, ...]
    claim: str
    factual: bool


def statements(answer: str) -> tuple[Statement, ...]:
    """Split an answer into statements.

    A sentence is factual unless it is a question, a heading, a lead-in that ends with a colon, a
    frame ("I hope this helps", "See also [2]"), the abstention, or a single word without number
    and marker. What stands in a fenced block cites what the line above the block cites.
    """
    markers = find_markers(answer)
    fences = [
        Span(*r) for r in code_ranges(answer) if answer[r[0] : r[0] + 6].lstrip()[:3] in _FENCES
    ]
    made: list[Statement] = []
    above: tuple[int, ...] = ()
    for span in sentence_spans(answer):
        at = bisect_right(fences, span.start, key=lambda fence: fence.start) - 1
        fenced = at >= 0 and span.start < fences[at].end
        made.append(_statement(answer, span, markers, above if fenced else ()))
        above = above if fenced else made[-1].ranks
    return tuple(made)


def _statement(
    answer: str, span: Span, markers: Sequence[Marker], inherited: tuple[int, ...]
) -> Statement:
    text = answer[span.start : span.end]
    ranks = ranks_within(markers, span.start, span.end) or inherited
    claim = strip_markers(text).strip()
    return Statement(span, ranks, claim, _is_factual(claim, cited=bool(ranks)))


def _is_factual(claim: str, *, cited: bool) -> bool:
    plain = claim.strip(" \t\r\n*_-\u2022>")
    words = WORD.findall(plain)
    if not words or plain.endswith(("?", ":")) or _FRAMING.match(plain) or is_abstention(plain):
        return False
    return cited or len(words) >= _SHORTEST_CLAIM or any(map(str.isdigit, plain))


def report(
    verdicts: Sequence[SentenceVerdict],
    *,
    cited: Collection[int],
    ranks: Collection[int],
    invalid: Sequence[str],
) -> Grounding:
    """Make the report from one verdict per factual sentence.

    coverage = factual sentences with a valid marker / factual sentences (1 when there is none);
    context_coverage = ranks cited / ranks given; grounded = coverage >= 0.7 and nothing invalid
    and no sentence unsupported.
    """
    carried = sum(bool(verdict.citations) for verdict in verdicts)
    coverage = carried / len(verdicts) if verdicts else 1.0
    unsupported = any(verdict.verdict == "unsupported" for verdict in verdicts)
    return Grounding(
        coverage=round(coverage, 4),
        context_coverage=round(len(set(cited)) / len(set(ranks)), 4) if ranks else 0.0,
        cited_count=len(set(cited)),
        total_citations=len(set(ranks)),
        invalid_citations=tuple(invalid),
        grounded=coverage >= MIN_COVERAGE and not invalid and not unsupported,
        sentences=tuple(verdicts),
    )


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
    """Tell whether an answer has a factual sentence or code; markers alone say nothing."""
    return bool(code_ranges(answer)) or any(
        statement.factual and WORD.search(statement.claim) for statement in statements(answer)
    )


def without_stumps(text: str, original: str) -> str:
    """Return `text` without the short sentences that lost the marker they were written for.

    `original`: the answer before its invalid markers were removed. "See also [9]." without its
    marker is no statement, and goes with it.
    """
    marked = {
        strip_markers(original[span.start : span.end]).strip(_EDGES)
        for span in sentence_spans(original)
        if find_markers(original[span.start : span.end])
    }
    stumps = [
        span
        for span in sentence_spans(text)
        if not find_markers(text[span.start : span.end])
        and (plain := text[span.start : span.end].strip(_EDGES)) in marked
        and len(WORD.findall(plain)) <= _LONGEST_STUMP
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

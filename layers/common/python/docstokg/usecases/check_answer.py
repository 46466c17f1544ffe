"""The check of an answer against its passages, shared by respond and `/v1/check`."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from docstokg.contracts.model import Contract
from docstokg.contracts.response import (
    CheckedBy,
    Citation,
    ConfidenceLevel,
    ConfidenceParts,
    Grounding,
    SentenceVerdict,
    Span,
)
from docstokg.contracts.state import Block
from docstokg.domain.answer import citations as markers
from docstokg.domain.answer import grounding, notices
from docstokg.domain.answer.confidence import bounded, confidence, confidence_parts, level
from docstokg.domain.answer.observations import observations
from docstokg.domain.answer.quotation import find_quotation
from docstokg.domain.answer.statements import (
    Statement,
    has_content,
    statements,
    with_markers,
    without,
    without_stumps,
)
from docstokg.usecases.comparison import Comparison
from docstokg.usecases.support import Support, support_of

Repair = Literal["attribute", "drop", "report"]
RULES: Final = "rules"
_MOST_CITED = 8
_CLEARLY = 0.1
_LEAST_SUPPORT = 0.5
_MOST_REPAIRS = 4
"""Rounds of dropping sentences; text that holds no code needs one."""


class CheckedAnswer(Contract):
    """An answer after its checks; `cited` are the ranks of its valid markers, ascending."""

    answer: str
    cited: tuple[int, ...] = ()
    grounding: Grounding | None = None
    confidence: float = 0.0
    confidence_level: ConfidenceLevel = "low"
    confidence_parts: ConfidenceParts | None = None
    warnings: tuple[str, ...] = ()


class _Judged(NamedTuple):
    """A statement with its verdict; `support`: per cited rank, in [0, 1]."""

    statement: Statement
    verdict: SentenceVerdict
    support: Mapping[int, float]


def check_answer(  # noqa: PLR0913 - each part of a check is given by name
    answer: str,
    blocks: Sequence[Block],
    *,
    citations: Sequence[Citation] = (),
    query: str = "",
    compare: Comparison | None = None,
    repair: Repair = "report",
    probability: float | None = None,
) -> CheckedAnswer:
    """Check markers, sentences and confidence; never raises for any text of a model.

    `repair`: `drop` removes uncited and unsupported sentences, `attribute` adds the marker of the
    passage that a sentence without one quotes, or of the passage with clearly the highest support;
    `report` removes invalid markers only.

    `blocks`: exactly the passages the model was given. `citations`: their scores and documents, by
    rank. `probability`: the built-in reader's, None for another model's answer. Without `compare`,
    or without vectors in its time, support is lexical and the cosine counts as 0, with a warning.
    """
    if not answer.strip() or notices.is_abstention(markers.strip_markers(answer)):
        return CheckedAnswer(answer=notices.ABSTENTION)
    by_rank = {block.rank: block for block in blocks}
    checked = _without_orphans(answer, by_rank)
    text = checked.text
    if not has_content(text):  # markers only, forged or not
        return CheckedAnswer(answer=notices.ABSTENTION)
    # Confidence is part of the contract, so its vectors come first.
    similarity = compare.similarity(query, text) if compare is not None else None
    check = _Check(by_rank, compare)
    judged = check.judged(text)
    warnings: list[str] = []
    if repair == "attribute":
        text, judged = check.attributed(text, judged)
    if repair == "drop":
        text, judged, dropped = check.repaired(text, judged)
        if dropped:
            warnings.append(notices.DROPPED)
        if not text.strip():
            return CheckedAnswer(answer=notices.ABSTENTION, warnings=tuple(warnings))
    verdicts = [one.verdict for one in judged]
    cited = markers.check_markers(text, by_rank).cited
    report = grounding.report(
        verdicts,
        cited=cited,
        ranks=by_rank,
        invalid=checked.invalid,
        checked_by=(CheckedBy(name=RULES, kind="rules"),),
    )
    if cited:
        warnings += _doubts(verdicts)
        if similarity is None:
            warnings.append(notices.NO_EMBEDDER)
    if checked.invalid or not cited:
        warnings.append(notices.CITATIONS_REMOVED if cited else notices.CITATIONS_UNAVAILABLE)
    documents = _documents(cited, by_rank, citations)
    parts = confidence_parts(_retrieval(judged, by_rank, citations), documents, similarity)
    value = bounded(
        confidence(parts, probability),
        [verdict.verdict for verdict in verdicts],
        invalid=bool(checked.invalid),
        cited=bool(cited),
    )
    return CheckedAnswer(
        answer=text,
        cited=cited,
        grounding=report,
        confidence=value,
        confidence_level=level(value, len(documents)),
        confidence_parts=parts,
        warnings=tuple(warnings),
    )


def _without_orphans(answer: str, by_rank: Mapping[int, Block]) -> markers.CitedText:
    """Remove invalid markers, and the stumps that were written for them only."""
    checked = markers.check_markers(answer, by_rank)
    if not checked.invalid:
        return checked
    # Text on both sides of a removed stump may join into a new marker.
    again = markers.check_markers(without_stumps(checked.text, answer), by_rank)
    return replace(again, invalid=tuple(dict.fromkeys((*checked.invalid, *again.invalid))))


def _doubts(verdicts: Sequence[SentenceVerdict]) -> list[str]:
    kinds = Counter(verdict.verdict for verdict in verdicts)
    unchecked = sum(verdict.reasons == ("too_long",) for verdict in verdicts)
    return notices.statements_doubted(kinds["uncited"], kinds["unsupported"], unchecked)


def ground_text(text: str, blocks: Sequence[Block], compare: Comparison | None = None) -> Grounding:
    """Return the report on a text that stays as it is: invalid markers are listed, not removed."""
    by_rank = {block.rank: block for block in blocks}
    verdicts = [one.verdict for one in _Check(by_rank, compare).judged(text)]
    found = markers.check_markers(text, by_rank)
    return grounding.report(
        verdicts,
        cited=found.cited,
        ranks=by_rank,
        invalid=found.invalid,
        checked_by=(CheckedBy(name=RULES, kind="rules"),),
    )


def ground_sentences(
    text: str, sources: Sequence[Sequence[Block]], compare: Comparison | None = None
) -> Grounding:
    """Return the report on a text without markers: each factual sentence against its own sources.

    `sources`: per factual sentence, in order, the passages found for it; sentences after the last
    of them are `too_long`. A sentence cites the passage that it quotes, else the one with the
    highest support; without any passage it is uncited.
    """
    found = iter(sources)
    with_sources = [_with_sources(statement, found) for statement in statements(text)]
    by_rank = {block.rank: block for own_blocks in sources for block in own_blocks}
    verdicts = [_citing_best(one) for one in _Check(by_rank, compare).judged_all(with_sources)]
    return grounding.report(
        verdicts,
        cited={rank for verdict in verdicts for rank in verdict.citations},
        ranks=by_rank,
        invalid=(),
        checked_by=(CheckedBy(name=RULES, kind="rules"),),
    )


def _with_sources(statement: Statement, found: Iterator[Sequence[Block]]) -> Statement:
    if not statement.factual:
        return statement
    own_blocks = next(found, None)
    if own_blocks is None:
        return replace(statement, ranks=(), unchecked="too_long")
    return replace(statement, ranks=tuple(block.rank for block in own_blocks))


def _citing_best(judged: _Judged) -> SentenceVerdict:
    if not judged.support:
        return judged.verdict
    best = max(judged.support, key=judged.support.__getitem__)
    return judged.verdict.model_copy(update={"citations": (best,)})


@dataclass(frozen=True, slots=True)
class _Check:
    """The passages that statements are checked against, and vectors while there is time."""

    by_rank: Mapping[int, Block]
    compare: Comparison | None

    def judged(self, text: str) -> list[_Judged]:
        """Judge every statement of a text."""
        return self.judged_all(statements(text))

    def judged_all(self, given: Sequence[Statement]) -> list[_Judged]:
        """Judge each statement by the passages it cites."""
        made = []
        for statement in given:
            is_late = self.compare is not None and self.compare.is_late
            late = statement.factual and is_late
            made.append(
                self._judge(replace(statement, unchecked="too_long") if late else statement)
            )
        return made

    def _judge(self, statement: Statement) -> _Judged:
        ranks = tuple(rank for rank in statement.ranks if rank in self.by_rank)
        own = SentenceVerdict(
            start=statement.span.start,
            end=statement.span.end,
            citations=ranks,
            verdict="not_checked",
            support=0.0,
            reasons=(statement.unchecked,) if statement.unchecked else (),
        )
        if not statement.factual:
            return _Judged(statement, own, {})
        if not ranks:
            return _Judged(statement, own.model_copy(update={"verdict": "uncited"}), {})
        blocks = [self.by_rank[rank] for rank in ranks[:_MOST_CITED]]
        support = {
            block.rank: support_of(statement.claim, [block], self.compare) for block in blocks
        }
        best = max(support.values(), key=lambda one: one.value)
        if len(blocks) > 1:
            best = max(best, support_of(statement.claim, blocks, self.compare), key=_value)
        values = {rank: one.value for rank, one in support.items()}
        quoted = _quotation(statement, blocks)
        if quoted is not None:
            rank, span, quote = quoted
            decided = {"verdict": "supported", "decided_by": RULES, "support": 1.0}
            verdict = own.model_copy(update={**decided, "quote": quote, "span": span})
            return _Judged(statement, verdict, {**values, rank: 1.0})
        seen = observations(statement.claim, [_with_header(block) for block in blocks])
        undecided = {"verdict": "unverified", "support": round(best.value, 4)}
        verdict = own.model_copy(update={**undecided, "span": best.span, "reasons": seen})
        return _Judged(statement, verdict, values)

    def attributed(self, text: str, judged: list[_Judged]) -> tuple[str, list[_Judged]]:
        """Add a marker to each sentence without one, if one passage is clearly its source.

        The places of the sentences move, so all are judged again; a sentence whose marker was added
        has the reason `marker_added`.
        """
        added = {
            one.verdict.end: rank
            for one in judged
            if one.verdict.verdict == "uncited"
            and (rank := self._source_of(one.statement)) is not None
        }
        written = with_markers(text, added)
        again = self.judged(written)
        if not added or len(again) != len(judged):
            return text, judged
        for place, before in enumerate(judged):
            if before.verdict.end in added:
                now = again[place].verdict
                reasons = {"reasons": (*now.reasons, "marker_added")}
                again[place] = again[place]._replace(verdict=now.model_copy(update=reasons))
        return written, again

    def _source_of(self, statement: Statement) -> int | None:
        """Return the rank that a statement quotes, else that of clearly the highest support."""
        quoted = _quotation(statement, list(self.by_rank.values()))
        if quoted is not None:
            return quoted[0]
        ranked = sorted(
            (-support_of(statement.claim, [block], self.compare).value, rank)
            for rank, block in self.by_rank.items()
        )
        if not ranked or -ranked[0][0] < _LEAST_SUPPORT:
            return None
        is_clear = len(ranked) == 1 or ranked[1][0] - ranked[0][0] >= _CLEARLY
        return ranked[0][1] if is_clear else None

    def repaired(self, text: str, judged: list[_Judged]) -> tuple[str, list[_Judged], bool]:
        """Drop uncited and unsupported sentences and judge the rest again: places have moved."""
        whole = text
        for _ in range(_MOST_REPAIRS):
            bad = [
                one.statement.span
                for one in judged
                if one.verdict.verdict in ("unsupported", "uncited")
            ]
            if not bad:
                return text, judged, text != whole
            # Without its fence, code is read as text: it may hold a sentence or a marker.
            text = _without_orphans(without(text, bad), self.by_rank).text
            judged = self.judged(text)
        return "", [], True


def _value(support: Support) -> float:
    return support.value


def _quotation(statement: Statement, blocks: Sequence[Block]) -> tuple[int, Span, str] | None:
    """Return rank, span and words of the first passage that a statement quotes."""
    for block in blocks:
        for text in dict.fromkeys((statement.text, statement.claim)):
            found = find_quotation(text, block.text, block.sentences)
            if found is not None:
                base = block.char_start + block.start
                span = Span(
                    uuid=block.uuid, char_start=base + found.start, char_end=base + found.end
                )
                return block.rank, span, block.text[found.start : found.end]
    return None


def _with_header(block: Block) -> str:
    """Return a passage with its document, title and graph lines, which the model was also given."""
    lines = [block.document_name, block.subject, str(block.page or ""), block.kg_match or ""]
    return "\n".join([*lines, *(fact.text for fact in block.related), block.text])


def _retrieval(
    judged: Sequence[_Judged], by_rank: Mapping[int, Block], citations: Sequence[Citation]
) -> list[float]:
    """Return per factual sentence the highest score x support of the passages that it cites."""
    scores = {rank: block.relevance / 10 for rank, block in by_rank.items()}
    scores |= {one.rank: one.score for one in citations if one.rank in by_rank}
    return [
        max((scores[rank] * value for rank, value in one.support.items()), default=0.0)
        for one in judged
        if one.statement.factual
    ]


def _documents(
    cited: Sequence[int], by_rank: Mapping[int, Block], citations: Sequence[Citation]
) -> set[str]:
    names = {rank: block.document_name for rank, block in by_rank.items()}
    names |= {one.rank: one.doc_id for one in citations if one.rank in by_rank}
    return {names[rank] for rank in cited}

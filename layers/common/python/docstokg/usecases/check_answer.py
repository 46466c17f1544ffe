"""The check of an answer against its passages, shared by respond and `/v1/check`."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

from docstokg.contracts.model import Contract
from docstokg.contracts.response import (
    RULES,
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
from docstokg.domain.answer.quotation import find_statement
from docstokg.domain.answer.statements import (
    Statement,
    has_content,
    statements,
    with_markers,
    without,
    without_stumps,
)
from docstokg.domain.text import snippets
from docstokg.usecases.comparison import Comparison
from docstokg.usecases.support import Support, support_of
from docstokg.usecases.verification import Asking, Claim, Decision

Repair = Literal["attribute", "drop", "report"]
BY_RULES: Final = (CheckedBy(name=RULES, kind="rules"),)
_MOST_SCORED = 8
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
    verifier: Asking | None = None,
) -> CheckedAnswer:
    """Check markers, sentences and confidence; never raises for any text of a model.

    `repair`: `drop` removes uncited and unsupported sentences, `attribute` adds the marker of the
    passage that a sentence without one quotes, or of the passage with clearly the highest support;
    `report` removes invalid markers only.

    `blocks`: exactly the passages the model was given. `citations`: their scores and documents, by
    rank. `probability`: the built-in reader's, None for another model's answer. Without `compare`,
    or without vectors in its time, support is lexical and the cosine counts as 0, with a warning.
    `verifier` decides the sentences that rules leave unverified, in one batch.
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
    judged, checked_by = check.verified(judged, verifier)
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
        checked_by=checked_by,
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


def ground_text(
    text: str,
    blocks: Sequence[Block],
    compare: Comparison | None = None,
    verifier: Asking | None = None,
) -> Grounding:
    """Return the report on a text that stays as it is: invalid markers are listed, not removed."""
    by_rank = {block.rank: block for block in blocks}
    check = _Check(by_rank, compare)
    judged, checked_by = check.verified(check.judged(text), verifier)
    found = markers.check_markers(text, by_rank)
    return grounding.report(
        [one.verdict for one in judged],
        cited=found.cited,
        ranks=by_rank,
        invalid=found.invalid,
        checked_by=checked_by,
    )


def ground_sentences(
    text: str,
    sources: Sequence[Sequence[Block]],
    compare: Comparison | None = None,
    verifier: Asking | None = None,
) -> Grounding:
    """Return the report on a text without markers: each factual sentence against its own sources.

    `sources`: per factual sentence, in order, the passages found for it; sentences after the last
    of them are `too_long`. A sentence cites the passage that it quotes, else the one with the
    highest support; without any passage it is uncited.
    """
    found = iter(sources)
    with_sources = [_with_sources(statement, found) for statement in statements(text)]
    by_rank = {block.rank: block for own_blocks in sources for block in own_blocks}
    check = _Check(by_rank, compare)
    judged, checked_by = check.verified(check.judged_all(with_sources), verifier)
    verdicts = [_citing_best(one) for one in judged]
    return grounding.report(
        verdicts,
        cited={rank for verdict in verdicts for rank in verdict.citations},
        ranks=by_rank,
        invalid=(),
        checked_by=checked_by,
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
    """The passages that statements are checked against, and vectors while there is time.

    `decisions`: the verifier's, by claim and ranks, so that they outlive a change of the text.
    """

    by_rank: Mapping[int, Block]
    compare: Comparison | None
    decisions: dict[tuple[str, tuple[int, ...]], tuple[str, Decision]] = field(default_factory=dict)

    def judged(self, text: str) -> list[_Judged]:
        """Judge every statement of a text."""
        return self.judged_all(statements(text))

    def judged_all(self, given: Sequence[Statement]) -> list[_Judged]:
        """Judge each statement by the passages it cites."""
        made = []
        for statement in given:
            is_late = self.compare is not None and self.compare.is_late
            late = statement.factual and is_late
            one = self._judge(replace(statement, unchecked="too_long") if late else statement)
            made.append(self._decided(one))
        return made

    def verified(
        self, judged: list[_Judged], verifier: Asking | None
    ) -> tuple[list[_Judged], tuple[CheckedBy, ...]]:
        """Let the verifier decide the unverified statements; the second value names the checks."""
        undecided = [one for one in judged if one.verdict.verdict == "unverified"]
        if verifier is None or not undecided:
            return judged, BY_RULES
        made = verifier.ask(
            [
                Claim(
                    one.statement.claim,
                    tuple(self.by_rank[rank].text for rank in one.verdict.citations),
                )
                for one in undecided
            ]
        )
        for one, decision in zip(undecided, made.decisions, strict=True):
            if decision is not None:
                self.decisions[_key(one)] = verifier.name, decision
        return [self._decided(one) for one in judged], (*BY_RULES, verifier.checked_by(made))

    def _decided(self, judged: _Judged) -> _Judged:
        """Return a statement with the verifier's decision on it, if there is one."""
        if judged.verdict.verdict != "unverified" or _key(judged) not in self.decisions:
            return judged
        name, decision = self.decisions[_key(judged)]
        own, reasons = judged.verdict, judged.verdict.reasons
        update: dict[str, Any] = {"verdict": decision.verdict, "decided_by": name}
        if decision.reason is not None:
            update["reasons"] = (*reasons, decision.reason)
        if decision.quote is not None:
            update |= self._place(decision.quote, own.citations)
        return judged._replace(verdict=own.model_copy(update=update))

    def _place(self, quote: str, ranks: Sequence[int]) -> dict[str, Any]:
        """Return quote and span of the first passage that has the words exactly so, if any."""
        for block in (self.by_rank[rank] for rank in ranks):
            if (at := block.text.find(quote)) >= 0:
                return {"quote": quote, "span": _span(block, at, at + len(quote))}
        return {}

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
        cited = [self.by_rank[rank] for rank in ranks]
        blocks, quoted = _closest(statement.claim, cited), _quotation(statement, cited)
        support = {
            block.rank: support_of(statement.claim, [block], self.compare)
            for block in blocks
            if quoted is None or block.rank != quoted[0]
        }
        values = {rank: one.value for rank, one in support.items()}
        if quoted is not None:
            rank, span, quote = quoted
            decided = {"verdict": "supported", "decided_by": RULES, "support": 1.0}
            verdict = own.model_copy(update={**decided, "quote": quote, "span": span})
            return _Judged(statement, verdict, {**values, rank: 1.0})
        best = max(support.values(), key=_value)
        if len(blocks) > 1:
            best = max(best, support_of(statement.claim, blocks, self.compare), key=_value)
        seen = observations(statement.claim, [_with_header(block) for block in cited])
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
        if not added:
            return text, judged
        written = with_markers(text, added)
        again = self.judged(written)
        if len(again) != len(judged):
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


def _closest(claim: str, blocks: Sequence[Block]) -> Sequence[Block]:
    """Return the passages to score, at most 8: those that contain most stems of the claim."""
    if len(blocks) <= _MOST_SCORED:
        return blocks
    stems = snippets.question_stems(claim)
    return sorted(blocks, key=lambda block: -snippets.coverage(stems, block.text))[:_MOST_SCORED]


def _value(support: Support) -> float:
    return support.value


def _quotation(statement: Statement, blocks: Sequence[Block]) -> tuple[int, Span, str] | None:
    """Return rank, span and words of the first passage that a statement quotes."""
    for block in blocks:
        found = find_statement(statement, block.text, block.sentences)
        if found is not None:
            span = _span(block, found.start, found.end)
            return block.rank, span, block.text[found.start : found.end]
    return None


def _span(block: Block, start: int, end: int) -> Span:
    base = block.char_start + block.start
    return Span(uuid=block.uuid, char_start=base + start, char_end=base + end)


def _key(judged: _Judged) -> tuple[str, tuple[int, ...]]:
    return judged.statement.claim, judged.verdict.citations


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

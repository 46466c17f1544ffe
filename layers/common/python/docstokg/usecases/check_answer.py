"""Check of an answer."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

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
)
from docstokg.usecases.comparison import Comparison
from docstokg.usecases.support import support_of
from docstokg.usecases.verification import Asking, Claim, Decision

Repair = Literal["attribute", "drop", "report"]
BY_RULES = (CheckedBy(name=RULES, kind="rules"),)
# Maximum scored passages per sentence; quotations are searched in all.
_MOST_SCORED = 8
_CLEARLY = 0.1
_LEAST_SUPPORT = 0.5
# Maximum rounds of dropping sentences; text without code needs one.
_MOST_REPAIRS = 4


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
    """Check markers, sentences and confidence; a blank answer becomes the abstention. Never raises.

    `repair`: `drop` removes uncited and unsupported sentences; `attribute` adds the marker of the
    quoted or clearly best supporting passage; `report` removes invalid markers only. `blocks`: the
    model's passages. `citations`: their scores and documents, by rank. `probability`: the built-in
    reader's, else None. Without vectors, support is lexical and the cosine is 0, with a warning.
    `verifier`: decides unverified sentences in one batch.
    """
    if not answer.strip() or notices.is_abstention(markers.strip_markers(answer)):
        return CheckedAnswer(answer=notices.ABSTENTION)
    check = _Check({block.rank: block for block in blocks}, compare, verifier)
    checked = markers.check_markers(answer, check.by_rank)
    text = checked.text
    if not has_content(text):  # markers only, valid or not
        return CheckedAnswer(answer=notices.ABSTENTION)
    # Confidence is part of the contract, so its vectors come first.
    similarity = compare.similarity(query, text) if compare is not None else None
    judged = check.judged(statements(text))
    warnings: list[str] = []
    if repair == "attribute":
        text, judged = check.attributed(text, judged)
    judged = check.verified(judged)
    if repair == "drop":
        whole, (text, judged) = text, check.repaired(text, judged)
        warnings += [notices.DROPPED] * (text != whole)
        if not text.strip():
            return CheckedAnswer(answer=notices.ABSTENTION, warnings=tuple(warnings))
    report = check.report(judged, checked.invalid)
    cited = markers.check_markers(text, check.by_rank).cited
    if cited:
        kinds = Counter(kind for one in report.sentences for kind in (one.verdict, *one.reasons))
        warnings += notices.statements_doubted(kinds)
        if similarity is None:
            warnings.append(notices.NO_EMBEDDER)
    if checked.invalid or not cited:
        warnings.append(notices.CITATIONS_REMOVED if cited else notices.CITATIONS_UNAVAILABLE)
    sources = {one.rank: one for one in citations}
    documents = {
        sources[rank].doc_id if rank in sources else check.by_rank[rank].document_name
        for rank in cited
    }
    scores = {
        rank: sources[rank].score if rank in sources else block.relevance / 10
        for rank, block in check.by_rank.items()
    }
    per_sentence = [
        max((scores[rank] * value for rank, value in one.support.items()), default=0.0)
        for one in judged
        if one.statement.factual
    ]
    parts = confidence_parts(per_sentence, documents, similarity)
    verdicts = [verdict.verdict for verdict in report.sentences]
    value = confidence(parts, probability)
    value = bounded(value, verdicts, invalid=bool(checked.invalid), cited=bool(cited))
    return CheckedAnswer(
        answer=text,
        cited=cited,
        grounding=report,
        confidence=value,
        confidence_level=level(value, len(documents)),
        confidence_parts=parts,
        warnings=tuple(warnings),
    )


def ground_text(
    text: str,
    blocks: Sequence[Block],
    compare: Comparison | None = None,
    verifier: Asking | None = None,
) -> Grounding:
    """Return the report on a text without changing it; invalid markers are only listed."""
    check = _Check({block.rank: block for block in blocks}, compare, verifier)
    judged = check.verified(check.judged(statements(text)))
    invalid = markers.check_markers(text, check.by_rank).invalid
    return check.report(judged, invalid)


def ground_sentences(
    text: str,
    sources: Sequence[Sequence[Block]],
    compare: Comparison | None = None,
    verifier: Asking | None = None,
) -> Grounding:
    """Return the report on a text without markers, each factual sentence with its own sources.

    `sources`: passages per factual sentence, in order; further sentences are `too_long`. A sentence
    cites the passage that it quotes, else the best supporting one.
    """
    found = iter(sources)
    given = []
    for statement in statements(text):
        own = next(found, None) if statement.factual else ()
        unchecked = "too_long" if own is None else statement.unchecked
        ranks = tuple(block.rank for block in own or ())
        given.append(replace(statement, ranks=ranks, unchecked=unchecked))
    check = _Check({block.rank: block for own in sources for block in own}, compare, verifier)
    made = []
    for judged in check.verified(check.judged(given)):
        best = sorted(judged.support, key=lambda rank: -judged.support[rank])[:1]
        verdict = judged.verdict.model_copy(update={"citations": tuple(best)})
        made.append(judged._replace(verdict=verdict))
    return check.report(made, ())


@dataclass(slots=True)
class _Check:
    by_rank: Mapping[int, Block]
    compare: Comparison | None
    verifier: Asking | None
    decisions: dict[tuple[str, tuple[int, ...]], Decision] = field(default_factory=dict)
    checked_by: tuple[CheckedBy, ...] = BY_RULES

    def report(self, judged: Iterable[_Judged], invalid: Sequence[str]) -> Grounding:
        verdicts = [one.verdict for one in judged]
        return grounding.report(verdicts, len(self.by_rank), invalid, self.checked_by)

    def judged(self, given: Sequence[Statement]) -> list[_Judged]:
        made = []
        for statement in given:
            is_late = self.compare is not None and self.compare.is_late and statement.factual
            one = self._judge(replace(statement, unchecked="too_long") if is_late else statement)
            made.append(self._decided(one))
        return made

    def verified(self, judged: list[_Judged]) -> list[_Judged]:
        undecided = [one for one in judged if one.verdict.verdict == "unverified"]
        if self.verifier is None or not undecided:
            return judged
        claims = [
            Claim(
                one.statement.claim,
                tuple(self.by_rank[rank].text for rank in one.verdict.citations),
            )
            for one in undecided
        ]
        made = self.verifier.ask(claims)
        for one, decision in zip(undecided, made.decisions, strict=True):
            if decision is not None:
                self.decisions[_key(one)] = decision
        self.checked_by = (*BY_RULES, self.verifier.checked_by(made))
        return [self._decided(one) for one in judged]

    def _decided(self, judged: _Judged) -> _Judged:
        own, decision = judged.verdict, self.decisions.get(_key(judged))
        if self.verifier is None or decision is None or own.verdict != "unverified":
            return judged
        update: dict[str, Any] = {"verdict": decision.verdict, "decided_by": self.verifier.name}
        if decision.reason is not None:
            update["reasons"] = (*own.reasons, decision.reason)
        for block in (self.by_rank[rank] for rank in own.citations):
            if decision.quote is not None and (at := block.text.find(decision.quote)) >= 0:
                span = _span(block, at, at + len(decision.quote))
                update |= {"quote": decision.quote, "span": span}
                break
        return judged._replace(verdict=own.model_copy(update=update))

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
        if not statement.factual or not ranks:
            kind = "uncited" if statement.factual else "not_checked"
            return _Judged(statement, own.model_copy(update={"verdict": kind}), {})
        cited = [self.by_rank[rank] for rank in ranks]
        quoted = _quotation(statement, cited)
        blocks = cited[:_MOST_SCORED]
        scored = {
            block.rank: support_of(statement.claim, [block], self.compare)
            for block in blocks
            if quoted is None or block.rank != quoted[0]
        }
        values = {rank: one.value for rank, one in scored.items()}
        if quoted is not None:
            rank, span, quote = quoted
            update = {"verdict": "supported", "decided_by": RULES, "support": 1.0}
            verdict = own.model_copy(update={**update, "quote": quote, "span": span})
            return _Judged(statement, verdict, {**values, rank: 1.0})
        together = [support_of(statement.claim, blocks, self.compare)] if len(blocks) > 1 else []
        best = max((*scored.values(), *together), key=lambda one: one.value)
        seen = observations(statement.claim, [_with_header(block) for block in cited])
        update = {"verdict": "unverified", "support": round(best.value, 4)}
        verdict = own.model_copy(update={**update, "span": best.span, "reasons": seen})
        return _Judged(statement, verdict, values)

    def attributed(self, text: str, judged: list[_Judged]) -> tuple[str, list[_Judged]]:
        added = {
            one.verdict.end: rank
            for one in judged
            if one.verdict.verdict == "uncited"
            and (rank := self._source_of(one.statement)) is not None
        }
        if not added:
            return text, judged
        written = with_markers(text, added)
        again = self.judged(statements(written))
        if len(again) != len(judged):
            return text, judged
        for place, before in enumerate(judged):
            if before.verdict.end in added:
                now = again[place].verdict
                reasons = {"reasons": (*now.reasons, "marker_added")}
                again[place] = again[place]._replace(verdict=now.model_copy(update=reasons))
        return written, again

    def _source_of(self, statement: Statement) -> int | None:
        judged = self._judge(replace(statement, ranks=tuple(self.by_rank)))
        ranked = sorted(judged.support.items(), key=lambda one: -one[1])
        if not ranked or ranked[0][1] < _LEAST_SUPPORT:
            return None
        is_quoted = judged.verdict.verdict == "supported"
        is_clear = len(ranked) == 1 or ranked[0][1] - ranked[1][1] >= _CLEARLY
        return ranked[0][0] if is_quoted or is_clear else None

    def repaired(self, text: str, judged: list[_Judged]) -> tuple[str, list[_Judged]]:
        for _ in range(_MOST_REPAIRS):
            bad = [
                one.statement.span
                for one in judged
                if one.verdict.verdict in ("unsupported", "uncited")
            ]
            if not bad:
                return text, judged
            # Code without its fence is parsed as text, which may contain a sentence or marker.
            text = markers.check_markers(without(text, bad), self.by_rank).text
            judged = self.judged(statements(text))
        return "", []


def _quotation(statement: Statement, blocks: Sequence[Block]) -> tuple[int, Span, str] | None:
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
    lines = [block.document_name, block.subject, str(block.page or ""), block.kg_match or ""]
    return "\n".join([*lines, *(fact.text for fact in block.related), block.text])

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
from docstokg.domain.answer.observations import MISSING, Finding, observations
from docstokg.domain.answer.parts import parts as parts_of
from docstokg.domain.answer.quotation import find_statement
from docstokg.domain.answer.statements import (
    Statement,
    has_content,
    statements,
    with_markers,
    without,
)
from docstokg.domain.text.sentences import Span as Part
from docstokg.usecases.comparison import Comparison
from docstokg.usecases.support import support_of
from docstokg.usecases.verification import Asking, Claim, Decision, holds

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
    findings: tuple[Finding, ...] = ()

    @property
    def counted(self) -> tuple[int, ...]:
        """Ranks that count for confidence: the proven ones, else the cited ones."""
        return self.verdict.proven or self.verdict.citations


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
    sentences = check.judged(statements(text))
    warnings: list[str] = []
    if repair == "attribute":
        text, sentences = check.attributed(text, sentences)
    sentences = check.verified(sentences)
    if repair == "drop":
        complete, (text, sentences) = text, check.repaired(text, sentences)
        warnings += [notices.DROPPED] * (text != complete)
        if not text.strip():
            return CheckedAnswer(answer=notices.ABSTENTION, warnings=tuple(warnings))
    report = check.report(sentences, checked.invalid)
    cited = markers.check_markers(text, check.by_rank).cited
    missing, exchanged = (
        {
            number: values
            for number, sentence in enumerate(sentences, 1)
            if (values := [value.text for value in sentence.findings if value.code in codes])
        }
        for codes in (MISSING, {"cell_mismatch"})
    )
    if cited:
        kinds = Counter(
            kind for verdict in report.sentences for kind in (verdict.verdict, *verdict.reasons)
        )
        warnings += notices.statements_doubted(kinds)
        warnings += notices.values_of_sentences("No cited source contains", missing)
        warnings += notices.values_of_sentences("Values of other cells of the table", exchanged)
        warnings += notices.markers_unproven(report.sentences)
        if similarity is None:
            warnings.append(notices.NO_EMBEDDER)
    if checked.invalid or not cited:
        warnings.append(notices.CITATIONS_REMOVED if cited else notices.CITATIONS_UNAVAILABLE)
    sources = {citation.rank: citation for citation in citations}
    factual = [sentence for sentence in sentences if sentence.statement.factual]
    documents = {
        sources[rank].doc_id if rank in sources else check.by_rank[rank].document_name
        for sentence in sentences
        for rank in sentence.counted
    }
    scores = {
        rank: sources[rank].score if rank in sources else block.relevance / 10
        for rank, block in check.by_rank.items()
    }
    per_sentence = [
        max(
            (scores[rank] * sentence.support.get(rank, 0.0) for rank in sentence.counted), default=0
        )
        for sentence in factual
    ]
    parts = confidence_parts(per_sentence, documents, similarity)
    verdicts = [verdict.verdict for verdict in report.sentences]
    value = confidence(parts, probability)
    value = bounded(
        value,
        verdicts,
        invalid=bool(checked.invalid),
        cited=bool(cited),
        missing=bool(missing or exchanged),
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


def ground_text(
    text: str,
    blocks: Sequence[Block],
    compare: Comparison | None = None,
    verifier: Asking | None = None,
) -> Grounding:
    """Return the report on a text without changing it; invalid markers are only listed."""
    check = _Check({block.rank: block for block in blocks}, compare, verifier)
    invalid = markers.check_markers(text, check.by_rank).invalid
    return check.report(check.verified(check.judged(statements(text))), invalid)


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
    sources_of = iter(sources)
    marked = []
    for statement in statements(text):
        passages = next(sources_of, None) if statement.factual else ()
        unchecked = "too_long" if passages is None else statement.unchecked
        ranks = tuple(block.rank for block in passages or ())
        marked.append(replace(statement, ranks=ranks, unchecked=unchecked))
    by_rank = {block.rank: block for passages in sources for block in passages}
    check = _Check(by_rank, compare, verifier)
    cited = []
    for sentence in check.verified(check.judged(marked)):
        best = sorted(sentence.support, key=lambda rank: -sentence.support[rank])[:1]
        proven = tuple(rank for rank in sentence.verdict.proven if rank in best)
        update = {"citations": tuple(best), "proven": proven}
        cited.append(sentence._replace(verdict=sentence.verdict.model_copy(update=update)))
    return check.report(cited, ())


@dataclass(slots=True)
class _Check:
    by_rank: Mapping[int, Block]
    compare: Comparison | None
    verifier: Asking | None
    decisions: dict[tuple[str, tuple[int, ...]], Decision] = field(default_factory=dict)
    checked_by: tuple[CheckedBy, ...] = BY_RULES

    def report(self, sentences: Iterable[_Judged], invalid: Sequence[str]) -> Grounding:
        verdicts = [sentence.verdict for sentence in sentences]
        return grounding.report(verdicts, len(self.by_rank), invalid, self.checked_by)

    @property
    def is_late(self) -> bool:
        return self.compare is not None and self.compare.is_late

    def judged(self, sentences: Sequence[Statement]) -> list[_Judged]:
        return [self._decided(self._judge(statement)) for statement in sentences]

    def verified(self, sentences: list[_Judged]) -> list[_Judged]:
        undecided = [judged for judged in sentences if judged.verdict.verdict == "unverified"]
        if self.verifier is None or not undecided:
            return sentences
        claims = [
            Claim(
                sentence.statement.claim,
                tuple(self.by_rank[rank].text for rank in sentence.verdict.citations),
                "\n".join(
                    f"{block.document_name}\n{block.subject}"
                    for block in map(self.by_rank.__getitem__, sentence.verdict.citations)
                ),
            )
            for sentence in undecided
        ]
        verification = self.verifier.verify(claims)
        for sentence, decision in zip(undecided, verification.decisions, strict=True):
            if decision is not None:
                self.decisions[_key(sentence)] = decision
        self.checked_by = (*BY_RULES, self.verifier.checked_by(verification))
        return [self._decided(sentence) for sentence in sentences]

    def _decided(self, sentence: _Judged) -> _Judged:
        verdict, decision = sentence.verdict, self.decisions.get(_key(sentence))
        if self.verifier is None or decision is None or verdict.verdict != "unverified":
            return sentence
        update: dict[str, Any] = {"verdict": decision.verdict, "decided_by": self.verifier.name}
        if decision.reason is not None:
            update["reasons"] = (*verdict.reasons, decision.reason)
        cited = [self.by_rank[rank] for rank in verdict.citations]
        holding = [
            (block, quote)
            for block in cited
            for quote in decision.quotes
            if holds(block.text, quote)
        ]
        for block, quote in holding[:1]:
            if (at := block.text.find(quote)) >= 0:
                update |= {"quote": quote, "span": _span(block, at, at + len(quote))}
        if decision.verdict == "supported":
            ranks = tuple(dict.fromkeys(block.rank for block, _ in holding))
            update["proven"] = ranks or verdict.citations
        return sentence._replace(verdict=verdict.model_copy(update=update))

    def _judge(self, statement: Statement) -> _Judged:
        if self.is_late and statement.factual:
            statement = replace(statement, unchecked="too_long")
        ranks = tuple(rank for rank in statement.ranks if rank in self.by_rank)
        verdict = SentenceVerdict(
            start=statement.span.start,
            end=statement.span.end,
            citations=ranks,
            verdict="not_checked",
            support=0.0,
            reasons=(statement.unchecked,) if statement.unchecked else (),
        )
        if not statement.factual or not ranks:
            kind = "uncited" if statement.factual else "not_checked"
            return _Judged(statement, verdict.model_copy(update={"verdict": kind}), {})
        cited = [self.by_rank[rank] for rank in ranks]
        quoted = _quotations(statement, cited)
        if self.is_late and not quoted:  # the first reading of a long source takes seconds
            return self._judge(statement)
        blocks = cited[:_MOST_SCORED]
        scored = {
            block.rank: support_of(statement.claim, [block], self.compare)
            for block in blocks
            if block.rank not in quoted
        }
        values = {rank: support.value for rank, support in scored.items()}
        if quoted:
            rank, span = next(iter(quoted.items()))
            block = self.by_rank[rank]
            update = {
                "verdict": "supported",
                "decided_by": RULES,
                "support": 1.0,
                "proven": tuple(quoted),
                "quote": block.text[span.start : span.end],
                "span": _span(block, span.start, span.end),
            }
            verdict = verdict.model_copy(update=update)
            return _Judged(statement, verdict, values | dict.fromkeys(quoted, 1.0))
        if self.is_late:
            return self._judge(statement)
        together = [support_of(statement.claim, blocks, self.compare)] if len(blocks) > 1 else []
        best = max((*scored.values(), *together), key=lambda support: support.value)
        rows = [
            part for block in cited for part in parts_of(block.text, block.sentences) if part.fields
        ]
        texts = [text for block in cited for text in (_header(block), block.text)]
        findings = observations(statement.claim, texts, rows)
        codes = tuple(dict.fromkeys(finding.code for finding in findings))
        update = {"verdict": "unverified", "support": round(best.value, 4)}
        verdict = verdict.model_copy(update={**update, "span": best.span, "reasons": codes})
        return _Judged(statement, verdict, values, findings)

    def attributed(self, text: str, sentences: list[_Judged]) -> tuple[str, list[_Judged]]:
        """Add missing markers, and replace those of quotations that cite other passages."""
        added: dict[int, int] = {}
        for sentence in sentences:
            kind, statement = sentence.verdict.verdict, sentence.statement
            rank = None
            if kind == "uncited":
                rank = self._source_of(statement)
            elif kind == "unverified":
                quoted = _quotations(statement, list(self.by_rank.values()))
                rank = next(iter(quoted), None)
            if rank is not None:
                added[sentence.verdict.end] = rank
        if not added:
            return text, sentences
        spans = [judged.statement.span for judged in sentences if judged.verdict.end in added]
        marked = with_markers(text, added, spans)
        repeated = self.judged(statements(marked))
        if len(repeated) != len(sentences):
            return text, sentences
        for place, before in enumerate(sentences):
            if before.verdict.end in added:
                verdict = repeated[place].verdict
                reasons = {"reasons": (*verdict.reasons, "marker_added")}
                changed = verdict.model_copy(update=reasons)
                repeated[place] = repeated[place]._replace(verdict=changed)
        return marked, repeated

    def _source_of(self, statement: Statement) -> int | None:
        sentence = self._judge(replace(statement, ranks=tuple(self.by_rank)))
        ranked = sorted(sentence.support.items(), key=lambda scored: -scored[1])
        if not ranked or ranked[0][1] < _LEAST_SUPPORT:
            return None
        is_quoted = sentence.verdict.verdict == "supported"
        is_clear = len(ranked) == 1 or ranked[0][1] - ranked[1][1] >= _CLEARLY
        return ranked[0][0] if is_quoted or is_clear else None

    def repaired(self, text: str, sentences: list[_Judged]) -> tuple[str, list[_Judged]]:
        for _ in range(_MOST_REPAIRS):
            bad = [
                sentence.statement.span
                for sentence in sentences
                if sentence.verdict.verdict in ("unsupported", "uncited")
            ]
            if not bad:
                return text, sentences
            # Code without its fence is parsed as text, which may contain a sentence or marker.
            text = markers.check_markers(without(text, bad), self.by_rank).text
            sentences = self.judged(statements(text))
        return "", []


def _quotations(statement: Statement, blocks: Sequence[Block]) -> dict[int, Part]:
    spans = {block.rank: find_statement(statement, block.text, block.sentences) for block in blocks}
    return {rank: span for rank, span in spans.items() if span is not None}


def _span(block: Block, start: int, end: int) -> Span:
    base = block.char_start + block.start
    return Span(uuid=block.uuid, char_start=base + start, char_end=base + end)


def _key(sentence: _Judged) -> tuple[str, tuple[int, ...]]:
    return sentence.statement.claim, sentence.verdict.citations


def _header(block: Block) -> str:
    lines = [block.document_name, block.subject, str(block.page or ""), block.kg_match or ""]
    return "\n".join([*lines, *(fact.text for fact in block.related)])

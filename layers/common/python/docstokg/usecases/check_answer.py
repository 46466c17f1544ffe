"""One check of an answer against its passages, shared by respond and /v1/check."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from docstokg.contracts.model import Contract
from docstokg.contracts.response import (
    Citation,
    ConfidenceLevel,
    Grounding,
    SentenceVerdict,
    Span,
)
from docstokg.contracts.state import Block
from docstokg.domain import citations as markers
from docstokg.domain import grounding, notices, sentences, verdicts
from docstokg.domain.confidence import (
    CEILING_WITH_INVALID_CITATIONS,
    WITHOUT_CITATIONS,
    confidence,
    level,
)
from docstokg.usecases.comparison import Comparison

_MOST_COMPARED = 12


class CheckedAnswer(Contract):
    """An answer after its checks; `cited` are the ranks of its valid markers, ascending."""

    answer: str
    cited: tuple[int, ...] = ()
    grounding: Grounding | None = None
    confidence: float = 0.0
    confidence_level: ConfidenceLevel = "low"
    warnings: tuple[str, ...] = ()


def check_answer(
    answer: str,
    blocks: Sequence[Block],
    *,
    citations: Sequence[Citation] = (),
    query: str = "",
    compare: Comparison | None = None,
    repair: Literal["drop", "report"] = "report",
) -> CheckedAnswer:
    """Check markers, sentences and confidence; never raises for what a model wrote.

    `blocks`: exactly the passages the model was given. `citations`: where their scores and
    documents are read, by rank. Without `compare`, or without vectors in its time, the verdicts
    are lexical and the cosine counts as 0, with a warning.
    """
    if not answer.strip() or notices.is_abstention(markers.strip_markers(answer)):
        return CheckedAnswer(answer=notices.ABSTENTION)
    given = {block.rank: block for block in blocks}
    checked = markers.check_markers(answer, given)
    if not checked.text.strip():
        # Nothing but forged markers: what is left says nothing.
        return CheckedAnswer(answer=notices.ABSTENTION)
    if compare is not None:
        # Confidence is part of the contract, verdicts may do without vectors: it gets the time.
        compare.similarity(query, checked.text)
    text, judged = checked.text, _judged(checked.text, given, compare)
    warnings: list[str] = []
    if repair == "drop":
        text, judged, dropped = _repaired(text, judged, given, compare)
        if dropped:
            warnings.append(notices.UNSUPPORTED_DROPPED)
        if not text.strip():
            return CheckedAnswer(answer=notices.ABSTENTION, warnings=tuple(warnings))
    cited = markers.check_markers(text, given).cited
    report = grounding.report(judged, cited=cited, given=given, invalid=checked.invalid)
    if not cited:
        # An answer that is all code or all questions claims nothing, and stands on nothing.
        report = report.model_copy(update={"grounded": False})
    warnings += _doubts(judged, report, cited)
    value = WITHOUT_CITATIONS
    if cited:
        similarity = compare.similarity(query, text) if compare is not None else None
        if similarity is None:
            warnings.append(notices.NO_EMBEDDER)
        value = _confidence(cited, given, citations, similarity)
    if checked.invalid or not cited:
        warnings.append(notices.CITATIONS_UNAVAILABLE)
        value = min(value, CEILING_WITH_INVALID_CITATIONS)
    return CheckedAnswer(
        answer=text,
        cited=cited,
        grounding=report,
        confidence=value,
        confidence_level=level(value),
        warnings=tuple(warnings),
    )


def _doubts(
    judged: Sequence[SentenceVerdict], report: Grounding, cited: Sequence[int]
) -> list[str]:
    doubts = []
    if any(verdict.verdict == "unsupported" for verdict in judged):
        doubts.append(notices.UNSUPPORTED)
    if cited and report.coverage < grounding.MIN_COVERAGE:
        doubts.append(notices.LOW_COVERAGE)
    return doubts


def ground_text(
    text: str,
    blocks: Sequence[Block],
    compare: Comparison | None = None,
) -> Grounding:
    """Make the report on a text that must stay as it is: orphans are listed and not removed."""
    given = {block.rank: block for block in blocks}
    judged = _judged(text, given, compare)
    found = markers.check_markers(text, given)
    return grounding.report(judged, cited=found.cited, given=given, invalid=found.invalid)


def ground_sentences(
    text: str,
    sources: Sequence[Sequence[Block]],
    compare: Comparison | None = None,
) -> Grounding:
    """Make the report on a text without citations: each factual sentence against its sources.

    `sources`: per factual sentence of the text, in order, the passages found for it. A sentence
    that none of them supports at least weakly cites nothing and is unsupported.
    """
    factual = [statement for statement in grounding.statements(text) if statement.factual]
    cited = [
        dataclasses.replace(statement, ranks=tuple(block.rank for block in found))
        for statement, found in zip(factual, sources, strict=True)
    ]
    given = {block.rank: block for found in sources for block in found}
    judged = [
        _against_sources(verdict, given) for verdict in _judged_statements(cited, given, compare)
    ]
    named = {rank for verdict in judged for rank in verdict.citations}
    return grounding.report(judged, cited=named, given=given, invalid=())


def _against_sources(verdict: SentenceVerdict, given: Mapping[int, Block]) -> SentenceVerdict:
    """Cite the passage that supports a sentence; what none supports is unsupported."""
    ranks: tuple[int, ...] = ()
    if verdict.verdict in ("supported", "weak") and verdict.span is not None:
        uuid = verdict.span.uuid
        ranks = tuple(rank for rank in verdict.citations if given[rank].uuid == uuid)
    kind = "unsupported" if verdict.verdict == "uncited" else verdict.verdict
    return verdict.model_copy(update={"citations": ranks, "verdict": kind})


def _judged(
    text: str, given: Mapping[int, Block], compare: Comparison | None
) -> tuple[SentenceVerdict, ...]:
    factual = [statement for statement in grounding.statements(text) if statement.factual]
    return _judged_statements(factual, given, compare)


def _judged_statements(
    factual: Sequence[grounding.Statement], given: Mapping[int, Block], compare: Comparison | None
) -> tuple[SentenceVerdict, ...]:
    """Judge each statement by the passages it cites, each alone and all together.

    Words choose the passages; vectors are asked about the chosen ones only, and not where a rule
    has settled the verdict.
    """
    fitted = verdicts.weights()
    chosen = [_best_examination(statement, given, fitted) for statement in factual]
    unsettled = [one for one in chosen if one is not None and not verdicts.is_settled(one)]
    vectors = compare if compare is not None and _fetched(unsettled, compare) else None
    judged: list[SentenceVerdict] = []
    for statement, one in zip(factual, chosen, strict=True):
        decided = _decided(one, fitted, vectors) if one is not None else None
        ranks = tuple(rank for rank in statement.ranks if rank in given)
        judged.append(_verdict(dataclasses.replace(statement, ranks=ranks), decided))
    return tuple(judged)


def _fetched(unsettled: Sequence[verdicts.Examination], compare: Comparison) -> bool:
    """Embed what is to be compared, unless it is too much; tell whether there are vectors."""
    pieces = dict.fromkeys(
        piece
        for one in unsettled
        for piece in (one.claim, *(evidence.text for evidence in one.evidence))
    )
    return len(pieces) <= _MOST_COMPARED and compare.fetch(list(pieces))


def _best_examination(
    statement: grounding.Statement, given: Mapping[int, Block], fitted: verdicts.Weights
) -> verdicts.Examination | None:
    """Examine a statement by each of the groups it cites; the one that is worth most."""
    return max(
        (verdicts.examine(statement.claim, group, fitted) for group in _cited(statement, given)),
        key=lambda one: _worth(verdicts.decide(one, fitted)),
        default=None,
    )


def _worth(judgement: verdicts.Judgement) -> tuple[int, float]:
    return _ORDER[judgement.verdict], judgement.support


_ORDER = {"uncited": 0, "unsupported": 1, "weak": 2, "supported": 3}


def _cited(
    statement: grounding.Statement, given: Mapping[int, Block]
) -> list[list[verdicts.Passage]]:
    passages = [_passage(given[rank]) for rank in statement.ranks if rank in given]
    groups = [[passage] for passage in passages]
    return [*groups, passages] if len(passages) > 1 else groups


def _passage(block: Block) -> verdicts.Passage:
    header = "\n".join([block.document_name, block.kg_match or "", ", ".join(block.related)])
    return verdicts.Passage(block.uuid, block.text, block.char_start + block.start, header)


def _decided(
    one: verdicts.Examination,
    fitted: verdicts.Weights,
    compare: Comparison | None,
) -> verdicts.Judgement:
    cosines = None
    if compare is not None and not one.quoted:
        cosines = compare.cosines(one.claim, [evidence.text for evidence in one.evidence])
    return verdicts.decide(one, fitted, cosines)


def _verdict(
    statement: grounding.Statement, judgement: verdicts.Judgement | None
) -> SentenceVerdict:
    if judgement is None:
        return SentenceVerdict(
            start=statement.span.start, end=statement.span.end, verdict="uncited", support=0.0
        )
    evidence = judgement.evidence
    return SentenceVerdict(
        start=statement.span.start,
        end=statement.span.end,
        citations=statement.ranks,
        verdict=judgement.verdict,
        support=judgement.support,
        span=Span(uuid=evidence.uuid, char_start=evidence.start, char_end=evidence.end)
        if evidence
        else None,
        reasons=judgement.reasons,
    )


def _repaired(
    text: str,
    judged: tuple[SentenceVerdict, ...],
    given: Mapping[int, Block],
    compare: Comparison | None,
) -> tuple[str, tuple[SentenceVerdict, ...], bool]:
    """Drop unsupported sentences and judge what is left, whose places have moved."""
    bad = [
        sentences.Span(verdict.start, verdict.end)
        for verdict in judged
        if verdict.verdict == "unsupported"
    ]
    if not bad:
        return text, judged, False
    kept = grounding.without(text, bad)
    return kept, _judged(kept, given, compare), True


def _confidence(
    cited: Sequence[int],
    given: Mapping[int, Block],
    citations: Sequence[Citation],
    similarity: float | None,
) -> float:
    known = {citation.rank: citation for citation in citations}
    scores = [
        known[rank].score if rank in known else block.relevance / 10
        for rank, block in given.items()
    ]
    documents = {
        known[rank].doc_id if rank in known else given[rank].document_name for rank in cited
    }
    return confidence(scores, documents, similarity)

"""One check of an answer against its passages, shared by respond and /v1/check."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from docstokg.contracts.model import Contract
from docstokg.contracts.response import (
    Citation,
    ConfidenceLevel,
    ConfidenceParts,
    Grounding,
    SentenceVerdict,
    Span,
)
from docstokg.contracts.state import Block
from docstokg.domain.answer import citations as markers
from docstokg.domain.answer import grounding, notices, verdicts
from docstokg.domain.answer.confidence import bounded, confidence, confidence_parts, level
from docstokg.domain.graph.ontology_facts import NO_FACTS, Facts, brought, says
from docstokg.domain.text import sentences
from docstokg.usecases.comparison import Comparison

Repair = Literal["attribute", "drop", "report"]

_MOST_COMPARED = 40
_MOST_CHOSEN = 3
_MOST_CITED = 8
_CLEARLY = 0.1
_NEARLY = 0.15
_MOST_REPAIRS = 4
"""Rounds of dropping sentences, of which one is enough for text that holds no code."""


class CheckedAnswer(Contract):
    """An answer after its checks; `cited` are the ranks of its valid markers, ascending."""

    answer: str
    cited: tuple[int, ...] = ()
    grounding: Grounding | None = None
    confidence: float = 0.0
    confidence_level: ConfidenceLevel = "low"
    confidence_parts: ConfidenceParts | None = None
    warnings: tuple[str, ...] = ()


def check_answer(  # noqa: PLR0913 - each part of a check is given by name
    answer: str,
    blocks: Sequence[Block],
    *,
    citations: Sequence[Citation] = (),
    query: str = "",
    compare: Comparison | None = None,
    repair: Repair = "report",
    probability: float | None = None,
    facts: Facts = NO_FACTS,
) -> CheckedAnswer:
    """Check markers, sentences and confidence; never raises for what a model wrote.

    `repair`: `drop` removes uncited and unsupported sentences, `attribute` gives a sentence without
    a marker the marker of the passage that supports it, `report` changes nothing but invalid
    markers.

    `facts`: what the graph says of the relations between names that the answer states.
    `blocks`: exactly the passages the model was given. `citations`: where their scores and
    documents are read, by rank. `probability`: how likely the built-in model's choice is right,
    None for another model's answer. Without `compare`, or without vectors in its time, the verdicts
    are lexical and the cosine counts as 0, with a warning.
    """
    if not answer.strip() or notices.is_abstention(markers.strip_markers(answer)):
        return CheckedAnswer(answer=notices.ABSTENTION)
    by_rank = {block.rank: block for block in blocks}
    checked = _without_orphans(answer, by_rank)
    whole = checked.text
    if not grounding.says_something(whole):
        # Markers alone, forged or not, are no answer.
        return CheckedAnswer(answer=notices.ABSTENTION)
    # Confidence is part of the contract, verdicts may do without vectors: it gets the time.
    _similarity(compare, query, whole)
    facts = facts.with_more(brought(citations))
    text, judged = whole, _judged(whole, by_rank, compare, facts)
    warnings: list[str] = []
    if repair == "attribute":
        text, judged = _attributed(text, judged, by_rank, compare, facts)
    if repair == "drop":
        text, judged, dropped = _repaired(text, judged, by_rank, compare, facts)
        if dropped:
            warnings.append(notices.DROPPED)
        if not text.strip():
            return CheckedAnswer(answer=notices.ABSTENTION, warnings=tuple(warnings))
    cited = markers.check_markers(text, by_rank).cited
    report = grounding.report(judged, cited=cited, ranks=by_rank, invalid=checked.invalid)
    # An answer that is all code or all questions claims nothing, and stands on nothing.
    report = report.model_copy(update={"grounded": report.grounded and bool(cited)})
    warnings += _doubts(judged) if cited else []
    similarity = _similarity(compare, query, text) if cited else None
    if cited and similarity is None:
        warnings.append(notices.NO_EMBEDDER)
    parts = _parts(cited, by_rank, citations, similarity)
    value = bounded(
        confidence(parts, [verdict.support for verdict in judged], probability),
        [verdict.verdict for verdict in judged],
        invalid=bool(checked.invalid) or not cited,
    )
    warnings += _marker_doubts(checked.invalid, cited)
    return CheckedAnswer(
        answer=text,
        cited=cited,
        grounding=report,
        confidence=value,
        confidence_level=level(value),
        confidence_parts=parts,
        warnings=tuple(warnings),
    )


def _marker_doubts(invalid: Sequence[str], cited: Sequence[int]) -> list[str]:
    if not cited:
        return [notices.CITATIONS_UNAVAILABLE]
    return [notices.CITATIONS_REMOVED] if invalid else []


def _similarity(compare: Comparison | None, query: str, answer: str) -> float | None:
    return compare.similarity(query, answer) if compare is not None else None


def _without_orphans(answer: str, by_rank: Mapping[int, Block]) -> markers.CitedText:
    """Remove invalid markers, and the stumps that were written for them only."""
    checked = markers.check_markers(answer, by_rank)
    if not checked.invalid:
        return checked
    # What a stump leaves behind may join into a new marker.
    again = markers.check_markers(grounding.without_stumps(checked.text, answer), by_rank)
    return dataclasses.replace(
        again, invalid=tuple(dict.fromkeys((*checked.invalid, *again.invalid)))
    )


def _doubts(judged: Sequence[SentenceVerdict]) -> list[str]:
    kinds = Counter(verdict.verdict for verdict in judged)
    doubtful = sum(
        verdict.verdict == "weak" and not grounding.is_carried(verdict) for verdict in judged
    )
    unchecked = sum(
        verdict.verdict == "not_checked" and verdict.reasons != ("no_claim",) for verdict in judged
    )
    return notices.statements_doubted(kinds["uncited"], kinds["unsupported"], doubtful, unchecked)


def ground_text(
    text: str, blocks: Sequence[Block], compare: Comparison | None = None, facts: Facts = NO_FACTS
) -> Grounding:
    """Make the report on a text that must stay as it is: orphans are listed and not removed.

    `facts`: what the graph says of the relations that the text states.
    """
    by_rank = {block.rank: block for block in blocks}
    judged = _judged(text, by_rank, compare, facts)
    cited_text = markers.check_markers(text, by_rank)
    return grounding.report(
        judged, cited=cited_text.cited, ranks=by_rank, invalid=cited_text.invalid
    )


def ground_sentences(
    text: str,
    sources: Sequence[Sequence[Block]],
    compare: Comparison | None = None,
    facts: Facts = NO_FACTS,
) -> Grounding:
    """Make the report on a text without citations: each factual sentence against its sources.

    `sources`: per factual sentence of the text, in order, the passages found for it; sentences
    behind the last of them are `too_long`. A sentence that none of its sources supports at least
    weakly cites nothing and is unsupported.
    """
    found = iter(sources)
    cited = [_with_sources(statement, found) for statement in grounding.statements(text)]
    by_rank = {block.rank: block for own_blocks in sources for block in own_blocks}
    judged = [
        _against_sources(verdict, by_rank)
        for verdict in _by_facts(
            cited, _judged_statements(cited, by_rank, compare, together=False), facts
        )
    ]
    ranks = {rank for verdict in judged for rank in verdict.citations}
    return grounding.report(judged, cited=ranks, ranks=by_rank, invalid=())


def _with_sources(
    statement: grounding.Statement, sources: Iterator[Sequence[Block]]
) -> grounding.Statement:
    if not statement.factual:
        return statement
    own_blocks = next(sources, None)
    if own_blocks is None:
        return dataclasses.replace(statement, ranks=(), unchecked="too_long")
    return dataclasses.replace(statement, ranks=tuple(block.rank for block in own_blocks))


def _by_facts(
    given: Sequence[grounding.Statement], judged: Sequence[SentenceVerdict], facts: Facts
) -> tuple[SentenceVerdict, ...]:
    """Let facts of the graph decide the sentences that state or deny them.

    A sentence without a citation stays uncited, and one with a wrong id or number unsupported;
    what a source says word for word is the source's to answer for.
    """
    return tuple(
        _by_fact(statement.claim, verdict, facts)
        for statement, verdict in zip(given, judged, strict=True)
    )


def _by_fact(claim: str, verdict: SentenceVerdict, facts: Facts) -> SentenceVerdict:
    if verdict.verdict in ("uncited", "not_checked"):
        return verdict
    said = says(claim, facts)
    if said is None or (said == "relation_not_found" and verdict.support == 1.0):
        return verdict
    if said != "held":
        reasons = tuple(dict.fromkeys((*verdict.reasons, said)))
        return verdict.model_copy(update={"verdict": "unsupported", "reasons": reasons})
    if verdicts.FLAWS.intersection(verdict.reasons):
        return verdict
    return verdict.model_copy(update={"verdict": "supported", "support": 1.0, "reasons": ()})


def _against_sources(verdict: SentenceVerdict, by_rank: Mapping[int, Block]) -> SentenceVerdict:
    """Cite the passage that supports a sentence; what none supports is unsupported."""
    ranks: tuple[int, ...] = ()
    if verdict.verdict in ("supported", "weak") and verdict.span is not None:
        uuid = verdict.span.uuid
        ranks = tuple(rank for rank in verdict.citations if by_rank[rank].uuid == uuid)
    kind = "unsupported" if verdict.verdict == "uncited" else verdict.verdict
    return verdict.model_copy(update={"citations": ranks, "verdict": kind})


def _judged(
    text: str, by_rank: Mapping[int, Block], compare: Comparison | None, facts: Facts = NO_FACTS
) -> tuple[SentenceVerdict, ...]:
    given = grounding.statements(text)
    return _by_facts(given, _judged_statements(given, by_rank, compare), facts)


def _judged_statements(
    given: Sequence[grounding.Statement],
    by_rank: Mapping[int, Block],
    compare: Comparison | None,
    *,
    together: bool = True,
) -> tuple[SentenceVerdict, ...]:
    """Judge each statement by the passages it cites, each alone and, on request, all together.

    Passages that were looked for and not cited stay apart: the subject of one with the predicate
    of another is no support.

    Words choose the passages, at most three; vectors are asked about the chosen ones only, and not
    where a rule has settled the verdict.
    """
    chosen, bounded_in_time = [], []
    for statement in given:
        is_left = statement.factual and compare is not None and compare.is_late
        one = dataclasses.replace(statement, unchecked="too_long") if is_left else statement
        cited = _cited(one, by_rank, together=together) if one.factual else []
        chosen.append(_closest(one.claim, cited) if cited else [])
        bounded_in_time.append(one)
    compared = [
        one
        for one in _unsettled(chosen)[:_MOST_COMPARED]
        if compare is not None
        and compare.fetch(
            [one.claim, *(() if together else one.sides), *(item.text for item in one.evidence)]
        )
    ]
    judged: list[SentenceVerdict] = []
    for statement, own_blocks in zip(bounded_in_time, chosen, strict=True):
        ranks = tuple(rank for rank in statement.ranks if rank in by_rank)
        judgements = [
            verdicts.decide(
                one,
                _cosines(one, compare) if one in compared else None,
                _sides(one, compare) if one in compared and not together else None,
            )
            for one in own_blocks
        ]
        best = max(judgements, key=_worth) if judgements else None
        judged.append(_verdict(dataclasses.replace(statement, ranks=ranks), best))
    return tuple(judged)


def _unsettled(chosen: Sequence[Sequence[verdicts.Examination]]) -> list[verdicts.Examination]:
    """List what vectors may decide, the nearest of every sentence first: time may end early."""
    return [
        one
        for place in range(_MOST_CHOSEN)
        for own_blocks in chosen
        for one in own_blocks[place : place + 1]
        if not verdicts.is_settled(one)
    ]


def _closest(
    claim: str, groups: Sequence[Sequence[verdicts.Passage]]
) -> list[verdicts.Examination]:
    """Return the examinations of the passages that speak most of the claim, the best first.

    Among those whose support is nearly the highest the best verdict counts: a source far from the
    claim cannot acquit what a near one contradicts. One that speaks of something else contradicts
    nothing.
    """
    examinations = [verdicts.examine(claim, group) for group in groups]
    judgements = [verdicts.decide(one) for one in examinations]
    same = [one.support for one in judgements if "subject_mismatch" not in one.reasons]
    most = max(same or [one.support for one in judgements], default=0.0)
    near = [
        (_worth(judgement), one)
        for judgement, one in zip(judgements, examinations, strict=True)
        if judgement.support >= most - _NEARLY
    ]
    near.sort(key=lambda item: item[0], reverse=True)
    return [one for _, one in near[:_MOST_CHOSEN]]


def _worth(judgement: verdicts.Judgement) -> tuple[int, float]:
    return _ORDER[judgement.verdict], judgement.support


_ORDER = {"not_checked": 0, "uncited": 0, "unsupported": 1, "weak": 2, "supported": 3}


def _cited(
    statement: grounding.Statement, by_rank: Mapping[int, Block], *, together: bool
) -> list[list[verdicts.Passage]]:
    ranks = [rank for rank in statement.ranks if rank in by_rank][:_MOST_CITED]
    passages = [_passage(by_rank[rank]) for rank in ranks]
    groups = [[passage] for passage in passages]
    return [*groups, passages] if together and len(passages) > 1 else groups


def _passage(block: Block) -> verdicts.Passage:
    header = "\n".join([block.document_name, block.kg_match or "", ", ".join(block.related)])
    return verdicts.Passage(block.uuid, block.text, block.char_start + block.start, header)


def _cosines(one: verdicts.Examination, compare: Comparison | None) -> Sequence[float] | None:
    if compare is None or not one.evidence:
        return None
    return compare.cosines(one.claim, [item.text for item in one.evidence])


def _sides(
    one: verdicts.Examination, compare: Comparison | None
) -> tuple[float, float, float] | None:
    """Compare the claim's sides with the best evidence and with each other, all fetched before."""
    if compare is None or not one.evidence:
        return None
    subject, predicate = one.sides
    own = compare.cosines(subject, [one.evidence[0].text, predicate])
    behind = compare.cosines(predicate, [one.evidence[0].text])
    return (own[0], behind[0], own[1]) if own and behind else None


def _verdict(
    statement: grounding.Statement, judgement: verdicts.Judgement | None
) -> SentenceVerdict:
    if judgement is None:
        reason = statement.unchecked
        return SentenceVerdict(
            start=statement.span.start,
            end=statement.span.end,
            citations=statement.ranks,
            verdict="uncited" if reason is None else "not_checked",
            support=0.0,
            reasons=() if reason is None else (reason,),
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


def _attributed(
    text: str,
    judged: tuple[SentenceVerdict, ...],
    by_rank: Mapping[int, Block],
    compare: Comparison | None,
    facts: Facts,
) -> tuple[str, tuple[SentenceVerdict, ...]]:
    """Give each sentence without a marker the marker of the passage that clearly supports it.

    The places of the sentences move, so all are judged again; a sentence whose marker was added
    says so among its reasons.
    """
    bare = {
        verdict.end: statement.claim
        for statement, verdict in zip(grounding.statements(text), judged, strict=True)
        if verdict.verdict == "uncited"
    }
    markers_added = {
        end: rank
        for end, claim in bare.items()
        if (rank := _supporting_rank(claim, by_rank, compare)) is not None
    }
    if not markers_added:
        return text, judged
    written = grounding.with_markers(text, markers_added)
    again = _judged(written, by_rank, compare, facts)
    if len(again) != len(judged):
        return text, judged
    return written, tuple(
        verdict.model_copy(update={"reasons": (*verdict.reasons, "marker_added")})
        if before.end in markers_added
        else verdict
        for before, verdict in zip(judged, again, strict=True)
    )


def _supporting_rank(
    claim: str, by_rank: Mapping[int, Block], compare: Comparison | None
) -> int | None:
    """Return the rank of the one passage that supports a sentence clearly better than others."""
    statements = [
        grounding.Statement(sentences.Span(0, len(claim)), (rank,), claim) for rank in by_rank
    ]
    verdict_of = dict(zip(by_rank, _judged_statements(statements, by_rank, compare), strict=True))
    supporting = sorted(
        (-verdict.support, rank)
        for rank, verdict in verdict_of.items()
        if verdict.verdict == "supported"
    )
    if not supporting or (len(supporting) > 1 and supporting[1][0] - supporting[0][0] < _CLEARLY):
        return None
    return supporting[0][1]


def _repaired(
    text: str,
    judged: tuple[SentenceVerdict, ...],
    by_rank: Mapping[int, Block],
    compare: Comparison | None,
    facts: Facts,
) -> tuple[str, tuple[SentenceVerdict, ...], bool]:
    """Drop uncited and unsupported sentences and judge what is left, whose places have moved."""
    whole = text
    for _ in range(_MOST_REPAIRS):
        bad = [
            sentences.Span(verdict.start, verdict.end)
            for verdict in judged
            if verdict.verdict in ("unsupported", "uncited")
        ]
        if not bad:
            return text, judged, text != whole
        # With a code fence dropped, what was code is read: it may be a sentence or a marker.
        text = _without_orphans(grounding.without(text, bad), by_rank).text
        judged = _judged(text, by_rank, compare, facts)
    return "", (), True


def _parts(
    cited: Sequence[int],
    by_rank: Mapping[int, Block],
    citations: Sequence[Citation],
    similarity: float | None,
) -> ConfidenceParts:
    citation_of_rank = {citation.rank: citation for citation in citations}
    scores = [
        citation_of_rank[rank].score if rank in citation_of_rank else block.relevance / 10
        for rank, block in by_rank.items()
    ]
    documents = {
        citation_of_rank[rank].doc_id if rank in citation_of_rank else by_rank[rank].document_name
        for rank in cited
    }
    return confidence_parts(scores, documents, similarity)

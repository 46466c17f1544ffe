"""One check of an answer against its passages, shared by respond and /v1/check."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
Verdicts = tuple[SentenceVerdict, ...]

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
    if compare is not None:
        compare.similarity(query, whole)
    check = _Check(by_rank, compare, facts.with_more(brought(citations)))
    text, judged = whole, check.judged(whole)
    warnings: list[str] = []
    if repair == "attribute":
        text, judged = check.attributed(text, judged)
    if repair == "drop":
        text, judged, dropped = check.repaired(text, judged)
        if dropped:
            warnings.append(notices.DROPPED)
        if not text.strip():
            return CheckedAnswer(answer=notices.ABSTENTION, warnings=tuple(warnings))
    cited = markers.check_markers(text, by_rank).cited
    report = grounding.report(judged, cited=cited, ranks=by_rank, invalid=checked.invalid)
    # An answer that is all code or all questions claims nothing, and stands on nothing.
    report = report.model_copy(update={"grounded": report.grounded and bool(cited)})
    warnings += _doubts(judged) if cited else []
    similarity = compare.similarity(query, text) if cited and compare is not None else None
    if cited and similarity is None:
        warnings.append(notices.NO_EMBEDDER)
    parts = _parts(cited, by_rank, citations, similarity)
    value = bounded(
        confidence(parts, [verdict.support for verdict in judged], probability),
        [verdict.verdict for verdict in judged],
        invalid=bool(checked.invalid) or not cited,
    )
    if checked.invalid or not cited:
        warnings.append(notices.CITATIONS_REMOVED if cited else notices.CITATIONS_UNAVAILABLE)
    return CheckedAnswer(
        answer=text,
        cited=cited,
        grounding=report,
        confidence=value,
        confidence_level=level(value),
        confidence_parts=parts,
        warnings=tuple(warnings),
    )


def _without_orphans(answer: str, by_rank: Mapping[int, Block]) -> markers.CitedText:
    """Remove invalid markers, and the stumps that were written for them only."""
    checked = markers.check_markers(answer, by_rank)
    if not checked.invalid:
        return checked
    # What a stump leaves behind may join into a new marker.
    again = markers.check_markers(grounding.without_stumps(checked.text, answer), by_rank)
    return replace(again, invalid=tuple(dict.fromkeys((*checked.invalid, *again.invalid))))


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
    judged = _Check(by_rank, compare, facts).judged(text)
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
    check = _Check(by_rank, compare, facts, together=False)
    judged = [_against_sources(verdict, by_rank) for verdict in check.by_facts(cited)]
    ranks = {rank for verdict in judged for rank in verdict.citations}
    return grounding.report(judged, cited=ranks, ranks=by_rank, invalid=())


def _with_sources(
    statement: grounding.Statement, sources: Iterator[Sequence[Block]]
) -> grounding.Statement:
    if not statement.factual:
        return statement
    own_blocks = next(sources, None)
    if own_blocks is None:
        return replace(statement, ranks=(), unchecked="too_long")
    return replace(statement, ranks=tuple(block.rank for block in own_blocks))


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


@dataclass(frozen=True, slots=True)
class _Check:
    """What statements are held against: passages, vectors while there are any, the graph's facts.

    `together`: whether the passages that a statement cites are also read as one. Passages that were
    looked for and not cited stay apart: the subject of one with the predicate of another is no
    support.
    """

    by_rank: Mapping[int, Block]
    compare: Comparison | None
    facts: Facts
    together: bool = True

    def judged(self, text: str) -> Verdicts:
        return self.by_facts(grounding.statements(text))

    def by_facts(self, given: Sequence[grounding.Statement]) -> Verdicts:
        """Let facts of the graph decide the sentences that state or deny them.

        A sentence without a citation stays uncited, and one with a wrong id or number unsupported;
        what a source says word for word is the source's to answer for.
        """
        return tuple(
            _by_fact(statement.claim, verdict, self.facts)
            for statement, verdict in zip(given, self._by_passages(given), strict=True)
        )

    def _by_passages(self, given: Sequence[grounding.Statement]) -> list[SentenceVerdict]:
        """Judge each statement by the passages it cites, each alone and all together.

        Words choose the passages, at most three; vectors are asked about the chosen ones only, and
        not where a rule has settled the verdict.
        """
        chosen, in_time = [], []
        for statement in given:
            is_left = statement.factual and self.compare is not None and self.compare.is_late
            one = replace(statement, unchecked="too_long") if is_left else statement
            chosen.append(_closest(one.claim, self._cited(one)) if one.factual else [])
            in_time.append(one)
        compared = [one for one in _unsettled(chosen)[:_MOST_COMPARED] if self._is_fetched(one)]
        judged: list[SentenceVerdict] = []
        for statement, own_blocks in zip(in_time, chosen, strict=True):
            ranks = tuple(rank for rank in statement.ranks if rank in self.by_rank)
            judgements = [
                verdicts.decide(one, *self._likeness(one))
                if one in compared
                else verdicts.decide(one)
                for one in own_blocks
            ]
            best = max(judgements, key=_worth, default=None)
            judged.append(_verdict(replace(statement, ranks=ranks), best))
        return judged

    def _cited(self, statement: grounding.Statement) -> list[list[verdicts.Passage]]:
        ranks = [rank for rank in statement.ranks if rank in self.by_rank][:_MOST_CITED]
        passages = [_passage(self.by_rank[rank]) for rank in ranks]
        groups = [[passage] for passage in passages]
        return [*groups, passages] if self.together and len(passages) > 1 else groups

    def _is_fetched(self, one: verdicts.Examination) -> bool:
        sides = () if self.together else one.sides
        return self.compare is not None and self.compare.fetch(
            [one.claim, *sides, *(item.text for item in one.evidence)]
        )

    def _likeness(
        self, one: verdicts.Examination
    ) -> tuple[Sequence[float] | None, tuple[float, float, float] | None]:
        """Compare a claim with its evidence, and its sides with the best and with each other.

        The sides only where passages stay apart. All was fetched before.
        """
        if self.compare is None or not one.evidence:
            return None, None
        texts = [item.text for item in one.evidence]
        cosines = self.compare.cosines(one.claim, texts)
        if self.together:
            return cosines, None
        subject, predicate = one.sides
        own = self.compare.cosines(subject, [texts[0], predicate])
        behind = self.compare.cosines(predicate, texts[:1])
        return cosines, (own[0], behind[0], own[1]) if own and behind else None

    def attributed(self, text: str, judged: Verdicts) -> tuple[str, Verdicts]:
        """Give each sentence without a marker the marker of the passage that clearly supports it.

        The places of the sentences move, so all are judged again; a sentence whose marker was added
        says so among its reasons.
        """
        added = {
            verdict.end: rank
            for statement, verdict in zip(grounding.statements(text), judged, strict=True)
            if verdict.verdict == "uncited"
            and (rank := self._supporting_rank(statement.claim)) is not None
        }
        if not added:
            return text, judged
        written = grounding.with_markers(text, added)
        again = self.judged(written)
        if len(again) != len(judged):
            return text, judged
        return written, tuple(
            verdict.model_copy(update={"reasons": (*verdict.reasons, "marker_added")})
            if before.end in added
            else verdict
            for before, verdict in zip(judged, again, strict=True)
        )

    def _supporting_rank(self, claim: str) -> int | None:
        """Return the rank of the passage that supports a claim clearly better than the others."""
        span = sentences.Span(0, len(claim))
        given = [grounding.Statement(span, (rank,), claim) for rank in self.by_rank]
        best = sorted(
            (-verdict.support, rank)
            for rank, verdict in zip(self.by_rank, self._by_passages(given), strict=True)
            if verdict.verdict == "supported"
        )
        if not best or (len(best) > 1 and best[1][0] - best[0][0] < _CLEARLY):
            return None
        return best[0][1]

    def repaired(self, text: str, judged: Verdicts) -> tuple[str, Verdicts, bool]:
        """Drop uncited and unsupported sentences and judge what is left: places have moved."""
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
            text = _without_orphans(grounding.without(text, bad), self.by_rank).text
            judged = self.judged(text)
        return "", (), True


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


def _passage(block: Block) -> verdicts.Passage:
    header = "\n".join(
        [block.document_name, block.kg_match or "", ", ".join(one.text for one in block.related)]
    )
    return verdicts.Passage(block.uuid, block.text, block.char_start + block.start, header)


def _verdict(
    statement: grounding.Statement, judgement: verdicts.Judgement | None
) -> SentenceVerdict:
    told = judgement or verdicts.Judgement(
        "not_checked" if statement.unchecked else "uncited", 0.0, None, ()
    )
    evidence = told.evidence
    return SentenceVerdict(
        start=statement.span.start,
        end=statement.span.end,
        citations=statement.ranks,
        verdict=told.verdict,
        support=told.support,
        span=Span(uuid=evidence.uuid, char_start=evidence.start, char_end=evidence.end)
        if evidence
        else None,
        reasons=(statement.unchecked,) if statement.unchecked else told.reasons,
    )


def _parts(
    cited: Sequence[int],
    by_rank: Mapping[int, Block],
    citations: Sequence[Citation],
    similarity: float | None,
) -> ConfidenceParts:
    shown = {rank: (block.relevance / 10, block.document_name) for rank, block in by_rank.items()}
    shown |= {one.rank: (one.score, one.doc_id) for one in citations if one.rank in by_rank}
    scores, documents = [score for score, _ in shown.values()], {shown[rank][1] for rank in cited}
    return confidence_parts(scores, documents, similarity)

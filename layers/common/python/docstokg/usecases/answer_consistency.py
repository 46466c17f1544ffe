"""A written answer is held against the subject domains, in every mode, as a draft sent to check is.

A domain knows what no passage need say: that an id is another term's, that no path makes one term
a kind of another. What contradicts it is no supported statement, however alike its source.
"""

from collections.abc import Sequence

from docstokg.contracts.check import ConsistencyIssue
from docstokg.contracts.response import Grounding, SentenceVerdict
from docstokg.contracts.state import Block
from docstokg.domain import time_budget
from docstokg.domain.answer import notices
from docstokg.domain.answer.confidence import bounded, level
from docstokg.domain.answer.consistency import Mention, mentions
from docstokg.domain.answer.grounding import statements
from docstokg.domain.graph.ontology_facts import NO_FACTS, Facts
from docstokg.ports import KnowledgeGraph
from docstokg.usecases.check_answer import CheckedAnswer
from docstokg.usecases.domains import SubjectDomain
from docstokg.usecases.ontology_facts import facts_of
from docstokg.usecases.run import Run, graph_reason

_MOST_TOLD = 5
_BESIDE = 4
"""Characters between an id and its label: a blank, a bracket, a quote."""
_REASON = {
    "id_label_mismatch": "id_label_mismatch",
    "unknown_id": "id_not_in_source",
    "obsolete_id": "id_not_in_source",
}
"""By an issue's code; whatever else a domain finds, the sentence is contradicted by it."""


def held_to_domain(
    run: Run,
    checked: CheckedAnswer,
    blocks: Sequence[Block],
    *,
    graph: KnowledgeGraph,
    domain: SubjectDomain,
) -> CheckedAnswer:
    """Give the answer with its inconsistent sentences unsupported, and each finding a warning.

    What a source says word for word is the source's to answer for, and no finding.
    With the graph off, or lost earlier in the request, nothing is asked; lost here, its reason
    is noted and the answer stands as it was checked.
    """
    report = checked.grounding
    left_s = _seconds(run)
    if report is None or not left_s:
        return checked
    consistency = run.attempt(
        "consistency",
        lambda: domain.check_consistency(checked.answer, graph, run.scope, left_s),
        graph_reason,
    )
    # What a source says word for word is its own to answer for.
    texts, named = "\n".join(block.text for block in blocks), mentions(checked.answer)
    found = consistency.issues if consistency is not None else ()
    issues = [one for one in found if _words(checked.answer, one, named) not in texts]
    if not issues:
        return checked
    judged = tuple(_held(verdict, issues) for verdict in report.sentences)
    return _with_doubts(checked, report, judged, issues)


def facts_told(run: Run, answer: str, *, graph: KnowledgeGraph) -> Facts:
    """Read what the graph says of the names that an answer relates; a lost one says nothing."""
    claims = [statement.claim for statement in statements(answer) if statement.factual]
    left_s = _seconds(run)
    if not left_s:
        return NO_FACTS
    found = run.attempt("facts", lambda: facts_of(claims, graph, run.scope, left_s), graph_reason)
    return NO_FACTS if found is None else found


def _seconds(run: Run) -> float:
    """Give the time the graph has: none where it is off, or lost earlier in the request."""
    lost = any(reason.startswith("kg_") for reason in run.degraded)
    left_s = run.left_s(*time_budget.CONSISTENCY)
    off = lost or not run.plan.expansion.enabled or left_s < time_budget.LEAST_CALL_S
    return 0.0 if off else left_s


def _words(answer: str, issue: ConsistencyIssue, named: Sequence[Mention]) -> str:
    """Give the words a finding is about: a label's with the id that stands beside it."""
    start, end = issue.start, issue.end
    for mention in named:
        if mention.start - issue.end <= _BESIDE and issue.start - mention.end <= _BESIDE:
            start, end = min(start, mention.start), max(end, mention.end)
    return answer[start:end]


def _held(verdict: SentenceVerdict, issues: Sequence[ConsistencyIssue]) -> SentenceVerdict:
    wrong = [one for one in issues if one.start < verdict.end and verdict.start < one.end]
    if not wrong:
        return verdict
    reasons = [_REASON.get(one.code, "contradicted") for one in wrong]
    together = tuple(dict.fromkeys((*verdict.reasons, *reasons)))
    kind = verdict.verdict if verdict.verdict == "uncited" else "unsupported"
    return verdict.model_copy(update={"verdict": kind, "reasons": together})


def _with_doubts(
    checked: CheckedAnswer,
    report: Grounding,
    judged: tuple[SentenceVerdict, ...],
    issues: Sequence[ConsistencyIssue],
) -> CheckedAnswer:
    doubted = judged != report.sentences
    value = bounded(
        checked.confidence,
        [verdict.verdict for verdict in judged],
        invalid=bool(report.invalid_citations),
    )
    shown = issues[:_MOST_TOLD]
    warnings = [f"The answer disagrees with the graph: {issue.message}." for issue in shown]
    count, before = (
        sum(one.verdict == "unsupported" for one in own) for own in (judged, report.sentences)
    )
    told = notices.statements_doubted(0, before, 0, 0)
    kept = [warning for warning in checked.warnings if warning not in told]
    warnings = [*kept, *notices.statements_doubted(0, count, 0, 0), *warnings]
    return checked.model_copy(
        update={
            "grounding": report.model_copy(
                update={"sentences": judged, "grounded": report.grounded and not doubted}
            ),
            "confidence": value if checked.cited else checked.confidence,
            "confidence_level": level(value if checked.cited else checked.confidence),
            "warnings": tuple(dict.fromkeys(warnings)),
        }
    )

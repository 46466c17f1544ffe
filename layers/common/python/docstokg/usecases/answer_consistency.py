"""An answer is compared with the subject domains, as a draft sent to `/v1/check` is.

A domain knows facts that no passage need contain: that an id is another term's, that no path makes
one term a kind of another. Its findings are warnings and observations, not verdicts.
"""

from collections.abc import Sequence

from docstokg.contracts.check import ConsistencyIssue
from docstokg.contracts.response import SentenceVerdict
from docstokg.contracts.state import Block
from docstokg.domain import time_budget
from docstokg.domain.answer.consistency import Mention, mentions
from docstokg.ports import KnowledgeGraph
from docstokg.usecases.check_answer import CheckedAnswer
from docstokg.usecases.domains import SubjectDomain
from docstokg.usecases.run import Run, graph_reason

_MOST_SHOWN = 5
_NEXT_TO = 4
"""Characters between an id and its label: a blank, a bracket, a quotation mark."""
_REASON = {
    "id_label_mismatch": "id_label_mismatch",
    "unknown_id": "id_not_in_source",
    "obsolete_id": "id_not_in_source",
}
"""Observation by the code of an issue; other issues are warnings only."""


def with_domain_findings(
    run: Run,
    checked: CheckedAnswer,
    blocks: Sequence[Block],
    *,
    graph: KnowledgeGraph,
    domain: SubjectDomain,
) -> CheckedAnswer:
    """Return the answer with the domain's findings as observations and warnings.

    Words that a passage contains literally are not findings. With the graph off, or lost earlier in
    the request, the domain is not asked; lost here, its reason is noted and the answer unchanged.
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
    texts, named = "\n".join(block.text for block in blocks), mentions(checked.answer)
    found = consistency.issues if consistency is not None else ()
    issues = [one for one in found if _words(checked.answer, one, named) not in texts]
    if not issues:
        return checked
    sentences = tuple(_observed(verdict, issues) for verdict in report.sentences)
    messages = (
        f"The answer disagrees with the graph: {issue.message}." for issue in issues[:_MOST_SHOWN]
    )
    return checked.model_copy(
        update={
            "grounding": report.model_copy(update={"sentences": sentences}),
            "warnings": tuple(dict.fromkeys((*checked.warnings, *messages))),
        }
    )


def _seconds(run: Run) -> float:
    """Return the seconds for the graph: 0 where it is off, or was lost earlier in the request."""
    lost = any(reason.startswith("kg_") for reason in run.degraded)
    left_s = run.left_s(*time_budget.CONSISTENCY)
    off = lost or not run.plan.expansion.enabled or left_s < time_budget.LEAST_CALL_S
    return 0.0 if off else left_s


def _words(answer: str, issue: ConsistencyIssue, named: Sequence[Mention]) -> str:
    """Return the words of an issue, for a label together with the id next to it."""
    start, end = issue.start, issue.end
    for mention in named:
        if mention.start - issue.end <= _NEXT_TO and issue.start - mention.end <= _NEXT_TO:
            start, end = min(start, mention.start), max(end, mention.end)
    return answer[start:end]


def _observed(verdict: SentenceVerdict, issues: Sequence[ConsistencyIssue]) -> SentenceVerdict:
    reasons = (
        _REASON[one.code]
        for one in issues
        if one.code in _REASON and one.start < verdict.end and verdict.start < one.end
    )
    together = tuple(dict.fromkeys((*verdict.reasons, *reasons)))
    return verdict.model_copy(update={"reasons": together})

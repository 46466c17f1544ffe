"""Answers and subject domains."""

from docstokg.contracts.check import ConsistencyIssue
from docstokg.contracts.response import RULES, SentenceVerdict
from docstokg.domain import time_budget
from docstokg.domain.deadline import Deadline
from docstokg.ports import KnowledgeGraph
from docstokg.usecases.check_answer import CheckedAnswer
from docstokg.usecases.domains import SubjectDomain
from docstokg.usecases.run import Run, graph_reason

_MOST_SHOWN = 5
# Observations on a sentence whose use of an id differs from its cited passages.
_IDS = {"id_label_mismatch", "id_not_in_source"}


def with_domain_findings(
    run: Run,
    checked: CheckedAnswer,
    *,
    graph: KnowledgeGraph,
    domain: SubjectDomain,
) -> CheckedAnswer:
    """Return the answer with the domain's first five findings as warnings.

    Quotations, and ids used as in the cited passages, are skipped. Unchanged without a report or
    time, and if the graph is off or failed before; a failure here adds a degraded reason.
    """
    report = checked.grounding
    deadline = _deadline(run)
    if report is None or deadline is None:
        return checked
    consistency = run.attempt(
        "consistency",
        lambda: domain.check_consistency(checked.answer, graph, run.scope, deadline),
        graph_reason,
    )
    messages = [
        f"The answer disagrees with the graph: {issue.message}."
        for issue in (consistency.issues if consistency else ())
        if any(_is_own(sentence, issue) for sentence in report.sentences)
    ]
    warnings = tuple(dict.fromkeys((*checked.warnings, *messages[:_MOST_SHOWN])))
    return checked.model_copy(update={"warnings": warnings})


def _is_own(sentence: SentenceVerdict, issue: ConsistencyIssue) -> bool:
    if sentence.end <= issue.start or issue.end <= sentence.start:
        return False
    if issue.code in ("id_label_mismatch", "unknown_id", "obsolete_id") and sentence.citations:
        return not _IDS.isdisjoint(sentence.reasons)
    return sentence.decided_by != RULES


def _deadline(run: Run) -> Deadline | None:
    lost = any(reason.startswith("kg_") for reason in run.degraded)
    deadline = run.deadline.limit(*time_budget.CONSISTENCY)
    is_late = deadline.remaining() < time_budget.LEAST_CALL_S
    return None if lost or is_late or not run.plan.expansion.enabled else deadline

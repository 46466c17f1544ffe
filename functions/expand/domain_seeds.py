"""Seed expansion by subject domain."""

from docstokg.domain import time_budget
from docstokg.ports import KnowledgeGraph
from docstokg.usecases.domains import SubjectDomain
from docstokg.usecases.run import Run, graph_reason


def widen_seeds(run: Run, *, graph: KnowledgeGraph, domain: SubjectDomain) -> None:
    """Replace the plan's seeds by their expansion in the domain, if enabled and successful."""
    expansion = run.plan.expansion
    deadline = run.deadline.limit(expansion.time_s, time_budget.EXPAND.reserve_s)
    is_late = deadline.remaining() < time_budget.LEAST_CALL_S
    if is_late or not (expansion.enabled and expansion.seeds):
        return
    seeds = run.attempt(
        "domain_seeds",
        lambda: domain.expand_seeds(graph, expansion.seeds, run.scope, deadline),
        graph_reason,
    )
    if seeds:
        wider = expansion.model_copy(update={"seeds": tuple(seeds)})
        run.plan = run.plan.model_copy(update={"expansion": wider})

"""Seed expansion by subject domain."""

from docstokg.domain import time_budget
from docstokg.ports import KnowledgeGraph
from docstokg.usecases.domains import SubjectDomain
from docstokg.usecases.run import Run, graph_reason


def widen_seeds(run: Run, *, graph: KnowledgeGraph, domain: SubjectDomain) -> None:
    """Replace the plan's seeds by their expansion in the domain, if enabled and successful."""
    expansion = run.plan.expansion
    left_s = run.left_s(expansion.time_s, time_budget.EXPAND.reserve_s)
    if not (expansion.enabled and expansion.seeds) or left_s < time_budget.LEAST_CALL_S:
        return
    seeds = run.attempt(
        "domain_seeds",
        lambda: domain.expand_seeds(graph, expansion.seeds, run.scope, left_s),
        graph_reason,
    )
    if seeds:
        wider = expansion.model_copy(update={"seeds": tuple(seeds)})
        run.plan = run.plan.model_copy(update={"expansion": wider})

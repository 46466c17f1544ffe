"""Restrict retrieval to the documents around given graph nodes (kg_expansion.route)."""

import time
from collections.abc import Callable

from docstokg.contracts.graph import SliceRequest
from docstokg.contracts.records import Scope
from docstokg.contracts.request import RAGRequest
from docstokg.contracts.response import DegradedReason
from docstokg.contracts.state import Plan, RouteScope
from docstokg.domain.deadline import Deadline
from docstokg.domain.slice_graph import merge
from docstokg.errors import DocsToKGError, PlanRejected, Timeout
from docstokg.observability import Telemetry
from docstokg.ports import KnowledgeGraph
from docstokg.usecases.domains import SubjectDomain

CHUNKS_PER_SEED = 200
NODES = 600
RESERVE_S = 0.3


def route(
    request: RAGRequest,
    plan: Plan,
    *,
    graph: KnowledgeGraph,
    domain: SubjectDomain,
    telemetry: Telemetry,
    clock: Callable[[], float],
) -> RouteScope:
    """List the documents of the slice around `kg_expansion.seeds`, widened for `hops` >= 2.

    Without time, a graph or a known seed nothing is restricted (`doc_ids` None) and the reason is
    given; seeds without documents restrict to nothing, with a warning.
    """
    started = time.perf_counter()
    wanted = request.kg_expansion
    scope = Scope(namespace=plan.namespace, groups=plan.groups, filter=request.filter)

    def time_left() -> float:
        return Deadline(plan.deadline_ms).share_s(clock() * 1000, plan.expansion.time_s, RESERVE_S)

    def answer(
        doc_ids: tuple[str, ...] | None, warning: str = "", reason: DegradedReason | None = None
    ) -> RouteScope:
        return RouteScope(
            doc_ids=doc_ids,
            took_ms=round((time.perf_counter() - started) * 1000, 2),
            degraded=(reason,) if reason else (),
            warnings=(warning,) if warning else (),
        )

    try:
        with telemetry.span("graph_route"):
            asked = SliceRequest(
                entity_ids=domain.expand_seeds(graph, wanted.seeds, scope, time_left()),
                entity_types=wanted.concept_types,
                relations=wanted.relations,
                max_nodes=NODES,
                chunks_per_entity=CHUNKS_PER_SEED,
            )
            part = graph.slice(asked, scope, time_left())
            narrower = domain.metadata_filter(part)
            if narrower is not None:
                conditions = {**narrower, **(scope.filter or {})}
                scope = scope.model_copy(update={"filter": conditions})
                part = graph.slice(asked, scope, time_left())
            for _ in range(1, (wanted.hops or 1) if plan.expansion.two_hops else 1):
                around = [entity.id for entity in part.entities]
                part = merge(part, graph.widen(around, asked, scope, time_left()))
    except DocsToKGError as error:
        reason: DegradedReason = "kg_unavailable"
        if isinstance(error, Timeout):
            reason = "kg_timeout"
        elif isinstance(error, PlanRejected):
            reason = "kg_plan_rejected"
        return answer(None, "kg_expansion.route could not be followed.", reason)
    known = {entity.id.casefold() for entity in part.entities}
    unknown = [seed for seed in wanted.seeds if seed.casefold() not in known]
    if len(unknown) == len(wanted.seeds):
        return answer(None, "No seed of kg_expansion.route is in the graph; it was ignored.")
    doc_ids = tuple(sorted({chunk.doc_id for chunk in part.chunks}))
    if not doc_ids:
        return answer((), "No document mentions the seeds of kg_expansion.route.")
    return answer(doc_ids)

"""Restriction of retrieval to documents."""

from docstokg.contracts.graph import GraphSlice, SliceRequest
from docstokg.contracts.state import Restriction
from docstokg.domain import time_budget
from docstokg.domain.deadline import Deadline
from docstokg.domain.graph.slice_graph import merge
from docstokg.ports import KnowledgeGraph
from docstokg.usecases.domains import SubjectDomain
from docstokg.usecases.run import Run, graph_reason
from docstokg_functions.expand.seeds import seeds_of

CHUNKS_PER_SEED = 200
NODES = 600


def restrict(run: Run, *, graph: KnowledgeGraph, domain: SubjectDomain) -> Restriction:
    """Return the documents around `kg_expansion.seeds`, widened for `hops` >= 2.

    `doc_ids`: None, with the reason, without time, a graph or a known seed; empty, with a warning,
    for seeds without documents.
    """
    part = run.attempt("graph_route", lambda: _around_seeds(run, graph, domain), graph_reason)
    return Restriction(
        doc_ids=_documents(run, part),
        took_ms=run.took_ms(),
        degraded=tuple(run.degraded),
        warnings=tuple(run.warnings),
    )


def _around_seeds(run: Run, graph: KnowledgeGraph, domain: SubjectDomain) -> GraphSlice:
    plan, scope = run.plan.expansion, run.scope

    def deadline() -> Deadline:
        return run.deadline.limit(plan.time_s, time_budget.EXPAND.reserve_s)

    client_seeds = seeds_of(scope.namespaces, plan.seeds)
    seeds = domain.expand_seeds(graph, client_seeds.entities, scope, deadline())
    around = SliceRequest(
        entity_types=plan.concept_types,
        relations=plan.relations,
        direction=plan.direction,
        max_nodes=plan.max_nodes or NODES,
        chunks_per_entity=CHUNKS_PER_SEED,
    )
    part = graph.widen(seeds, around, scope, deadline())
    narrower = domain.metadata_filter(part)
    if narrower is not None:
        scope = scope.model_copy(update={"filter": {**narrower, **(scope.filter or {})}})
        part = graph.widen(seeds, around, scope, deadline())
    for _ in range(1, (plan.max_hops or 1) if plan.two_hops else 1):
        entities = [entity.id for entity in part.entities]
        part = merge(part, graph.widen(entities, around, scope, deadline()))
    if client_seeds.groups and client_seeds.unknown(part):
        passages = around.model_copy(
            update={
                "chunk_uuids": client_seeds.chunks,
                "groups": client_seeds.groups,
                "chunks_per_group": CHUNKS_PER_SEED,
            }
        )
        part = merge(graph.slice(passages, scope, deadline()), part)
    return part


def _documents(run: Run, part: GraphSlice | None) -> tuple[str, ...] | None:
    if part is None:
        run.warnings.append("kg_expansion.route could not be followed.")
        return None
    client_seeds = run.plan.expansion.seeds
    if len(seeds_of(run.scope.namespaces, client_seeds).unknown(part)) == len(client_seeds):
        run.warnings.append("No seed of kg_expansion.route is in the graph; it was ignored.")
        return None
    doc_ids = tuple(sorted({chunk.doc_id for chunk in part.chunks}))
    if not doc_ids:
        run.warnings.append("No document mentions the seeds of kg_expansion.route.")
    return doc_ids

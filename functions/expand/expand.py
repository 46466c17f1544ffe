"""Widen and reorder what retrieval selected through the knowledge graph, and say why."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from docstokg.contracts.graph import GraphSlice, SliceRequest
from docstokg.contracts.records import Scope
from docstokg.contracts.request import RAGRequest
from docstokg.contracts.response import DegradedReason, GraphGain, KgStats
from docstokg.contracts.state import EntityRef, Expansion, Plan, Ranked, Retrieval
from docstokg.domain import gate as gates
from docstokg.domain.deadline import Deadline
from docstokg.domain.folding import question_keys
from docstokg.domain.linking import Match
from docstokg.domain.pagerank import Vector
from docstokg.domain.slice_graph import (
    FACTS,
    Blend,
    SliceGraph,
    merge,
    named_in,
    ranked_chunks,
    restart,
    walk,
)
from docstokg.errors import DocsToKGError, PlanRejected, Timeout
from docstokg.observability import Telemetry
from docstokg.ports import KnowledgeGraph
from functions.expand.evidence import Notebook

SEEDING_CHUNKS = 20
"""Pool chunks whose mentions are starts: 10 lose half of the gain, 50 crowd the slice."""

FIRST_HOP_NODES = 400
ALL_NODES = 600
FRONTIER = 30
MAX_HOPS = 3
RESERVE_S = 0.3
LEAST_S = 0.005
MAX_SEEDS = 20


@dataclass
class Found:
    """What the graph has told so far; `skipped`: why there is nothing to rank."""

    part: GraphSlice = field(default_factory=GraphSlice)
    hops: int = 0
    skipped: str | None = None
    degraded: list[DegradedReason] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Walked:
    """One walk over what is known: the graph, the question's entities, every node's share."""

    graph: SliceGraph
    named: Mapping[str, float]
    scores: Vector


def expand(
    request: RAGRequest,
    plan: Plan,
    retrieval: Retrieval,
    *,
    graph: KnowledgeGraph,
    gate: gates.Gate,
    telemetry: Telemetry,
    clock: Callable[[], float],
) -> Expansion:
    """Give the order of citation and, for every chunk the graph knows, its evidence.

    Without time, links or a working graph the order is `selected`, and `graph_gain.skipped` and
    `degraded` say why; a failing further hop leaves what the hops before it found.
    """
    started = time.perf_counter()
    found, walked = explore(
        request, plan, retrieval, graph=graph, blend=gate.blend, telemetry=telemetry, clock=clock
    )
    if walked is None:
        return _untouched(plan, retrieval, found, started)
    return _written(request, plan, retrieval, gate, found, walked, started)


def explore(
    request: RAGRequest,
    plan: Plan,
    retrieval: Retrieval,
    *,
    graph: KnowledgeGraph,
    blend: Blend,
    telemetry: Telemetry,
    clock: Callable[[], float],
) -> tuple[Found, Walked | None]:
    """Fetch the slice hop by hop and rank it; no walk when there is nothing to rank."""
    begun = clock()

    def time_left() -> float:
        left = Deadline(plan.deadline_ms).share_s(clock() * 1000, plan.expansion.time_s, RESERVE_S)
        return min(left, max(0.0, plan.expansion.time_s - (clock() - begun)))

    found = Found(skipped=None if plan.expansion.enabled else "disabled")
    if found.skipped is None:
        found.skipped = _first_hop(request, plan, retrieval, graph, found, telemetry, time_left)
    if found.skipped is not None:
        return found, None
    walked = _walked(plan, retrieval, request, blend, found.part)
    for _ in range(1, _hops(plan, walked)):
        if not _next_hop(request, plan, retrieval, graph, found, walked, telemetry, time_left):
            break
        walked = _walked(plan, retrieval, request, blend, found.part)
    return found, walked


def _scope(request: RAGRequest, plan: Plan) -> Scope:
    return Scope(namespace=plan.namespace, groups=plan.groups, filter=request.filter)


def _slice_request(request: RAGRequest, retrieval: Retrieval, nodes: int) -> SliceRequest:
    """Describe the slice around a question; ids of seeds come before those of facts."""
    wanted = request.kg_expansion
    ends = [end for fact in retrieval.facts[:FACTS] for end in (fact.source, fact.target)]
    return SliceRequest(
        alias_keys=question_keys(request.query),
        entity_ids=tuple(dict.fromkeys([*wanted.seeds, *ends])),
        chunk_uuids=tuple(candidate.uuid for candidate in retrieval.pool[:SEEDING_CHUNKS]),
        entity_types=wanted.concept_types,
        relations=wanted.relations,
        max_nodes=nodes,
    )


def _first_hop(
    request: RAGRequest,
    plan: Plan,
    retrieval: Retrieval,
    graph: KnowledgeGraph,
    found: Found,
    telemetry: Telemetry,
    time_left: Callable[[], float],
) -> str | None:
    """Fetch aliases and the 1-hop slice; give the reason when there is nothing to go on with."""
    seconds = time_left()
    if seconds < LEAST_S:
        found.degraded.append("kg_timeout")
        return "no_time"
    asked = _slice_request(request, retrieval, FIRST_HOP_NODES)
    try:
        with telemetry.span("graph_slice"):
            found.part = graph.slice(asked, _scope(request, plan), seconds)
    except DocsToKGError as error:
        found.degraded.append(_reason(error))
        return "failed"
    found.hops = 1
    known = {entity.id.casefold() for entity in found.part.entities}
    unknown = [seed for seed in request.kg_expansion.seeds if seed.casefold() not in known]
    if unknown:
        found.warnings.append(f"kg_expansion.seeds not in the graph: {', '.join(unknown[:10])}")
    return None if found.part.entities else "nothing_linked"


def _next_hop(
    request: RAGRequest,
    plan: Plan,
    retrieval: Retrieval,
    graph: KnowledgeGraph,
    found: Found,
    ranking: Walked,
    telemetry: Telemetry,
    time_left: Callable[[], float],
) -> bool:
    """Widen around the best entities that were reached but not asked for; False when it failed."""
    room = ALL_NODES - len(found.part.entities) - len(found.part.chunks)
    frontier = sorted(
        (entity for entity in ranking.graph.entities if entity not in ranking.named),
        key=lambda entity: (-ranking.scores[ranking.graph.node[entity]], entity),
    )[:FRONTIER]
    if room <= 0 or not frontier:
        return False
    seconds = time_left()
    if seconds < LEAST_S:
        found.degraded.append("kg_timeout")
        return False
    asked = _slice_request(request, retrieval, room)
    try:
        with telemetry.span("graph_widen"):
            more = graph.widen(frontier, asked, _scope(request, plan), seconds)
    except DocsToKGError as error:
        found.degraded.append(_reason(error))
        return False
    found.part = merge(found.part, more)
    found.hops += 1
    return True


def _reason(error: DocsToKGError) -> DegradedReason:
    if isinstance(error, Timeout):
        return "kg_timeout"
    return "kg_plan_rejected" if isinstance(error, PlanRejected) else "kg_unavailable"


def _hops(plan: Plan, ranking: Walked) -> int:
    """Give the hops to make: what the caller allows, else 2 for two or more query entities."""
    wanted = plan.expansion.max_hops or (2 if len(ranking.named) >= 2 else 1)
    return min(MAX_HOPS, wanted) if plan.expansion.two_hops else 1


def _walked(
    plan: Plan, retrieval: Retrieval, request: RAGRequest, blend: Blend, part: GraphSlice
) -> Walked:
    graph = SliceGraph(part, (candidate.uuid for candidate in retrieval.pool))
    named = _shares(named_in(request.query, part.aliases, graph), graph)
    given = {seed.casefold() for seed in request.kg_expansion.seeds}
    named |= {entity: 1.0 for entity in graph.entities if entity.casefold() in given}
    pool = {
        candidate.uuid: candidate.score
        + (plan.expansion.boost if named.keys() & graph.mentions.get(candidate.uuid, {}) else 0.0)
        for candidate in retrieval.pool
    }
    facts = [(fact.source, fact.target, fact.score) for fact in retrieval.facts[:FACTS]]
    start = restart(graph, named, facts, pool, blend)
    return Walked(graph, named, walk(graph, start))


def _shares(matches: Sequence[Match], graph: SliceGraph) -> dict[str, float]:
    """Give each named entity of the slice the share of the name that is its own."""
    named: dict[str, float] = {}
    for match in matches:
        for entity in match.entity_ids:
            if entity in graph.entities:
                named[entity] = max(named.get(entity, 0.0), 1 / len(match.entity_ids))
    return named


def _untouched(plan: Plan, retrieval: Retrieval, found: Found, started: float) -> Expansion:
    return Expansion(
        ranking=tuple(Ranked(uuid=uuid, source="hybrid") for uuid in retrieval.selected),
        kg_stats=KgStats(hops_executed=found.hops),
        graph_gain=GraphGain(top_k_without=retrieval.selected[: plan.top_k], skipped=found.skipped),
        took_ms=_ms(started),
        degraded=tuple(found.degraded),
        warnings=tuple(found.warnings),
    )


def _written(
    request: RAGRequest,
    plan: Plan,
    retrieval: Retrieval,
    gate: gates.Gate,
    found: Found,
    ranking: Walked,
    started: float,
) -> Expansion:
    graph = ranking.graph
    ends = [end for fact in retrieval.facts[:FACTS] for end in (fact.source, fact.target)]
    notebook = Notebook(graph, ranking.scores, ranking.named, ends)
    order = ranked_chunks(graph, ranking.scores)
    selected = set(retrieval.selected)
    added = [u for u in order if u not in selected and notebook.knows(u)]
    added = added[: request.kg_expansion.limit]
    is_open = gate.opens(measured(retrieval, ranking))
    kept = selected | set(added)
    by_graph = [uuid for uuid in order if uuid in kept]
    final = by_graph if is_open else [*retrieval.selected, *added]
    for uuid in final:
        notebook.write(uuid, "hybrid" if uuid in selected else "kg_expansion")
    ranked, entities, edges = notebook.pages()
    shown = final[: request.budget.max_chunks]
    return Expansion(
        ranking=ranked,
        entities=entities,
        edges=edges,
        kg_stats=KgStats(
            concepts_expanded=len(graph.entities),
            hops_executed=found.hops,
            chunks_added=len(added),
            triples_traversed=len(found.part.relations),
        ),
        graph_gain=GraphGain(
            added=tuple(uuid for uuid in shown if uuid not in selected),
            top_k_without=retrieval.selected[: plan.top_k],
            gate_open=is_open,
        ),
        seeds=tuple(
            EntityRef(id=item.id, name=item.name, type=item.type)
            for item in (graph.entities[seed] for seed in notebook.seeds[:MAX_SEEDS])
        ),
        took_ms=_ms(started),
        degraded=tuple(dict.fromkeys(found.degraded)),
        warnings=tuple(found.warnings),
    )


def measured(retrieval: Retrieval, ranking: Walked) -> gates.Signals:
    """Measure what the gate looks at."""
    return gates.signals(
        [(candidate.uuid, candidate.score) for candidate in retrieval.pool],
        named=len(ranking.named),
        facts=sum(fact.evidence_uuid is not None for fact in retrieval.facts),
    )


def _ms(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 2)

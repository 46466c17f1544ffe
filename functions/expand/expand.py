"""Widen and reorder what retrieval selected through the knowledge graph, and say why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from docstokg.contracts.graph import GraphSlice, SliceRequest
from docstokg.contracts.response import GraphGain, KgStats
from docstokg.contracts.state import EntityRef, Expansion, Plan, Ranked, Retrieval
from docstokg.domain import gate as gates
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
from docstokg.ports import KnowledgeGraph
from docstokg.usecases.run import Run, graph_reason
from functions.expand.evidence import EvidenceTable

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
class Exploration:
    """What the graph has told so far; `skipped`: why there is nothing to rank.

    `until_s`: epoch seconds at which the step's own time is over.
    """

    until_s: float
    part: GraphSlice = field(default_factory=GraphSlice)
    hops: int = 0
    skipped: str | None = None


@dataclass(frozen=True)
class RankedGraph:
    """What is known, ranked by one walk: the question's entities, and every node's probability."""

    graph: SliceGraph
    named: Mapping[str, float]
    scores: Vector


def expand(run: Run, retrieval: Retrieval, *, graph: KnowledgeGraph, gate: gates.Gate) -> Expansion:
    """Give the order of citation and, for every chunk the graph knows, its evidence.

    Without time, links or a working graph the order is `selected`, and `graph_gain.skipped` and
    `degraded` say why; a failing further hop leaves what the hops before it found.
    """
    explored, ranking = explore(run, retrieval, graph=graph, blend=gate.blend)
    if ranking is None:
        return _unchanged(run, retrieval, explored)
    return _expansion(run, retrieval, gate, explored, ranking)


def explore(
    run: Run, retrieval: Retrieval, *, graph: KnowledgeGraph, blend: Blend
) -> tuple[Exploration, RankedGraph | None]:
    """Fetch the slice hop by hop and rank it; no ranking when there is nothing to rank."""
    plan = run.plan.expansion
    explored = Exploration(until_s=run.clock() + plan.time_s)
    explored.skipped = _first_hop(run, retrieval, graph, explored) if plan.enabled else "disabled"
    if explored.skipped is not None:
        return explored, None
    ranking = _ranking(run.plan, retrieval, blend, explored.part)
    for _ in range(1, _hops(run.plan, ranking)):
        if not _next_hop(run, retrieval, graph, explored, ranking):
            break
        ranking = _ranking(run.plan, retrieval, blend, explored.part)
    return explored, ranking


def _left_s(run: Run, explored: Exploration) -> float:
    """Seconds the next call may take; 0 and `kg_timeout` when it is not worth starting."""
    left = run.left_s(run.plan.expansion.time_s, RESERVE_S)
    left = min(left, explored.until_s - run.clock())
    if left < LEAST_S:
        run.lose("kg_timeout")
        return 0.0
    return left


def _slice_request(plan: Plan, retrieval: Retrieval, nodes: int) -> SliceRequest:
    """Describe the slice around a question; ids of seeds come before those of facts."""
    ends = [end for fact in retrieval.facts[:FACTS] for end in (fact.source, fact.target)]
    return SliceRequest(
        alias_keys=question_keys(plan.query),
        entity_ids=tuple(dict.fromkeys([*plan.expansion.seeds, *ends])),
        chunk_uuids=tuple(candidate.uuid for candidate in retrieval.pool[:SEEDING_CHUNKS]),
        entity_types=plan.expansion.concept_types,
        relations=plan.expansion.relations,
        max_nodes=nodes,
    )


def _first_hop(
    run: Run, retrieval: Retrieval, graph: KnowledgeGraph, explored: Exploration
) -> str | None:
    """Fetch aliases and the 1-hop slice; give the reason when there is nothing to go on with."""
    seconds = _left_s(run, explored)
    if not seconds:
        return "no_time"
    around = _slice_request(run.plan, retrieval, FIRST_HOP_NODES)
    part = run.attempt("graph_slice", lambda: graph.slice(around, run.scope, seconds), graph_reason)
    if part is None:
        return "failed"
    explored.part, explored.hops = part, 1
    known = {entity.id.casefold() for entity in part.entities}
    unknown = [seed for seed in run.plan.expansion.seeds if seed.casefold() not in known]
    if unknown:
        run.warnings.append(f"kg_expansion.seeds not in the graph: {', '.join(unknown[:10])}")
    return None if part.entities else "nothing_linked"


def _next_hop(
    run: Run,
    retrieval: Retrieval,
    graph: KnowledgeGraph,
    explored: Exploration,
    ranking: RankedGraph,
) -> bool:
    """Widen around the best entities that were reached but not named; False when it failed."""
    room = ALL_NODES - len(explored.part.entities) - len(explored.part.chunks)
    frontier = sorted(
        (entity for entity in ranking.graph.entities if entity not in ranking.named),
        key=lambda entity: (-ranking.scores[ranking.graph.node[entity]], entity),
    )[:FRONTIER]
    if room <= 0 or not frontier:
        return False
    seconds = _left_s(run, explored)
    if not seconds:
        return False
    around = _slice_request(run.plan, retrieval, room)
    more = run.attempt(
        "graph_widen", lambda: graph.widen(frontier, around, run.scope, seconds), graph_reason
    )
    if more is None:
        return False
    explored.part = merge(explored.part, more)
    explored.hops += 1
    return True


def _hops(plan: Plan, ranking: RankedGraph) -> int:
    """Give the hops to make: what the caller allows, else 2 for two or more query entities."""
    hops = plan.expansion.max_hops or (2 if len(ranking.named) >= 2 else 1)
    return min(MAX_HOPS, hops) if plan.expansion.two_hops else 1


def _ranking(plan: Plan, retrieval: Retrieval, blend: Blend, part: GraphSlice) -> RankedGraph:
    """Walk from what the question names, its facts and the pool over all that was fetched."""
    graph = SliceGraph(part, (candidate.uuid for candidate in retrieval.pool))
    named = _shares(named_in(plan.query, part.aliases, graph), graph)
    seeds = {seed.casefold() for seed in plan.expansion.seeds}
    named |= {entity: 1.0 for entity in graph.entities if entity.casefold() in seeds}
    pool = {
        candidate.uuid: candidate.score
        + (plan.expansion.boost if named.keys() & graph.mentions.get(candidate.uuid, {}) else 0.0)
        for candidate in retrieval.pool
    }
    facts = [(fact.source, fact.target, fact.score) for fact in retrieval.facts[:FACTS]]
    start = restart(graph, named, facts, pool, blend)
    return RankedGraph(graph, named, walk(graph, start))


def _shares(matches: Sequence[Match], graph: SliceGraph) -> dict[str, float]:
    """Give each named entity of the slice the share of the name that is its own."""
    named: dict[str, float] = {}
    for match in matches:
        for entity in match.entity_ids:
            if entity in graph.entities:
                named[entity] = max(named.get(entity, 0.0), 1 / len(match.entity_ids))
    return named


def _unchanged(run: Run, retrieval: Retrieval, explored: Exploration) -> Expansion:
    return Expansion(
        ranking=tuple(Ranked(uuid=uuid, source="hybrid") for uuid in retrieval.selected),
        kg_stats=KgStats(hops_executed=explored.hops),
        graph_gain=GraphGain(
            top_k_without=retrieval.selected[: run.plan.top_k], skipped=explored.skipped
        ),
        took_ms=run.took_ms(),
        degraded=tuple(run.degraded),
        warnings=tuple(run.warnings),
    )


def _expansion(
    run: Run,
    retrieval: Retrieval,
    gate: gates.Gate,
    explored: Exploration,
    ranking: RankedGraph,
) -> Expansion:
    """Add what the graph brings to `selected`, in the walk's order when the gate opens."""
    graph = ranking.graph
    ends = [end for fact in retrieval.facts[:FACTS] for end in (fact.source, fact.target)]
    evidence = EvidenceTable(graph, ranking.scores, ranking.named, ends)
    order = ranked_chunks(graph, ranking.scores)
    selected = set(retrieval.selected)
    added = [u for u in order if u not in selected and evidence.knows(u)]
    added = added[: run.plan.expansion.limit]
    is_open = gate.opens(measured(retrieval, ranking))
    cited = selected | set(added)
    by_graph = [uuid for uuid in order if uuid in cited]
    final = by_graph if is_open else [*retrieval.selected, *added]
    for uuid in final:
        evidence.add(uuid, "hybrid" if uuid in selected else "kg_expansion")
    ranked, entities, edges = evidence.build()
    shown = final[: run.plan.budget_limits.max_chunks]
    return Expansion(
        ranking=ranked,
        entities=entities,
        edges=edges,
        kg_stats=KgStats(
            concepts_expanded=len(graph.entities),
            hops_executed=explored.hops,
            chunks_added=len(added),
            triples_traversed=len(explored.part.relations),
        ),
        graph_gain=GraphGain(
            added=tuple(uuid for uuid in shown if uuid not in selected),
            top_k_without=retrieval.selected[: run.plan.top_k],
            gate_open=is_open,
        ),
        seeds=tuple(
            EntityRef(id=item.id, name=item.name, type=item.type)
            for item in (graph.entities[seed] for seed in evidence.seeds[:MAX_SEEDS])
        ),
        took_ms=run.took_ms(),
        degraded=tuple(run.degraded),
        warnings=tuple(run.warnings),
    )


def measured(retrieval: Retrieval, ranking: RankedGraph) -> gates.Signals:
    """Measure what the gate looks at."""
    return gates.signals(
        [(candidate.uuid, candidate.score) for candidate in retrieval.pool],
        named=len(ranking.named),
        facts=sum(fact.evidence_uuid is not None for fact in retrieval.facts),
    )

"""Graph expansion: order, additions, evidence."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from docstokg.contracts.graph import GraphSlice, SliceRequest
from docstokg.contracts.response import GraphGain, GraphUse, KgStats
from docstokg.contracts.state import Expansion, FactRef, Plan, Ranked, Renaming, Retrieval, SeedRef
from docstokg.domain import time_budget
from docstokg.domain.answer import notices
from docstokg.domain.deadline import Deadline
from docstokg.domain.graph.linking import Match
from docstokg.domain.graph.pagerank import Vector
from docstokg.domain.graph.slice_graph import (
    FACTS,
    LINKS,
    SEEDING_CHUNKS,
    WEIGHTS,
    Links,
    SliceGraph,
    Weights,
    decided,
    merge,
    names_in,
    ranked_chunks,
    restart,
    walk,
    with_other_names,
)
from docstokg.domain.identity import is_own_id, prefix_of
from docstokg.domain.mmr import spread
from docstokg.domain.text.folding import alias_keys, question_keys
from docstokg.domain.text.misspelt import near_keys
from docstokg.domain.text.words import fold
from docstokg.ports import KnowledgeGraph
from docstokg.usecases.domains import ONTOLOGY, SubjectDomain, notes_of
from docstokg.usecases.run import Run, graph_reason
from docstokg_functions.expand.evidence import Bounds, EvidenceTable
from docstokg_functions.expand.seeds import seeds_of

FIRST_HOP_NODES = 300
ALL_NODES = 400
FRONTIER_ENTITIES = 3
FRONTIER_CHUNKS = 5
MAX_HOPS = 3
# Edge types of every graph, to which a view can be restricted.
STRUCTURAL = ("has_chunk", "has_topic", "mentions")

# Nodes and seconds for the search of a misspelt name.
NEAR_NODES, NEAR_S = 60, 0.5

# Minimum number of chunks that the graph may add, even below the last selected one.
BEHIND = 3

MAX_SEEDS = 20


@dataclass
class Exploration:
    """State of the exploration; `skipped`: the reason if there is nothing to rank.

    `opened`: expanded nodes. `misspelt`: entity of a
    misspelt name.
    """

    deadline: Deadline
    part: GraphSlice = field(default_factory=GraphSlice)
    hops: int = 0
    skipped: str | None = None
    opened: set[str] = field(default_factory=set)
    names: Sequence[Match] = ()
    misspelt: str = ""


class RankedGraph(NamedTuple):
    """The slice, ranked by one walk.

    `shares`: entities named in the question; `leading`: those at which the walk may start;
    `seed_shares`: chunks of given seeds. `scores`: probability of every node.
    """

    graph: SliceGraph
    matches: Sequence[Match]
    shares: Mapping[str, float]
    leading: Mapping[str, float]
    seed_shares: Mapping[str, float]
    start: Vector
    scores: Vector


def expand(
    run: Run, retrieval: Retrieval, *, graph: KnowledgeGraph, domain: SubjectDomain = ONTOLOGY
) -> Expansion:
    """Return the order of citation: selected chunks reordered, graph chunks added, with evidence.

    If disabled, or without time, links or a working graph, it is `selected`, with the reason in
    `graph_gain.skipped`. Lack of time and failures are also in `degraded`; later ones keep earlier
    results.
    """
    explored, ranking = explore(run, retrieval, graph=graph)
    expansion = (
        _unchanged(run, retrieval, explored)
        if ranking is None
        else _expansion(run, retrieval, explored, ranking)
    )
    return expansion.model_copy(update={"notes": notes_of(domain, explored.part)})


def explore(
    run: Run, retrieval: Retrieval, *, graph: KnowledgeGraph
) -> tuple[Exploration, RankedGraph | None]:
    """Fetch the slice hop by hop and rank it; the ranking is None if there is nothing to rank."""
    plan = run.plan.expansion
    explored = Exploration(run.deadline.limit(plan.time_s, time_budget.EXPAND.reserve_s))
    explored.skipped = _first_hop(run, retrieval, graph, explored) if plan.enabled else "disabled"
    if explored.skipped is not None:
        return explored, None
    explored.names = names_in(run.plan.query, explored.part.aliases)
    ranking = ranked(run.plan, retrieval, explored)
    if not ranking.leading and _as_misspelt(run, graph, explored, retrieval.absent):
        ranking = ranked(run.plan, retrieval, explored)
    explored.opened.update(ranking.shares)
    for _ in range(1, _hops(run.plan, ranking)):
        if not _next_hop(run, retrieval, graph, explored, ranking):
            break
        ranking = ranked(run.plan, retrieval, explored)
    return explored, ranking


def _is_late(run: Run, explored: Exploration) -> bool:
    is_late = explored.deadline.remaining() < time_budget.LEAST_CALL_S
    if is_late:
        run.mark_degraded("kg_timeout")
    return is_late


def _first_hop(
    run: Run, retrieval: Retrieval, graph: KnowledgeGraph, explored: Exploration
) -> str | None:
    if _is_late(run, explored):
        return "no_time"
    plan, pool = run.plan.expansion, [candidate.uuid for candidate in retrieval.pool]
    ends = [end for fact in evident_facts(retrieval) for end in (fact.source, fact.target)]
    seeds = seeds_of(run.scope.namespaces, plan.seeds)
    around = SliceRequest(
        alias_keys=tuple(dict.fromkeys([*question_keys(run.plan.query), *seeds.keys])),
        entity_ids=tuple(dict.fromkeys([*seeds.entities, *ends])),
        chunk_uuids=tuple(dict.fromkeys([*seeds.chunks, *pool[:SEEDING_CHUNKS]])),
        groups=seeds.groups,
        preferred_uuids=tuple(pool),
        entity_types=plan.concept_types,
        relations=plan.relations,
        max_nodes=min(FIRST_HOP_NODES, plan.max_nodes or FIRST_HOP_NODES),
        direction=plan.direction,
    )
    part = run.attempt(
        "graph_slice", lambda: graph.slice(around, run.scope, explored.deadline), graph_reason
    )
    if part is None:
        return "failed"
    explored.part, explored.hops = part, 1
    explored.opened.update(ends, around.chunk_uuids)
    if unknown := seeds.unknown(part):
        run.warnings.append(f"kg_expansion.seeds not in the graph: {notices.listed(unknown, 10)}")
    _tell_unknown(run, graph, around, part, explored.deadline)
    return None if part.entities or seeds.shares(part) else "nothing_linked"


def _tell_unknown(
    run: Run, graph: KnowledgeGraph, around: SliceRequest, part: GraphSlice, deadline: Deadline
) -> None:
    plan, limits = run.plan.expansion, run.plan.graph_limits
    requested = {
        "kg_expansion.relations": (plan.relations, _relations),
        "kg_expansion.concept_types": (plan.concept_types, _types),
        "limits.graph.rel_whitelist": (limits and limits.rel_whitelist, _relations),
    }
    missing = {
        name: (values, kinds)
        for name, (values, kinds) in requested.items()
        if {value.casefold() for value in values or ()} - kinds(part)
    }
    unbound = around.model_copy(update={"relations": None, "entity_types": None})
    if not missing:
        return
    wider = run.attempt("graph_kinds", lambda: graph.slice(unbound, run.scope, deadline), lost=None)
    for name, (values, kinds) in missing.items() if wider else ():
        present = kinds(wider or part)
        run.warnings += notices.nothing_has(name, values or (), present, "this question")


def _relations(part: GraphSlice) -> set[str]:
    types = {relation.type.casefold() for relation in part.relations}
    return types | {*STRUCTURAL, *(["related_to"] if types else [])}


def _types(part: GraphSlice) -> set[str]:
    kinds = {(item.type or "").casefold() for item in part.entities}
    return {*kinds, *(prefix_of(item.id) for item in part.entities)} - {""}


def _as_misspelt(
    run: Run, graph: KnowledgeGraph, explored: Exploration, absent: Collection[str]
) -> bool:
    taken = [(match.start, match.end) for match in explored.names]
    keys = near_keys(run.plan.query, taken, absent)
    deadline = explored.deadline.limit(NEAR_S)
    if not keys or deadline.remaining() < time_budget.LEAST_CALL_S:
        return False
    plan = run.plan.expansion
    around = SliceRequest(
        alias_keys=tuple(keys),
        entity_types=plan.concept_types,
        relations=plan.relations,
        max_nodes=NEAR_NODES,
    )
    near = run.attempt("graph_near", lambda: graph.slice(around, run.scope, deadline), lost=None)
    named = {alias.entity_id: alias for alias in near.aliases} if near else {}
    if near is None or len(named) != 1:
        return False
    ((entity, alias),) = named.items()
    name = next(item.name for item in near.entities if item.id == entity)
    if not is_own_id(entity) and alias.key not in dict(alias_keys(entity, name)):
        return False
    start, end = keys[alias.key]
    surface = run.plan.query[start:end]
    if surface.islower() and is_own_id(entity):  # "beliefs" is not "Relief"
        return False
    explored.names = [*explored.names, Match(start, end, alias.key, (entity,), alias.preferred)]
    explored.part = merge(explored.part, near)
    explored.misspelt = entity
    run.warnings.append(f"Nothing is called {surface!r} here; it was read as {name!r}.")
    return True


def _next_hop(
    run: Run,
    retrieval: Retrieval,
    graph: KnowledgeGraph,
    explored: Exploration,
    ranking: RankedGraph,
) -> bool:
    part, opened = explored.part, explored.opened
    entities = _best(ranking, (item.id for item in part.entities), opened, FRONTIER_ENTITIES)
    chunks = _best(ranking, (item.uuid for item in part.chunks), opened, FRONTIER_CHUNKS)
    room = (run.plan.expansion.max_nodes or ALL_NODES) - len(part.entities) - len(part.chunks)
    if room <= 0 or not (entities or chunks):
        return False
    if _is_late(run, explored):
        return False
    plan = run.plan.expansion
    around = SliceRequest(
        entity_ids=tuple(entities),
        chunk_uuids=tuple(chunks),
        preferred_uuids=tuple(candidate.uuid for candidate in retrieval.pool),
        known_ids=tuple(item.id for item in part.entities if item.id not in entities),
        entity_types=plan.concept_types,
        relations=plan.relations,
        max_nodes=room + len(entities) + len(chunks),
        direction=plan.direction,
    )
    part_beyond = run.attempt(
        "graph_widen", lambda: graph.slice(around, run.scope, explored.deadline), graph_reason
    )
    if part_beyond is None:
        return False
    opened.update(entities, chunks)
    explored.part = merge(part, part_beyond)
    explored.hops += 1
    return True


def _best(
    ranking: RankedGraph, names: Iterable[str], opened: Collection[str], size: int
) -> list[str]:
    node, fall = ranking.graph.node, (-ranking.scores).tolist()
    closed = [name for name in names if name not in opened]  # sorted, as parts of a slice are
    return sorted(closed, key=lambda name: fall[node[name]])[:size]


def _hops(plan: Plan, ranking: RankedGraph) -> int:
    leading = ranking.leading.keys() | (ranking.shares.keys() & ranking.graph.related)
    hops = plan.expansion.max_hops or (2 if len(leading) >= 2 else 1)
    return min(MAX_HOPS, hops) if plan.expansion.two_hops else 1


def ranked(
    plan: Plan, retrieval: Retrieval, explored: Exploration, weights: Weights = WEIGHTS
) -> RankedGraph:
    """Rank the slice by a walk from the question's entities, its facts and the pool."""
    part = explored.part
    pool_uuids = (candidate.uuid for candidate in retrieval.pool)
    graph = SliceGraph(part, pool_uuids, weights, plan.expansion.direction)
    matches = decided(explored.names, graph)
    matches = with_other_names(matches, graph)
    shares = _shares(matches, graph)
    seeds = seeds_of((plan.namespace, *plan.others), plan.expansion.seeds)
    ids = {seed.casefold() for seed in seeds.names}
    named = seeds.named(part)
    chosen = {
        entity: 1.0 for entity in graph.entities if entity.casefold() in ids or entity in named
    }
    shares |= chosen
    pool = _boosted(plan, retrieval, shares, graph)
    facts = [(fact.source, fact.target, fact.score) for fact in evident_facts(retrieval)]
    leading = {
        entity: share
        for entity, share in shares.items()
        if leads(graph, entity) or entity == explored.misspelt
    }
    seed_shares = seeds.shares(part)
    start = restart(graph, {**leading, **chosen, **seed_shares}, facts, pool)
    return RankedGraph(graph, matches, shares, leading, seed_shares, start, walk(graph, start))


def _boosted(
    plan: Plan, retrieval: Retrieval, shares: Mapping[str, float], graph: SliceGraph
) -> dict[str, float]:
    return {
        candidate.uuid: candidate.score
        + (plan.expansion.boost if shares.keys() & graph.mentions.get(candidate.uuid, {}) else 0.0)
        for candidate in retrieval.pool[:SEEDING_CHUNKS]
    }


def _moved(plan: Plan, retrieval: Retrieval, ranking: RankedGraph) -> int:
    scores = _boosted(plan, retrieval, ranking.shares, ranking.graph)
    order = sorted(scores, key=lambda uuid: -scores[uuid])
    return sum(a != b for a, b in zip(order, scores, strict=True))


def leads(graph: SliceGraph, entity: str) -> bool:
    """Return whether the walk may start at an entity of the question.

    False for unlisted names without a chunk about them.
    """
    return not is_own_id(entity) or graph.is_page(entity)


def _shares(matches: Sequence[Match], graph: SliceGraph) -> dict[str, float]:
    shares: dict[str, float] = {}
    for match in matches:
        for entity in match.entity_ids:
            if entity in graph.entities:
                shares[entity] = max(shares.get(entity, 0.0), 1 / len(match.entity_ids))
    return shares


def _unchanged(run: Run, retrieval: Retrieval, explored: Exploration) -> Expansion:
    return Expansion(
        ranking=tuple(Ranked(uuid=uuid, source="hybrid") for uuid in retrieval.selected),
        kg_stats=KgStats(hops_executed=explored.hops),
        graph_gain=GraphGain(
            top_k_without=retrieval.selected[: run.plan.top_k], skipped=explored.skipped
        ),
        graph=_used(explored),
        took_ms=run.took_ms(),
        degraded=tuple(run.degraded),
        warnings=tuple(run.warnings),
    )


def _used(explored: Exploration) -> GraphUse:
    part = explored.part
    nodes = {*(item.id for item in part.entities), *(item.uuid for item in part.chunks)}
    opened = nodes & explored.opened
    return GraphUse(expanded=len(opened), pruned=len(nodes) - len(opened), reason=explored.skipped)


def evident_facts(retrieval: Retrieval) -> list[FactRef]:
    """Return the first FACTS matching facts that a chunk states."""
    return [fact for fact in retrieval.facts if fact.evidence_uuid is not None][:FACTS]


def reorders(retrieval: Retrieval, ranking: RankedGraph, links: Links = LINKS) -> bool:
    """Return whether the walk orders the chunks, or only adds some to the search's order.

    It does for a matched fact, a seed, a rare leading entity, or enough linked chunks.
    """
    graph = ranking.graph
    if ranking.seed_shares or evident_facts(retrieval):
        return True
    if any(graph.is_rare(entity, links.rare) for entity in ranking.leading):
        return True
    opened = [candidate.uuid for candidate in retrieval.pool[:SEEDING_CHUNKS]]
    return graph.led_on(opened, links.rare) >= links.share


def order_of(retrieval: Retrieval, ranking: RankedGraph, links: Links = LINKS) -> list[str]:
    """Return the walk's order of chunk uuids; the selected ones first unless it reorders."""
    fused = {candidate.uuid: candidate.score for candidate in retrieval.pool}
    order = _as_searched(ranked_chunks(ranking.graph, ranking.scores, fused), ranking, fused)
    if reorders(retrieval, ranking, links):
        return order
    return list(dict.fromkeys([*retrieval.selected, *order]))


def _spread(run: Run, ranking: RankedGraph, order: list[str]) -> list[str]:
    """Set passages of one document apart, unless the client or the question names it."""
    if run.scope.names_documents:
        return order
    graph, named = ranking.graph, {*ranking.seed_shares}
    named.update(*(graph.about(entity) for entity in ranking.leading))
    documents = [None if uuid in named else graph.doc_of.get(uuid, uuid) for uuid in order]
    return [order[place] for place in spread(documents)]


def _as_searched(
    order: Sequence[str], ranking: RankedGraph, fused: Mapping[str, float]
) -> list[str]:
    ordered, graph = list(order), ranking.graph
    for entity in ranking.shares:
        about = graph.about(entity) & fused.keys() if leads(graph, entity) else set[str]()
        if len(about) > 1:
            places = [place for place, uuid in enumerate(ordered) if uuid in about]
            searched = sorted((ordered[place] for place in places), key=lambda uuid: -fused[uuid])
            for place, uuid in zip(places, searched, strict=True):
                ordered[place] = uuid
    return ordered


def _added(
    plan: Plan, retrieval: Retrieval, order: Sequence[str], may_add: Callable[[str], bool]
) -> set[str]:
    selected = set(retrieval.selected)
    if not selected:
        return set([uuid for uuid in order if may_add(uuid)][: plan.expansion.limit])
    above: list[str] = []
    behind: list[str] = []
    places = unseen = len(selected)
    for uuid in order:
        if len(above) + len(behind) >= BEHIND and not (places > 0 and unseen > 0):
            break
        if uuid in selected:
            places, unseen = places - 1, unseen - 1
        elif may_add(uuid):
            (above if places > 0 and unseen > 0 else behind).append(uuid)
            places -= 1
    return set([*above, *behind][: plan.expansion.limit])


def _expansion(
    run: Run, retrieval: Retrieval, explored: Exploration, ranking: RankedGraph
) -> Expansion:
    graph, plan = ranking.graph, run.plan
    ends = [end for fact in evident_facts(retrieval) for end in (fact.source, fact.target)]
    evidence = EvidenceTable(
        graph,
        ranking.scores,
        ranking.shares,
        ends,
        [*ranking.seed_shares, *(item.uuid for item in retrieval.pool[:SEEDING_CHUNKS])],
        Bounds(explored.hops, plan.expansion.concept_types, plan.expansion.relations),
    )
    order = order_of(retrieval, ranking)
    # A passage seeded by the caller needs no path.
    named_chunks = ranking.seed_shares if evidence.is_unbounded else {}
    selected = set(retrieval.selected)
    added = _added(
        plan, retrieval, order, lambda uuid: uuid in named_chunks or evidence.may_add(uuid)
    )
    # Names that only texts have are too often common nouns for a path between them to answer.
    names = {
        plan.query[match.start : match.end]: entity_ids
        for match in ranking.matches
        if (entity_ids := [e for e in match.entity_ids if e in graph.entities and not is_own_id(e)])
    }
    path = evidence.joining(list(names.values()))
    is_apart = not run.degraded and evidence.are_apart(list(names.values()))
    stating = [relation.evidence_uuid or "" for relation in path]
    joined = added.union(stating) - selected
    if len(joined) > plan.expansion.limit:
        path, joined = (), added
    renamings = _renamings(plan.query, ranking)
    run.telemetry.count("rag_kg_boost_impact", _moved(plan, retrieval, ranking))
    cited = [uuid for uuid in dict.fromkeys([*order, *stating]) if uuid in selected | joined]
    by_walk = reorders(retrieval, ranking)
    for uuid in _spread(run, ranking, cited) if by_walk else cited:
        mentions = graph.mentions.get(uuid, {})
        renamed = tuple(i for i, (entity, _) in enumerate(renamings) if entity in mentions)
        evidence.add(uuid, "hybrid" if uuid in selected else "kg_expansion", renamed)
    path_edges = evidence.listed(path)
    entries, entities, edges = evidence.build()
    return Expansion(
        ranking=entries,
        entities=entities,
        edges=edges,
        renamings=tuple(renaming for _, renaming in renamings),
        kg_stats=KgStats(
            concepts_expanded=len(graph.entities),
            hops_executed=explored.hops,
            triples_traversed=len(explored.part.relations),
        ),
        graph_gain=GraphGain(
            top_k_without=retrieval.selected[: plan.top_k],
            order_kept=None if by_walk else "no_rare_name",
        ),
        graph=_used(explored),
        seeds=_seeds(ranking),
        path=path_edges,
        apart=tuple(names) if is_apart else (),
        took_ms=run.took_ms(),
        degraded=tuple(run.degraded),
        warnings=tuple(run.warnings),
    )


def _renamings(query: str, ranking: RankedGraph) -> list[tuple[str, Renaming]]:
    return [
        (entity, Renaming(start=match.start, end=match.end, name=entry.name))
        for match in ranking.matches
        for entity in match.entity_ids
        if (entry := ranking.graph.entities.get(entity))
        and fold(query[match.start : match.end]) != fold(entry.name)
    ]


def _seeds(ranking: RankedGraph) -> tuple[SeedRef, ...]:
    graph, total = ranking.graph, float(ranking.start.sum())
    start = ranking.start[: len(graph.entities)]
    share = {graph.names[i]: float(start[i]) / total for i in np.flatnonzero(start > 0).tolist()}
    share = dict.fromkeys(ranking.shares, 0.0) | share
    entity_ids = sorted(share, key=lambda name: (name not in ranking.shares, -share[name], name))
    return tuple(
        SeedRef(id=item.id, name=item.name, type=item.type, share=round(share[item.id], 6))
        for item in (graph.entities[name] for name in entity_ids[:MAX_SEEDS])
    )

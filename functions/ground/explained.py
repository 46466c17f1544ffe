"""Explanation of a search."""

import base64
from collections.abc import Iterator, Mapping, Sequence

from docstokg.contracts.records import StoredChunk
from docstokg.contracts.request import Expected
from docstokg.contracts.response import Channel
from docstokg.contracts.retrieval import (
    ChannelQuery,
    ExplainResponse,
    ExplainStage,
    Hydrated,
    StageName,
)
from docstokg.contracts.state import Expansion, Retrieval
from docstokg.domain import time_budget
from docstokg.domain.identity import chunk_uuid
from docstokg.ports import SearchIndex
from docstokg.usecases.run import Run

# Maximum passages of the expected document that are searched.
LOOKED_UP = 100


def explain(  # noqa: PLR0913 - the outputs of the steps
    run: Run,
    retrieval: Retrieval,
    expansion: Expansion | None,
    hydrated: Hydrated,
    order: Sequence[StoredChunk],
    limit: int,
    *,
    expect: Expected,
    index: SearchIndex,
) -> ExplainResponse | None:
    """Return the stages of the expected passage; None if it is missing or not visible.

    `order`: the passages before `max_chunks`; `limit`: number of those that stay after reranking.
    For a document, its best passage.
    """
    chunk, scores = _expected(run, retrieval, expect, index)
    if chunk is None:
        return None
    uuid, plan = chunk.uuid, run.plan
    stages = [*_search_stages(run, retrieval, uuid, scores), *_graph_stages(expansion, uuid)]
    if uuid not in index.get([uuid], run.scope, run.deadline.limit(*time_budget.HYDRATE)).chunks:
        stages.append(_stage("filter", False, "the filter excludes it"))
    place = next((i for i, ranked in enumerate(order, 1) if ranked.uuid == uuid), None)
    max_chunks = plan.budget_limits.max_chunks
    if uuid in (*hydrated.chunks, *hydrated.missing, *hydrated.failed):
        if place is None:
            repeated = uuid in hydrated.chunks
            reason = "a passage before it says nearly the same" if repeated else "it was not read"
            stages.append(_stage("passages", False, reason))
        elif place > limit:
            reason = f"place {place} of {len(order)} after reranking, {limit} stay"
            stages.append(_stage("selection", False, reason, place))
        else:
            reason = f"place {place}, budget.max_chunks is {max_chunks}"
            stages.append(_stage("budget", place <= max_chunks, reason, place))
    lost_at = _lost_at(stages)
    return ExplainResponse(
        doc_id=chunk.doc_id,
        chunk_id=chunk.chunk_id,
        rank=place if lost_at is None else None,
        stages=tuple(stages),
        lost_at=lost_at,
        would_have_helped=_helps(lost_at, stages, plan.expansion.restrict),
        request_id=plan.request_id,
    )


def _expected(
    run: Run, retrieval: Retrieval, expect: Expected, index: SearchIndex
) -> tuple[StoredChunk | None, dict[Channel, float]]:
    scope = run.scope.model_copy(update={"filter": None})
    names = [expect.chunk_id] if expect.chunk_id else [f"{expect.doc_id}#0", expect.doc_id or ""]
    uuids = [chunk_uuid(namespace, name) for namespace in scope.namespaces for name in names]
    deadline = run.deadline.limit(*time_budget.HYDRATE)
    doc_id = expect.doc_id
    if doc_id is None:
        named = index.get(uuids, scope, deadline).chunks
        doc_id = next((chunk.doc_id for chunk in named.values()), "")
    in_document = scope.model_copy(update={"filter": {"doc_id": (doc_id,)}})
    queries = [
        ChannelQuery(channel="bm25", size=LOOKED_UP, text=text) for text in (doc_id, run.plan.query)
    ]
    if retrieval.query_vector is not None:
        vector = base64.b64decode(retrieval.query_vector)
        queries.append(ChannelQuery(channel="dense", size=LOOKED_UP, vector=vector))
    hits_by_query = [result.hits for result in index.search(queries, in_document, deadline)]
    if expect.chunk_id is None:
        uuids = [hit.uuid for hits in reversed(hits_by_query) for hit in hits] + uuids
    chunks = index.get(uuids, scope, deadline).chunks
    places = {candidate.uuid: place for place, candidate in enumerate(retrieval.pool)}
    best = min(
        chunks, key=lambda uuid: (places.get(uuid, len(places)), uuids.index(uuid)), default=""
    )
    scores = {
        query.channel: hit.score
        for query, hits in zip(queries[1:], hits_by_query[1:], strict=True)
        for hit in hits
        if hit.uuid == best
    }
    return chunks.get(best), scores


def _search_stages(
    run: Run, retrieval: Retrieval, uuid: str, scores: Mapping[Channel, float]
) -> Iterator[ExplainStage]:
    pool, top_k = [candidate.uuid for candidate in retrieval.pool], run.plan.top_k
    reasons = []
    for channel, places in sorted(retrieval.ranks.items()):
        rank = next((rank for place, rank, _ in places if pool[place] == uuid), None)
        last = f"the last of {len(places)} has {places[-1][2]:.3g}" if places else "no hits"
        outcome = f"it scores {scores[channel]:.3g}, {last}" if channel in scores else "not found"
        reasons.append(
            f"{channel}: {outcome if rank is None else f'place {rank} of {len(places)}'}"
        )
    reason = "; ".join(reasons)
    if uuid not in pool:
        yield _stage("search", False, reason)
        return
    rank, selected = pool.index(uuid) + 1, uuid in retrieval.selected
    yield _stage("search", True, reason, rank, retrieval.pool[rank - 1].score)
    reason = f"place {rank} of {len(pool)} in the pool, of which top_k takes {top_k}"
    if rank <= top_k:
        reason += " without near repeats"
    place = retrieval.selected.index(uuid) + 1 if selected else rank
    yield _stage("selection", selected, reason, place)


def _graph_stages(expansion: Expansion | None, uuid: str) -> Iterator[ExplainStage]:
    if expansion is None:
        return
    if (skipped := expansion.graph_gain.skipped) is not None:
        yield ExplainStage(stage="graph", outcome="skipped", reason=skipped)
        return
    ranking = [ranked.uuid for ranked in expansion.ranking]
    if uuid not in ranking:
        yield _stage("graph", False, "the graph did not add it")
        return
    place = ranking.index(uuid)
    names = ", ".join(expansion.ranking[place].concepts[:5])
    yield _stage("graph", True, f"mentions {names}" if names else "mentions nothing reached")
    yield _stage("walk", True, f"place {place + 1} of {len(ranking)} after the walk", place + 1)


def _stage(
    stage: StageName,
    is_kept: bool,
    reason: str,
    rank: int | None = None,
    score: float | None = None,
) -> ExplainStage:
    outcome = "kept" if is_kept else "lost"
    return ExplainStage(stage=stage, outcome=outcome, rank=rank, score=score, reason=reason)


def _lost_at(stages: Sequence[ExplainStage]) -> str | None:
    lost = None
    for stage in stages:
        if stage.stage == "filter":
            return "filter"
        if stage.outcome == "kept":
            lost = None
        elif stage.outcome == "lost" and lost is None:
            lost = stage.stage
    return lost


def _helps(lost_at: str | None, stages: Sequence[ExplainStage], routed: bool) -> tuple[str, ...]:
    ranks = {stage.stage: stage.rank for stage in stages if stage.rank is not None}
    match lost_at:
        case "filter":
            return ("a request without filter",)
        case "search":
            words = "a question with words or names that the passage has"
            return ("a request without kg_expansion.route", words) if routed else (words,)
        case "selection" if (rank := ranks.get("search", 101)) <= 100:
            return (f"top_k {rank} or more",)
        case "selection":
            return ("a question that names what the passage is about",)
        case "budget":
            return (f"budget.max_chunks {ranks['budget']} or more",)
        case _:
            return ()

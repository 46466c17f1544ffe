"""Follow one passage through the search: which channels found it, and where it stands."""

from collections.abc import Mapping, Sequence

from docstokg.contracts.response import Channel, ExplainStage
from docstokg.contracts.retrieval import ChannelQuery, ChannelResult
from docstokg.contracts.state import Followed, Retrieval
from docstokg.domain.identity import chunk_uuid
from docstokg.ports import SearchIndex
from docstokg.usecases.run import Run

Scores = Mapping[Channel, Mapping[str, float]]


def followed(
    run: Run,
    retrieval: Retrieval,
    queries: Sequence[ChannelQuery],
    results: Mapping[Channel, ChannelResult],
    *,
    index: SearchIndex,
    time_s: float,
) -> Retrieval:
    """Add the passage that `plan.expect` names, its document's best one, and its way so far.

    One look-up more, restricted to it. A passage that is not there, or that the caller may not
    see, leaves `expected` empty.
    """
    expect, everything = run.plan.expect, {"filter": None, "doc_ids": None}
    if expect is None:
        return retrieval
    scope = run.scope.model_copy(update=everything)
    if expect.chunk_id is not None:
        named = [chunk_uuid(name, expect.chunk_id) for name in scope.namespaces]
        there = index.get(named, scope, time_s).chunks
        doc_id = next((there[one].doc_id for one in named if one in there), None)
    else:
        doc_id = expect.doc_id
    if doc_id is None:
        return retrieval
    scope = scope.model_copy(update={"filter": {"doc_id": (doc_id,)}})
    own = index.search([q for q in queries if q.channel != "facts"], scope, time_s)
    scores = {result.channel: {hit.uuid: hit.score for hit in result.hits} for result in own}
    uuids = {uuid for found in scores.values() for uuid in found}
    if expect.chunk_id is not None:
        uuids = set(there)
    elif not uuids:  # it shares no word with the question: any of its own will do
        words = ChannelQuery(channel="bm25", size=1, text=doc_id)
        uuids = {hit.uuid for result in index.search([words], scope, time_s) for hit in result.hits}
        first = [chunk_uuid(n, one) for n in scope.namespaces for one in (f"{doc_id}#0", doc_id)]
        uuids = uuids or set(index.get(first, scope, time_s).chunks)
    if not uuids:
        return retrieval
    places = {candidate.uuid: place for place, candidate in enumerate(retrieval.pool)}
    best = min(uuids, key=lambda u: (places.get(u, len(places)), -scores_of(u, scores), u))
    stages = _stages(run, retrieval, best, places.get(best), scores, results)
    if best not in index.get([best], run.scope, time_s).chunks:
        reason = "kg_expansion.route or filter leaves it out"
        stages = (*stages, ExplainStage(stage="filter", outcome="lost", reason=reason))
    found = index.get([best], scope, time_s).chunks[best]
    expected = Followed(uuid=best, doc_id=found.doc_id, chunk_id=found.chunk_id)
    return retrieval.model_copy(update={"expected": expected, "trail": stages})


def scores_of(uuid: str, scores: Scores) -> float:
    """Give the score that tells an unfound document's passages apart: the meaning's, if any."""
    return scores.get("dense", scores.get("bm25", {})).get(uuid, 0.0)


def _stages(
    run: Run,
    retrieval: Retrieval,
    uuid: str,
    place: int | None,
    scores: Scores,
    results: Mapping[Channel, ChannelResult],
) -> tuple[ExplainStage, ...]:
    told, top_k = [], run.plan.top_k
    for channel, found in sorted(scores.items()):
        hits = results[channel].hits if channel in results else ()
        rank = next((i for i, hit in enumerate(hits, 1) if hit.uuid == uuid), None)
        last = f"the last of {len(hits)} has {hits[-1].score:.3g}" if hits else "it found nothing"
        own = f"it scores {found[uuid]:.3g}, {last}" if uuid in found else "it does not match"
        told.append(f"{channel}: {own if rank is None else f'place {rank} of {len(hits)}'}")
    reason = "; ".join(told)
    if place is None:
        return (ExplainStage(stage="search", outcome="lost", reason=reason),)
    rank, selected = place + 1, uuid in retrieval.selected
    score = retrieval.pool[place].score
    chosen = f"place {rank} of {len(retrieval.pool)} in the pool, of which top_k takes {top_k}"
    repeats = " without near repeats" if rank <= top_k else ""
    return (
        ExplainStage(stage="search", outcome="kept", rank=rank, score=score, reason=reason),
        ExplainStage(
            stage="selection",
            outcome="kept" if selected else "lost",
            rank=retrieval.selected.index(uuid) + 1 if selected else rank,
            reason=chosen + repeats,
        ),
    )

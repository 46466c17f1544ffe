"""Ask every channel at once, fuse what they found, select without repetition."""

import base64
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field

from docstokg.contracts.records import Scope
from docstokg.contracts.request import RAGRequest
from docstokg.contracts.response import (
    Channel,
    ChannelRank,
    ChannelUse,
    DegradedReason,
    Fusion,
    ProvidersUsed,
)
from docstokg.contracts.retrieval import ChannelQuery, ChannelResult
from docstokg.contracts.state import Candidate, FactRef, Plan, Retrieval, RouteScope
from docstokg.domain import diversity, fusion
from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, Timeout
from docstokg.observability import Telemetry
from docstokg.ports import Embedder, SearchIndex, SparseEncoder

VECTOR_HEAD_START_S = 0.025
POOL_LIMIT = 220
RESERVE_S = 0.25
FUSED: tuple[Channel, ...] = ("bm25", "splade", "dense")
UNAVAILABLE: dict[Channel, DegradedReason] = {
    "bm25": "bm25_unavailable",
    "splade": "splade_unavailable",
    "dense": "dense_unavailable",
    "facts": "facts_unavailable",
}


@dataclass
class _Trip:
    """What has come back so far."""

    results: dict[Channel, ChannelResult] = field(default_factory=dict)
    degraded: list[DegradedReason] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    index_model: str | None = None

    def lose(self, reason: DegradedReason) -> None:
        if reason not in self.degraded:
            self.degraded.append(reason)


def retrieve(
    request: RAGRequest,
    plan: Plan,
    routed: RouteScope | None,
    *,
    index: SearchIndex,
    embedder: Embedder | None,
    embed_provider: str,
    sparse_encoder: SparseEncoder | None,
    workers: ThreadPoolExecutor,
    telemetry: Telemetry,
    clock: Callable[[], float],
) -> Retrieval:
    """Give `selected` and `pool`; a channel that fails is a reason, the others still fuse.

    One round trip to the index when the query vector is ready within 25 ms, else two.
    """
    started = time.perf_counter()
    deadline = Deadline(plan.deadline_ms)

    def time_left() -> float:
        return deadline.share_s(clock() * 1000, plan.retrieval.time_s, RESERVE_S)

    trip = _Trip()
    scope = Scope(
        namespace=plan.namespace,
        groups=plan.groups,
        filter=request.filter,
        doc_ids=routed.doc_ids if routed is not None else None,
    )
    wanted = dict(plan.retrieval.channels)
    vector = _query_vector(
        plan, wanted, index, embedder, embed_provider, workers, trip, telemetry, time_left()
    )
    queries = _word_queries(plan, wanted, sparse_encoder, trip, telemetry, time_left())
    ready = _ready(vector, VECTOR_HEAD_START_S, trip)
    if ready is not None:
        queries.append(ChannelQuery(channel="dense", size=wanted["dense"], vector=ready))
        vector = None
    if queries:
        _search(index, queries, scope, trip, telemetry, time_left())
    if vector is not None and (ready := _ready(vector, time_left(), trip, last=True)) is not None:
        late = ChannelQuery(channel="dense", size=wanted["dense"], vector=ready)
        _search(index, [late], scope, trip, telemetry, time_left())
    return _fused(plan, wanted, trip, ready, embedder, sparse_encoder, started)


def _query_vector(
    plan: Plan,
    wanted: dict[Channel, int],
    index: SearchIndex,
    embedder: Embedder | None,
    embed_provider: str,
    workers: ThreadPoolExecutor,
    trip: _Trip,
    telemetry: Telemetry,
    timeout_s: float,
) -> Future[bytes] | None:
    """Start embedding the question, unless the index holds another vector space, or none."""
    if "dense" not in wanted:
        return None
    try:
        info = index.info(timeout_s)
    except DocsToKGError:
        trip.lose("dense_unavailable")
        return None
    trip.index_model = info.embedding_model
    if info.unfinished_load:
        trip.warnings.append("A load into this index is unfinished; run it again to complete it.")
    if embedder is None or plan.embedding not in ("auto", embed_provider):
        trip.lose("embedding_unavailable")
        return None
    if info.chunks and info.embedding_model is None:
        trip.lose("dense_unavailable")
        return None
    if info.embedding_model not in (None, embedder.model):
        trip.lose("embedding_unavailable")
        return None
    chosen = embedder

    def embed() -> bytes:
        with telemetry.span("embed", request_id=plan.request_id):
            return chosen.embed([plan.query], timeout_s)[0]

    return workers.submit(embed)


def _ready(
    vector: Future[bytes] | None, wait_s: float, trip: _Trip, *, last: bool = False
) -> bytes | None:
    if vector is None:
        return None
    try:
        return vector.result(timeout=wait_s)
    except NotYet:
        if last:
            trip.lose("embedding_unavailable")
        return None
    except DocsToKGError:
        if last:
            trip.lose("embedding_unavailable")
        return None


def _word_queries(
    plan: Plan,
    wanted: dict[Channel, int],
    sparse_encoder: SparseEncoder | None,
    trip: _Trip,
    telemetry: Telemetry,
    timeout_s: float,
) -> list[ChannelQuery]:
    queries = [
        ChannelQuery(channel=channel, size=wanted[channel], text=plan.query)
        for channel in ("bm25", "facts")
        if channel in wanted
    ]
    if "splade" not in wanted:
        return queries
    if sparse_encoder is None:
        trip.lose("splade_unavailable")
        return queries
    try:
        with telemetry.span("encode_sparse", request_id=plan.request_id):
            weights = sparse_encoder.encode_query(plan.query, timeout_s)
    except DocsToKGError:
        trip.lose("splade_unavailable")
        return queries
    queries.append(ChannelQuery(channel="splade", size=wanted["splade"], weights=weights))
    return queries


def _search(
    index: SearchIndex,
    queries: list[ChannelQuery],
    scope: Scope,
    trip: _Trip,
    telemetry: Telemetry,
    timeout_s: float,
) -> None:
    try:
        if timeout_s <= 0:
            raise Timeout("no time left to search")
        with telemetry.span("search", channels=len(queries)):
            results = index.search(queries, scope, timeout_s)
    except DocsToKGError as exc:
        telemetry.log("WARNING", "search_failed", error=str(exc), kind=type(exc).__name__)
        failure = "timeout" if isinstance(exc, Timeout) else "unavailable"
        results = tuple(ChannelResult(channel=query.channel, failure=failure) for query in queries)
    for result in results:
        trip.results[result.channel] = result
        if result.failure is not None or result.partial:
            trip.lose(UNAVAILABLE[result.channel])


def _fused(
    plan: Plan,
    wanted: dict[Channel, int],
    trip: _Trip,
    query_vector: bytes | None,
    embedder: Embedder | None,
    sparse_encoder: SparseEncoder | None,
    started: float,
) -> Retrieval:
    lists: dict[Channel, list[tuple[str, float]]] = {
        channel: [(hit.uuid, hit.score) for hit in trip.results[channel].hits]
        for channel in FUSED
        if channel in trip.results and trip.results[channel].failure is None
    }
    asked = [channel for channel in FUSED if channel in wanted]
    failed = bool(asked) and not lists
    if failed:
        timeouts = [result.failure == "timeout" for result in trip.results.values()]
        trip.lose("retrieval_timeout" if timeouts and all(timeouts) else "retrieval_unavailable")
    fuse = fusion.reciprocal_rank if plan.retrieval.fusion == "rrf" else fusion.minmax
    fused = list(fuse(lists))[:POOL_LIMIT]
    vectors = {hit.uuid: hit.vector for result in trip.results.values() for hit in result.hits}
    mmr_started = time.perf_counter()
    if plan.retrieval.mmr:
        picked = diversity.select(
            [score for _, score in fused], [vectors[uuid] for uuid, _ in fused], plan.top_k
        )
    else:
        picked = list(range(min(plan.top_k, len(fused))))
    mmr_ms = (time.perf_counter() - mmr_started) * 1000
    ranks: dict[str, dict[Channel, ChannelRank]] = {}
    for channel, hits in lists.items():
        for rank, (uuid, score) in enumerate(hits, 1):
            ranks.setdefault(uuid, {})[channel] = ChannelRank(rank=rank, score=round(score, 6))
    facts = trip.results["facts"].facts if "facts" in trip.results else ()
    return Retrieval(
        selected=tuple(fused[position][0] for position in picked),
        pool=tuple(
            Candidate(uuid=uuid, score=round(score, 6), channels=ranks[uuid])
            for uuid, score in fused
        ),
        facts=tuple(
            FactRef(
                source=fact.source,
                type=fact.type,
                target=fact.target,
                score=round(fact.score, 6),
                evidence_uuid=fact.evidence_uuid,
            )
            for fact in facts
        ),
        query_vector=base64.b64encode(query_vector).decode() if query_vector else None,
        channels={
            channel: ChannelUse(
                candidates=len(result.hits) + len(result.facts), took_ms=round(result.took_ms, 2)
            )
            for channel, result in sorted(trip.results.items())
        },
        fusion=Fusion(
            method="RRF+MMR" if plan.retrieval.fusion == "rrf" else "minmax+MMR",
            k=fusion.RRF_K if plan.retrieval.fusion == "rrf" else None,
            lambda_=diversity.LAMBDA,
        ),
        providers=ProvidersUsed(
            embedding=embedder.model if embedder and query_vector else None,
            sparse=sparse_encoder.model if sparse_encoder and "splade" in trip.results else None,
        ),
        index_model=trip.index_model,
        took_ms=round((time.perf_counter() - started) * 1000, 2),
        mmr_ms=round(mmr_ms, 3),
        failed=failed,
        degraded=tuple(trip.degraded),
        warnings=tuple(trip.warnings),
    )

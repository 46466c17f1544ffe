"""Retrieval: query, fuse and select."""

import base64
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as NotYet
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import PurePath

from docstokg.contracts.response import (
    Channel,
    ChannelUse,
    DegradedReason,
    ProvidersUsed,
)
from docstokg.contracts.retrieval import ChannelQuery, ChannelResult
from docstokg.contracts.state import Candidate, FactRef, Place, Restriction, Retrieval
from docstokg.domain import fusion, mmr, time_budget
from docstokg.domain.answer import notices
from docstokg.domain.deadline import Deadline
from docstokg.domain.graph.other_names import other_words
from docstokg.domain.text.language_weights import (
    ENGLISH,
    LEAST,
    english_weights,
    reads_english_only,
    reads_many,
    word_weights,
)
from docstokg.domain.text.misspelt import candidates
from docstokg.domain.text.values import other_notations
from docstokg.domain.text.words import fold
from docstokg.errors import DocsToKGError, Timeout
from docstokg.ports import (
    Embedder,
    LanguageFinder,
    SearchIndex,
    SparseEncoder,
    embed_questions,
    encoder_of,
)
from docstokg.usecases.run import Run

POOL_LIMIT = 220
FUSED: tuple[Channel, ...] = ("bm25", "splade", "dense")
UNAVAILABLE: dict[Channel, DegradedReason] = {
    "bm25": "bm25_unavailable",
    "splade": "splade_unavailable",
    "dense": "dense_unavailable",
    "facts": "facts_unavailable",
}
FIXED_KEYS = frozenset(("doc_id", "document_name", "section", "topic"))
NAMES_READ = 20
# Weight of the word channels when searched with other names (benchmarks/other_names.py).
NAMES_WEIGHT = 0.3
# Passages whose metadata keys are listed if a filter finds nothing.
KEYS_READ = 20

Results = dict[Channel, ChannelResult]
# Of the question and, if there is one, of its rewrite.
Vectors = tuple[bytes, ...]


@dataclass
class ChannelResults:
    """Results of the channels, and properties of the index.

    `others`: for other names of the question's entities. `rewritten`: for the plan's rewrite.
    `empty`: namespaces of the scope.
    """

    by_channel: Results = field(default_factory=dict)
    others: Sequence[ChannelResult] = ()
    rewritten: list[ChannelResult] = field(default_factory=list)
    index_model: str | None = None
    languages: Mapping[str, float] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    empty: Sequence[str] = ()


def retrieve(  # noqa: PLR0913 - one parameter a port
    run: Run,
    restriction: Restriction | None,
    *,
    index: SearchIndex,
    embedder: Embedder | None,
    sparse_encoder: SparseEncoder | None,
    workers: Executor,
    languages: LanguageFinder | None = None,
) -> Retrieval:
    """Return `selected` and `pool`, of the question and of the plan's rewrite merged.

    A failed channel is a degraded reason; if all fail, `failed` is set.
    """
    if restriction:
        run.scope = run.scope.model_copy(update={"doc_ids": restriction.doc_ids})
        run.warnings.extend(restriction.warnings)
        run.timings_ms["routing"] = restriction.took_ms
    sizes = run.plan.retrieval.channels
    answers = ChannelResults()
    usable = _usable_embedder(run, index, embedder, answers)
    future = _embedding(run, usable, workers) if usable else None
    queries = _word_queries(run, sparse_encoder, run.plan.query, sizes)
    rewrite = run.plan.rewrite
    words = FUSED if rewrite else ()
    rewritten = _word_queries(run, sparse_encoder, rewrite or "", sizes.keys() & words)
    vectors = _ready(run, future, time_budget.VECTOR_HEAD_START_S)
    dense = _dense_queries(run, vectors)
    others = _searched(
        run, index, [*queries, *dense[:1]], [*rewritten, *dense[1:]], answers, sparse_encoder
    )
    late: list[ChannelQuery] = []
    if future is not None and vectors is None:
        vectors = _ready(run, future, _deadline(run).remaining(), last=True)
        late = _dense_queries(run, vectors)
    if others or late:
        results = _search(run, index, late[:1], [*others, *late[1:]], answers)
        answers.others = results[: len(others)]
        answers.rewritten += results[len(others) :]
    for result in (*answers.others, *answers.rewritten):
        _mark(run, result)
    if not any(result.hits for result in answers.by_channel.values()):
        run.warnings += [f"Namespace {name!r} is empty." for name in answers.empty]
        if run.scope.filter:
            _tell_unknown_keys(run, index, queries)
    providers = ProvidersUsed(
        embedding=usable.model if usable and vectors else None,
        sparse=sparse_encoder.model if sparse_encoder and "splade" in answers.by_channel else None,
    )
    weights = _weights(run, answers, languages) if vectors else None
    return _fused(run, answers, vectors[0] if vectors else None, providers, weights)


def _deadline(run: Run) -> Deadline:
    return run.deadline.limit(run.plan.retrieval.time_s, time_budget.RETRIEVE.reserve_s)


def _usable_embedder(
    run: Run, index: SearchIndex, embedder: Embedder | None, answers: ChannelResults
) -> Embedder | None:
    if "dense" not in run.plan.retrieval.channels:
        return None
    deadline = _deadline(run)
    info = run.attempt("index_info", lambda: index.info(deadline), "dense_unavailable")
    if info is None:
        return None
    run.warnings += info.warnings_of(run.scope.namespaces)
    answers.empty = sorted({*run.scope.namespaces} - {*info.namespaces})
    stored = answers.index_model = info.model_of(run.scope.namespace)
    answers.languages = info.languages_of(run.scope.namespace)
    configured, embedder = embedder, encoder_of(embedder, stored)
    if spaces := {info.model_of(name) for name in run.scope.others} - {stored}:
        run.skip("embed", "embedding_unavailable", f"{stored} and {spaces} are different spaces")
        run.warnings.append("The namespaces have different encoders: they were asked by word only.")
        return None
    if configured is None or not run.plan.retrieval.embed:
        run.skip("embed", "embedding_unavailable", "there is no such embedder here")
        return None
    if info.chunks and stored is None:
        run.skip("embed", "dense_unavailable", "the index holds no vectors")
        name = run.scope.namespace
        run.warnings.append(f"Namespace {name!r} has no vectors (`docstokg reembed` makes them).")
        return None
    if embedder is None:
        other = f"the index was embedded by {stored}, not by {configured.model}"
        run.skip("embed", "embedding_unavailable", other)
    return embedder


def _embedding(run: Run, embedder: Embedder, workers: Executor) -> Future[Vectors]:
    deadline = _deadline(run)

    def embed() -> Vectors:
        with run.telemetry.span("embed", request_id=run.request_id, model=embedder.model):
            texts = list(filter(None, (run.plan.query, run.plan.rewrite)))
            return embed_questions(embedder, texts, deadline)

    return workers.submit(copy_context().run, embed)


def _ready(
    run: Run, vectors: Future[Vectors] | None, wait_s: float, *, last: bool = False
) -> Vectors | None:
    if vectors is None:
        return None
    try:
        return vectors.result(timeout=wait_s)
    except NotYet:
        if last:
            late = Timeout("the question was not embedded in the time there was")
            run.log("embed", late, "embedding_unavailable")
    except DocsToKGError as error:
        if last:
            run.log("embed", error, "embedding_unavailable")
    return None


def _dense_queries(run: Run, vectors: Vectors | None) -> list[ChannelQuery]:
    size = run.plan.retrieval.channels.get("dense", 0)
    return [ChannelQuery(channel="dense", size=size, vector=vector) for vector in vectors or ()]


def _word_queries(
    run: Run, sparse_encoder: SparseEncoder | None, text: str, channels: Collection[Channel]
) -> list[ChannelQuery]:
    sizes, deadline = run.plan.retrieval.channels, _deadline(run)
    queries = [
        ChannelQuery(channel=channel, size=sizes[channel], text=text)
        for channel in ("bm25", "facts")
        if channel in channels
    ]
    if "splade" not in channels:
        return queries
    if sparse_encoder is None:
        run.skip("encode_sparse", "splade_unavailable", "there is no sparse encoder here")
        return queries
    weights = run.attempt(
        "encode_sparse",
        lambda: sparse_encoder.encode_query(text, deadline),
        "splade_unavailable",
    )
    if weights is not None:
        queries.append(ChannelQuery(channel="splade", size=sizes["splade"], weights=weights))
    return queries


def _searched(
    run: Run,
    index: SearchIndex,
    queries: list[ChannelQuery],
    rewritten: list[ChannelQuery],
    answers: ChannelResults,
    encoder: SparseEncoder | None,
) -> list[ChannelQuery]:
    probed, plan = _probed(run, queries), run.plan
    probes = [ChannelQuery(channel="bm25", size=1, text=word, unordered=True) for word in probed]
    if plan.expansion.enabled and any(query.channel == "bm25" for query in queries):
        probes.append(ChannelQuery(channel="facts", size=NAMES_READ, text=plan.query, names=True))
    results = _search(run, index, queries, [*probes, *rewritten], answers) if queries else ()
    results, answers.rewritten = results[: len(probes)], [*results[len(probes) :]]
    answers.absent = tuple(
        word
        for word, result in zip(probed, results, strict=False)
        if not (result.hits or result.failure or result.partial)
    )
    names = {fact.source: fact.text.split("\n") for result in results for fact in result.facts}
    aliases = other_words(plan.query, names) if names else ""
    added = f"{aliases} {other_notations(plan.query)}".strip()
    if not added:
        return []
    working = {result.channel for result in answers.by_channel.values() if result.failure is None}
    return _word_queries(run, encoder, added, working - {"facts"})


def _search(
    run: Run,
    index: SearchIndex,
    queries: Sequence[ChannelQuery],
    extra: Sequence[ChannelQuery],
    answers: ChannelResults,
) -> tuple[ChannelResult, ...]:
    deadline = _deadline(run)
    try:
        if deadline.is_over():
            raise Timeout("no time left to search")
        fields = {"namespace": run.scope.namespace, "top_k": run.plan.top_k}
        fields |= {"request_id": run.request_id, "channels": len(queries)}
        with run.telemetry.span("search", **fields):
            results = index.search([*queries, *extra], run.scope, deadline)
    except DocsToKGError as error:
        run.log("search", error)
        failure = "timeout" if isinstance(error, Timeout) else "unavailable"
        results = tuple(
            ChannelResult(channel=query.channel, failure=failure) for query in (*queries, *extra)
        )
    for result in results[: len(queries)]:
        answers.by_channel[result.channel] = result
        _mark(run, result)
    return results[len(queries) :]


def _mark(run: Run, result: ChannelResult) -> None:
    if result.failure is not None or result.partial:
        run.mark_degraded(UNAVAILABLE[result.channel])
    if result.cause is not None:  # a failure of the whole call was logged
        run.telemetry.log(
            "WARNING",
            "channel_failed",
            request_id=run.request_id,
            channel=result.channel,
            reason=UNAVAILABLE[result.channel],
            error=result.cause,
        )


def _probed(run: Run, queries: Sequence[ChannelQuery]) -> tuple[str, ...]:
    is_whole = not run.scope.filter and run.scope.doc_ids is None
    has_words = any(query.channel == "bm25" for query in queries)
    if not (is_whole and has_words and run.plan.expansion.enabled):
        return ()
    return candidates(run.plan.query)


def _tell_unknown_keys(run: Run, index: SearchIndex, queries: list[ChannelQuery]) -> None:
    scope, deadline = run.scope.model_copy(update={"filter": None}), _deadline(run)
    requested = sorted((run.scope.filter or {}).keys() - FIXED_KEYS)
    if not requested or deadline.remaining() < time_budget.LEAST_CALL_S:
        return

    def keys() -> set[str]:
        results = index.search(queries, scope, deadline)
        uuids = [hit.uuid for result in results for hit in result.hits[:KEYS_READ]]
        chunks = index.get(uuids, scope, deadline).chunks.values()
        return {key for chunk in chunks for key in chunk.metadata}

    present = run.attempt("filter_keys", keys, lost=None)
    if present is not None and (unknown := [key for key in requested if key not in present]):
        there_is = notices.listed(
            [*sorted(FIXED_KEYS), *sorted(present)], KEYS_READ + len(FIXED_KEYS)
        )
        missing = notices.listed(unknown)
        run.warnings.append(f"filter: keys not found: {missing}; available: {there_is}")


def _weights(
    run: Run, answers: ChannelResults, languages: LanguageFinder | None
) -> dict[str, float] | None:
    """Words count less if vectors are multilingual; English vectors count only for English."""
    dense, model = answers.by_channel.get("dense"), answers.index_model or ""
    if languages is None or dense is None or not dense.hits:
        return None
    shares = answers.languages
    if reads_english_only(model) and shares.keys() - {ENGLISH}:
        detected = languages.probabilities(run.plan.query) if ENGLISH in shares else {}
        return english_weights(detected, shares)
    if not reads_many(model):
        return None
    floor = 0.0 if run.plan.retrieval.fusion == "rrf" else LEAST
    return word_weights(languages.probabilities(run.plan.query), shares, floor)


def _fused(
    run: Run,
    answers: ChannelResults,
    query_vector: bytes | None,
    providers: ProvidersUsed,
    weights: Mapping[str, float] | None,
) -> Retrieval:
    plan, results = run.plan, answers.by_channel
    lists = {
        channel: [(hit.uuid, hit.score) for hit in results[channel].hits]
        for channel in FUSED
        if channel in results and results[channel].failure is None
    }
    failed = not lists and any(channel in plan.retrieval.channels for channel in FUSED)
    if failed:
        late = bool(results) and all(r.failure == "timeout" for r in results.values())
        run.mark_degraded("retrieval_timeout" if late else "retrieval_unavailable")
    by_rank = plan.retrieval.fusion == "rrf"
    named = {f"{result.channel} of other names": result for result in answers.others if result.hits}
    weights = {**(weights or {}), **dict.fromkeys(named, NAMES_WEIGHT)}
    for result in answers.rewritten:
        if result.hits:
            named[name := f"{result.channel} of the rewrite"] = result
            weights[name] = weights.get(result.channel, 1.0)
    added = {name: [(hit.uuid, hit.score) for hit in result.hits] for name, result in named.items()}
    fused = (fusion.reciprocal_rank if by_rank else fusion.minmax)({**lists, **added}, weights)
    pool = list(fused[:POOL_LIMIT])
    selected, mmr_ms = _selected(run, pool, [*results.values(), *named.values()])
    return Retrieval(
        selected=selected,
        pool=tuple(Candidate(uuid, round(score, 6)) for uuid, score in pool),
        ranks=_ranks(pool, lists),
        facts=_facts(results),
        query_vector=base64.b64encode(query_vector).decode() if query_vector else None,
        channels={
            channel: ChannelUse(
                candidates=len(result.hits) + len(result.facts), took_ms=round(result.took_ms, 2)
            )
            for channel, result in sorted(results.items())
        },
        providers=providers,
        index_model=answers.index_model,
        route_ms=run.timings_ms.get("routing", 0.0),
        took_ms=run.took_ms(),
        mmr_ms=mmr_ms,
        absent=answers.absent,
        failed=failed,
        degraded=tuple(run.degraded),
        warnings=tuple(run.warnings),
    )


def _selected(
    run: Run, pool: list[tuple[str, float]], results: Sequence[ChannelResult]
) -> tuple[tuple[str, ...], float]:
    started, plan = time.perf_counter(), run.plan
    places = list(range(min(plan.top_k, len(pool))))
    if plan.retrieval.mmr:
        hits = {hit.uuid: hit for result in results for hit in result.hits}
        places = mmr.select(
            [score for _, score in pool],
            [hits[uuid].vector for uuid, _ in pool],
            plan.top_k,
            _documents(run, [hits[uuid].doc_id for uuid, _ in pool]),
        )
    mmr_ms = round((time.perf_counter() - started) * 1000, 3)
    return tuple(pool[place][0] for place in places), mmr_ms


def _documents(run: Run, doc_ids: Sequence[str]) -> list[str | None]:
    """Return the document of each passage; None if the client or the question names it."""
    if run.scope.names_documents:
        return []
    words = set(fold(run.plan.query).split())
    names = {doc_id: set(fold(PurePath(doc_id).stem).split()) for doc_id in {*doc_ids}}
    named = {doc_id for doc_id, name in names.items() if len(name) > 1 and name <= words}
    return [None if doc_id in named else doc_id for doc_id in doc_ids]


def _ranks(
    pool: Sequence[tuple[str, float]], lists: Mapping[Channel, list[tuple[str, float]]]
) -> dict[Channel, tuple[Place, ...]]:
    places = {uuid: place for place, (uuid, _) in enumerate(pool)}
    return {
        channel: tuple(
            (places[uuid], rank, round(score, 6))
            for rank, (uuid, score) in enumerate(hits, 1)
            if uuid in places
        )
        for channel, hits in lists.items()
    }


def _facts(results: Results) -> tuple[FactRef, ...]:
    return tuple(
        FactRef(
            source=fact.source,
            type=fact.type,
            target=fact.target,
            score=round(fact.score, 6),
            evidence_uuid=fact.evidence_uuid,
        )
        for fact in (results["facts"].facts if "facts" in results else ())
    )

"""Check a draft: markers and sentences against sources, ids and relations against the graph."""

import time
from collections.abc import Callable, Sequence

from docstokg.contracts.check import (
    CheckCitation,
    CheckDiagnostics,
    CheckEnvelope,
    CheckRequest,
    CheckResponse,
    Consistency,
    Source,
)
from docstokg.contracts.records import Scope, StoredChunk
from docstokg.contracts.response import Channel, DegradedReason, Grounding
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.contracts.state import Block, Caller, Reply
from docstokg.domain.grounding import Statement, statements
from docstokg.errors import DocsToKGError, Timeout
from docstokg.observability import Telemetry
from docstokg.ports import Embedder, Entailment, KnowledgeGraph, SearchIndex
from docstokg.usecases.check_answer import ground_sentences, ground_text
from docstokg.usecases.intake import parse_body
from docstokg.usecases.problems import problem_reply

TIME_S = 10.0
GRAPH_TIME_S = 1.5
VECTOR_TIME_S = 1.0
SOURCES_PER_SENTENCE = 3
MOST_SENTENCES = 40
LOST: dict[Channel, DegradedReason] = {"bm25": "bm25_unavailable", "dense": "dense_unavailable"}

ConsistencyCheck = Callable[[str, KnowledgeGraph, Scope, float], Consistency]


class _Run:
    """The clock and the losses of one check."""

    def __init__(self, time_s: float) -> None:
        self._until = time.monotonic() + time_s
        self.degraded: dict[DegradedReason, None] = {}
        self.timings_ms: dict[str, float] = {}

    def left_s(self, cap_s: float = TIME_S) -> float:
        return max(0.0, min(cap_s, self._until - time.monotonic()))

    def lose(self, reason: DegradedReason) -> None:
        self.degraded[reason] = None

    def took(self, name: str, started: float) -> None:
        self.timings_ms[name] = round((time.perf_counter() - started) * 1000, 2)


def check(
    envelope: CheckEnvelope,
    *,
    index: SearchIndex,
    graph: KnowledgeGraph | None,
    embedder: Embedder | None,
    check_consistency: ConsistencyCheck,
    telemetry: Telemetry,
    entailment: Entailment | None = None,
    time_s: float = TIME_S,
) -> Reply:
    """Give the CheckResponse as a reply, or the problem: 400, 403, 413, 503.

    With citations each sentence is held against what its markers mean; without, against the
    passages found for it. A lost graph or embedder is a reason, a lost index is 503.
    """
    request = parse_body(envelope.body_b64, CheckRequest, envelope.request_id)
    if isinstance(request, Reply):
        return request
    if not _granted(request.namespace, envelope.caller):
        detail = f"Namespace {request.namespace!r} is not granted to this caller."
        return problem_reply(403, "namespace_not_granted", detail, envelope.request_id)
    run = _Run(time_s)
    started = time.perf_counter()
    groups = None if "*" in envelope.caller.groups else envelope.caller.groups
    scope = Scope(namespace=request.namespace, groups=groups)
    try:
        grounding, sources, missing = _grounded(request, scope, index, embedder, entailment, run)
    except DocsToKGError as exc:
        telemetry.log(
            "ERROR", "check_failed", request_id=envelope.request_id, error=type(exc).__name__
        )
        detail = "The sources could not be read."
        return problem_reply(503, "nothing_to_cite", detail, envelope.request_id)
    consistency = _consistent(request.text, scope, graph, check_consistency, run)
    run.took("total", started)
    response = CheckResponse(
        grounding=grounding,
        consistency=consistency,
        diagnostics=CheckDiagnostics(
            timings_ms=run.timings_ms,
            sources=sources,
            missing=missing,
            embedding=embedder.model if embedder is not None else None,
            degraded=bool(run.degraded),
            degraded_reasons=tuple(run.degraded),
        ),
    )
    telemetry.count("rag_requests_total", route="check", status="200")
    telemetry.count("rag_citation_errors_total", len(grounding.invalid_citations))
    telemetry.log(
        "INFO",
        "request",
        request_id=envelope.request_id,
        route="check",
        namespace=request.namespace,
        status=200,
        grounded=grounding.grounded,
        consistent=consistency.ok,
        degraded_reasons=list(run.degraded),
        timings_ms=run.timings_ms,
    )
    return Reply(
        statusCode=200,
        body=response.model_dump_json(),
        headers={"Content-Type": "application/json"},
    )


def _granted(namespace: str, caller: Caller) -> bool:
    return bool({"*", namespace} & set(caller.namespaces))


def _grounded(
    request: CheckRequest,
    scope: Scope,
    index: SearchIndex,
    embedder: Embedder | None,
    entailment: Entailment | None,
    run: _Run,
) -> tuple[Grounding, tuple[Source, ...], tuple[str, ...]]:
    if request.citations is not None:
        return _with_citations(request, request.citations, scope, index, embedder, entailment, run)
    factual = [statement for statement in statements(request.text) if statement.factual]
    started = time.perf_counter()
    found = _sources(factual[:MOST_SENTENCES], request.query, scope, index, embedder, run)
    run.took("retrieval", started)
    started = time.perf_counter()
    per_sentence = [*found, *([] for _ in factual[MOST_SENTENCES:])]
    grounding = ground_sentences(
        request.text,
        per_sentence,
        embedder=embedder,
        entailment=entailment,
        timeout_s=run.left_s(VECTOR_TIME_S),
    )
    run.took("grounding", started)
    named = {block.rank: block.uuid for blocks in found for block in blocks}
    return grounding, tuple(Source(rank=rank, uuid=named[rank]) for rank in sorted(named)), ()


def _with_citations(
    request: CheckRequest,
    citations: Sequence[CheckCitation],
    scope: Scope,
    index: SearchIndex,
    embedder: Embedder | None,
    entailment: Entailment | None,
    run: _Run,
) -> tuple[Grounding, tuple[Source, ...], tuple[str, ...]]:
    started = time.perf_counter()
    uuids = list(dict.fromkeys(citation.uuid for citation in citations))
    hydrated = index.get(uuids, scope, run.left_s()) if uuids else None
    chunks = hydrated.chunks if hydrated is not None else {}
    if hydrated is not None and hydrated.failed:
        run.lose("hydration_incomplete")
    blocks = [
        _cited_block(citation, chunks[citation.uuid])
        for citation in citations
        if citation.uuid in chunks
    ]
    run.took("retrieval", started)
    started = time.perf_counter()
    grounding = ground_text(
        request.text,
        blocks,
        embedder=embedder,
        entailment=entailment,
        timeout_s=run.left_s(VECTOR_TIME_S),
    )
    run.took("grounding", started)
    missing = tuple(uuid for uuid in uuids if uuid not in chunks)
    sources = tuple(Source(rank=block.rank, uuid=block.uuid) for block in blocks)
    return grounding, sources, missing


def _cited_block(citation: CheckCitation, chunk: StoredChunk) -> Block:
    """Narrow a chunk to the cited span; a span outside of it narrows nothing."""
    base = chunk.char_start or 0
    start, end = 0, len(chunk.text)
    if citation.char_start is not None and citation.char_end is not None:
        asked = (citation.char_start - base, citation.char_end - base)
        if 0 <= asked[0] < asked[1] <= end:
            start, end = asked
    return _block(citation.rank, chunk, start, end)


def _block(rank: int, chunk: StoredChunk, start: int, end: int) -> Block:
    return Block(
        rank=rank,
        uuid=chunk.uuid,
        text=chunk.text[start:end],
        start=start,
        char_start=chunk.char_start or 0,
        document_name=chunk.document_name or chunk.title or chunk.doc_id,
        page=chunk.page,
        relevance=0,
    )


def _sources(
    factual: Sequence[Statement],
    query: str | None,
    scope: Scope,
    index: SearchIndex,
    embedder: Embedder | None,
    run: _Run,
) -> list[list[Block]]:
    """Find the passages of each sentence: the first three of every channel, read in one go."""
    wanted = [
        statement.claim if not query else f"{statement.claim} {query}" for statement in factual
    ]
    vectors = _vectors(wanted, index, embedder, run)
    found: list[list[str]] = []
    for place, text in enumerate(wanted):
        queries = [ChannelQuery(channel="bm25", size=SOURCES_PER_SENTENCE, text=text)]
        if vectors is not None:
            queries.append(
                ChannelQuery(channel="dense", size=SOURCES_PER_SENTENCE, vector=vectors[place])
            )
        if run.left_s() <= 0:
            raise Timeout("no time was left to look for sources")
        hits: dict[str, None] = {}
        for result in index.search(queries, scope, run.left_s()):
            if result.failure is not None:
                run.lose(LOST.get(result.channel, "retrieval_unavailable"))
            hits.update(dict.fromkeys(hit.uuid for hit in result.hits))
        found.append(list(hits))
    uuids = list(dict.fromkeys(uuid for hits in found for uuid in hits))
    hydrated = index.get(uuids, scope, run.left_s()) if uuids else None
    chunks = hydrated.chunks if hydrated is not None else {}
    ranks = {uuid: rank for rank, uuid in enumerate((u for u in uuids if u in chunks), start=1)}
    return [
        [
            _block(ranks[uuid], chunks[uuid], 0, len(chunks[uuid].text))
            for uuid in hits
            if uuid in chunks
        ]
        for hits in found
    ]


def _vectors(
    texts: Sequence[str], index: SearchIndex, embedder: Embedder | None, run: _Run
) -> tuple[bytes, ...] | None:
    """Embed the sentences when the index holds the embedder's own vector space."""
    if embedder is None or not texts:
        return None
    info = index.info(run.left_s())
    if info.embedding_model != embedder.model:
        if info.embedding_model is not None:
            run.lose("embedding_unavailable")
        return None
    try:
        return embedder.embed(list(texts), run.left_s(2 * VECTOR_TIME_S))
    except DocsToKGError:
        run.lose("embedding_unavailable")
        return None


def _consistent(
    text: str,
    scope: Scope,
    graph: KnowledgeGraph | None,
    check_consistency: ConsistencyCheck,
    run: _Run,
) -> Consistency:
    if graph is None:
        run.lose("kg_unavailable")
        return Consistency(ok=True)
    started = time.perf_counter()
    try:
        return check_consistency(text, graph, scope, run.left_s(GRAPH_TIME_S))
    except Timeout:
        run.lose("kg_timeout")
    except DocsToKGError:
        run.lose("kg_unavailable")
    finally:
        run.took("consistency", started)
    return Consistency(ok=True)

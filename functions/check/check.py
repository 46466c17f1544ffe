"""Check a draft: markers and sentences against sources, ids and relations against the graph."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from docstokg.contracts.check import (
    CheckCitation,
    CheckDiagnostics,
    CheckRequest,
    CheckResponse,
    Consistency,
    Source,
)
from docstokg.contracts.envelope import Envelope, Reply
from docstokg.contracts.records import Scope, StoredChunk
from docstokg.contracts.response import Channel, DegradedReason, Grounding
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.contracts.state import Block
from docstokg.domain import time_budget
from docstokg.domain.answer.grounding import Statement, statements
from docstokg.domain.graph.ontology_facts import NO_FACTS, Facts
from docstokg.errors import DocsToKGError, Timeout
from docstokg.ports import Embedder, SearchIndex, encoder_of
from docstokg.usecases.check_answer import ground_sentences, ground_text
from docstokg.usecases.comparison import Comparison
from docstokg.usecases.intake import parse_body
from docstokg.usecases.problems import problem_reply
from docstokg.usecases.run import Begin, Call, graph_reason

SOURCES_PER_SENTENCE = 3
MOST_SENTENCES = 40
LOST: dict[Channel, DegradedReason] = {"bm25": "bm25_unavailable", "dense": "dense_unavailable"}


@dataclass(frozen=True, slots=True)
class AgainstGraph:
    """What the graph is asked about a draft in a scope, for so many seconds.

    `consistency`: its ids, labels and relations between ids. `facts`: what is known of the
    relations that its sentences state between names.
    """

    consistency: Callable[[str, Scope, float], Consistency]
    facts: Callable[[Sequence[str], Scope, float], Facts]


Checked = tuple[Grounding, tuple[Source, ...], tuple[str, ...]]
"""The report, the passages it rests on, and the cited passages that cannot be read."""


def check(
    envelope: Envelope,
    *,
    begin: Begin,
    index: SearchIndex,
    embedder: Embedder | None,
    compare: Callable[[Call, float], Comparison],
    graph: AgainstGraph | None,
) -> Reply:
    """Give the CheckResponse as a reply, or the problem: 400, 403, 413, 503, 504.

    With citations each sentence is held against what its markers mean; without, against the
    passages found for it. A lost graph (None, or failing) or embedder is a reason,
    a lost index is 503, a late one 504. `compare`: makes what compares texts for so many seconds.
    """
    request = parse_body(envelope.body_b64, CheckRequest, envelope.request_id)
    if isinstance(request, Reply):
        return request
    if not envelope.caller.may_read(request.namespace):
        detail = f"Namespace {request.namespace!r} is not granted to this caller."
        return problem_reply(403, "namespace_not_granted", detail, envelope.request_id)
    call = begin(envelope.request_id, envelope.caller.scope(request.namespace))
    with call.timed("total"):
        try:
            facts = _facts(call, request.text, graph)
            grounding, sources, missing = _grounded(
                call, request, (index, embedder), compare, facts
            )
        except DocsToKGError as error:
            call.log("check", error, level="ERROR")
            late, detail = isinstance(error, Timeout), "The sources could not be read."
            failed = (504, "deadline_exceeded") if late else (503, "nothing_to_cite")
            return problem_reply(*failed, detail, envelope.request_id)
        with call.timed("consistency"):
            report = _consistent(call, request.text, graph)
    response = CheckResponse(
        grounding=grounding,
        consistency=report,
        diagnostics=CheckDiagnostics(
            timings_ms=call.timings_ms,
            sources=sources,
            missing=missing,
            embedding=embedder.model if embedder is not None else None,
            degraded=bool(call.degraded),
            degraded_reasons=tuple(call.degraded),
        ),
    )
    _record(call, response)
    return Reply(
        statusCode=200,
        body=response.model_dump_json(),
        headers={"Content-Type": "application/json"},
    )


def _record(call: Call, response: CheckResponse) -> None:
    telemetry, grounding = call.telemetry, response.grounding
    telemetry.count("rag_requests_total", route="check", status="200")
    telemetry.count("rag_citation_errors_total", len(grounding.invalid_citations))
    telemetry.log(
        "INFO",
        "request",
        request_id=call.request_id,
        route="check",
        namespace=call.scope.namespace,
        status=200,
        grounded=grounding.grounded,
        consistent=response.consistency.ok,
        degraded_reasons=list(call.degraded),
        timings_ms=call.timings_ms,
    )


def _grounded(
    call: Call,
    request: CheckRequest,
    search: tuple[SearchIndex, Embedder | None],
    compare: Callable[[Call, float], Comparison],
    facts: Facts,
) -> Checked:
    index, embedder = search
    if request.citations is not None:
        return _with_citations(call, request, index, compare, facts)
    factual = [statement for statement in statements(request.text) if statement.factual]
    with call.timed("retrieval"):
        sources = _sources(call, factual[:MOST_SENTENCES], request.query, index, embedder)
    with call.timed("grounding"):
        comparison = compare(call, call.left_s(*time_budget.CHECK_VECTORS))
        grounding = ground_sentences(request.text, sources, comparison, facts)
    uuids = {block.rank: block.uuid for blocks in sources for block in blocks}
    return grounding, tuple(Source(rank=rank, uuid=uuids[rank]) for rank in sorted(uuids)), ()


def _with_citations(
    call: Call,
    request: CheckRequest,
    index: SearchIndex,
    compare: Callable[[Call, float], Comparison],
    facts: Facts,
) -> Checked:
    citations = request.citations or ()
    with call.timed("retrieval"):
        uuids = list(dict.fromkeys(citation.uuid for citation in citations))
        hydrated = index.get(uuids, call.scope, call.left_s(time_budget.CHECK_S)) if uuids else None
        chunks = hydrated.chunks if hydrated is not None else {}
        if hydrated is not None and hydrated.failed:
            call.mark_degraded("hydration_incomplete")
        blocks = [
            _cited_block(citation, chunks[citation.uuid])
            for citation in citations
            if citation.uuid in chunks
        ]
    with call.timed("grounding"):
        comparison = compare(call, call.left_s(*time_budget.CHECK_VECTORS))
        grounding = ground_text(request.text, blocks, comparison, facts)
    missing = tuple(uuid for uuid in uuids if uuid not in chunks)
    sources = tuple(Source(rank=block.rank, uuid=block.uuid) for block in blocks)
    return grounding, sources, missing


def _cited_block(citation: CheckCitation, chunk: StoredChunk) -> Block:
    """Narrow a chunk to the cited span; a span outside of it narrows nothing."""
    base = chunk.char_start or 0
    start, end = 0, len(chunk.text)
    if citation.char_start is not None and citation.char_end is not None:
        span = (citation.char_start - base, citation.char_end - base)
        if 0 <= span[0] < span[1] <= end:
            start, end = span
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
    call: Call,
    factual: Sequence[Statement],
    query: str | None,
    index: SearchIndex,
    embedder: Embedder | None,
) -> list[list[Block]]:
    """Find the passages of each sentence: the first three of every channel, read in one go."""
    texts = [
        statement.claim if not query else f"{statement.claim} {query}" for statement in factual
    ]
    hit_lists = _searched(call, texts, _vectors(call, texts, index, embedder), index)
    uuids = list(dict.fromkeys(uuid for hits in hit_lists for uuid in hits))
    hydrated = index.get(uuids, call.scope, call.left_s(time_budget.CHECK_S)) if uuids else None
    chunks = hydrated.chunks if hydrated is not None else {}
    ranks = {uuid: rank for rank, uuid in enumerate((u for u in uuids if u in chunks), start=1)}
    return [
        [
            _block(ranks[uuid], chunks[uuid], 0, len(chunks[uuid].text))
            for uuid in hits
            if uuid in chunks
        ]
        for hits in hit_lists
    ]


def _searched(
    call: Call, texts: Sequence[str], vectors: tuple[bytes, ...] | None, index: SearchIndex
) -> list[list[str]]:
    """Give for each text the uuids its channels found; `Timeout` when time runs out."""
    hit_lists: list[list[str]] = []
    for place, text in enumerate(texts):
        queries = [ChannelQuery(channel="bm25", size=SOURCES_PER_SENTENCE, text=text)]
        if vectors is not None:
            queries.append(
                ChannelQuery(channel="dense", size=SOURCES_PER_SENTENCE, vector=vectors[place])
            )
        left_s = call.left_s(time_budget.CHECK_S)
        if left_s <= 0:
            raise Timeout("no time was left to look for sources")
        hits: dict[str, None] = {}
        for result in index.search(queries, call.scope, left_s):
            if result.failure is not None:
                call.mark_degraded(LOST.get(result.channel, "retrieval_unavailable"))
            hits.update(dict.fromkeys(hit.uuid for hit in result.hits))
        hit_lists.append(list(hits))
    return hit_lists


def _vectors(
    call: Call, texts: Sequence[str], index: SearchIndex, embedder: Embedder | None
) -> tuple[bytes, ...] | None:
    """Embed the sentences when the index holds the embedder's own vector space."""
    if embedder is None or not texts:
        return None
    stored = index.info(call.left_s(time_budget.CHECK_S)).model_of(call.scope.namespace)
    encoder = encoder_of(embedder, stored) if stored is not None else None
    if encoder is None:
        if stored is not None:
            other = f"the index was embedded by {stored}, not by {embedder.model}"
            call.skip("embed", "embedding_unavailable", other)
        return None
    time_s = call.left_s(2 * time_budget.CHECK_VECTORS.cap_s)
    return call.attempt(
        "embed", lambda: encoder.embed(list(texts), time_s), "embedding_unavailable"
    )


def _facts(call: Call, text: str, graph: AgainstGraph | None) -> Facts:
    """Read what the graph says of the relations a draft states; a lost one says nothing."""
    claims = [statement.claim for statement in statements(text) if statement.factual]
    if graph is None:
        return NO_FACTS
    time_s = call.left_s(*time_budget.CHECK_GRAPH)
    found = call.attempt("facts", lambda: graph.facts(claims, call.scope, time_s), graph_reason)
    return NO_FACTS if found is None else found


def _consistent(call: Call, text: str, graph: AgainstGraph | None) -> Consistency:
    if graph is None:
        call.mark_degraded("kg_unavailable")
        return Consistency(ok=True)
    time_s = call.left_s(*time_budget.CHECK_GRAPH)
    report = call.attempt(
        "consistency", lambda: graph.consistency(text, call.scope, time_s), graph_reason
    )
    return report if report is not None else Consistency(ok=True)

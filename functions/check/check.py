"""Check of a draft."""

from collections.abc import Callable, Iterable, Mapping
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
from docstokg.contracts.request import DEFAULT_NAMESPACE
from docstokg.contracts.response import Channel, DegradedReason, Grounding
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.contracts.routes import MAX_CHECK_BYTES
from docstokg.contracts.state import Block
from docstokg.domain import time_budget
from docstokg.domain.answer.citations import find_markers
from docstokg.domain.answer.statements import statements
from docstokg.domain.deadline import Deadline
from docstokg.domain.text.sentences import sentence_spans
from docstokg.errors import DocsToKGError, Timeout
from docstokg.ports import Embedder, SearchIndex, Verifier, embed_questions, encoder_of
from docstokg.usecases.check_answer import ground_sentences, ground_text
from docstokg.usecases.comparison import Comparison
from docstokg.usecases.intake import namespaces_of, parse_body
from docstokg.usecases.problems import json_reply, problem_reply
from docstokg.usecases.run import Begin, Call, graph_reason
from docstokg.usecases.verification import Asking, asking

SOURCES_PER_SENTENCE = 3
MOST_SENTENCES = 40
LOST: dict[Channel, DegradedReason] = {"bm25": "bm25_unavailable", "dense": "dense_unavailable"}


# Compares a draft with the subject domain, in a scope, within some seconds.
CheckConsistency = Callable[[str, Scope, Deadline], Consistency]
# The report, its source passages, and cited passages that cannot be read.
Checked = tuple[Grounding, tuple[Source, ...], tuple[str, ...]]


def check(  # noqa: PLR0913 - each dependency is given by name
    envelope: Envelope,
    *,
    begin: Begin,
    index: SearchIndex,
    embedder: Embedder | None,
    compare: Callable[[Call, Deadline], Comparison],
    verifier: Verifier | None = None,
    check_consistency: CheckConsistency | None,
) -> Reply:
    """Return the CheckResponse as a reply, or a problem: 400, 403, 413, 503, 504.

    Sentences are compared with their cited texts, else with retrieved passages. A failing graph or
    embedder is a degraded reason, a failing index 503, a timeout 504. `verifier`: decides sentences
    that rules leave unverified.
    """
    request = parse_body(envelope, CheckRequest, MAX_CHECK_BYTES)
    if isinstance(request, Reply):
        return request
    requested = request.requested_namespaces
    is_stored = request.sources is None or bool(requested)
    names: tuple[str, ...] | Reply = (DEFAULT_NAMESPACE,)  # not read
    if is_stored:
        names = namespaces_of(envelope, requested, index, begin)
    if isinstance(names, Reply):
        return names
    call = begin(envelope.request_id, envelope.caller.scope(names[0], None, *names[1:]))
    draft = _Draft(call, request, index, embedder, compare, asking(call, verifier))
    with call.timed("total"):
        try:
            grounding, sources, missing = draft.grounded()
        except DocsToKGError as error:
            call.log("check", error, level="ERROR")
            late, detail = isinstance(error, Timeout), "The sources could not be read."
            failed = (504, "deadline_exceeded") if late else (503, "nothing_to_cite")
            return problem_reply(*failed, detail, envelope.request_id)
        report = None
        if is_stored:
            with call.timed("consistency"):
                report = _consistency(call, request.text, check_consistency)
    response = CheckResponse(
        grounding=grounding,
        consistency=report,
        warnings=tuple(call.warnings),
        diagnostics=CheckDiagnostics(
            timings_ms=call.timings_ms,
            sources=sources,
            missing=missing,
            embedding=embedder.model if embedder is not None else None,
            degraded=bool(call.degraded),
            degraded_reasons=tuple(call.degraded),
        ),
    )
    call.telemetry.count("rag_citation_errors_total", len(grounding.invalid_citations))
    outcome = {"grounded": grounding.grounded, "consistent": report is None or report.ok}
    call.answered("check", **outcome, timings_ms=call.timings_ms)
    return json_reply(response)


def _consistency(call: Call, text: str, check: CheckConsistency | None) -> Consistency:
    if check is None:
        call.warnings.append("The knowledge graph is switched off: consistency was not checked.")
        return Consistency(ok=True)
    deadline = call.deadline.limit(*time_budget.CHECK_GRAPH)
    report = call.attempt("consistency", lambda: check(text, call.scope, deadline), graph_reason)
    return report if report is not None else Consistency(ok=True)


@dataclass(frozen=True, slots=True)
class _Draft:
    _call: Call
    _request: CheckRequest
    _index: SearchIndex
    _embedder: Embedder | None
    _compare: Callable[[Call, Deadline], Comparison]
    _verifier: Asking | None

    def grounded(self) -> Checked:
        call, request = self._call, self._request
        blocks, per_sentence, missing = list[Block](), list[list[Block]](), tuple[str, ...]()
        with call.timed("retrieval"):
            if request.sources is not None:
                blocks = [
                    Block(
                        rank=n,
                        uuid=source.id or f"source-{n}",
                        text=source.text,
                        sentences=tuple(sentence_spans(source.text)),
                        document_name=source.title,
                        relevance=10,
                    )
                    for n, source in enumerate(request.sources, 1)
                ]
                if not find_markers(request.text):
                    per_sentence = [blocks for _ in self._claims()]
            elif request.citations is None:
                per_sentence = self._retrieved()
            else:
                chunks = self._read(citation.uuid for citation in request.citations)
                blocks = [
                    _cited_block(c, chunks[c.uuid]) for c in request.citations if c.uuid in chunks
                ]
                uuids = dict.fromkeys(citation.uuid for citation in request.citations)
                missing = tuple(uuid for uuid in uuids if uuid not in chunks)
        with call.timed("grounding"):
            compare = self._compare(call, call.deadline.limit(*time_budget.CHECK_VECTORS))
            if per_sentence or (request.citations is None and request.sources is None):
                grounding = ground_sentences(request.text, per_sentence, compare, self._verifier)
                by_rank = {
                    block.rank: block
                    for sentence_blocks in per_sentence
                    for block in sentence_blocks
                }
                blocks = [by_rank[rank] for rank in sorted(by_rank)]
            else:
                grounding = ground_text(request.text, blocks, compare, self._verifier)
        named = tuple(Source(rank=block.rank, uuid=block.uuid) for block in blocks)
        return grounding, named, missing

    def _claims(self) -> list[str]:
        claims = [
            statement.claim for statement in statements(self._request.text) if statement.factual
        ]
        return claims[:MOST_SENTENCES]

    def _read(self, uuids: Iterable[str]) -> Mapping[str, StoredChunk]:
        wanted = list(dict.fromkeys(uuids))
        if not wanted:
            return {}
        hydrated = self._index.get(wanted, self._call.scope, self._call.deadline)
        if hydrated.failed:
            self._call.mark_degraded("hydration_incomplete")
        return hydrated.chunks

    def _retrieved(self) -> list[list[Block]]:
        query = self._request.query
        claims = self._claims()
        texts = [f"{claim} {query}" if query else claim for claim in claims]
        hit_lists = self._searched(texts, self._vectors(texts))
        uuids = dict.fromkeys(uuid for hits in hit_lists for uuid in hits)
        chunks = self._read(uuids)
        blocks = {
            uuid: _block(rank, chunks[uuid], 0, len(chunks[uuid].text))
            for rank, uuid in enumerate((cited for cited in uuids if cited in chunks), 1)
        }
        return [[blocks[uuid] for uuid in hits if uuid in blocks] for hits in hit_lists]

    def _searched(self, texts: list[str], vectors: tuple[bytes, ...] | None) -> list[list[str]]:
        hit_lists: list[list[str]] = []
        size = SOURCES_PER_SENTENCE
        for place, text in enumerate(texts):
            queries = [ChannelQuery(channel="bm25", size=size, text=text)]
            if vectors is not None:
                queries.append(ChannelQuery(channel="dense", size=size, vector=vectors[place]))
            if self._call.deadline.is_over():
                raise Timeout("no time was left to look for sources")
            hits: dict[str, None] = {}
            for result in self._index.search(queries, self._call.scope, self._call.deadline):
                if result.failure is not None:
                    self._call.mark_degraded(LOST.get(result.channel, "retrieval_unavailable"))
                hits.update(dict.fromkeys(hit.uuid for hit in result.hits))
            hit_lists.append(list(hits))
        return hit_lists

    def _vectors(self, texts: list[str]) -> tuple[bytes, ...] | None:
        call, embedder = self._call, self._embedder
        if embedder is None or not texts:
            return None
        info = self._index.info(self._call.deadline)
        call.warnings += info.warnings_of(call.scope.namespaces)
        stored = info.model_of(call.scope.namespace)
        encoder = encoder_of(embedder, stored) if stored is not None else None
        if encoder is None:
            if stored is not None:
                other = f"the index was embedded by {stored}, not by {embedder.model}"
                call.skip("embed", "embedding_unavailable", other)
            return None
        deadline = call.deadline.limit(2 * time_budget.CHECK_VECTORS.cap_s)
        return call.attempt(
            "embed", lambda: embed_questions(encoder, texts, deadline), "embedding_unavailable"
        )


def _cited_block(citation: CheckCitation, chunk: StoredChunk) -> Block:
    base = chunk.char_start or 0
    start, end = 0, len(chunk.text)
    if citation.char_start is not None and citation.char_end is not None:
        span = (citation.char_start - base, citation.char_end - base)
        if 0 <= span[0] < span[1] <= end:
            start, end = span
    return _block(citation.rank, chunk, start, end)


def _block(rank: int, chunk: StoredChunk, start: int, end: int) -> Block:
    inside = [(a - start, b - start) for a, b in chunk.sentences if start <= a < b <= end]
    return Block(
        rank=rank,
        uuid=chunk.uuid,
        text=chunk.text[start:end],
        sentences=tuple(inside),
        start=start,
        char_start=chunk.char_start or 0,
        document_name=chunk.document_name or chunk.title or chunk.doc_id,
        page=chunk.page,
        relevance=0,
    )

"""Check a draft: markers and sentences against sources, ids and relations against the graph."""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from docstokg.domain.answer.grounding import statements
from docstokg.domain.graph.ontology_facts import NO_FACTS, Facts
from docstokg.errors import DocsToKGError, Timeout
from docstokg.ports import Embedder, SearchIndex, embed_questions, encoder_of
from docstokg.usecases.check_answer import ground_sentences, ground_text
from docstokg.usecases.comparison import Comparison
from docstokg.usecases.intake import parse_body
from docstokg.usecases.problems import json_reply, problem_reply
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
    request = parse_body(envelope, CheckRequest)
    if isinstance(request, Reply):
        return request
    call = begin(envelope.request_id, envelope.caller.scope(request.namespace))
    draft = _Draft(call, request, index, embedder, compare, graph)
    with call.timed("total"):
        try:
            grounding, sources, missing = draft.grounded(draft.facts())
        except DocsToKGError as error:
            call.log("check", error, level="ERROR")
            late, detail = isinstance(error, Timeout), "The sources could not be read."
            failed = (504, "deadline_exceeded") if late else (503, "nothing_to_cite")
            return problem_reply(*failed, detail, envelope.request_id)
        with call.timed("consistency"):
            report = draft.consistency()
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
    call.telemetry.count("rag_citation_errors_total", len(grounding.invalid_citations))
    told = {"grounded": grounding.grounded, "consistent": report.ok}
    call.answered("check", **told, timings_ms=call.timings_ms)
    return json_reply(response)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A draft under check, and what it is held against."""

    _call: Call
    _request: CheckRequest
    _index: SearchIndex
    _embedder: Embedder | None
    _compare: Callable[[Call, float], Comparison]
    _graph: AgainstGraph | None

    def grounded(self, facts: Facts) -> Checked:
        """Hold each sentence against what its markers mean, or against what is found for it."""
        call, request = self._call, self._request
        cited, sources, missing = request.citations, list[list[Block]](), tuple[str, ...]()
        with call.timed("retrieval"):
            if cited is None:
                sources = self._sources()
                blocks = [block for found in sources for block in found]
            else:
                chunks = self._read(citation.uuid for citation in cited)
                blocks = [_cited_block(c, chunks[c.uuid]) for c in cited if c.uuid in chunks]
                uuids = dict.fromkeys(citation.uuid for citation in cited)
                missing = tuple(uuid for uuid in uuids if uuid not in chunks)
        with call.timed("grounding"):
            compare = self._compare(call, call.left_s(*time_budget.CHECK_VECTORS))
            if cited is None:
                grounding = ground_sentences(request.text, sources, compare, facts)
                blocks = sorted({one.rank: one for one in blocks}.values(), key=lambda b: b.rank)
            else:
                grounding = ground_text(request.text, blocks, compare, facts)
        named = tuple(Source(rank=block.rank, uuid=block.uuid) for block in blocks)
        return grounding, named, missing

    def _claims(self) -> list[str]:
        return [one.claim for one in statements(self._request.text) if one.factual]

    def _left_s(self) -> float:
        return self._call.left_s(time_budget.CHECK_S)

    def _read(self, uuids: Iterable[str]) -> Mapping[str, StoredChunk]:
        """Read chunks, each once; those that failed are a reason."""
        wanted = list(dict.fromkeys(uuids))
        if not wanted:
            return {}
        hydrated = self._index.get(wanted, self._call.scope, self._left_s())
        if hydrated.failed:
            self._call.mark_degraded("hydration_incomplete")
        return hydrated.chunks

    def _sources(self) -> list[list[Block]]:
        """Find the passages of each sentence: the first three of every channel, read in one go."""
        query = self._request.query
        claims = self._claims()[:MOST_SENTENCES]
        texts = [f"{claim} {query}" if query else claim for claim in claims]
        hit_lists = self._searched(texts, self._vectors(texts))
        uuids = dict.fromkeys(uuid for hits in hit_lists for uuid in hits)
        chunks = self._read(uuids)
        blocks = {
            uuid: _block(rank, chunks[uuid], 0, len(chunks[uuid].text))
            for rank, uuid in enumerate((one for one in uuids if one in chunks), 1)
        }
        return [[blocks[uuid] for uuid in hits if uuid in blocks] for hits in hit_lists]

    def _searched(self, texts: list[str], vectors: tuple[bytes, ...] | None) -> list[list[str]]:
        """Give for each text the uuids its channels found; `Timeout` when time runs out."""
        hit_lists: list[list[str]] = []
        size = SOURCES_PER_SENTENCE
        for place, text in enumerate(texts):
            queries = [ChannelQuery(channel="bm25", size=size, text=text)]
            if vectors is not None:
                queries.append(ChannelQuery(channel="dense", size=size, vector=vectors[place]))
            if (left_s := self._left_s()) <= 0:
                raise Timeout("no time was left to look for sources")
            hits: dict[str, None] = {}
            for result in self._index.search(queries, self._call.scope, left_s):
                if result.failure is not None:
                    self._call.mark_degraded(LOST.get(result.channel, "retrieval_unavailable"))
                hits.update(dict.fromkeys(hit.uuid for hit in result.hits))
            hit_lists.append(list(hits))
        return hit_lists

    def _vectors(self, texts: list[str]) -> tuple[bytes, ...] | None:
        """Embed the sentences when the index holds the embedder's own vector space."""
        call, embedder = self._call, self._embedder
        if embedder is None or not texts:
            return None
        stored = self._index.info(self._left_s()).model_of(call.scope.namespace)
        encoder = encoder_of(embedder, stored) if stored is not None else None
        if encoder is None:
            if stored is not None:
                other = f"the index was embedded by {stored}, not by {embedder.model}"
                call.skip("embed", "embedding_unavailable", other)
            return None
        time_s = call.left_s(2 * time_budget.CHECK_VECTORS.cap_s)
        return call.attempt(
            "embed", lambda: embed_questions(encoder, texts, time_s), "embedding_unavailable"
        )

    def facts(self) -> Facts:
        """Read what the graph says of the relations a draft states; a lost one says nothing."""
        call, graph = self._call, self._graph
        if graph is None:
            return NO_FACTS
        claims, time_s = self._claims(), call.left_s(*time_budget.CHECK_GRAPH)
        found = call.attempt("facts", lambda: graph.facts(claims, call.scope, time_s), graph_reason)
        return NO_FACTS if found is None else found

    def consistency(self) -> Consistency:
        """Hold ids, labels and relations against the graph; a lost one finds nothing."""
        call, graph, text = self._call, self._graph, self._request.text
        if graph is None:
            call.mark_degraded("kg_unavailable")
            return Consistency(ok=True)
        time_s = call.left_s(*time_budget.CHECK_GRAPH)
        report = call.attempt(
            "consistency", lambda: graph.consistency(text, call.scope, time_s), graph_reason
        )
        return report if report is not None else Consistency(ok=True)


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

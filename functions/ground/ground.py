"""Grounding: hydrate, deduplicate, trim, cite."""

import base64
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePath

import numpy as np

from docstokg.contracts.records import StoredChunk
from docstokg.contracts.response import (
    Channel,
    ChannelRank,
    ChannelUse,
    Citation,
    Fusion,
    GraphUse,
    Provenance,
)
from docstokg.contracts.retrieval import Hydrated
from docstokg.contracts.state import (
    Block,
    Expansion,
    Grounded,
    Plan,
    Ranked,
    Retrieval,
    StepReport,
)
from docstokg.domain import budget, mmr, near_duplicates, supersedes, time_budget
from docstokg.domain.answer import extractive, prompt, relevance
from docstokg.domain.fusion import RRF_K
from docstokg.domain.identity import chunk_uuid
from docstokg.domain.text import snippets
from docstokg.domain.vectors import matrix, unpack
from docstokg.errors import DocsToKGError, NothingToCite, Timeout, WrongAnswer
from docstokg.ports import Reranker, SearchIndex
from docstokg.usecases.run import Run
from docstokg_functions.ground import knowledge
from docstokg_functions.ground.explained import explain
from docstokg_functions.ground.fit import fitted, located, room
from docstokg_functions.ground.sentences import compared, is_quoted
from docstokg_functions.ground.superseded import (
    amendments,
    conflicts,
    editions,
    marked,
    replacements,
)

# Maximum passages given to a remote model.
MOST_BLOCKS = 5

# Minimum OCR confidence of a line: the highest hundredth that flags only 1 % of a usual scan's
# lines. `python -m benchmarks.scanned sure SEED`: .86 and .85 (two seeds) of the flagged lines of
# noisy pages are misread; at .98, 3 % of a usual scan's lines would be flagged, nearly all of them
# correct.
SURE_READING = 0.97

MAX_CONCEPTS = 20
MOST_NOTES = 10
# A reranker receives this many times `top_k` passages.
RERANKED = 3


def ground(
    run: Run,
    retrieval: Retrieval,
    expansion: Expansion | None,
    *,
    index: SearchIndex,
    reranker: Reranker | None,
    fallback: Reranker | None = None,
) -> Grounded:
    """Return citations by rank and the blocks for the model.

    An empty result is a warning. Raise `NothingToCite` if all passages are lost, `Timeout` if the
    deadline is over. `fallback`: used if the first reranker fails.
    """
    plan = run.plan
    ranking = expansion.ranking if expansion else _unexpanded(retrieval)
    if not ranking:
        if retrieval.failed:
            raise _lost(run, "No channel answered and the graph brought nothing.")
        names = ", ".join(run.scope.namespaces)
        run.warnings.append(f"Nothing was found in namespace {names!r} for this question.")
    rerankers = _rerankers(run, reranker, fallback)
    candidates = _to_rerank(plan, retrieval, ranking) if rerankers else ranking
    with run.timed("hydration"):
        hydrated = _hydrate(run, candidates, index)
    if hydrated.failed:
        run.skip("hydrate", "hydration_incomplete", hydrated.cause or "no answer for some")
    started = time.perf_counter()
    order, chunks, replaced_by = _unique(plan, candidates, hydrated)
    dedup_ms = (time.perf_counter() - started) * 1000
    ranked_count = len({ranked.uuid for ranked in order} & {ranked.uuid for ranked in ranking})
    reranker_name, places = _reranked(run, chunks, rerankers)
    amended_by = replacements(chunks, partial(_home, plan), "amends")
    places = _placed(places, chunks, amended_by | replaced_by)
    ordered = [chunks[i] for i in places]
    explained, expect = None, plan.expect
    if expect:
        steps = retrieval, expansion, hydrated, ordered, ranked_count
        explained = run.attempt(
            "explain", lambda: explain(run, *steps, expect=expect, index=index), lost=None
        )
    places = places[:ranked_count][: plan.budget_limits.max_chunks]
    order, chunks = [order[i] for i in places], [chunks[i] for i in places]
    citations = _citations(plan, retrieval, expansion, order, chunks)
    synthesis, limit = plan.synthesis, MOST_BLOCKS
    if synthesis and synthesis.model == extractive.MODEL:
        limit = max(limit, extractive.READ)
    stating = knowledge.stating(expansion)
    block_indices = [
        i for i, citation in enumerate(citations) if i < limit or citation.uuid in stating
    ]
    blocks = _blocks(
        plan, expansion, [citations[i] for i in block_indices], [chunks[i] for i in block_indices]
    )
    if is_quoted(plan):
        blocks = editions(plan.query, blocks, chunks)
        blocks = compared(run, blocks, chunks, retrieval.query_vector, index)
    if replaced_by:
        blocks = marked(blocks, replaced_by)
    blocks, path_notes = knowledge.with_path(plan.query, blocks, expansion)
    limit = room(run)
    citations, blocks, trimmed = fitted(citations, blocks, chunks, limit)
    citations = located(citations, blocks, chunks, limit)
    if trimmed:
        run.mark_degraded("payload_trimmed")
    if unsure := [
        citation.rank for citation in citations if (citation.ocr_confidence or 1) < SURE_READING
    ]:
        run.warnings.append(
            f"Citations {', '.join(map(str, unsure))} were read from scanned pages, not surely:"
            " compare them with the page."
        )
    ranks = {block.rank for block in blocks}
    run.warnings += amendments(citations, ranks, amended_by)
    report = _report(plan, retrieval, expansion, citations, blocks, reranker_name)
    grounding_ms = round((time.perf_counter() - started) * 1000, 2)
    spent = {
        "grounding_ms": grounding_ms,
        "hydration_ms": run.timings_ms["hydration"],
        "mmr_ms": round(report.mmr_ms + dedup_ms, 2),
    }
    return Grounded(
        citations=tuple(citations),
        blocks=tuple(blocks),
        relevant=any(
            citation.score >= plan.min_score for citation in citations if citation.rank in ranks
        ),
        conflicts=conflicts(citations, chunks, replaced_by),
        query_vector=retrieval.query_vector,
        seeds=expansion.seeds if expansion else (),
        notes=(*(expansion.notes if expansion else ()), *path_notes)[:MOST_NOTES],
        report=report.model_copy(update=spent),
        explained=explained,
        degraded=tuple(run.degraded),
        warnings=(
            *retrieval.warnings,
            *(expansion.warnings if expansion else ()),
            *run.warnings,
        ),
    )


def _unexpanded(retrieval: Retrieval) -> tuple[Ranked, ...]:
    return tuple(Ranked(uuid=uuid, source="hybrid") for uuid in retrieval.selected)


def _unique(
    plan: Plan, ranking: Sequence[Ranked], hydrated: Hydrated
) -> tuple[list[Ranked], list[StoredChunk], dict[str, str]]:
    order = [ranked for ranked in ranking if ranked.uuid in hydrated.chunks]
    chunks = [hydrated.chunks[ranked.uuid] for ranked in order]
    replaced_by = replacements(chunks, partial(_home, plan))
    last = sorted(range(len(chunks)), key=lambda i: chunks[i].uuid in replaced_by)
    # The order of an edition keeps members of a series that differ in a word apart.
    candidates = [
        (
            chunk.uuid,
            chunk.text_sha256,
            chunk.vector,
            f"{chunk.text}\n{supersedes.edition_order(chunk.title)}",
        )
        for chunk in map(chunks.__getitem__, last)
    ]
    places = sorted(last[i] for i in near_duplicates.without_repeats(candidates))
    return [order[i] for i in places], [chunks[i] for i in places], replaced_by


def _placed(
    places: list[int], chunks: Sequence[StoredChunk], replaced_by: Mapping[str, str]
) -> list[int]:
    place = {chunks[i].uuid: i for i in places}
    pairs = {
        place[older]: place[newer]
        for older, newer in replaced_by.items()
        if older in place and newer in place
    }
    return supersedes.placed(places, pairs) if pairs else places


def _hydrate(run: Run, ranking: Sequence[Ranked], index: SearchIndex) -> Hydrated:
    if not ranking:
        return Hydrated()
    deadline = run.deadline.limit(*time_budget.HYDRATE)
    if deadline.is_over():
        raise _lost(run, "No time was left to read the passages.")
    try:
        with run.telemetry.span("hydrate", request_id=run.request_id):
            hydrated = index.get([ranked.uuid for ranked in ranking], run.scope, deadline)
    except DocsToKGError as error:
        run.log("hydrate", error)
        raise _lost(run, f"The passages could not be read: {error}") from error
    if hydrated.failed:
        failure = WrongAnswer(
            hydrated.cause or f"{len(hydrated.failed)} passages could not be read"
        )
        run.log("hydrate", failure)
    if not hydrated.chunks and hydrated.failed:
        raise NothingToCite(f"None of the passages could be read: {hydrated.cause}")
    return hydrated


def _lost(run: Run, why: str) -> DocsToKGError:
    cap_s, reserve_s = time_budget.HYDRATE
    if run.deadline.limit(cap_s, reserve_s + time_budget.LEAST_HYDRATE_S).is_over():
        return Timeout(f"{why} The deadline is over.")
    return NothingToCite(why)


def _rerankers(run: Run, reranker: Reranker | None, fallback: Reranker | None) -> list[Reranker]:
    if run.plan.rerank == "no":
        return []
    if reranker is None or run.plan.rerank == "lost":
        run.skip("rerank", "reranker_unavailable", "there is no such reranker here")
        reranker = None
    return [model for model in (reranker, fallback) if model]


def _to_rerank(plan: Plan, retrieval: Retrieval, ranking: Sequence[Ranked]) -> list[Ranked]:
    ranked_uuids = {ranked.uuid for ranked in ranking}
    extra = [
        Ranked(uuid=c.uuid, source="hybrid") for c in retrieval.pool if c.uuid not in ranked_uuids
    ]
    return [*ranking, *extra[: max(0, RERANKED * plan.top_k - len(ranked_uuids))]]


def _reranked(
    run: Run, chunks: Sequence[StoredChunk], rerankers: Sequence[Reranker]
) -> tuple[str | None, list[int]]:
    same, texts = list(range(len(chunks))), [chunk.text for chunk in chunks]
    scores, name = None, None
    for reranker in rerankers if chunks else ():
        rank = partial(
            reranker.rank, run.plan.query, texts, run.deadline.limit(*time_budget.RERANK)
        )
        scores, name = run.attempt("rerank", rank, "reranker_unavailable"), reranker.model
        if scores is not None:
            break
    if scores is None:
        return None, same
    low, high = min(scores), max(scores)
    scaled = [(score - low) / (high - low) if high > low else 1.0 for score in scores]
    ordered = sorted(same, key=lambda i: (-scaled[i], chunks[i].uuid))
    picked = mmr.select(
        [scaled[i] for i in ordered], [chunks[i].vector for i in ordered], len(ordered)
    )
    return name, [ordered[i] for i in picked]


def _citations(
    plan: Plan,
    retrieval: Retrieval,
    expansion: Expansion | None,
    order: Sequence[Ranked],
    chunks: Sequence[StoredChunk],
) -> list[Citation]:
    pool = {candidate.uuid for candidate in retrieval.pool}
    channels = _channels(retrieval, {chunk.uuid for chunk in chunks})
    stems = snippets.question_stems(plan.query)
    scores = _scores(retrieval, chunks, stems)
    retrieved_at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    citations = []
    for rank, (ranked, chunk) in enumerate(zip(order, chunks, strict=True), 1):
        start, end = snippets.best_window(chunk.text, chunk.sentences, stems, plan.snippet_chars)
        base = chunk.char_start or 0
        score = knowledge.credited(scores[rank - 1], plan.query, ranked, chunk, expansion)
        score *= knowledge.discount(ranked, ranked.uuid in pool)
        evidence, path = knowledge.evidence_of(ranked, expansion)
        citations.append(
            Citation(
                rank=rank,
                doc_id=chunk.doc_id,
                document_name=chunk.document_name or chunk.title or None,
                uuid=chunk.uuid,
                chunk_id=chunk.chunk_id,
                page=chunk.page,
                section=chunk.section,
                uri=chunk.uri,
                anchor=chunk.anchor,
                snippet=chunk.text[start:end],
                char_start=base + start,
                char_end=base + end,
                offset_base="chunk" if chunk.char_start is None else "document",
                text_sha256=chunk.text_sha256,
                score=round(score, 4),
                source=ranked.source,
                concepts_mentioned=ranked.concepts[:MAX_CONCEPTS],
                kg_path=path,
                kg_evidence=evidence,
                channels=channels.get(ranked.uuid, {}),
                provenance=Provenance(run_id=chunk.run_id, retrieved_at=retrieved_at),
                namespace=_home(plan, chunk) if plan.others else None,
            )
        )
    return citations


def _home(plan: Plan, chunk: StoredChunk) -> str:
    names = (plan.namespace, *plan.others)
    if not plan.others:
        return plan.namespace
    return next(name for name in names if chunk_uuid(name, chunk.chunk_id) == chunk.uuid)


def _channels(
    retrieval: Retrieval, uuids: Collection[str]
) -> dict[str, dict[Channel, ChannelRank]]:
    ranks: dict[str, dict[Channel, ChannelRank]] = {}
    for channel, places in retrieval.ranks.items():
        for place, rank, score in places:
            uuid = retrieval.pool[place].uuid
            if uuid in uuids:
                ranks.setdefault(uuid, {})[channel] = ChannelRank(rank=rank, score=score)
    return ranks


def _scores(
    retrieval: Retrieval, chunks: Sequence[StoredChunk], stems: frozenset[str]
) -> list[float]:
    cosines: dict[int, float] = {}
    if retrieval.query_vector is not None:
        query = unpack(base64.b64decode(retrieval.query_vector))
        having = [
            i
            for i, chunk in enumerate(chunks)
            if chunk.vector is not None and len(chunk.vector) == query.size
        ]
        if having:
            rows = matrix([chunks[i].vector or b"" for i in having])
            cosines = dict(zip(having, (rows @ np.asarray(query)).tolist(), strict=True))
    return [
        relevance.from_cosine(cosines[i])
        if i in cosines
        else relevance.from_coverage(snippets.coverage(stems, f"{chunk.title} {chunk.text}"))
        for i, chunk in enumerate(chunks)
    ]


def _blocks(
    plan: Plan,
    expansion: Expansion | None,
    citations: Sequence[Citation],
    chunks: Sequence[StoredChunk],
) -> list[Block]:
    stems = snippets.question_stems(plan.query)
    knows = {} if expansion is None else {ranked.uuid: ranked for ranked in expansion.ranking}
    turns = budget.tokens(prompt.conversation(plan.turns))
    remaining = plan.budget_limits.max_tokens_context - turns
    ranks = {citation.uuid: citation.rank for citation in citations}
    blocks: list[Block] = []
    for citation, chunk in zip(citations, chunks, strict=True):
        names = knowledge.other_names(plan.query, knows.get(chunk.uuid), expansion)
        block = Block(
            rank=citation.rank,
            uuid=chunk.uuid,
            text="",
            char_start=chunk.char_start or 0,
            document_name=chunk.document_name or chunk.title or chunk.doc_id,
            subject=chunk.title or PurePath(chunk.document_name or "").stem,
            section=chunk.section or "",
            page=chunk.page,
            relevance=round(citation.score * 10),
            kg_match=knowledge.match_line(citation.kg_evidence, names),
            related=knowledge.related_facts(knows.get(chunk.uuid), expansion, ranks),
            other_names=names,
            quoted=chunk.metadata.get("quoted") is True,
        )
        room = remaining - budget.tokens(prompt.block_text(block))
        limit = min(knowledge.BLOCK_CHARACTERS, room * 4)
        start, end = 0, len(chunk.text)
        if end > limit or budget.tokens(chunk.text) > room:
            start, end = snippets.best_window(chunk.text, chunk.sentences, stems, max(0, limit))
        while end > start and budget.tokens(chunk.text[start:end]) > room:
            end = snippets.shortened(
                chunk.text, chunk.sentences, start, end, (end - start) * 3 // 4
            )
        if end <= start:
            break
        whole = tuple((a - start, b - start) for a, b in chunk.sentences if start <= a and b <= end)
        text = {"text": chunk.text[start:end], "start": start, "sentences": whole}
        blocks.append(block.model_copy(update=text))
        remaining -= budget.tokens(prompt.block_text(blocks[-1]))
    return blocks


def _fusion(plan: Plan) -> Fusion:
    by_rank = plan.retrieval.fusion == "rrf"
    k = RRF_K if by_rank else None
    if not plan.retrieval.mmr:
        return Fusion(method="RRF" if by_rank else "minmax", k=k, lambda_=None)
    return Fusion(method="RRF+MMR" if by_rank else "minmax+MMR", k=k, lambda_=mmr.LAMBDA)


def _report(
    plan: Plan,
    retrieval: Retrieval,
    expansion: Expansion | None,
    citations: Sequence[Citation],
    blocks: Sequence[Block],
    reranker_name: str | None,
) -> StepReport:
    cited = Counter(channel for citation in citations for channel in citation.channels)
    fact_chunks = {fact.evidence_uuid for fact in retrieval.facts}
    cited["facts"] = sum(citation.uuid in fact_chunks for citation in citations)
    used: dict[Channel, ChannelUse] = {
        channel: use.model_copy(update={"selected": cited[channel]})
        for channel, use in retrieval.channels.items()
    }
    stats, gain = knowledge.gained(plan, retrieval, expansion, citations)
    return StepReport(
        channels=used,
        fusion=_fusion(plan),
        kg_stats=stats,
        graph_gain=gain,
        graph=expansion.graph if expansion else GraphUse(reason=gain.skipped),
        providers=retrieval.providers.model_copy(update={"reranker": reranker_name}),
        index_model=retrieval.index_model,
        route_ms=retrieval.route_ms,
        retrieval_ms=retrieval.took_ms,
        expansion_ms=expansion.took_ms if expansion else 0.0,
        mmr_ms=retrieval.mmr_ms,
        tokens_context=sum(budget.tokens(block.text) for block in blocks),
    )

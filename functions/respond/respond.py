"""Response: checks, diagnostics, limits, records."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence

from docstokg import __version__
from docstokg.contracts.envelope import Reply
from docstokg.contracts.language_models import EXTRACTIVE
from docstokg.contracts.records import ReceiptText, StoredChunk
from docstokg.contracts.response import (
    REASONS,
    BudgetUsed,
    Citation,
    Diagnostics,
    Grounding,
    Metadata,
    PlanUse,
    RAGResponse,
    Receipt,
    TextSpan,
    Timings,
)
from docstokg.contracts.state import Grounded, RespondInput, Synthesis, TraceMessage
from docstokg.domain import time_budget
from docstokg.domain.answer.grounding import MIN_COVERAGE
from docstokg.domain.answer.notices import SYNTHESIS_UNAVAILABLE, is_abstention
from docstokg.domain.budget import STATE_LIMIT_BYTES
from docstokg.domain.deadline import Deadline
from docstokg.ports import ReceiptKeys, ResponseCache, SearchIndex, TraceSink
from docstokg.usecases.answer_checks import Checks, check_generated
from docstokg.usecases.chat_reply import COPIES, FAILED
from docstokg.usecases.check_answer import CheckedAnswer
from docstokg.usecases.problems import json_reply, problem_reply
from docstokg.usecases.run import Run
from docstokg_functions.respond.trim import reply_within

REPLY_LIMIT_BYTES = STATE_LIMIT_BYTES - 2048
CACHE_TTL_S = 3600
# Maximum bytes per chunk for verbosity full.
FULL_TEXT_BYTES = 16_384

DAY_MS = 86_400_000
# Base64 characters of an Ed25519 signature, counted before it is made.
SIGNATURE_CHARS = 88

NO_RECEIPT_KEY = "There is no receipt: its key cannot be read; the log says why."


def respond(  # noqa: PLR0913 - one parameter a port
    run: Run,
    step_input: RespondInput,
    *,
    index: SearchIndex,
    checks: Checks,
    response_cache: Callable[[], ResponseCache],
    trace_sink: TraceSink | None,
    receipt_keys: Callable[[], ReceiptKeys | None],
    digest: str,
) -> Reply:
    """Return the reply, or the problem of a failed step.

    Failures of the cache, log or trace store do not affect it. `digest`: of the settings, for a
    receipt.
    """
    for reason in step_input.degraded:
        run.mark_degraded(reason)
    grounded = step_input.grounded
    if grounded is None:
        return _failed(run, step_input)
    started = time.perf_counter()
    plan = run.plan
    if plan.expect is not None:
        if run.clock() * 1000 > plan.deadline_ms:
            run.mark_degraded("deadline_exceeded")
        return _explained(run, grounded)
    run.warnings += [*plan.warnings, *grounded.warnings]
    checked = _checked(run, grounded, step_input.synthesis, checks)
    run.warnings += _older_documents(grounded, step_input.synthesis, checked)
    citations = _marked(grounded.citations, checked.cited if checked else ())
    wanted = plan.verbosity == "full" or plan.receipt
    chunks = _chunks(run, citations, index) if citations and wanted else {}
    if plan.verbosity == "full":
        citations = _with_full_text(citations, chunks)
    keys = run.attempt("receipt_key", receipt_keys, None) if plan.receipt else None
    receipt = _receipt(citations, chunks, keys.key_id, digest) if keys is not None else None
    if plan.receipt and keys is None:
        run.warnings.append(NO_RECEIPT_KEY)
    now_ms = run.clock() * 1000
    if run.deadline.is_over():
        run.mark_degraded("deadline_exceeded")
    check_ms = (time.perf_counter() - started) * 1000
    response = RAGResponse(
        query=plan.query if plan.sent is None else plan.sent,
        query_used=plan.query,
        query_used_by=plan.query_used_by,
        answer=checked.answer if checked else "",
        best_span=_best_span(checked, step_input.synthesis),
        citations=tuple(citations),
        results_count=len(citations),
        confidence=checked.confidence if checked else 0.0,
        confidence_level=checked.confidence_level if checked else "low",
        confidence_parts=checked.confidence_parts if checked else None,
        grounding=checked.grounding if checked else None,
        conflicts=grounded.conflicts,
        graph=step_input.graph,
        receipt=receipt,
        notes=grounded.notes,
        warnings=tuple(dict.fromkeys(run.warnings)),
        diagnostics=_diagnostics(run, step_input, grounded, check_ms, now_ms),
        metadata=Metadata(
            namespace=plan.namespace,
            namespaces=(plan.namespace, *plan.others) if plan.others else (),
            top_k=plan.top_k,
            kg_expansion_enabled=plan.expansion.enabled,
            synthesis_enabled=plan.synthesis is not None,
            request_id=plan.request_id,
            service_version=__version__,
            index_model=grounded.report.index_model,
        ),
    )
    reply, response = reply_within(
        response,
        REPLY_LIMIT_BYTES // (COPIES[plan.chat.route] if plan.chat is not None else 1),
        with_diagnostics=plan.diagnostics,
        sign=None if keys is None else keys.sign,
    )
    _cache(run, reply, response, response_cache)
    _trace(run, grounded, response, trace_sink)
    _record(run, response, step_input.synthesis)
    return reply


def _explained(run: Run, grounded: Grounded) -> Reply:
    if grounded.explained is None:
        detail = "No such document or passage in this namespace, or it may not be seen."
        run.finish(404, code="not_found")
        return problem_reply(404, "not_found", detail, run.request_id)
    degraded = [f"Incomplete: {REASONS[reason]}." for reason in run.degraded]
    warnings = tuple(
        dict.fromkeys([*run.plan.warnings, *grounded.warnings, *run.warnings, *degraded])
    )
    reply = grounded.explained.model_copy(update={"warnings": warnings})
    run.finish(200, degraded_reasons=list(run.degraded), lost_at=reply.lost_at)
    return json_reply(reply)


def _failed(run: Run, step_input: RespondInput) -> Reply:
    plan, telemetry, failure = run.plan, run.telemetry, step_input.failure
    if failure is not None:
        status, code, detail = failure.status, failure.code, failure.detail
    elif run.deadline.is_over():
        status, code, detail = 504, "deadline_exceeded", "The deadline passed."
    else:
        status, code, detail = 500, "internal_error", "The request could not be completed."
    for reason in run.degraded:
        telemetry.count("rag_degraded_requests_total", reason=reason)
    if status < 500:
        telemetry.count("rag_refused_requests_total", code=code)
    run.finish(
        status,
        "ERROR" if status >= 500 else "INFO",
        code=code,
        query=plan.query,
        degraded_reasons=list(run.degraded),
        total_ms=run.total_ms(),
    )
    reasons = ", ".join(run.degraded)
    return problem_reply(
        status, code, f"{detail} Reasons: {reasons}." if reasons else detail, plan.request_id
    )


def _checked(
    run: Run, grounded: Grounded, synthesis: Synthesis | None, checks: Checks
) -> CheckedAnswer | None:
    if run.plan.synthesis is None:
        return None
    if synthesis is None or synthesis.outcome in FAILED:
        run.warnings.append(SYNTHESIS_UNAVAILABLE)
    run.warnings.extend(synthesis.warnings if synthesis is not None else ())
    if synthesis is None or synthesis.outcome in (*FAILED, "no_room"):
        return None
    with run.telemetry.span("check_answer", request_id=run.request_id):
        comparison = checks.compare(run, run.deadline.limit(*time_budget.CHECK_ANSWER))
        return check_generated(run, grounded, synthesis, checks, comparison)


def _older_documents(
    grounded: Grounded, synthesis: Synthesis | None, checked: CheckedAnswer | None
) -> list[str]:
    cited = frozenset(checked.cited if checked is not None else ())
    warnings = [
        f"[{newer}] supersedes [{older}]."
        for newer, older in (conflict.ranks for conflict in grounded.conflicts)
        if cited & {newer, older}
    ]
    if synthesis is not None and synthesis.model == EXTRACTIVE:
        warnings += [
            f"[{block.rank}] is the {block.edition}."
            for block in grounded.blocks
            if block.edition and block.rank in cited
        ]
    return warnings


def _best_span(checked: CheckedAnswer | None, synthesis: Synthesis | None) -> TextSpan | None:
    """Return the chosen part of an answer whose text the checks did not change."""
    if checked is None or synthesis is None or synthesis.best_span is None:
        return None
    start, end = synthesis.best_span
    at = checked.answer.find(synthesis.answer[start:end])
    return TextSpan(start=at, end=at + end - start) if at >= 0 and end > start else None


def _marked(citations: Sequence[Citation], cited: Sequence[int]) -> list[Citation]:
    ranks = frozenset(cited)
    return [
        citation.model_copy(update={"cited": True}) if citation.rank in ranks else citation
        for citation in citations
    ]


def _chunks(run: Run, citations: Sequence[Citation], index: SearchIndex) -> dict[str, StoredChunk]:
    uuids = [citation.uuid for citation in citations]
    deadline = run.deadline.limit(*time_budget.FULL_TEXT)
    hydrated = run.attempt(
        "full_text", lambda: index.get(uuids, run.scope, deadline), "hydration_incomplete"
    )
    chunks = hydrated.chunks if hydrated is not None else {}
    same = {
        citation.uuid: chunk
        for citation in citations
        if (chunk := chunks.get(citation.uuid)) and chunk.text_sha256 == citation.text_sha256
    }
    if len(same) < len(citations):
        run.mark_degraded("hydration_incomplete")
    return same


def _with_full_text(
    citations: Sequence[Citation], chunks: Mapping[str, StoredChunk]
) -> list[Citation]:
    filled = []
    for citation in citations:
        if chunk := chunks.get(citation.uuid):
            text = chunk.text.encode("utf-8")[:FULL_TEXT_BYTES].decode("utf-8", "ignore")
            whole = {"full_text": text, "title": chunk.title or None, "metadata": chunk.metadata}
            citation = citation.model_copy(update=whole)  # noqa: PLW2901
        filled.append(citation)
    return filled


def _receipt(
    citations: Sequence[Citation], chunks: Mapping[str, StoredChunk], key_id: str, digest: str
) -> Receipt:
    texts = [
        ReceiptText(uuid=chunk.uuid, char_start=chunk.char_start, text=chunk.text)
        for chunk in (chunks[c.uuid] for c in citations if c.uuid in chunks)
    ]
    blank = "A" * SIGNATURE_CHARS
    return Receipt(texts=tuple(texts), settings_digest=digest, key_id=key_id, signature=blank)


def _diagnostics(
    run: Run, step_input: RespondInput, grounded: Grounded, check_ms: float, now_ms: float
) -> Diagnostics:
    plan, report = run.plan, grounded.report
    synthesis = step_input.synthesis or Synthesis(outcome="abstained")
    total_ms = max(0.0, now_ms - plan.started_ms)
    timings = {
        "validation": plan.validation_ms,
        "condensing": plan.condensing_ms,
        "routing": report.route_ms,
        "hybrid_retrieval": report.retrieval_ms,
        "kg_expansion": report.expansion_ms,
        "dedup_mmr": report.mmr_ms,
        "hydration": report.hydration_ms,
        "citation_extraction": report.grounding_ms,
        "graph_view": step_input.graph_ms,
        "llm_synthesis": synthesis.took_ms,
        "answer_check": round(check_ms, 2),
    }
    between_ms = round(max(0.0, total_ms - sum(timings.values())), 2)
    return Diagnostics(
        timings_ms=Timings(**timings, between_steps=between_ms, total=round(total_ms, 2)),
        channels=report.channels,
        kg_stats=report.kg_stats,
        graph_gain=report.graph_gain,
        plan=PlanUse(
            explain_ok="kg_plan_rejected" not in run.degraded,
            timeout_ms=round(plan.expansion.time_s * 1000),
        ),
        graph=report.graph,
        fusion=report.fusion,
        budget_used=BudgetUsed(
            chunks=len(grounded.citations),
            tokens_context=report.tokens_context if plan.synthesis is not None else 0,
            tokens_gen=synthesis.tokens_out,
            elapsed_s=round(total_ms / 1000, 4),
        ),
        budget_limits=plan.budget_limits,
        providers=report.providers.model_copy(update={"llm": synthesis.model}),
        estimated_cost_usd=_sum(synthesis.cost_usd, plan.condensing_usd),
        degraded=bool(run.degraded),
        degraded_reasons=tuple(run.degraded),
    )


def _sum(*dollars: float | None) -> float | None:
    amounts = [amount for amount in dollars if amount is not None]
    return sum(amounts) if len(amounts) == len(dollars) else None


def _cache(
    run: Run, reply: Reply, response: RAGResponse, response_cache: Callable[[], ResponseCache]
) -> None:
    place = run.plan.cache
    if place is None or (response.diagnostics is not None and response.diagnostics.degraded):
        return
    run.attempt(
        "cache_write",
        lambda: response_cache().put(
            place.key,
            place.request_hash,
            reply.body,
            CACHE_TTL_S,
            Deadline.after(time_budget.CACHE_S),
        ),
        lost=None,
    )


def _trace(
    run: Run, grounded: Grounded, response: RAGResponse, trace_sink: TraceSink | None
) -> None:
    if trace_sink is None:
        return
    plan = run.plan
    day = plan.started_ms // DAY_MS
    message = TraceMessage(
        request_id=plan.request_id,
        session=hashlib.sha256(f"{plan.caller_sub}\x00{day}".encode()).hexdigest(),
        namespace=plan.namespace,
        query_hash=hashlib.sha256(plan.query.encode()).hexdigest(),
        created_ms=plan.started_ms,
        retrieved=tuple(
            {"uuid": citation.uuid, "rank": citation.rank, "score": citation.score}
            for citation in response.citations
        ),
        focused_on=tuple({"entity": seed.id, "score": seed.share} for seed in grounded.seeds),
        supported_by=tuple(c.rank for c in response.citations if c.cited),
    )
    run.attempt(
        "trace", lambda: trace_sink.send(message, Deadline.after(time_budget.TRACE_S)), lost=None
    )


def _record(run: Run, response: RAGResponse, synthesis: Synthesis | None) -> None:
    plan, telemetry, diagnostics = run.plan, run.telemetry, response.diagnostics
    if diagnostics is None:
        return
    stats, causes = diagnostics.kg_stats, doubts(response.grounding, synthesis)
    provider = (synthesis.provider if synthesis else "") or "none"
    seconds = diagnostics.timings_ms.total / 1000
    if response.results_count:
        telemetry.count("rag_found_requests_total", namespace=plan.namespace)
    telemetry.count("rag_request_latency_seconds", seconds, **run.labels(provider))
    telemetry.count("rag_budget_chunks_used", response.results_count)
    telemetry.count("rag_budget_tokens_gen_used", diagnostics.budget_used.tokens_gen)
    telemetry.count("rag_kg_concepts_expanded", stats.concepts_expanded)
    telemetry.count("rag_kg_chunks_added", stats.chunks_added)
    telemetry.count("query_verbosity_total", mode=plan.verbosity)
    hit = any(citation.kg_evidence is not None for citation in response.citations)
    telemetry.count("rag_kg_hits_total", hit=str(hit).lower())
    if stats.hops_executed > 1:
        telemetry.count("rag_kg_2hop_total")
    for reason in diagnostics.degraded_reasons:
        telemetry.count("rag_degraded_requests_total", reason=reason)
    if response.grounding is not None:
        telemetry.count("rag_confidence", response.confidence)
        telemetry.count("rag_citation_errors_total", len(response.grounding.invalid_citations))
        telemetry.count("rag_estimated_cost_usd", diagnostics.estimated_cost_usd or 0.0)
    for cause in causes:
        telemetry.count("rag_doubted_answers_total", cause=cause)
    run.finish(
        200,
        provider=provider,
        model=diagnostics.providers.llm,
        query=plan.query,
        snippets=[citation.snippet for citation in response.citations],
        results=response.results_count,
        confidence=response.confidence,
        doubts=list(causes),
        degraded_reasons=list(diagnostics.degraded_reasons),
        budget_used=diagnostics.budget_used.model_dump(),
        budget_limits=diagnostics.budget_limits.model_dump(),
        kg=stats.model_dump(),
        timings_ms=diagnostics.timings_ms.model_dump(),
        cost_usd=diagnostics.estimated_cost_usd,
    )


def doubts(grounding: Grounding | None, synthesis: Synthesis | None = None) -> list[str]:
    """Return why an answer lacks support, for metrics and log; [] if it does not.

    `nothing_left`, or `orphan_markers`, `low_coverage`, `unsupported`.
    """
    if grounding is None:
        if synthesis is None or synthesis.outcome != "answered":
            return []
        return [] if is_abstention(synthesis.answer) else ["nothing_left"]
    causes = {
        "orphan_markers": bool(grounding.invalid_citations),
        "low_coverage": grounding.coverage < MIN_COVERAGE,
        "unsupported": any(sentence.verdict == "unsupported" for sentence in grounding.sentences),
    }
    return [cause for cause, holds in causes.items() if holds]

"""Request validation and budget planning."""

import json
import time
from datetime import datetime
from typing import Literal, NamedTuple

from docstokg.contracts.chat import CONVERSATIONS, MODEL_NOT_FOUND, NOT_FOUND_DETAIL, ChatPlan
from docstokg.contracts.envelope import Envelope, Reply
from docstokg.contracts.language_models import EXTRACTIVE
from docstokg.contracts.records import Scope
from docstokg.contracts.request import (
    ANSWER_FIELDS,
    DEFAULT_NAMESPACE,
    Expected,
    ExplainRequest,
    KgExpansion,
    RAGRequest,
    SearchRequest,
)
from docstokg.contracts.response import BudgetLimits, FieldProblem
from docstokg.contracts.state import (
    CachePlan,
    ExpansionPlan,
    Plan,
    RetrievalPlan,
    SynthesisPlan,
    Validated,
)
from docstokg.domain import time_budget
from docstokg.domain.identity import text_sha256
from docstokg.domain.text.follow_up import last_turns, whole_question
from docstokg.domain.text.words import casefolded
from docstokg.settings import CHANNEL_SIZES, Settings
from docstokg.usecases.chat import (
    NO_NAMESPACE,
    model_reply,
    models_reply,
    read_chat,
    read_responses,
)
from docstokg.usecases.intake import decode_body, invalid, not_granted, parse
from docstokg.usecases.problems import problem_reply

ANSWER_SNIPPET = 800
SEARCH_SNIPPET = 200
CLOCK_SKEW_MS = 5000


NO_SYNTHESIS = "No answer was asked for: synthesis.enabled is false, so there are citations only."
NO_KEY = (
    "This server has no DOCSTOKG_RECEIPT_KEY, so it signs no receipts; `docstokg receipt-key FILE` "
    "makes a key."
)


class Parsed(NamedTuple):
    """A request body as the request of an answer; `request` is None if it has errors.

    `expect`: the passage that `/v1/explain` traces.
    """

    request: RAGRequest | None
    errors: list[FieldProblem]
    chat: ChatPlan | None = None
    expect: Expected | None = None


def validate(envelope: Envelope, *, rules: Settings, started_at: str, now_ms: float) -> Validated:
    """Return the plan and scope of a request, or the reply that ends the execution.

    `started_at`: ISO start time, ignored if it differs from `now_ms` by more than 5 s.
    """
    if envelope.route == "models":
        return Validated(reply=models_reply(envelope.caller, rules.models))
    if envelope.route == "model":
        return Validated(reply=model_reply(envelope, rules.models))
    began, streams = time.perf_counter(), envelope.route == "stream"
    if streams:
        envelope = envelope.model_copy(update={"route": "answer"})
    body = decode_body(envelope.body_b64, envelope.request_id)
    if isinstance(body, Reply):
        return Validated(reply=body)
    request, errors, chat, expect = _parse(envelope.route, body, rules.models)
    if errors or request is None:
        return Validated(reply=_refusal(envelope, errors))
    if request.receipt and not rules.receipt_key:
        return Validated(reply=problem_reply(400, "receipts_off", NO_KEY, envelope.request_id))
    caller = envelope.caller
    names = request.requested_namespaces or (caller.sole_namespace,)
    choices = () if names[0] else caller.namespaces
    if choices:
        names = (DEFAULT_NAMESPACE if caller.may_read(DEFAULT_NAMESPACE) else "",)
    elif refused := not_granted(envelope, *names):
        return Validated(reply=refused if chat is None else _refusal(envelope, [NO_NAMESPACE]))
    scope = caller.scope(names[0], request.filter, *names[1:])
    started_ms = _started_ms(started_at, now_ms)
    plan = _plan(envelope, request, scope, rules, started_ms=started_ms, expect=expect)
    took_ms = round((time.perf_counter() - began) * 1000, 3)
    updates = {"validation_ms": took_ms, "choices": choices, "chat": chat, "streams": streams}
    updates["recalls"] = bool(choices or request.cache_key or (chat and chat.namespaces))
    if chat:
        updates["warnings"] = (*plan.warnings, *chat.warnings)
    return Validated(plan=plan.model_copy(update=updates), scope=scope)


def _refusal(envelope: Envelope, errors: list[FieldProblem]) -> Reply:
    if NO_NAMESPACE in errors:
        return problem_reply(404, MODEL_NOT_FOUND, NOT_FOUND_DETAIL, envelope.request_id)
    return invalid(errors, envelope.request_id)


def _parse(route: str, body: bytes, models: tuple[str, ...]) -> Parsed:
    if route in CONVERSATIONS:
        reader = read_chat if route == "chat" else read_responses
        request, chat, errors = reader(body, models)
        if request and request.synthesis.model not in models:
            errors.append(_model_not_allowed("$.model", models))
        return Parsed(request, errors, chat)
    parsers = {"answer": _parse_answer, "explain": _parse_explain}
    parsed = parsers.get(route, _parse_search)(body)
    errors = [*parsed.errors, *_unknown_model(body, parsed.request, models)]
    return parsed._replace(errors=errors)


def _parse_answer(body: bytes) -> Parsed:
    return Parsed(*parse(body, RAGRequest))


def _parse_explain(body: bytes) -> Parsed:
    explain, errors = parse(body, ExplainRequest)
    if explain is None:
        unused = {"message": "leave out what only an answer uses"}
        return Parsed(
            None,
            [
                error.model_copy(update=unused) if error.path in ANSWER_FIELDS else error
                for error in errors
            ],
        )
    fields = explain.model_dump(exclude={"expect"}, exclude_unset=True, exclude_none=True)
    return Parsed(RAGRequest.model_validate(fields), errors, expect=explain.expect)


def _parse_search(body: bytes) -> Parsed:
    search, errors = parse(body, SearchRequest)
    if search is None:
        return Parsed(None, errors)
    fields = search.model_dump()
    if "max_chunks" not in search.budget.model_fields_set:
        fields["budget"]["max_chunks"] = search.top_k
    if "timeout_s" not in search.budget.model_fields_set:
        del fields["budget"]["timeout_s"]  # the server's default, not the contract's
    return Parsed(RAGRequest.model_validate(fields), errors)


def _unknown_model(
    body: bytes, request: RAGRequest | None, models: tuple[str, ...]
) -> list[FieldProblem]:
    if request:
        model = request.synthesis.model
        checked = request.synthesis.enabled or "model" in request.synthesis.model_fields_set
    else:
        try:
            synthesis = json.loads(body)["synthesis"]
            model, checked = synthesis["model"], isinstance(synthesis["model"], str)
        except (ValueError, KeyError, TypeError, RecursionError):
            return []
    if not checked or model in models:
        return []
    return [_model_not_allowed("$.synthesis.model", models)]


def _model_not_allowed(path: str, models: tuple[str, ...]) -> FieldProblem:
    message = f"must be one of {', '.join(models)}"
    return FieldProblem(path=path, code="model_not_allowed", message=message)


def _started_ms(started_at: str, now_ms: float) -> int:
    try:
        started = datetime.fromisoformat(started_at).timestamp() * 1000
    except ValueError:
        return int(now_ms)
    return int(started) if 0 <= now_ms - started <= CLOCK_SKEW_MS else int(now_ms)


def _plan(
    envelope: Envelope,
    request: RAGRequest,
    scope: Scope,
    rules: Settings,
    *,
    started_ms: int,
    expect: Expected | None,
) -> Plan:
    is_chosen = "timeout_s" in request.budget.model_fields_set
    asked_s = request.budget.timeout_s if is_chosen else rules.default_timeout_s
    timeout_s = min(asked_s, rules.max_timeout_s)
    warnings = []
    verbosity = request.verbosity
    if verbosity == "graph" and not (rules.feature_verbosity_graph and rules.kg_enabled):
        verbosity = "snippet"
        warnings.append("Verbosity graph is switched off on this server; answered as snippet.")
    if is_chosen and timeout_s < asked_s:
        warnings.append(f"timeout_s was lowered to this server's ceiling of {timeout_s:g} s.")
    expansion = request.kg_expansion
    if expansion.route and not expansion.seeds:
        warnings.append("kg_expansion.route needs kg_expansion.seeds; it was ignored.")
    if expansion.enabled and not rules.kg_enabled:
        warnings.append("Graph expansion is switched off on this server.")
    if envelope.route == "answer" and not request.synthesis.enabled:
        warnings.append(NO_SYNTHESIS)
    turns = [(turn.role, turn.content) for turn in request.history]
    query = whole_question(request.query, turns)
    is_written = request.synthesis.enabled
    if expect:
        is_written = "model" in request.synthesis.model_fields_set
    model = request.synthesis.model if is_written else EXTRACTIVE
    remote = model if model != EXTRACTIVE else None
    return Plan(
        request_id=envelope.request_id,
        route=envelope.route,
        caller_sub=envelope.caller.sub,
        namespace=scope.namespace,
        others=scope.others,
        groups=scope.groups,
        query=query,
        sent=request.query if request.query != query else None,
        query_used_by="as_sent" if request.query == query else "rule",
        condense=remote if turns else None,
        turns=last_turns(request.history, request.budget.max_tokens_context) if remote else (),
        top_k=request.top_k,
        started_ms=started_ms,
        deadline_ms=started_ms + int(timeout_s * 1000),
        retrieval=RetrievalPlan(
            channels={channel: CHANNEL_SIZES[channel] for channel in rules.channels},
            fusion=rules.fusion,
            mmr=rules.mmr,
            embed=_embeds(request.providers.embedding, rules),
            time_s=time_budget.RETRIEVE.cap_s,
        ),
        expansion=_expansion(expansion, rules),
        expect=expect,
        synthesis=_synthesis(request, rules),
        verbosity=verbosity,
        snippet_chars=SEARCH_SNIPPET if envelope.route == "search" else ANSWER_SNIPPET,
        graph_limits=request.limits.graph,
        diagnostics=request.diagnostics,
        receipt=request.receipt,
        rerank=_rerank(request.providers.reranker, rules),
        budget_limits=BudgetLimits(
            max_chunks=request.budget.max_chunks,
            max_tokens_context=request.budget.max_tokens_context,
            max_tokens_gen=request.generation_tokens,
            timeout_s=timeout_s,
        ),
        min_score=rules.min_score,
        repair=rules.repair,
        verifies=rules.verifier is not None,
        warnings=tuple(warnings),
        cache=_cache(envelope, request),
    )


def _expansion(expansion: KgExpansion, rules: Settings) -> ExpansionPlan:
    enabled = expansion.enabled and rules.kg_enabled
    return ExpansionPlan(
        enabled=enabled,
        restrict=enabled and expansion.route and bool(expansion.seeds),
        max_hops=expansion.hops,
        two_hops=rules.kg_2hop_enabled,
        boost=rules.kg_boost_value if rules.kg_boost_enabled else 0.0,
        limit=expansion.limit,
        seeds=expansion.seeds,
        concept_types=casefolded(expansion.concept_types),
        relations=casefolded(expansion.relations),
        direction=expansion.direction,
        max_nodes=expansion.max_nodes,
        time_s=time_budget.EXPAND.cap_s,
    )


def _embeds(provider: str, rules: Settings) -> bool:
    if rules.embed_provider == "jina" and not rules.provider_jina_enabled:
        return False
    return provider in ("auto", rules.embed_provider)


def _rerank(provider: str, rules: Settings) -> Literal["yes", "no", "lost"]:
    if provider == "none" or (provider == "auto" and rules.rerank_provider == "none"):
        return "no"
    off = rules.rerank_provider == "jina" and not rules.provider_jina_enabled
    return "yes" if provider in ("auto", rules.rerank_provider) and not off else "lost"


def _synthesis(request: RAGRequest, rules: Settings) -> SynthesisPlan | None:
    if not request.synthesis.enabled:
        return None
    return SynthesisPlan(
        model=request.synthesis.model,
        fallback=rules.llm_fallback_model,
        temperature=request.synthesis.temperature,
        max_tokens=request.generation_tokens,
        style_hint=request.synthesis.system_prompt if rules.allow_system_prompt else None,
        min_probability=rules.answer_min_probability,
    )


def _cache(envelope: Envelope, request: RAGRequest) -> CachePlan | None:
    if request.cache_key is None:
        return None
    groups = sorted(set(envelope.caller.groups))
    scope = [envelope.caller.sub, groups, request.cache_key]
    canonical = request.model_dump_json(exclude={"cache_key", "namespace", "namespaces"})
    return CachePlan(
        key=text_sha256(json.dumps(scope)),
        request_hash=text_sha256(f"{envelope.route}\x00{canonical}"),
    )

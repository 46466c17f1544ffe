"""Let a model write from the blocks, inside the time that is left; nothing is checked here."""

import time
from collections.abc import Callable, Mapping, Sequence

from docstokg.contracts.completion import Completion
from docstokg.contracts.response import DegradedReason
from docstokg.contracts.state import Block, Plan, Synthesis, SynthesisPlan
from docstokg.domain import extractive, prompt, verdicts
from docstokg.domain.budget import tokens
from docstokg.domain.deadline import Deadline
from docstokg.domain.notices import ABSTENTION
from docstokg.errors import DocsToKGError, QuotaExceeded, Timeout, WrongAnswer
from docstokg.observability import Telemetry
from docstokg.ports import LanguageModel

EXTRACTIVE = "extractive"
RESERVE_S = 0.3
SHORTEST_CALL_S = 0.25
SHORTEST_FALLBACK_S = 3.0
FIRST_CALL_SHARE = 0.6


def synthesize(
    plan: Plan,
    blocks: Sequence[Block],
    *,
    relevant: bool,
    language_model: Callable[[], LanguageModel],
    fallback_model: str | None,
    telemetry: Telemetry,
    clock: Callable[[], float],
) -> Synthesis:
    """Give the raw words of a model, or say why there are none; never raises for its failures.

    No call is made when nothing relevant was retrieved. One fallback model is asked when at
    least 3 seconds are left after the first failed; then the first gets 60 % of the time.
    """
    started = time.perf_counter()
    chosen = plan.synthesis
    if chosen is None or not blocks or not relevant:
        return Synthesis(outcome="abstained", answer=ABSTENTION)
    blocks = blocks[: plan.max_blocks]
    if chosen.model == EXTRACTIVE:
        return _extracted(plan, blocks, chosen, started)
    messages = prompt.messages(
        plan.query,
        blocks,
        max_tokens_context=plan.budget_limits.max_tokens_context,
        style_hint=chosen.style_hint,
    )
    deadline = Deadline(plan.deadline_ms)
    models = [chosen.model]
    if fallback_model and fallback_model != chosen.model:
        models.append(fallback_model)
    degraded: list[DegradedReason] = []
    for position, model in enumerate(models):
        left_s = deadline.share_s(clock() * 1000, float("inf"), RESERVE_S)
        if left_s < (SHORTEST_FALLBACK_S if position else SHORTEST_CALL_S):
            if not position:
                degraded.append("deadline_exceeded")
            break
        last = position == len(models) - 1 or left_s * (1 - FIRST_CALL_SHARE) < SHORTEST_FALLBACK_S
        time_s = left_s if last else left_s * FIRST_CALL_SHARE
        try:
            with telemetry.span("language_model", request_id=plan.request_id, model=model):
                completion = _completed(language_model(), messages, chosen, model, time_s)
        except DocsToKGError as exc:
            reason = _reason(exc)
            degraded.append(reason)
            # The message of a vendor may quote the prompt, so only the kind of failure is logged.
            telemetry.log(
                "WARNING",
                "language_model_failed",
                request_id=plan.request_id,
                model=model,
                error=type(exc).__name__,
                reason=reason,
            )
            continue
        return Synthesis(
            outcome="answered",
            answer=completion.text,
            model=completion.model,
            tokens_in=completion.tokens_in,
            tokens_out=completion.tokens_out,
            cost_usd=completion.cost_usd,
            took_ms=_since(started),
            degraded=tuple(dict.fromkeys(degraded)),
        )
    return Synthesis(
        outcome="failed",
        model=chosen.model,
        took_ms=_since(started),
        degraded=tuple(dict.fromkeys(degraded)),
    )


def _extracted(
    plan: Plan, blocks: Sequence[Block], chosen: SynthesisPlan, started: float
) -> Synthesis:
    text = extractive.answer(plan.query, blocks, verdicts.weights(), chosen.max_tokens)
    return Synthesis(
        outcome="answered",
        answer=text,
        model=EXTRACTIVE,
        tokens_in=sum(tokens(block.text) for block in blocks),
        tokens_out=tokens(text),
        took_ms=_since(started),
    )


def _completed(
    model: LanguageModel,
    messages: Sequence[Mapping[str, str]],
    chosen: SynthesisPlan,
    name: str,
    timeout_s: float,
) -> Completion:
    completion = model.complete(
        messages,
        model=name,
        temperature=chosen.temperature,
        max_tokens=chosen.max_tokens,
        timeout_s=timeout_s,
    )
    if not completion.text.strip():
        raise WrongAnswer(f"model {name} answered nothing")
    return completion


def _reason(error: DocsToKGError) -> DegradedReason:
    if isinstance(error, Timeout):
        return "llm_timeout"
    if isinstance(error, QuotaExceeded):
        return "llm_quota_exceeded"
    return "llm_unavailable"


def _since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 2)

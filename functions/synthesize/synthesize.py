"""Let a model write from the blocks, inside the time that is left; nothing is checked here."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from docstokg.contracts.completion import Completion
from docstokg.contracts.response import DegradedReason
from docstokg.contracts.state import Block, Synthesis, SynthesisPlan
from docstokg.domain import extractive, prompt, time_budget
from docstokg.domain.budget import tokens
from docstokg.domain.notices import ABSTENTION
from docstokg.domain.time_budget import LEAST_FALLBACK_S, LEAST_MODEL_S
from docstokg.errors import DocsToKGError, QuotaExceeded, Timeout, WrongAnswer
from docstokg.ports import LanguageModel
from docstokg.usecases.run import Run

FIRST_CALL_SHARE = 0.6


def synthesize(
    run: Run,
    blocks: Sequence[Block],
    *,
    relevant: bool,
    language_model: Callable[[], LanguageModel],
    fallback_model: str | None,
) -> Synthesis:
    """Give the raw words of a model, or say why there are none; never raises for its failures.

    No call is made when nothing relevant was retrieved. One fallback model is asked when at
    least 3 seconds are left after the first failed; then the first gets 60 % of the time.
    """
    plan, chosen = run.plan, run.plan.synthesis
    if chosen is None or not blocks or not relevant:
        return Synthesis(outcome="abstained", answer=ABSTENTION)
    blocks = blocks[: plan.max_blocks]
    if chosen.model == extractive.MODEL:
        return _extracted(run, blocks, chosen)
    messages = prompt.messages(
        plan.query,
        blocks,
        max_tokens_context=plan.budget_limits.max_tokens_context,
        style_hint=chosen.style_hint,
    )
    models = [chosen.model]
    if fallback_model and fallback_model != chosen.model:
        models.append(fallback_model)
    for position, model in enumerate(models):
        time_s = _time_s(run, first=not position, last=position == len(models) - 1)
        if time_s is None:
            break
        ask = partial(_completed, language_model, messages, chosen, model, time_s)
        completion = run.attempt("language_model", ask, _reason, model=model)
        if completion is not None:
            return Synthesis(
                outcome="answered",
                answer=completion.text,
                model=completion.model,
                tokens_in=completion.tokens_in,
                tokens_out=completion.tokens_out,
                cost_usd=completion.cost_usd,
                took_ms=run.took_ms(),
                degraded=tuple(run.degraded),
            )
    return Synthesis(
        outcome="failed",
        model=chosen.model,
        took_ms=run.took_ms(),
        degraded=tuple(run.degraded),
    )


def _time_s(run: Run, *, first: bool, last: bool) -> float | None:
    """Give the seconds a call may take, or None when it is not worth starting."""
    left_s = run.left_s(*time_budget.SYNTHESIZE)
    if left_s < (LEAST_MODEL_S if first else LEAST_FALLBACK_S):
        if first:
            run.do_without("language_model", "deadline_exceeded", "no time was left for a model")
        return None
    if last or left_s * (1 - FIRST_CALL_SHARE) < LEAST_FALLBACK_S:
        return left_s
    return left_s * FIRST_CALL_SHARE


def _extracted(run: Run, blocks: Sequence[Block], chosen: SynthesisPlan) -> Synthesis:
    text = extractive.answer(run.plan.query, blocks, chosen.max_tokens)
    return Synthesis(
        outcome="answered",
        answer=text,
        model=extractive.MODEL,
        tokens_in=sum(tokens(block.text) for block in blocks),
        tokens_out=tokens(text),
        took_ms=run.took_ms(),
    )


def _completed(
    language_model: Callable[[], LanguageModel],
    messages: Sequence[Mapping[str, str]],
    chosen: SynthesisPlan,
    name: str,
    timeout_s: float,
) -> Completion:
    completion = language_model().complete(
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

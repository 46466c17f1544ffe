"""Answer synthesis, without checks."""

import math
from collections.abc import Callable, Sequence
from functools import partial

from docstokg.contracts.completion import Completion
from docstokg.contracts.response import DegradedReason
from docstokg.contracts.state import Block, Synthesis, SynthesisPlan
from docstokg.domain import time_budget
from docstokg.domain.answer import extractive, prompt, reply
from docstokg.domain.answer.notices import (
    ABSTENTION,
    BROKEN_OFF,
    CUT_SHORT,
    NOT_RELEVANT,
    ONLY_REASONED,
    is_abstention,
    model_failed,
    no_room,
    stopped_early,
)
from docstokg.domain.budget import tokens
from docstokg.domain.deadline import Deadline
from docstokg.domain.time_budget import EXTRACT_S, LEAST_FALLBACK_S, LEAST_MODEL_S
from docstokg.errors import (
    DocsToKGError,
    NotConfigured,
    QuotaExceeded,
    Timeout,
    Unavailable,
    WrongAnswer,
)
from docstokg.ports import LanguageModel, Reader
from docstokg.usecases.run import Run

FIRST_CALL_SHARE = 0.6
# Maximum bytes of a reply, and per requested token: some servers ignore the token limit.
LEAST_ANSWER_BYTES, BYTES_A_TOKEN = 4000, 8

CUT_WARNINGS = {"length": CUT_SHORT, "time": CUT_SHORT, "broken": BROKEN_OFF}

TextListener = Callable[[str], bool]
# Usable share of a model's context: token counts are estimates and may be 10 % too low.
CONTEXT_SHARE = 0.9
# A reply below this share of its token budget was not cut by the budget.
OWN_LIMIT = 0.5


def synthesize(
    run: Run,
    blocks: Sequence[Block],
    *,
    relevant: bool,
    language_model: Callable[[], LanguageModel],
    reader: Callable[[], Reader | None] = lambda: None,
    on_text: TextListener | None = None,
) -> Synthesis:
    """Return the raw answer of a model, or the reason why there is none; never raises for failures.

    Without blocks no call is made. `on_text`: gets the text so far, and returns whether the client
    still waits.
    """
    chosen = run.plan.synthesis
    if chosen is None or not blocks:
        return Synthesis(outcome="abstained", answer=ABSTENTION)
    models = [chosen.model]
    if chosen.fallback and chosen.fallback != chosen.model:
        models.append(chosen.fallback)
    failures: list[DocsToKGError] = []
    for position, model in enumerate(models):
        if model == extractive.MODEL:
            return _extracted(run, blocks, chosen, _warnings(failures, model), reader)
        deadline = _deadline(run, models[position + 1 :], first=not position)
        if deadline is None:
            continue
        complete = partial(_completed, language_model, run, blocks, model, deadline, on_text)
        answered = run.attempt(
            "language_model", complete, lambda error: _reason(error, failures), model=model
        )
        if answered is not None:
            completion, block_count = answered
            has_text = bool(completion.text)
            is_safe = relevant or is_abstention(completion.text)
            notes = (
                *(() if is_safe or not has_text else (NOT_RELEVANT,)),
                *((CUT_WARNINGS[completion.cut],) if completion.cut and has_text else ()),
                *(() if has_text else (_too_short(completion, chosen.max_tokens),)),
            )
            if completion.cut == "time":
                run.mark_degraded("deadline_exceeded")
            if completion.cut == "broken":
                run.mark_degraded("llm_unavailable")
            return Synthesis(
                outcome="answered" if has_text else "no_room",
                answer=completion.text,
                model=completion.model,
                provider=completion.provider,
                block_count=block_count,
                is_incomplete=completion.cut == "broken",
                tokens_in=completion.tokens_in,
                tokens_out=completion.tokens_out,
                cost_usd=completion.cost_usd,
                took_ms=run.took_ms(),
                degraded=tuple(run.degraded),
                warnings=(*_warnings(failures, model), *notes),
            )
    is_unconfigured = failures and all(isinstance(error, NotConfigured) for error in failures)
    return Synthesis(
        outcome="unconfigured" if is_unconfigured else "failed",
        model=chosen.model,
        took_ms=run.took_ms(),
        degraded=tuple(run.degraded),
        warnings=_warnings(failures, None),
    )


def _deadline(run: Run, others: Sequence[str], *, first: bool) -> Deadline | None:
    deadline = run.deadline.limit(*time_budget.SYNTHESIZE)
    reserve_s = EXTRACT_S if extractive.MODEL in others else 0.0
    if run.plan.verifies:
        request_s = run.plan.budget_limits.timeout_s
        reserve_s += time_budget.reserved_for_verifier_s(deadline.remaining(), request_s)
    remaining_s = (deadline := deadline.limit(math.inf, reserve_s)).remaining()
    if remaining_s < (LEAST_MODEL_S if first else LEAST_FALLBACK_S):
        if first:
            run.skip("language_model", "deadline_exceeded", "no time was left for a model")
        return None
    remote = [model for model in others if model != extractive.MODEL]
    if not remote or remaining_s * (1 - FIRST_CALL_SHARE) < LEAST_FALLBACK_S:
        return deadline
    return deadline.share(FIRST_CALL_SHARE)


def _warnings(failures: Sequence[DocsToKGError], instead: str | None) -> tuple[str, ...]:
    return tuple(model_failed(str(error), instead) for error in failures)


def _extracted(
    run: Run,
    blocks: Sequence[Block],
    chosen: SynthesisPlan,
    warnings: tuple[str, ...],
    reader: Callable[[], Reader | None],
) -> Synthesis:
    def logits(question: str, texts: Sequence[str]) -> Sequence[float | None]:
        deadline = run.deadline.limit(time_budget.READER_S, time_budget.SYNTHESIZE.reserve_s)
        model = run.attempt("reader", reader, lost=None)
        run_reader = None if model is None else partial(model.logits, question, texts, deadline)
        scores = None if run_reader is None else run.attempt("reader", run_reader, lost=None)
        return scores or (None,) * len(texts)

    text, probability, best, notices = extractive.answer(
        run.plan.query, blocks, chosen.max_tokens, chosen.min_probability, logits
    )
    warnings = (*warnings, *notices, *(() if text else (no_room(chosen.max_tokens),)))
    return Synthesis(
        outcome="answered" if text else "no_room",
        answer=text,
        model=extractive.MODEL,
        provider=extractive.MODEL,
        probability=probability,
        best_span=best,
        tokens_in=sum(tokens(block.text) for block in blocks),
        tokens_out=tokens(text),
        took_ms=run.took_ms(),
        degraded=tuple(run.degraded),
        warnings=warnings,
    )


def _completed(
    language_model: Callable[[], LanguageModel],
    run: Run,
    blocks: Sequence[Block],
    name: str,
    deadline: Deadline,
    on_text: TextListener | None,
) -> tuple[Completion, int]:
    """Return a completion ("" if cut before a sentence end) and the number of passages."""
    plan, chosen = run.plan, run.plan.synthesis
    assert chosen is not None
    model = language_model()
    room = plan.budget_limits.max_tokens_context - tokens(prompt.conversation(plan.turns))
    messages_of = partial(
        prompt.messages, plan.query, style_hint=chosen.style_hint, turns=plan.turns
    )
    rules = messages_of((), max_tokens_context=0)
    if (context := model.context_tokens(name)) is not None:
        spent = chosen.max_tokens + sum(tokens(message["content"]) for message in rules)
        room = max(0, min(room, int(context * CONTEXT_SHARE) - spent))
    completion = model.complete(
        messages_of(blocks, max_tokens_context=room),
        model=name,
        temperature=chosen.temperature,
        max_tokens=chosen.max_tokens,
        deadline=deadline,
        on_text=on_text,
    )
    most_bytes = max(LEAST_ANSWER_BYTES, chosen.max_tokens * BYTES_A_TOKEN)
    answer = reply.cut(reply.cleaned(completion.text, plan.query, blocks), most_bytes)
    if completion.cut == "length" and not reply.has_sentence(answer):
        answer = ""
    elif completion.cut:
        answer = reply.finished(answer)
    if not answer and completion.cut == "broken":
        raise Unavailable(f"the reply of model {name} broke off")
    if not answer and completion.cut != "length":
        is_thought = completion.text.strip() and not reply.without_thoughts(completion.text)
        raise WrongAnswer(
            ONLY_REASONED.format(name) if is_thought else f"model {name} answered nothing"
        )
    tokens_out = completion.tokens_out or tokens(completion.text)
    completion = completion.model_copy(update={"text": answer, "tokens_out": tokens_out})
    return completion, len(prompt.passages_within(blocks, room))


def _too_short(completion: Completion, max_tokens: int) -> str:
    """Return the warning for a reply without a whole sentence."""
    if completion.tokens_out < max_tokens * OWN_LIMIT:
        return stopped_early(completion.model, completion.tokens_out)
    return no_room(max_tokens)


def _reason(error: DocsToKGError, failures: list[DocsToKGError]) -> DegradedReason:
    failures.append(error)
    if isinstance(error, Timeout):
        return "llm_timeout"
    if isinstance(error, QuotaExceeded):
        return "llm_quota_exceeded"
    return "llm_unavailable"

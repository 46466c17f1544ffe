"""Model-based rewriting of follow-ups."""

from collections.abc import Callable

from docstokg.contracts.completion import Completion
from docstokg.contracts.state import Condensed
from docstokg.domain import time_budget
from docstokg.domain.answer import condense as wording
from docstokg.domain.answer import reply
from docstokg.domain.time_budget import LEAST_MODEL_S
from docstokg.ports import LanguageModel
from docstokg.usecases.run import Run


def condense(run: Run, language_model: Callable[[], LanguageModel]) -> Condensed:
    """Return the question for the search; without a usable reply in time, the plan's.

    If the reply lacks a content word of the message, the message as sent is answered, and the reply
    (`rewrite`) only searched as well.
    """
    plan = run.plan
    sent = plan.query if plan.sent is None else plan.sent
    completion = _completed(run, sent, language_model)
    question = None
    # A reply with the maximum number of tokens is truncated.
    if completion and not completion.cut and completion.tokens_out < wording.MAX_TOKENS:
        question = wording.question_of(reply.cleaned(completion.text))
    condensed = Condensed(query=plan.query, sent=plan.sent, query_used_by=plan.query_used_by)
    if question == sent:
        condensed = Condensed(query=sent, query_used_by="as_sent")
    elif question is not None and wording.keeps_words(question, sent):
        condensed = Condensed(query=question, sent=sent, query_used_by="model")
    elif question is not None:
        # Not the rule's question: its words from earlier turns lead to their subject.
        condensed = Condensed(query=sent, query_used_by="as_sent", rewrite=question)
    dollars = completion.cost_usd if completion else 0.0
    return condensed.model_copy(update={"condensing_ms": run.took_ms(), "condensing_usd": dollars})


def _completed(
    run: Run, question: str, language_model: Callable[[], LanguageModel]
) -> Completion | None:
    plan = run.plan
    budget = time_budget.CONDENSE.of(plan.budget_limits.timeout_s)
    deadline = run.deadline.limit(*budget)
    if plan.condense is None or deadline.remaining() < LEAST_MODEL_S:
        return None
    model = plan.condense

    def complete() -> Completion:
        return language_model().complete(
            wording.messages(question, plan.turns),
            model=model,
            temperature=0.0,
            max_tokens=wording.MAX_TOKENS,
            deadline=deadline,
        )

    return run.attempt("condense", complete, lost=None, model=model)

"""Check of generated text."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from docstokg.contracts.language_models import EXTRACTIVE
from docstokg.contracts.state import Grounded, Synthesis
from docstokg.domain import time_budget
from docstokg.domain.answer.notices import HARM_REMOVED
from docstokg.domain.answer.reply import harmless, inert
from docstokg.domain.deadline import Deadline
from docstokg.ports import Embedder, KnowledgeGraph, Verifier
from docstokg.usecases.answer_consistency import with_domain_findings
from docstokg.usecases.check_answer import CheckedAnswer, check_answer
from docstokg.usecases.comparison import Comparison
from docstokg.usecases.domains import domain_of
from docstokg.usecases.run import Run
from docstokg.usecases.verification import asking


class Checks(NamedTuple):
    """The checks of a generated answer.

    `compare`: returns a text comparison with a deadline. `consistent`: adds the findings of the
    subject domain. `verifier`: used for complete answers only.
    """

    compare: Callable[[Run, Deadline], Comparison]
    consistent: Callable[[Run, CheckedAnswer], CheckedAnswer]
    verifier: Verifier | None = None


def checks_of(
    embedder: Embedder | None,
    graph: KnowledgeGraph,
    domains: Sequence[str],
    verifier: Verifier | None = None,
) -> Checks:
    """Return the checks of this process; raise `Misconfigured` if a domain is not installed."""
    domain = domain_of(domains)
    return Checks(
        lambda run, deadline: Comparison(
            run, embedder, deadline, Deadline.after(deadline.remaining() + time_budget.WORDS_S)
        ),
        lambda run, checked: with_domain_findings(run, checked, graph=graph, domain=domain),
        verifier,
    )


def check_generated(
    run: Run, grounded: Grounded, synthesis: Synthesis, checks: Checks, comparison: Comparison
) -> CheckedAnswer:
    """Check a complete or partial answer; remove unsafe content, add warnings to the run."""
    comparison.know(run.plan.query, grounded.query_vector, grounded.report.index_model)
    blocks = grounded.blocks[: synthesis.block_count]
    answer, is_altered = synthesis.answer, False
    if synthesis.model != EXTRACTIVE:  # extracted sentences are quoted from the sources
        answer, is_altered = harmless(answer, [block.text for block in blocks])
    checked = check_answer(
        inert(answer),
        blocks,
        citations=grounded.citations,
        query=run.plan.query,
        compare=comparison,
        repair=run.plan.repair,
        probability=synthesis.probability,
        verifier=asking(run, checks.verifier, synthesis.model, run.plan.budget_limits.timeout_s),
    )
    checked = checks.consistent(run, checked)
    if is_altered:
        run.warnings.append(HARM_REMOVED)
        if checked.grounding:
            report = checked.grounding.model_copy(update={"grounded": False})
            checked = checked.model_copy(update={"grounding": report})
    run.warnings.extend(checked.warnings)
    return checked

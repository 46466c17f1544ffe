"""Which of the citations a model is given, and whether they are about the question at all."""

from collections.abc import Sequence

from docstokg.contracts.records import StoredChunk
from docstokg.contracts.response import Citation
from docstokg.contracts.state import Block, Plan
from docstokg.domain import questions

MOST_DEFINING = 2


def context(
    plan: Plan, citations: Sequence[Citation], chunks: Sequence[StoredChunk]
) -> tuple[int, ...]:
    """Give the places of the first `max_blocks`, and of up to two behind them that define the term.

    A glossary's line or a table's row is a small part of its chunk: search by the whole of it
    ranks it low, though no other passage answers "what is ...?" as well.
    """
    first = range(min(plan.max_blocks, len(citations)))
    term = questions.asked_term(plan.query)
    if not term:
        return tuple(first)
    defining = (
        place
        for place in range(len(first), len(chunks))
        if questions.defines(term, chunks[place].text, chunks[place].sentences)
    )
    return (*first, *(place for place, _ in zip(defining, range(MOST_DEFINING), strict=False)))


def is_relevant(plan: Plan, citations: Sequence[Citation], blocks: Sequence[Block]) -> bool:
    """Tell whether a passage given scores `min_score`, or defines the term that is asked for."""
    ranks = {block.rank for block in blocks}
    if any(c.score >= plan.min_score for c in citations if c.rank in ranks):
        return True
    term = questions.asked_term(plan.query)
    return bool(term) and any(questions.defines(term, b.text, b.sentences) for b in blocks)

"""Which of the citations a model is given, and whether they are about the question at all."""

from collections.abc import Sequence

from docstokg.contracts.response import Citation
from docstokg.contracts.state import Block, Plan
from docstokg.domain.answer import extractive


def context(plan: Plan, citations: Sequence[Citation]) -> range:
    """Give the places of the first `max_blocks`; the built-in model reads more of them."""
    synthesis = plan.synthesis
    quoted = synthesis is not None and synthesis.model == extractive.MODEL
    most = max(plan.max_blocks, extractive.READ) if quoted else plan.max_blocks
    return range(min(most, len(citations)))


def is_relevant(plan: Plan, citations: Sequence[Citation], blocks: Sequence[Block]) -> bool:
    """Tell whether a passage given scores `min_score`."""
    ranks = {block.rank for block in blocks}
    return any(c.score >= plan.min_score for c in citations if c.rank in ranks)

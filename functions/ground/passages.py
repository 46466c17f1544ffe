"""Which of the citations a model is given, and whether they are about the question at all."""

from collections.abc import Collection, Sequence

from docstokg.contracts.records import StoredChunk
from docstokg.contracts.response import Citation
from docstokg.contracts.state import Block, Plan
from docstokg.domain.answer import extractive, questions

MOST_DEFINING = 2
MOST_BEHIND = 15


def context(
    plan: Plan, citations: Sequence[Citation], chunks: Sequence[StoredChunk]
) -> tuple[int, ...]:
    """Give the places of the first `max_blocks`, and of up to two behind that explain it.

    A glossary's line, a table's row or an option is a small part of its chunk: search by the whole
    of it ranks it low, though no other passage answers "what is ...?" as well. An option is one of
    the command that the question names where a passage found is of that.
    """
    first = range(min(plan.max_blocks, len(citations)))
    topic = questions.Topic.of(plan.query)
    explaining = [
        place
        for place in range(len(first), len(chunks))
        if topic.is_explained(chunks[place].text, chunks[place].sentences)
    ]
    if topic.options and explaining:
        of_command = [
            place
            for place in explaining
            if questions.names_document(plan.query, chunks[place].document_name)
        ]
        explaining = of_command or explaining
    return (*first, *explaining[:MOST_DEFINING])


def behind(citations: Sequence[Citation], first: Collection[int]) -> tuple[int, ...]:
    """Give the places of the best others: one of them may answer better."""
    return tuple(place for place in range(len(citations)) if place not in first)[:MOST_BEHIND]


def with_telling(query: str, blocks: Sequence[Block], first: int) -> list[Block]:
    """Give the first blocks, and the one behind them that answers better, if one does."""
    more = extractive.telling_more(query, blocks, first)
    return [*blocks[:first], *(blocks[more : more + 1] if more is not None else ())]


def is_relevant(plan: Plan, citations: Sequence[Citation], blocks: Sequence[Block]) -> bool:
    """Tell whether a passage given scores `min_score`, or explains what is asked."""
    ranks = {block.rank for block in blocks}
    if any(c.score >= plan.min_score for c in citations if c.rank in ranks):
        return True
    topic = questions.Topic.of(plan.query)
    return any(topic.is_explained(b.text, b.sentences) for b in blocks)

"""The support score of a claim: how likely its sources say so, from words and vectors."""

from collections.abc import Sequence
from typing import NamedTuple

from docstokg.contracts.response import Span
from docstokg.contracts.state import Block
from docstokg.domain.answer.units import borders
from docstokg.domain.text import snippets
from docstokg.usecases.comparison import Comparison


class Support(NamedTuple):
    """A score in [0, 1], and the stretch of a source that supports the claim best."""

    value: float
    span: Span | None


def support_of(claim: str, blocks: Sequence[Block], compare: Comparison | None) -> Support:
    """Return the support of a claim by some passages read together."""
    stems = snippets.question_stems(claim)
    best = Support(0.0, None)
    for block in blocks:
        for start, end in borders(block.text, block.sentences):
            value = snippets.coverage(stems, block.text[start:end])
            if value > best.value or best.span is None:
                base = block.char_start + block.start
                best = Support(
                    value, Span(uuid=block.uuid, char_start=base + start, char_end=base + end)
                )
    return best

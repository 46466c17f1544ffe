"""Support score of a claim."""

from collections.abc import Sequence
from typing import NamedTuple

from docstokg.contracts.response import Span
from docstokg.contracts.state import Block
from docstokg.domain.answer import support
from docstokg.domain.text.sentences import sentence_spans
from docstokg.usecases.comparison import Comparison


class Support(NamedTuple):
    """A score in [0, 1], and the source span closest to the claim."""

    value: float
    span: Span | None


def support_of(claim: str, blocks: Sequence[Block], compare: Comparison | None) -> Support:
    """Return the combined support of a claim by passages; (0, None) without sentences."""
    evidence = [
        support.Evidence(
            block.text,
            block.sentences or sentence_spans(block.text),
            "\n".join((block.document_name, block.subject)),
        )
        for block in blocks
    ]
    windows = support.best_windows(claim, evidence)
    if not windows:
        return Support(0.0, None)
    texts = [window.text for window in windows]
    cosines = compare.cosines(claim, texts) if compare else None
    value = support.score(support.features(claim, evidence, windows, cosines))
    place = windows[cosines.index(max(cosines))] if cosines else windows[0]
    block = blocks[place.source]
    base = block.char_start + block.start
    span = Span(uuid=block.uuid, char_start=base + place.start, char_end=base + place.end)
    return Support(value, span)

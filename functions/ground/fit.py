"""Trimming to the state limit."""

from collections.abc import Sequence
from functools import partial
from typing import cast

from docstokg.contracts.records import StoredChunk
from docstokg.contracts.response import Citation
from docstokg.contracts.state import Block
from docstokg.domain import layout
from docstokg.domain.budget import (
    GROUNDED_LIMIT_BYTES,
    REPORT_MARGIN_BYTES,
    STATE_LIMIT_BYTES,
    STATE_MARGIN_BYTES,
    nested_json_bytes,
    smaller,
)
from docstokg.domain.text import snippets
from docstokg.usecases.run import Run

BLOCK_STEPS = (2000, 1000, 500)


def fitted(
    citations: Sequence[Citation],
    blocks: Sequence[Block],
    chunks: Sequence[StoredChunk],
    limit: int = GROUNDED_LIMIT_BYTES,
) -> tuple[list[Citation], list[Block], bool]:
    """Trim to `limit` bytes if possible, measured as JSON in a JSON string; return if it changed.

    Citations without a block shrink from the lowest rank, then are removed, then blocks shrink.
    """
    blocks = list(blocks)
    block_bytes = sum(_bytes(block) for block in blocks)
    if sum(_bytes(citation) for citation in citations) + block_bytes <= limit:
        return list(citations), blocks, False
    texts = {chunk.uuid: chunk for chunk in chunks}
    in_blocks, fewer = frozenset(block.rank for block in blocks), list(citations)

    def cut(citation: Citation, step: int) -> Citation | None:
        if citation.rank in in_blocks:
            return citation
        return shorter(citation, texts[citation.uuid], step) if step else None

    over = sum(map(_bytes, citations)) + block_bytes - limit
    for step in (*snippets.STEPS, 0):
        over = smaller(fewer, over, _bytes, partial(cut, step=step))
    citation_bytes = sum(map(_bytes, fewer))
    for step in BLOCK_STEPS:
        if citation_bytes + block_bytes <= limit:
            break
        blocks = [_shorter_block(block, texts[block.uuid], step) for block in blocks]
        block_bytes = sum(_bytes(block) for block in blocks)
    return fewer, blocks, True


def located(
    citations: Sequence[Citation],
    blocks: Sequence[Block],
    chunks: Sequence[StoredChunk],
    limit: int,
) -> list[Citation]:
    """Add page boxes to the snippets, from the first rank, while they fit, and OCR confidences."""
    paged_chunks = {chunk.uuid: chunk for chunk in chunks if isinstance(chunk.page, int)}
    if not paged_chunks:
        return list(citations)
    remaining = limit - sum(map(_bytes, citations)) - sum(map(_bytes, blocks))
    placed_citations = []
    for citation in citations:
        chunk, boxed = paged_chunks.get(citation.uuid), citation
        if chunk and chunk.layout:
            begin = chunk.char_start or 0
            span = citation.char_start - begin, citation.char_end - begin
            places = layout.unpacked(chunk.layout, *span)
            if (sure := layout.certainty(places)) is not None:
                reading = {"ocr": True, "ocr_confidence": sure}
                citation = citation.model_copy(update=reading)  # noqa: PLW2901 - fields added
            boxes = layout.boxes(places, cast(int, chunk.page))
            boxed = citation.model_copy(update={"boxes": boxes})
            remaining -= _bytes(boxed) - _bytes(citation)
        placed_citations.append(boxed if remaining >= 0 else citation)
    return placed_citations


def room(run: Run) -> int:
    """Return the bytes left for citations and blocks in later states."""
    plan, scope = (
        nested_json_bytes(part.model_dump_json(exclude_defaults=True))
        for part in (run.plan, run.scope)
    )
    beside = plan + max(scope, 4 * run.plan.budget_limits.max_tokens_gen)
    remaining = STATE_LIMIT_BYTES - STATE_MARGIN_BYTES - REPORT_MARGIN_BYTES - beside
    return min(GROUNDED_LIMIT_BYTES, remaining)


def shorter(citation: Citation, chunk: StoredChunk, limit: int) -> Citation:
    """Return a citation with a snippet of at most `limit` code points."""
    start = citation.char_start - (chunk.char_start or 0)
    end = citation.char_end - (chunk.char_start or 0)
    new_end = snippets.shortened(chunk.text, chunk.sentences, start, end, limit)
    return citation.model_copy(
        update={
            "snippet": chunk.text[start:new_end],
            "char_end": citation.char_end - (end - new_end),
        }
    )


def _shorter_block(block: Block, chunk: StoredChunk, limit: int) -> Block:
    end = snippets.shortened(
        chunk.text, chunk.sentences, block.start, block.start + len(block.text), limit
    )
    whole = [i for i, span in enumerate(block.sentences) if span[1] <= end - block.start]
    return block.model_copy(
        update={
            "text": chunk.text[block.start : end],
            "sentences": tuple(block.sentences[i] for i in whole),
            "cosines": tuple(block.cosines[i] for i in whole if i < len(block.cosines)),
        }
    )


def _bytes(item: Citation | Block) -> int:
    return nested_json_bytes(item.model_dump_json(exclude_defaults=True))

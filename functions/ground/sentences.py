"""Cosines of sentences and question."""

import base64
from collections.abc import Mapping, Sequence

from docstokg.contracts.language_models import EXTRACTIVE
from docstokg.contracts.records import StoredChunk
from docstokg.contracts.state import Block, Plan
from docstokg.domain import time_budget
from docstokg.domain.answer import relevance
from docstokg.domain.text import snippets
from docstokg.domain.vectors import Floats, unpack, unpacked
from docstokg.ports import SearchIndex
from docstokg.usecases.run import Run


def is_quoted(plan: Plan) -> bool:
    """Return whether the extractive model answers, or is the fallback."""
    synthesis = plan.synthesis
    return synthesis is not None and EXTRACTIVE in (synthesis.model, synthesis.fallback)


def compared(
    run: Run,
    blocks: Sequence[Block],
    chunks: Sequence[StoredChunk],
    query_vector: str | None,
    index: SearchIndex,
) -> list[Block]:
    """Return the blocks with their sentences' cosines, in one more round trip.

    `query_vector`: base64 of float32. Without vectors or index there are no cosines. Cosines are
    raised as by `names_credited`.
    """
    plan = run.plan
    cosines: dict[str, list[float]] = {}
    if query_vector is not None and blocks:
        question = unpack(base64.b64decode(query_vector))
        deadline = run.deadline.limit(*time_budget.SENTENCES)
        uuids = [block.uuid for block in blocks]
        comparison = run.attempt(
            "sentence_vectors", lambda: index.sentence_vectors(uuids, run.scope, deadline), None
        )
        cosines = _cosines(comparison or {}, question)
    texts = {chunk.uuid: chunk for chunk in chunks}
    return [
        _with(block, chunk, names_credited(plan.query, block, chunk, cosines.get(block.uuid, [])))
        for block in blocks
        for chunk in (texts[block.uuid],)
    ]


def names_credited(
    query: str, block: Block, chunk: StoredChunk, cosines: Sequence[float]
) -> Sequence[float]:
    """Return the cosines, raised for sentences with a synonym of a name in the question.

    `cosines`: one per sentence of `chunk`; another number of cosines is returned unchanged.
    """
    if not block.other_names or len(cosines) != len(chunk.sentences):
        return cosines
    question = snippets.question_stems(query)
    names = [
        (snippets.question_stems(other.in_passage), other.in_question)
        for other in block.other_names
    ]
    credited = []
    for cosine, (start, end) in zip(cosines, chunk.sentences, strict=True):
        text, floor = chunk.text[start:end], -1.0
        if called := [alias for name, alias in names if snippets.coverage(name, text) == 1]:
            share = snippets.coverage(question, " ".join((text, *called)))
            floor = relevance.cosine_of(relevance.from_coverage(share))
        credited.append(max(cosine, floor))
    return credited


def _cosines(packed: Mapping[str, bytes], question: Floats) -> dict[str, list[float]]:
    return {
        uuid: (unpacked(joined, question.size) @ question).tolist()
        for uuid, joined in packed.items()
    }


def _with(block: Block, chunk: StoredChunk, cosines: Sequence[float]) -> Block:
    if len(cosines) != len(chunk.sentences):
        return block
    end = block.start + len(block.text)
    near = (
        round(cosine, 4)
        for cosine, (first, last) in zip(cosines, chunk.sentences, strict=True)
        if block.start <= first and last <= end
    )
    return block.model_copy(update={"cosines": tuple(near)})

"""Graph knowledge of a chunk."""

import math
from collections.abc import Mapping, Sequence

from docstokg.contracts.records import StoredChunk
from docstokg.contracts.response import Citation, GraphGain, KgEvidence, KgStats
from docstokg.contracts.state import (
    Block,
    Expansion,
    GraphFact,
    OtherName,
    Plan,
    Ranked,
    Renaming,
    Retrieval,
)
from docstokg.domain.answer import relevance
from docstokg.domain.answer.citations import spliced
from docstokg.domain.text import snippets
from docstokg.domain.text.wording import content_stems
from docstokg.domain.text.words import fold

BLOCK_CHARACTERS = 4000
# Maximum characters of a note.
NOTE = 200


def evidence_of(
    ranked: Ranked, expansion: Expansion | None
) -> tuple[KgEvidence | None, tuple[str, ...]]:
    """Return kg_evidence, None if only the walk or no path led here, and the ids on the path."""
    pointer = ranked.evidence
    if pointer is None or expansion is None:
        return None, ()
    path = tuple(expansion.entities[node].id for node in pointer.nodes)
    if pointer.match_type is None:
        return None, path
    entity = expansion.entities[pointer.entity]
    related = None if pointer.related_to is None else expansion.entities[pointer.related_to]
    evidence = KgEvidence(
        matched_entity=entity.name,
        entity_id=entity.id,
        entity_type=entity.type,
        match_type=pointer.match_type,
        related_to=related.name if related is not None else None,
        path=tuple(expansion.edges[edge] for edge in pointer.path),
        shared_docs=pointer.shared_docs,
    )
    return evidence, path


def credited(
    score: float, query: str, ranked: Ranked, chunk: StoredChunk, expansion: Expansion | None
) -> float:
    """Return a higher score for a chunk whose entity the question names by a synonym.

    The maximum of `score` and the relevance by content words of the question with preferred names,
    times the chunk's focus on the name.
    """
    if expansion is None or not ranked.renamed:
        return score
    renamings = [expansion.renamings[i] for i in ranked.renamed]
    stems = snippets.question_stems(renamed(query, renamings))
    share = snippets.coverage(stems, f"{chunk.title} {chunk.text}")
    share *= max(focus(item.name, chunk) for item in renamings)
    return max(score, relevance.from_coverage(share))


def focus(name: str, chunk: StoredChunk) -> float:
    """Return how much a chunk is about a name, in [0, 1].

    1 if the title or no sentence contains it; else sqrt(2 x its share of the words of the shortest
    sentence with it).
    """
    name_stems = snippets.question_stems(name)
    if not name_stems or name_stems <= snippets.question_stems(chunk.title):
        return 1.0
    naming = [
        len(words)
        for start, end in chunk.sentences or ((0, len(chunk.text)),)
        if name_stems <= (words := snippets.question_stems(chunk.text[start:end]))
    ]
    return min(1.0, math.sqrt(2 * len(name_stems) / min(naming))) if naming else 1.0


def renamed(query: str, renamings: Sequence[Renaming]) -> str:
    """Replace spans of the question by preferred names; of overlapping ones the earliest."""
    changes: list[tuple[int, int, str]] = []
    for change in sorted((item.start, item.end, item.name) for item in renamings):
        if not changes or change[0] >= changes[-1][1]:
            changes.append(change)
    return spliced(query, changes)


def discount(ranked: Ranked, by_retrieval: bool) -> float:
    """Return the factor of a chunk's score.

    Below 1 if no channel found it and the question does not name its entity.
    """
    pointer = ranked.evidence
    if by_retrieval or (pointer and pointer.match_type == "direct_mention"):
        return 1.0
    return relevance.GRAPH_ONLY_DISCOUNT


def other_names(
    query: str, ranked: Ranked | None, expansion: Expansion | None
) -> tuple[OtherName, ...]:
    """Return the names for which question and passage differ.

    Names whose words are all in the passage's ("tar" for "tar(1)") are excluded.
    """
    if ranked is None or expansion is None:
        return ()
    names = (
        OtherName(in_question=query[item.start : item.end], in_passage=item.name)
        for item in (expansion.renamings[i] for i in ranked.renamed)
    )
    return tuple(
        name
        for name in names
        if not set(content_stems(fold(name.in_question)))
        <= set(content_stems(fold(name.in_passage)))
    )


def match_line(evidence: KgEvidence | None, names: Sequence[OtherName] = ()) -> str | None:
    """Return a passage's graph line (entity, match type, name in the question), or None."""
    if evidence is None:
        return None
    kind = f" ({evidence.entity_type})" if evidence.entity_type else ""
    how = "direct mention"
    if evidence.match_type == "related_via":
        how = f"related via {evidence.related_to}"
    for name in names:
        if name.in_passage == evidence.matched_entity:
            how += f", called {name.in_question} in the question"
            break
    return f"{evidence.matched_entity}{kind} - {how}"


def related_facts(
    ranked: Ranked | None, expansion: Expansion | None, ranks: Mapping[str, int]
) -> tuple[GraphFact, ...]:
    """Return the relations of a passage's entity in their stored direction.

    `ranks`: the rank of each passage, by uuid.
    """
    evidence = ranked.evidence if ranked else None
    if evidence is None or evidence.match_type is None or expansion is None:
        return ()
    entities, entity = expansion.entities, evidence.entity
    facts = []
    for item in evidence.related:
        ends = (item.entity, entity) if item.incoming else (entity, item.entity)
        source, target = (entities[end].name for end in ends)
        text = f"{source} -{item.type}-> {target}"
        facts.append(GraphFact(text=text, stated_in=ranks.get(item.evidence or "")))
    return tuple(facts)


def with_path(
    query: str, blocks: Sequence[Block], expansion: Expansion | None
) -> tuple[list[Block], tuple[str, ...]]:
    """Mark the blocks that state the path between two names, and return its facts as notes.

    A path counts only if a block that nothing supersedes states each edge. Without a path, the
    names that nothing joins are marked in each block.
    """
    if expansion is None:
        return list(blocks), ()
    if not expansion.path:
        return _without_path(blocks, expansion.apart), ()
    names = {entity.id: entity.name for entity in expansion.entities}
    current = {block.uuid: block for block in blocks if block.superseded_by is None}
    question_names = {
        renaming.name: query[renaming.start : renaming.end] for renaming in expansion.renamings
    }
    notes: list[str] = []
    ends: set[str] = set()
    steps: dict[str, list[tuple[int, int, int]]] = {}
    for place, edge in enumerate(expansion.edges[i] for i in expansion.path):
        at = edge.evidence
        if at is None or at.uuid not in current:
            return list(blocks), ()
        block, source, target = current[at.uuid], names[edge.src], names[edge.dst]
        ends ^= {source, target}
        if at.start is None or at.end is None:
            span = _naming(block, source, target)
        else:
            span = (at.start - block.start, at.end - block.start)
        steps.setdefault(at.uuid, []).append((place, *span))
        notes.append(f"{source} -{edge.type}-> {target} (stated in [{block.rank}])"[:NOTE])
    joined = tuple(question_names.get(name, name) for name in sorted(ends))
    marked = [
        block.model_copy(update={"steps": tuple(steps.get(block.uuid, ())), "joined": joined})
        for block in blocks
    ]
    return marked, tuple(notes)


def _without_path(blocks: Sequence[Block], names: tuple[str, ...]) -> list[Block]:
    """Mark the blocks as those of two names apart, unless one of them has both."""
    stems = snippets.question_stems(" ".join(names))
    if not names or any(
        snippets.coverage(stems, f"{block.subject} {block.text}") == 1 for block in blocks
    ):
        return list(blocks)
    return [block.model_copy(update={"apart": names}) for block in blocks]


def _naming(block: Block, source: str, target: str) -> tuple[int, int]:
    """Return the first sentence of a block that names most of both ends of an edge."""
    ends = [snippets.question_stems(name) for name in (source, target)]

    def share(span: tuple[int, int]) -> float:
        return sum(snippets.coverage(end, block.text[slice(*span)]) for end in ends)

    return max(block.sentences, key=share, default=(0, len(block.text)))


def stating(expansion: Expansion | None) -> set[str]:
    """Return the uuids of the chunks that state the path between two names of the question."""
    edges = (expansion.edges[i] for i in expansion.path) if expansion else ()
    return {edge.evidence.uuid for edge in edges if edge.evidence is not None}


def gained(
    plan: Plan, retrieval: Retrieval, expansion: Expansion | None, citations: Sequence[Citation]
) -> tuple[KgStats, GraphGain]:
    """Return the graph statistics of the citations; `added`: those that no channel found.

    Without expansion: none, and `skipped` is `failed` or `disabled`.
    """
    if expansion is None:
        skipped = "failed" if plan.expansion.enabled else "disabled"
        without = retrieval.selected[: plan.top_k]
        return KgStats(), GraphGain(top_k_without=without, skipped=skipped)
    expanded = [citation for citation in citations if citation.source == "kg_expansion"]
    added = tuple(citation.uuid for citation in expanded if not citation.channels)
    return (
        expansion.kg_stats.model_copy(update={"chunks_added": len(expanded)}),
        expansion.graph_gain.model_copy(update={"added": added}),
    )

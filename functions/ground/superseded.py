"""Superseded passages."""

from collections.abc import Callable, Collection, Mapping, Sequence

from docstokg.contracts.records import StoredChunk
from docstokg.contracts.response import Citation, Conflict, Span
from docstokg.contracts.state import Block
from docstokg.domain import supersedes
from docstokg.domain.text.words import normalise

# Maximum entries of `conflicts`.
MOST_LISTED = 20


def replacements(
    chunks: Sequence[StoredChunk],
    home: Callable[[StoredChunk], str],
    verb: supersedes.Verb = "supersedes",
) -> dict[str, str]:
    """Map the uuid of each superseded (or amended) chunk to that of the newer document.

    `chunks`: in rank order. `home`: returns the namespace of a chunk, within which names resolve.
    """
    if not any(supersedes.declared(chunk.metadata, verb) for chunk in chunks):
        return {}
    keys = [(home(chunk), chunk.doc_id) for chunk in chunks]
    newer: dict[tuple[str, str], frozenset[tuple[str, str]]] = {}
    for namespace in {namespace for namespace, _ in keys}:
        documents = [
            supersedes.Document(
                key,
                chunk.doc_id,
                chunk.document_name or "",
                chunk.title,
                supersedes.declared(chunk.metadata, verb),
            )
            for key, chunk in zip(keys, chunks, strict=True)
            if key[0] == namespace
        ]
        newer |= supersedes.links(documents).newer
    passages = [(key, chunk.section or "") for key, chunk in zip(keys, chunks, strict=True)]
    replaced = supersedes.pairs(passages, newer)
    return {chunks[older].uuid: chunks[newer].uuid for older, newer in replaced.items()}


def amendments(
    citations: Sequence[Citation], block_ranks: Collection[int], amended_by: Mapping[str, str]
) -> list[str]:
    """Return a warning per pair of a passage and its amendment with both ranks in `block_ranks`."""
    ranks = {citation.uuid: citation.rank for citation in citations if citation.rank in block_ranks}
    return [
        f"[{ranks[newer]}] amends [{ranks[older]}]."
        for older, newer in amended_by.items()
        if newer in ranks and older in ranks
    ]


def editions(query: str, blocks: Sequence[Block], chunks: Sequence[StoredChunk]) -> list[Block]:
    """Set `edition` in the blocks of a series' newest document, `newest` in those of the others.

    If the question names an edition, that one takes the place of the newest, without `edition`; if
    it names a year or version of no member, the series is unchanged.
    """
    sources = {chunk.uuid: chunk for chunk in chunks}
    documents = {block.uuid: sources[block.uuid].doc_id for block in blocks}
    titles: dict[str, str] = {}
    headings: dict[str, set[str]] = {}
    for uuid, doc_id in documents.items():
        title, section = _edition_title(sources[uuid])
        # A passage above the first heading has the title without the edition.
        titles[doc_id] = max(title, titles.get(doc_id, ""), key=len)
        headings.setdefault(doc_id, set()).add(section)
    is_named = supersedes.names_edition(query)
    updates: dict[str, dict[str, object]] = {}
    for members in supersedes.series(titles, headings):
        named = [member for member in members if member[1].casefold() in query.casefold()]
        if is_named and len(named) != 1:
            continue
        chosen, label = (named or members)[0]
        rank = next(block.rank for block in blocks if documents[block.uuid] == chosen)
        others = ", ".join(
            dict.fromkeys(edition for doc_id, edition in members if doc_id != chosen)
        )
        text = f"newest of {len(members)}: {label}; also {others}"
        updates |= {doc_id: {"newest": rank} for doc_id, _ in members}
        updates[chosen] = {"edition": "" if named else text}
    return [block.model_copy(update=updates.get(documents[block.uuid], {})) for block in blocks]


def _edition_title(chunk: StoredChunk) -> tuple[str, str]:
    """Return title and section; the first heading is the title if it only adds an edition to it."""
    section = chunk.section or ""
    first = (*chunk.headings, section)[0]
    parsed = supersedes.edition(first)
    if parsed is None or parsed.base != normalise(chunk.title):
        return chunk.title, section
    return first, section if chunk.headings else ""


def conflicts(
    citations: Sequence[Citation], chunks: Sequence[StoredChunk], replaced_by: Mapping[str, str]
) -> tuple[Conflict, ...]:
    """Return the first MOST_LISTED citations of superseded documents, with cited replacements."""
    ranks = {citation.uuid: citation.rank for citation in citations}
    spans = {chunk.uuid: _span(chunk) for chunk in chunks}
    conflicting = sorted(
        (ranks[newer], ranks[older], newer, older)
        for older, newer in replaced_by.items()
        if older in ranks and newer in ranks
    )
    return tuple(
        Conflict(ranks=(first, second), spans=(spans[newer], spans[older]), kind="superseded")
        for first, second, newer, older in conflicting[:MOST_LISTED]
    )


def marked(blocks: Sequence[Block], replaced_by: Mapping[str, str]) -> list[Block]:
    """Set `superseded_by` (a rank) in the blocks whose replacement is also given to the model."""
    ranks = {block.uuid: block.rank for block in blocks}
    return [
        block.model_copy(update={"superseded_by": ranks.get(replaced_by.get(block.uuid, ""))})
        for block in blocks
    ]


def _span(chunk: StoredChunk) -> Span:
    start = chunk.char_start or 0
    return Span(uuid=chunk.uuid, char_start=start, char_end=start + len(chunk.text))

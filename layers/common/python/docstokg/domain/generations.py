"""Generations: old and new text of a document never appear in the same answer.

A store without atomic replacement writes a generation to a document's chunks; readers ignore the
older.
"""

from collections.abc import Iterable

from docstokg.contracts.records import StoredChunk


def outdated(chunks: Iterable[StoredChunk]) -> set[str]:
    """Return the uuids of chunks whose document also has a later generation."""
    chunks = list(chunks)
    latest: dict[str, str] = {}
    for chunk in chunks:
        latest[chunk.doc_id] = max(latest.get(chunk.doc_id, ""), chunk.generation)
    return {chunk.uuid for chunk in chunks if chunk.generation < latest[chunk.doc_id]}

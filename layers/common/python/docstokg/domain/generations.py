"""Old and new text of one document never stand in one answer, whatever a load is doing meanwhile.

A store that cannot replace a document in one step writes the generation of the load beside each
of its chunks, also beside those that stay. Between the first and the last of these writes a reader
may meet both generations: then the older one is as good as gone.
"""

from collections.abc import Iterable

from docstokg.contracts.records import StoredChunk


def outdated(chunks: Iterable[StoredChunk]) -> set[str]:
    """List the uuids of chunks whose document is there in a later generation, too.

    Generations are ULIDs: they sort by time; "" is before all.
    """
    chunks = list(chunks)
    latest: dict[str, str] = {}
    for chunk in chunks:
        latest[chunk.doc_id] = max(latest.get(chunk.doc_id, ""), chunk.generation)
    return {chunk.uuid for chunk in chunks if chunk.generation < latest[chunk.doc_id]}

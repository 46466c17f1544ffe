"""Chunks of earlier loads come to mention what a load names."""

from itertools import batched

from docstokg.contracts.records import MentionRecord, StoredChunk
from docstokg.domain.identity import chunk_uuid
from docstokg.domain.linking import Linker
from docstokg.loading.context import READ_S, ROW_BATCH, Context
from docstokg.loading.entity_book import EntityBook
from docstokg.loading.given import GivenChunk
from docstokg.loading.mentions import mentions_of
from docstokg.loading.readers.documents import is_telling
from docstokg.loading.records import is_linked_here

RELATION_BATCH = 20


def relink(context: Context, book: EntityBook, linker: Linker, fresh: Linker) -> None:
    """Link again every earlier chunk that holds a name of `fresh`, or states an edge of this load.

    Given mentions stay as they are.
    """
    mine = {chunk_uuid(context.namespace, chunk.id) for chunk in context.staging.chunks()}
    known = context.stores.graph_writer.chunk_uuids(context.namespace)
    others = [uuid for uuid in known if uuid not in mine]
    stating = set(context.staging.evidence()) - mine
    if not others or not (fresh or stating):
        return
    stated = _stated_by(context, set(others))
    for uuid in stating:
        # The store shows an entity only once something mentions it: these ends are still unseen.
        stated.setdefault(uuid, set()).update(context.staging.endpoints(uuid))
    with context.progress.stage("earlier chunks", len(others)) as advance:
        for batch in batched(others, ROW_BATCH, strict=False):
            marks = context.stores.index_writer.known(context.namespace, batch)
            linkable = [uuid for uuid in batch if uuid in marks and is_linked_here(marks[uuid])]
            chunks = context.stores.search_index.get(linkable, context.scope, READ_S).chunks
            mentions: dict[str, list[MentionRecord]] = {
                uuid: mentions_of(
                    _as_given(chunk), uuid, linker, book.names, sorted(stated.get(uuid, ()))
                )
                for uuid, chunk in sorted(chunks.items())
                if uuid in stating or fresh.find(chunk.text)
            }
            if mentions:
                book.write_named(row.entity for rows in mentions.values() for row in rows)
                context.stores.graph_writer.put_mentions(context.namespace, mentions)
                context.report.relinked += len(mentions)
            advance(len(batch))


def _as_given(chunk: StoredChunk) -> GivenChunk:
    """Give what linking needs; only documents read whole have sections with an anchor."""
    heading = chunk.section if chunk.section and chunk.anchor else None
    return GivenChunk(
        id=chunk.chunk_id,
        doc_id=chunk.doc_id,
        text=chunk.text,
        title=chunk.title,
        names=(heading,) if heading and is_telling(heading) else (),
    )


def _stated_by(context: Context, uuids: set[str]) -> dict[str, set[str]]:
    """Map each of these chunks to the ends of the edges it states."""
    found: dict[str, set[str]] = {}
    aliases = context.stores.graph_writer.aliases(context.namespace)
    entities = sorted({entry[1] for entry in aliases})
    for batch in batched(entities, RELATION_BATCH, strict=False):
        edges = context.stores.knowledge_graph.relations_of(batch, context.scope, READ_S)
        for edge in edges:
            if edge.evidence_uuid in uuids:
                found.setdefault(edge.evidence_uuid, set()).update((edge.source, edge.target))
    return found

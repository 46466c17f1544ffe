"""Relinking of stored chunks."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import batched

from docstokg.contracts.records import StoredChunk
from docstokg.domain.deadline import Deadline
from docstokg.domain.graph.linking import Linker
from docstokg.domain.identity import chunk_uuid
from docstokg.domain.text.names import heading_name, title_names
from docstokg.domain.text.words import fold
from docstokg.loading.context import READ_S, ROW_BATCH
from docstokg.loading.names.candidates import as_raw
from docstokg.loading.names.mentions import MentionFinder
from docstokg.loading.read.records import is_linked_here
from docstokg.loading.resolve.entity_resolver import EntityResolver


@dataclass(frozen=True, slots=True)
class ChangedNames:
    """Names that lead to other entities after the load.

    `keys`: linker of the changed alias keys. `heads`: folded titles and section labels that name
    another entity, or none. `everything`: relink all chunks.
    """

    keys: Linker
    heads: Set[str]
    everything: bool

    def __bool__(self) -> bool:
        return bool(self.keys) or bool(self.heads) or self.everything

    def concern(self, chunk: StoredChunk) -> bool:
        """Return whether a chunk has to be relinked."""
        if self.everything or self.keys.find(chunk.text):
            return True
        if not self.heads:
            return False
        heads = title_names(chunk.title, chunk.document_name, chunk.doc_id)[:1]
        heading = heading_name(chunk.section) if chunk.section else None
        return any(fold(head) in self.heads for head in (*heads, heading) if head)


def relink(
    resolver: EntityResolver, finder: MentionFinder, changed: ChangedNames, after: str = ""
) -> Iterator[str]:
    """Relink every stored chunk that has a changed name or states an edge of this load.

    Given mentions are kept. Yields the last chunk's uuid of each batch; `after`: resume after it.
    """
    context = resolver.context
    mine = {chunk_uuid(context.namespace, chunk.id) for chunk in context.staging.chunks()}
    stored = context.stores.graph_writer.labels(context.namespace)
    others = [uuid for uuid, *_ in stored if uuid > after and uuid not in mine]
    stating = set(context.staging.evidence()) - mine
    if not others or not (changed or stating):
        return
    with context.progress.stage("earlier chunks", len(others)) as advance:
        for batch in batched(others, ROW_BATCH):
            marks = context.stores.index_writer.fingerprints(context.namespace, batch)
            linkable = [uuid for uuid in batch if uuid in marks and is_linked_here(marks[uuid])]
            chunks = context.stores.search_index.get(
                linkable, context.scope, Deadline.after(READ_S)
            ).chunks
            concerned = {
                uuid: chunk
                for uuid, chunk in sorted(chunks.items())
                if uuid in stating or changed.concern(chunk)
            }
            if concerned:
                _link(resolver, finder, concerned)
            advance(len(batch))
            yield batch[-1]


def _link(
    resolver: EntityResolver, finder: MentionFinder, chunks: Mapping[str, StoredChunk]
) -> None:
    context = resolver.context
    stated = context.stores.graph_writer.stated(context.namespace, list(chunks))
    mentions = {}
    for uuid, chunk in chunks.items():
        ends = {*stated.get(uuid, ()), *context.staging.endpoints(uuid)}
        mentions[uuid] = finder.mentions(as_raw(chunk), uuid, sorted(ends))
    resolver.write_named(row.entity for rows in mentions.values() for row in rows)
    context.stores.graph_writer.put_mentions(context.namespace, mentions)
    context.report.relinked += len(mentions)

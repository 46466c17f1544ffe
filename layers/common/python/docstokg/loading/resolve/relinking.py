"""Chunks of earlier loads come to mention what a load names."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import batched

from docstokg.contracts.records import StoredChunk
from docstokg.domain.graph.linking import Linker
from docstokg.domain.identity import chunk_uuid
from docstokg.domain.text.names import heading_name
from docstokg.domain.text.words import fold
from docstokg.loading.context import READ_S, ROW_BATCH, Context
from docstokg.loading.names.candidates import as_given
from docstokg.loading.names.mentions import MentionFinder
from docstokg.loading.read.records import is_linked_here
from docstokg.loading.resolve.entity_book import EntityBook


@dataclass(frozen=True, slots=True)
class News:
    """What a load changes for earlier chunks: names, section labels; `everything` for all."""

    names: Linker
    labels: Set[str]
    everything: bool

    def __bool__(self) -> bool:
        return bool(self.names) or bool(self.labels) or self.everything

    def concerns(self, chunk: StoredChunk) -> bool:
        """Tell whether a chunk has to be linked again."""
        if self.everything or self.names.find(chunk.text):
            return True
        heading = heading_name(chunk.section) if self.labels and chunk.section else None
        return heading is not None and fold(heading) in self.labels


def relink(
    context: Context, book: EntityBook, finder: MentionFinder, news: News, after: str = ""
) -> Iterator[str]:
    """Link again every earlier chunk that the news concern, or that states an edge of this load.

    Given mentions stay as they are. Yields the last chunk's uuid after each batch, in their order;
    `after`: the last one that was linked before.
    """
    mine = {chunk_uuid(context.namespace, chunk.id) for chunk in context.staging.chunks()}
    stored = context.stores.graph_writer.chunk_uuids(context.namespace)
    others = [uuid for uuid in stored if uuid > after and uuid not in mine]
    stating = set(context.staging.evidence()) - mine
    if not others or not (news or stating):
        return
    with context.progress.stage("earlier chunks", len(others)) as advance:
        for batch in batched(others, ROW_BATCH, strict=False):
            marks = context.stores.index_writer.fingerprints(context.namespace, batch)
            linkable = [uuid for uuid in batch if uuid in marks and is_linked_here(marks[uuid])]
            chunks = context.stores.search_index.get(linkable, context.scope, READ_S).chunks
            concerned = {
                uuid: chunk
                for uuid, chunk in sorted(chunks.items())
                if uuid in stating or news.concerns(chunk)
            }
            if concerned:
                _link(context, book, finder, concerned)
            advance(len(batch))
            yield batch[-1]


def _link(
    context: Context, book: EntityBook, finder: MentionFinder, chunks: Mapping[str, StoredChunk]
) -> None:
    stated = context.stores.graph_writer.stated(context.namespace, list(chunks))
    mentions = {}
    for uuid, chunk in chunks.items():
        ends = {*stated.get(uuid, ()), *context.staging.endpoints(uuid)}
        mentions[uuid] = finder.mentions(as_given(chunk), uuid, sorted(ends))
    book.write_named(row.entity for rows in mentions.values() for row in rows)
    context.stores.graph_writer.put_mentions(context.namespace, mentions)
    context.report.relinked += len(mentions)

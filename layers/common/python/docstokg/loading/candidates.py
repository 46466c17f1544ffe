"""Which names a load brings: titles, headings, abbreviations and what a recogniser finds."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import batched

from docstokg.contracts.records import FoundName, StoredChunk
from docstokg.domain.identity import chunk_uuid, is_id
from docstokg.domain.linking import abbreviations
from docstokg.domain.manual_pages import other_names, page_name, references
from docstokg.domain.names import (
    MANY_DOCUMENTS,
    capitalised_names,
    heading_name,
    is_definition,
    prose,
    title_names,
)
from docstokg.domain.words import fold
from docstokg.loading.context import READ_S, ROW_BATCH, Context
from docstokg.loading.given import GivenChunk
from docstokg.loading.records import is_linked_here
from docstokg.ports import NameFinder

RULE = "capitals-4"
"""What finds names where no pipeline is installed; the number changes when its rules do."""

TITLE = "Title"
HEADING = "Heading"
MANUAL = "Manual"
FIND_BATCH = 128

Label = tuple[str, str, str, str]
"""Chunk uuid, document id, title and section of a chunk."""


class Labels:
    """Titles and sections of a namespace, and which of them only name parts of documents.

    Counted over the chunks of store and load together, so that the order of loads is no matter.
    `changed`: section labels that this load makes such, or no longer such.
    """

    def __init__(self, stored: Sequence[Label], staged: Iterable[Label], gone: set[str]) -> None:
        """Take the labels before and after; `gone`: uuids that the load replaces or removes."""
        titled = [*stored, *staged]
        before: dict[str, set[str]] = {}
        after: dict[str, set[str]] = {}
        for uuid, doc_id, _, section in stored:
            if key := _key(section):
                before.setdefault(key, set()).add(doc_id)
                if uuid not in gone:
                    after.setdefault(key, set()).add(doc_id)
        for _, doc_id, _, section in titled[len(stored) :]:
            if key := _key(section):
                after.setdefault(key, set()).add(doc_id)
        self._titles = {fold(title) for _, _, title, _ in titled if title}
        self.common = _common(after)
        self.changed = self.common ^ _common(before)

    @classmethod
    def of(cls, titles: Iterable[str], common: Iterable[str], changed: Iterable[str]) -> "Labels":
        """Give labels that were counted before: see `counted`."""
        labels = cls((), (), set())
        labels._titles = set(titles)
        labels.common, labels.changed = frozenset(common), frozenset(changed)
        return labels

    def counted(self) -> tuple[list[str], list[str], list[str]]:
        """List folded titles, common and changed section labels, each sorted; see `of`."""
        return sorted(self._titles), sorted(self.common), sorted(self.changed)

    def heads(self, chunk: GivenChunk) -> tuple[str, ...]:
        """List the names of what a chunk is about: its document's title, its section's heading."""
        titles = title_names(chunk.title, chunk.document_name, chunk.doc_id)[:1]
        heading = self.heading(chunk.section)
        return titles if heading is None else tuple(dict.fromkeys((*titles, heading)))

    def is_part(self, key: str) -> bool:
        """Tell whether a folded name is a label of many documents, and the title of none."""
        return key in self.common and key not in self._titles

    def heading(self, section: str | None) -> str | None:
        """Give the name a section's label is, unless it is one of many documents."""
        name = heading_name(section) if section else None
        return None if name is None or fold(name) in self.common else name


def _key(section: str) -> str | None:
    name = heading_name(section) if section else None
    return None if name is None else fold(name)


def _common(documents: dict[str, set[str]]) -> frozenset[str]:
    return frozenset(key for key, ids in documents.items() if len(ids) >= MANY_DOCUMENTS)


def labels_of(context: Context, removed: Sequence[str]) -> Labels:
    """Read the labels of store and load, without the documents that the load removes."""
    gone = {chunk_uuid(context.namespace, chunk.id) for chunk in context.staging.chunks()}
    for doc_id in (*context.staging.documents(every=context.replace_docs), *removed):
        gone.update(context.stores.index_writer.doc_uuids(context.namespace, doc_id))
    stored = tuple(context.stores.graph_writer.labels(context.namespace))
    staged = (
        ("", chunk.doc_id, chunk.title, chunk.section or "") for chunk in context.staging.chunks()
    )
    return Labels(stored, staged, gone)


def recogniser_of(context: Context) -> str:
    """Name what finds names in this load."""
    finder = context.stores.names
    return RULE if finder is None else finder.model


def stage_names(context: Context, labels: Labels, earlier: bool) -> None:
    """Keep every name of the load's chunks, and of the store's when `earlier`."""
    total = context.staging.count("chunk")
    with context.progress.stage("names", total) as advance:
        for batch in batched(context.staging.chunks(), FIND_BATCH, strict=False):
            _keep(context, labels, batch)
            advance(len(batch))
        if earlier:
            for some in _earlier(context):
                _keep(context, labels, some)


def _keep(context: Context, labels: Labels, batch: Sequence[GivenChunk]) -> None:
    staging = context.staging
    for chunk in batch:
        names = title_names(chunk.title, chunk.document_name, chunk.doc_id)
        if names:
            staging.add_name(names[0], TITLE)
            for other in names[1:]:
                staging.add_name(names[0], TITLE, other)
            if page_name(chunk.title):
                _keep_pages(context, names[0], chunk.text)
        if heading := labels.heading(chunk.section):
            staging.add_name(heading, HEADING)
        for mention in chunk.mentions or ():
            if not is_id(mention.entity):
                staging.add_name(mention.entity)
        if "(" in chunk.text or "[" in chunk.text:
            for abbreviation in abbreviations(prose(chunk.text)):
                long = " ".join(abbreviation.long.split())
                if is_definition(long, abbreviation.short):
                    staging.add_name(long, "", abbreviation.short)
    linked = [chunk for chunk in batch if not has_given_mentions(chunk)]
    for names_found in find(context, [chunk.text for chunk in linked]):
        for found_name in names_found:
            if not labels.is_part(fold(found_name.text)):
                staging.add_name(found_name.text, found_name.kind or "")


def _keep_pages(context: Context, title: str, text: str) -> None:
    """Keep what a manual's page is also called, and the pages it points to.

    Each chunk tells by itself, so that the order of loads is no matter. A page that is not loaded
    has no bare word: `id(1)` is named so, and "id" is a word of every manual.
    """
    for name in other_names(text):
        context.staging.add_name(title, TITLE, name)
    for page in references(text):
        context.staging.add_name(page, MANUAL)


def find(context: Context, texts: Sequence[str]) -> Sequence[Sequence[FoundName]]:
    """Find the names of each text, by the pipeline or by the rule."""
    return find_names(context.stores.names, texts)


def has_given_mentions(chunk: GivenChunk) -> bool:
    """Tell whether a chunk came with its mentions: then nothing is read from its text."""
    return chunk.mentions is not None


def find_names(finder: NameFinder | None, texts: Sequence[str]) -> Sequence[Sequence[FoundName]]:
    """Find the names of each text, by `finder` or, without one, by the rule."""
    if finder is not None:
        return finder.find(texts)
    return [[FoundName(name) for name in dict.fromkeys(capitalised_names(t))] for t in texts]


def _earlier(context: Context) -> Iterator[list[GivenChunk]]:
    mine = {chunk_uuid(context.namespace, chunk.id) for chunk in context.staging.chunks()}
    stored = context.stores.graph_writer.chunk_uuids(context.namespace)
    for batch in batched((uuid for uuid in stored if uuid not in mine), ROW_BATCH, strict=False):
        marks = context.stores.index_writer.fingerprints(context.namespace, batch)
        linkable = [uuid for uuid in batch if uuid in marks and is_linked_here(marks[uuid])]
        chunks = context.stores.search_index.get(linkable, context.scope, READ_S).chunks
        yield [as_given(chunk) for _, chunk in sorted(chunks.items())]


def as_given(chunk: StoredChunk) -> GivenChunk:
    """Give what naming and linking need of a stored chunk."""
    return GivenChunk(
        id=chunk.chunk_id,
        doc_id=chunk.doc_id,
        text=chunk.text,
        title=chunk.title,
        document_name=chunk.document_name,
        section=chunk.section,
    )

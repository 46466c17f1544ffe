"""Which names a load brings: titles, headings, abbreviations and what a recogniser finds."""

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import batched

from docstokg.contracts.records import FoundName, StoredChunk
from docstokg.domain.graph.same_names import same_names
from docstokg.domain.identity import chunk_uuid, is_id
from docstokg.domain.text.names import MANY_DOCUMENTS, capitalised_names, heading_name, title_names
from docstokg.domain.text.words import fold
from docstokg.loading.context import Context
from docstokg.loading.read.raw_input import RawChunk
from docstokg.ports import NameFinder

RULE = "capitals-4"
"""What finds names where no pipeline is installed; the number changes when its rules do."""

TITLE = "Title"
HEADING = "Heading"
FIND_BATCH = 128

Label = tuple[str, str, str, str]
"""Chunk uuid, document id, title and section of a chunk."""

NameRow = tuple[str, str, str]
"""A name as it is written, its kind or "", and another form of it or ""."""


class Labels:
    """Titles and sections of a namespace, and which of them only name parts of documents.

    Counted over the chunks of store and load together, so that the order of loads is no matter.
    `changed`: labels that this load makes parts of documents, or no longer such; `freed`: those
    of them that are names from now on.
    """

    freed: frozenset[str] = frozenset()

    def __init__(self, stored: Sequence[Label], staged: Iterable[Label], gone: Set[str]) -> None:
        """Take the labels before and after; `gone`: uuids that the load replaces or removes."""
        before, after = _Sections(), _Sections()
        for uuid, doc_id, title, section in stored:
            before.add(doc_id, title, section)
            if uuid not in gone:
                after.add(doc_id, title, section)
        for _, doc_id, title, section in staged:
            after.add(doc_id, title, section)
        self._titles, self.common = after.titles, after.common()
        common = before.common()
        parts = common - before.titles, self.common - after.titles
        self.changed = (common ^ self.common) | (parts[0] ^ parts[1])
        self.freed = (common - self.common) | (parts[0] - parts[1])

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

    def heads(self, chunk: RawChunk) -> tuple[str, ...]:
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


class _Sections:
    """Folded titles, and the documents of each folded section label."""

    def __init__(self) -> None:
        self.titles: set[str] = set()
        self._documents: dict[str, set[str]] = {}

    def add(self, doc_id: str, title: str, section: str) -> None:
        if title:
            self.titles.add(fold(title))
        if (name := heading_name(section) if section else None) is not None:
            self._documents.setdefault(fold(name), set()).add(doc_id)

    def common(self) -> frozenset[str]:
        """Give the labels of many documents."""
        return frozenset(k for k, ids in self._documents.items() if len(ids) >= MANY_DOCUMENTS)


def leaving_of(context: Context, removed: Sequence[str]) -> set[str]:
    """Give the uuids that a load writes, replaces or removes; `removed`: documents that go."""
    gone = {chunk_uuid(context.namespace, chunk.id) for chunk in context.staging.chunks()}
    for doc_id in (*context.staging.documents(every=context.replace_docs), *removed):
        gone.update(context.stores.index_writer.doc_uuids(context.namespace, doc_id))
    return gone


def labels_of(context: Context, leaving: Set[str]) -> Labels:
    """Read the labels of store and load; `leaving`: see `leaving_of`."""
    stored = tuple(context.stores.graph_writer.labels(context.namespace))
    staged = (
        ("", chunk.doc_id, chunk.title, chunk.section or "") for chunk in context.staging.chunks()
    )
    return Labels(stored, staged, leaving)


def recogniser_of(context: Context) -> str:
    """Name what finds names in this load."""
    finder = context.stores.names
    return RULE if finder is None else finder.model


def stage_names(context: Context, labels: Labels) -> None:
    """Keep every name of the load's chunks."""
    with context.progress.stage("names", context.staging.count("chunk")) as advance:
        for batch in batched(context.staging.chunks(), FIND_BATCH, strict=False):
            for row in candidate_names(context.stores.names, labels, batch):
                context.staging.add_name(*row)
            advance(len(batch))


def candidate_names(  # noqa: C901 - one branch a place names stand in
    finder: NameFinder | None, labels: Labels, batch: Sequence[RawChunk]
) -> Iterator[NameRow]:
    """Yield the names that chunks bring; `finder`: see `find_names`."""
    for chunk in batch:
        names = title_names(chunk.title, chunk.document_name, chunk.doc_id)
        if names:
            yield names[0], TITLE, ""
            for other in names[1:]:
                yield names[0], TITLE, other
        if heading := labels.heading(chunk.section):
            yield heading, HEADING, ""
        for mention in chunk.mentions or ():
            if not is_id(mention.entity):
                yield mention.entity, "", ""
        for same in same_names(chunk.text, chunk.title):
            yield same.name, "", ""
            yield same.other, "", ""
    linked = [chunk for chunk in batch if not has_own_mentions(chunk)]
    for names_found in find_names(finder, [chunk.text for chunk in linked]):
        for found_name in names_found:
            if not labels.is_part(fold(found_name.text)):
                yield found_name.text, found_name.kind or "", ""


def has_own_mentions(chunk: RawChunk) -> bool:
    """Tell whether a chunk came with its mentions: then nothing is read from its text."""
    return chunk.mentions is not None


def find_names(finder: NameFinder | None, texts: Sequence[str]) -> Sequence[Sequence[FoundName]]:
    """Find the names of each text, by `finder` or, without one, by the rule."""
    if finder is not None:
        return finder.find(texts)
    return [[FoundName(name) for name in dict.fromkeys(capitalised_names(t))] for t in texts]


def as_raw(chunk: StoredChunk) -> RawChunk:
    """Give what naming and linking need of a stored chunk."""
    return RawChunk(
        id=chunk.chunk_id,
        doc_id=chunk.doc_id,
        text=chunk.text,
        title=chunk.title,
        document_name=chunk.document_name,
        section=chunk.section,
    )

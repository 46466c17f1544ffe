"""Names in chunks."""

import json
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import batched, chain
from typing import NamedTuple

from docstokg.contracts import compact_json
from docstokg.contracts.records import FoundName, StoredChunk
from docstokg.domain.graph.same_names import same_names
from docstokg.domain.identity import chunk_uuid, is_id, text_sha256
from docstokg.domain.text.names import MANY_DOCUMENTS, capitalised_names, heading_name, title_names
from docstokg.domain.text.words import fold
from docstokg.loading.context import Context
from docstokg.loading.read.raw_input import RawChunk
from docstokg.ports import NameFinder

# Version of the fallback rule; increase it when the rule changes.
RULE = "capitals-4"

TITLE = "Title"
HEADING = "Heading"
FIND_BATCH = 128

# Document id, title and section of a chunk.
Label = tuple[str, str, str]

# Place of a name that the recogniser found in the text.
FOUND = "Found"

# A name as written, its kind or "", and another form of it or "".
NameRow = tuple[str, str, str]


class ChunkName(NamedTuple):
    """A name in a chunk: see `NameRow`. `place`: `HEADING`, `FOUND` or "" (always kept)."""

    surface: str
    kind: str = ""
    other: str = ""
    place: str = ""


class NamesRecord(NamedTuple):
    """The names of a chunk as the graph stores them; `digest`: see `naming_digest`."""

    digest: str
    names: Sequence[ChunkName]

    @classmethod
    def read(cls, text: str) -> "NamesRecord":
        """Parse the output of `text`; "" is an empty record."""
        digest, names = json.loads(text) if text else ("", ())
        return cls(digest, [ChunkName(*name) for name in names])

    def text(self) -> str:
        """Return JSON."""
        return compact_json([self.digest, self.names])


def naming_digest(recogniser: str, chunk: RawChunk) -> str:
    """Return a hash of a chunk's inputs for names, except given mentions."""
    finder = "" if has_own_mentions(chunk) else recogniser
    place = (chunk.title, chunk.document_name, chunk.doc_id, chunk.section)
    content = json.dumps([finder, chunk.text, *place])
    return text_sha256(content)[:16]


class Labels(NamedTuple):
    """Section labels of a namespace.

    `common`: folded section labels of many documents. `parts`: those that are no document's title.
    """

    common: Set[str] = frozenset()
    parts: Set[str] = frozenset()

    @classmethod
    def counted(cls, rows: Iterable[Label]) -> "Labels":
        """Return the labels of a namespace from (doc_id, title, section) of every chunk."""
        titles: set[str] = set()
        documents: dict[str, set[str]] = {}
        for doc_id, title, section in rows:
            if title:
                titles.add(fold(title))
            if (name := heading_name(section)) is not None:
                documents.setdefault(fold(name), set()).add(doc_id)
        common = frozenset(key for key, ids in documents.items() if len(ids) >= MANY_DOCUMENTS)
        return cls(common, common - titles)

    def heads(self, chunk: RawChunk | StoredChunk) -> tuple[str, ...]:
        """Return the names of a chunk's title and, unless common, section heading."""
        titles = title_names(chunk.title, chunk.document_name, chunk.doc_id)[:1]
        heading = self.heading(chunk.section)
        return titles if heading is None else tuple(dict.fromkeys((*titles, heading)))

    def heading(self, section: str | None) -> str | None:
        """Return the name in a section label, None if missing or common to many documents."""
        name = heading_name(section or "")
        return None if name is None or fold(name) in self.common else name

    def names(self, rows: Iterable[ChunkName]) -> Iterator[NameRow]:
        """Yield a chunk's names, without common headings and found labels of document parts."""
        for surface, kind, other, place in rows:
            labels = {HEADING: self.common, FOUND: self.parts}.get(place)
            if not labels or fold(surface) not in labels:
                yield surface, kind, other


def leaving_of(context: Context, removed: Sequence[str]) -> set[str]:
    """Return the uuids that a load writes, replaces or removes; `removed`: doc_ids."""
    leaving = {chunk_uuid(context.namespace, chunk.id) for chunk in context.staging.chunks()}
    for doc_id in (*context.staging.documents(every=context.options.replace_docs), *removed):
        leaving.update(context.stores.index_writer.doc_uuids(context.namespace, doc_id))
    return leaving


def labels_of(context: Context, leaving: Set[str]) -> tuple[Labels, Labels]:
    """Return the labels of the store and of the store after this load.

    `leaving`: the uuids of `leaving_of`.
    """
    staged = ((c.doc_id, c.title, c.section or "") for c in context.staging.chunks())
    stored = tuple(context.stores.graph_writer.labels(context.namespace))
    staying = (row[1:] for row in stored if row[0] not in leaving)
    return Labels.counted(row[1:] for row in stored), Labels.counted(chain(staying, staged))


def installed_recogniser(context: Context) -> str:
    """Return the name of the recogniser of this process, RULE without one."""
    finder = context.stores.names
    return RULE if finder is None else finder.model


def recogniser_of(context: Context) -> str:
    """Return the load's recogniser: the stored one if it loads no chunk, else the installed one."""
    stored = context.stores.graph_writer.recogniser(context.namespace)
    if stored and not context.staging.count("chunk"):
        return stored
    return installed_recogniser(context)


def stage_names(context: Context, labels: Labels) -> None:
    """Stage the names of every chunk of the load."""
    recogniser = installed_recogniser(context)
    with context.progress.stage("names", context.staging.count("chunk")) as advance:
        for batch in batched(context.staging.chunks(), FIND_BATCH):
            names_by_chunk = chunk_names(context.stores.names, batch)
            for chunk, names in zip(batch, names_by_chunk, strict=True):
                record = NamesRecord(naming_digest(recogniser, chunk), names)
                context.staging.add_names(chunk_uuid(context.namespace, chunk.id), record.text())
                for row in labels.names(names):
                    context.staging.add_name(*row)
            advance(len(batch))


def chunk_names(finder: NameFinder | None, batch: Sequence[RawChunk]) -> list[list[ChunkName]]:
    """Return each chunk's distinct names, which depend only on chunk and `finder`."""
    names = found_names(finder, batch)
    return [list(dict.fromkeys(_names_of(*row))) for row in zip(batch, names, strict=True)]


def _names_of(chunk: RawChunk, recognised: Iterable[FoundName]) -> Iterator[ChunkName]:
    titles = title_names(chunk.title, chunk.document_name, chunk.doc_id)
    if titles:
        yield ChunkName(titles[0], TITLE)
        for other in titles[1:]:
            yield ChunkName(titles[0], TITLE, other)
    if heading := heading_name(chunk.section or ""):
        yield ChunkName(heading, HEADING, place=HEADING)
    for mention in chunk.mentions or ():
        if not is_id(mention.entity):
            yield ChunkName(mention.entity)
    for same in same_names(chunk.text, chunk.title):
        yield ChunkName(same.name)
        yield ChunkName(same.other)
    for name in recognised:
        yield ChunkName(name.text, name.kind or "", place=FOUND)


def has_own_mentions(chunk: RawChunk) -> bool:
    """Return whether a chunk has given mentions; then its text is not searched."""
    return chunk.mentions is not None


def found_names(finder: NameFinder | None, chunks: Sequence[RawChunk]) -> list[Sequence[FoundName]]:
    """Return the names found earlier or by `finder` (None: a rule), () for chunks with mentions."""
    texts = [c.text for c in chunks if c.recognised is None and not has_own_mentions(c)]
    if finder:
        new = iter(finder.find(texts) if texts else ())
    else:
        new = (tuple(map(FoundName, dict.fromkeys(capitalised_names(t)))) for t in texts)
    return [
        () if has_own_mentions(c) else next(new) if c.recognised is None else c.recognised
        for c in chunks
    ]


def as_raw(chunk: StoredChunk, is_given: bool = False) -> RawChunk:
    """Return a stored chunk's fields for naming.

    `is_given`: its mentions came with the chunk, so that no names are searched.
    """
    return RawChunk(
        id=chunk.chunk_id,
        doc_id=chunk.doc_id,
        text=chunk.text,
        title=chunk.title,
        document_name=chunk.document_name,
        section=chunk.section,
        mentions=() if is_given else None,
    )

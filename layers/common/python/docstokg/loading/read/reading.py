"""Reading of files into staging."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any

from docstokg.contracts.outline import SCANNED
from docstokg.domain.identity import is_id, is_own_id, text_sha256
from docstokg.errors import DocsToKGError
from docstokg.loading.context import Readers
from docstokg.loading.read.raw_input import (
    Encoding,
    RawChunk,
    RawDocument,
    RawEntity,
    RawRecord,
    RawRelation,
)
from docstokg.loading.read.rejects import Rejected, RejectLog, Unreadable, fault
from docstokg.loading.read.source_registry import SourceRegistry
from docstokg.loading.read.sources import Kind, SourceFile
from docstokg.loading.read.staging import Staging, name_key
from docstokg.loading.readers.chunks import read_chunk, read_document
from docstokg.loading.readers.documents import (
    Document,
    document_chunks,
    read_documents,
    read_posted,
)
from docstokg.loading.readers.entities import read_entity
from docstokg.loading.readers.lines import json_lines
from docstokg.loading.readers.obo import read_obo
from docstokg.loading.readers.relations import read_relation
from docstokg.loading.readers.triples import read_triple

# Maximum passages per document, the limit of the embedded store.
MOST_PASSAGES = 100_000

# A line number, counted from 1, and its record or reject.
Row = tuple[int, RawRecord | Rejected]

READERS: dict[Kind, Callable[[dict[str, Any]], RawRecord]] = {
    "chunks": read_chunk,
    "entities": read_entity,
    "relations": read_relation,
    "triples": read_triple,
    "documents": read_document,
}


def stage(
    file: SourceFile,
    rows: Iterable[Row],
    staging: Staging,
    rejects: RejectLog,
    dimension: int | None,
    registry: SourceRegistry | None = None,
) -> int | None:
    """Stage a file's rows or rejects; return the vector dimension, set by the first vector.

    `dimension`: the required dimension, or None.
    """
    name = str(file.path)
    skipped: str | None = None
    for line, record in rows:
        if isinstance(record, RawChunk) and record.whole and record.doc_id == skipped:
            continue
        try:
            if isinstance(record, RawDocument):
                skipped = record.doc_id
                _claim(record, file, staging, registry)
                skipped = None
                if record.note:
                    rejects.notes.append(f"{file.doc_id if file.posted else name}: {record.note}")
            elif isinstance(record, RawChunk) and registry:
                registry.check_unread(record.doc_id)
                registry.note(file, RawDocument(record.doc_id, named=True), staging)
            if isinstance(record, Rejected):
                raise record
            dimension = _fitting(record, dimension)
            _add(record, staging, name, line)
        except Rejected as rejected:
            rejects.add(name, 0 if file.kind == "document" else line, str(rejected))
    return dimension


def _fitting(record: RawRecord, dimension: int | None) -> int | None:
    if not isinstance(record, RawChunk | RawEntity):
        return dimension
    vector = record.embedding
    if vector is None and isinstance(record, RawChunk) and record.encoding is not None:
        vector = record.encoding.vector
    if vector is None:
        return dimension
    size = len(vector) // 4
    if size != (dimension or size):
        raise Rejected(f"embedding: {size} numbers, but the index has {dimension}")
    return size


def _claim(
    document: RawDocument, file: SourceFile, staging: Staging, registry: SourceRegistry | None
) -> None:
    if registry:
        if reason := registry.refusal(file, document):
            raise Rejected(reason)
        registry.check_unread(document.doc_id)
    is_contested = registry is not None and registry.contests(file, document)
    if not staging.add_document(document.doc_id, document.digest, is_contested):
        staging.clear_versions("doc_id", [document.doc_id])
        raise Rejected(
            f"doc_id {document.doc_id!r} is also used by another file of this load with"
            " different text; load one of them with --prefix NAME/"
        )
    if registry:
        registry.note(file, document, staging)
        if is_contested:
            registry.contested.append((document.doc_id, file))


def read_rows(
    files: Sequence[SourceFile], readers: Readers
) -> Iterator[tuple[SourceFile, Iterable[Row]]]:
    """Yield each file with its rows, documents read by several processes if `readers` has them."""
    for are_documents, group in groupby(files, key=lambda file: file.kind == "document"):
        if are_documents and readers.several:
            yield from readers.several(tuple(group))
        else:
            # JSON lines may exceed memory, so they are streamed.
            yield from ((file, rows_of(file, readers)) for file in group)


def rows_of(file: SourceFile, readers: Readers) -> Iterator[Row]:
    """Yield each row of one file with its line, or its reject.

    An unreadable file, or a bug in reading it, is one reject; only errors of a dependency are
    raised.
    """
    try:
        yield from _rows(file, readers)
    except Unreadable as broken:
        yield 1, Rejected(broken.reason)
    except DocsToKGError:
        raise
    except Exception as broken:  # noqa: BLE001 - the error becomes the reject of this file
        yield 1, fault(broken)


def _rows(file: SourceFile, readers: Readers) -> Iterator[Row]:
    if file.kind == "obo":
        yield from read_obo(file.path)
    elif file.kind == "document":
        yield from _documents(file, readers)
    else:
        parse = READERS[file.kind]
        for line, value in json_lines(file.path):
            try:
                yield line, value if isinstance(value, Rejected) else parse(value)
            except Rejected as rejected:
                yield line, rejected


def _documents(file: SourceFile, readers: Readers) -> Iterator[Row]:
    try:
        documents = (
            read_documents(file.path, file.doc_id, readers.converter)
            if file.posted is None
            else (read_posted(file.posted, file.path.suffix, file.doc_id, readers.converter),)
        )
    except Rejected as rejected:
        yield 1, rejected
        return
    for document in documents:
        if document.refused:
            yield 1, Rejected(document.refused)
            continue
        try:
            yield from _document(file, document, readers)
        except DocsToKGError:
            raise
        except Exception as broken:  # noqa: BLE001 - the error becomes the reject of this document
            yield 1, fault(broken)


def _document(file: SourceFile, document: Document, readers: Readers) -> Iterator[Row]:
    chunks = list(islice(document_chunks(document, file.name, readers.pieces), MOST_PASSAGES))
    if len(chunks) == MOST_PASSAGES:
        yield 1, Rejected(f"results in {MOST_PASSAGES:,} passages or more; split the file")
        return
    if file.posted is not None and not chunks:
        yield 1, Rejected("contains no text")
        return
    outline = document.outline
    notes = [*outline.notes]
    if outline.encoding:
        notes.append(f"read as {outline.encoding}")
    if pages := outline.scanned:
        notes.append(f"{len(pages)} pages not read, first page {pages[0]} ({SCANNED})")
    if not chunks and not notes:
        notes.append("contains no text")
    converter = document.converter
    yield (
        1,
        RawDocument(
            doc_id=document.doc_id,
            digest=text_sha256(document.text),
            note="; ".join(notes),
            title=str(document.fields.get("title") or document.outline.title),
            named=document.named,
            converter=converter,
            text=document.text if converter else None,
            original=document.original,
        ),
    )
    line, place = 1, 0
    for chunk in chunks:
        start = chunk.char_start or 0
        line += document.text.count("\n", place, start)
        place = max(place, start)
        yield line, chunk


def _add(record: RawRecord, staging: Staging, file: str, line: int) -> None:
    if isinstance(record, RawChunk):
        staging.add_chunk(record, text_sha256(record.text))
    elif isinstance(record, RawEntity) and is_own_id(record.id):
        for synonym in record.synonyms or ("",):
            staging.add_name(record.name, record.type or "", synonym)
        if record.embedding is not None:
            staging.add_encoding(name_key(record.name), Encoding(record.embedding, b"", {}))
    elif isinstance(record, RawEntity):
        staging.add_entity(record)
    elif isinstance(record, RawRelation):
        staging.add_statement(record, file, line)
        for end in (record.source, record.target):
            if record.from_text or not is_id(end):
                staging.add_name(end)

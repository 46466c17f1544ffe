"""Check of responses against sources."""

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from docstokg.contracts.model import wrong_in_words
from docstokg.contracts.records import Scope, StoredChunk
from docstokg.contracts.response import (
    RULES,
    Citation,
    KgEvidence,
    RAGResponse,
    SentenceVerdict,
    Span,
)
from docstokg.domain.answer.citations import find_markers, ranks_within
from docstokg.domain.answer.quotation import find_statement
from docstokg.domain.answer.statements import Statement, statements
from docstokg.domain.deadline import Deadline
from docstokg.domain.identity import chunk_uuid, text_sha256
from docstokg.domain.text.sentences import Span as Place
from docstokg.errors import DocsToKGError, LoadError
from docstokg.loading.context import Readers
from docstokg.loading.read.raw_input import RawChunk
from docstokg.loading.read.reading import rows_of, stage
from docstokg.loading.read.rejects import Rejected, RejectLog, Unreadable
from docstokg.loading.read.sources import find_files
from docstokg.loading.read.staging import Staging
from docstokg.loading.readers.documents import Document, read_documents
from docstokg.loading.stores import readers_of
from docstokg.ports import DocumentRegister, SearchIndex
from docstokg.wiring import Wiring
from docstokg_local.cli.printing import counted, echo

READ_S = 30.0


class Finding(NamedTuple):
    """A difference between a response and its source; `path` is a JSON path."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class SourceChunk(NamedTuple):
    """A chunk as its source has it; `document`: the text of the whole document, if known."""

    chunk_id: str
    of: StoredChunk | RawChunk
    document: str | None = None

    def at(self, start: int, end: int) -> str | None:
        """Return the text between a citation's offsets, None if they are outside of the chunk."""
        begin, text = self.of.char_start or 0, self.of.text
        return (
            text[start - begin : end - begin]
            if begin <= start <= end <= begin + len(text)
            else None
        )


type Store = tuple[SearchIndex, DocumentRegister]
# Chunks as read again, by uuid.
type Chunks = dict[str, SourceChunk]


def stored_chunks(
    index: SearchIndex, register: DocumentRegister, namespaces: Iterable[str], uuids: Sequence[str]
) -> Chunks:
    """Read the chunks from the index, without acl checks; missing ones are omitted."""
    by_uuid: Chunks = {}
    for namespace in namespaces:
        chunks = index.get(uuids, Scope(namespace=namespace), Deadline.after(READ_S)).chunks
        texts = {
            name: register.text(namespace, name) for name in {c.doc_id for c in chunks.values()}
        }
        by_uuid |= {
            uuid: SourceChunk(chunk.chunk_id, chunk, texts[chunk.doc_id])
            for uuid, chunk in chunks.items()
        }
    return by_uuid


def file_chunks(
    folder: Path,
    namespace: str,
    uuids: Sequence[str],
    readers: Readers,
    store: Store | None,
    notify: Callable[[str], None],
) -> Chunks:
    """Return all chunks of the files, read by the loader; rejected ones are omitted.

    If the installed converter produces another text than at the load, the text in `store` is used,
    and `notify` gets a note. Raises `LoadError` without files.
    """
    differing: set[str] = set()
    documents: dict[str, str] = {}
    with closing(Staging()) as staging:
        for file in find_files([folder], RejectLog()):
            if file.kind in ("chunks", "document"):
                stage(file, rows_of(file, readers), staging, RejectLog(), None)
            if file.kind == "document":
                with suppress(Rejected, Unreadable):
                    parsed = read_documents(file.path, file.doc_id, readers.converter)
                    documents |= {document.doc_id: document.text for document in parsed}
                    for doc_id, note in _converted_differently(parsed, namespace, store):
                        differing.add(doc_id)
                        notify(note)
        chunks = {
            chunk_uuid(namespace, row.id): SourceChunk(row.id, row, documents.get(row.doc_id))
            for row in staging.chunks()
            if row.doc_id not in differing
        }
    if store is not None and differing:
        missing = [uuid for uuid in uuids if uuid not in chunks]
        stored = stored_chunks(*store, [namespace], missing)
        chunks |= {uuid: chunk for uuid, chunk in stored.items() if chunk.of.doc_id in differing}
    return chunks


def _converted_differently(
    parsed: Sequence[Document], namespace: str, store: Store | None
) -> Iterable[tuple[str, str]]:
    converted = {document.doc_id: document for document in parsed if document.converter}
    for record in store[1].find(namespace, list(converted)) if store and converted else ():
        today = converted[record.doc_id]
        same = record.sha256 == text_sha256(today.text)
        if not same and record.converter not in ("", today.converter):
            yield (
                record.doc_id,
                (
                    f"{record.doc_id}: {today.converter} produces a different text than "
                    f"{record.converter}; its citations are compared with the stored text"
                ),
            )


def verify_response(
    body: dict[str, object],
    source: Path | None,
    wiring: Callable[[], Wiring],
    notify: Callable[[str], None] = echo,
) -> tuple[list[Finding], int]:
    """Compare a RAGResponse with the store, or with the files under `source`.

    Returns findings and number of proven citations. `notify` gets notes. Raises `LoadError` if the
    body is not a response.
    """
    response = read_response(body)
    namespace, ports, uuids = response.metadata.namespace, wiring(), uuids_of(response)
    if source is None:
        store = ports.search_index(), ports.register()
        chunks = stored_chunks(*store, response.metadata.namespaces or [namespace], uuids)
    else:
        readers = readers_of(ports)
        chunks = file_chunks(source, namespace, uuids, readers, _stored(ports), notify)
    return check_response(response, chunks)


def read_response(body: dict[str, object]) -> RAGResponse:
    """Return a saved RAGResponse.

    Raise `LoadError` for another object and for a response of an earlier build.
    """
    try:
        return RAGResponse.model_validate_json(json.dumps(body))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        problem = f"not a RAGResponse: {place}: {wrong_in_words(first)}"
        metadata = body.get("metadata")
        if isinstance(metadata, dict) and "service_version" in metadata:
            problem += "; if an earlier build saved it, ask its question again"
        raise LoadError(problem) from error


def _stored(ports: Wiring) -> Store | None:
    try:
        ports.search_index().info(Deadline.after(READ_S))
        return ports.search_index(), ports.register()
    except DocsToKGError:
        return None


def check_response(response: RAGResponse, chunks: Chunks) -> tuple[list[Finding], int]:
    """Return the findings on a response, and the number of citations that equal the source."""
    findings: list[Finding] = []
    proven = 0
    for place, citation in enumerate(response.citations):
        path = f"$.citations[{place}]"
        faults = list(
            _check_citation(
                citation, place, chunks, citation.namespace or response.metadata.namespace
            )
        )
        findings += [Finding(path + field, problem) for field, problem in faults]
        proven += not faults
    findings += _check_counts(response)
    findings += _check_markers(response)
    findings += _check_grounding(response, chunks)
    return findings, proven


def uuids_of(response: RAGResponse) -> list[str]:
    """Return the distinct uuids of cited chunks and of chunks that state graph edges, sorted."""
    paths = (citation.kg_evidence.path for citation in response.citations if citation.kg_evidence)
    sources = {edge.evidence.uuid for path in paths for edge in path if edge.evidence}
    return sorted(sources | {citation.uuid for citation in response.citations})


def _check_citation(
    citation: Citation, place: int, chunks: Chunks, namespace: str
) -> Iterable[tuple[str, str]]:
    expected = {"rank": place + 1, "uuid": chunk_uuid(namespace, citation.chunk_id)}
    span, chunk = (citation.char_start, citation.char_end), chunks.get(citation.uuid)
    if chunk is not None:
        of = chunk.of
        expected |= {name: getattr(of, name) for name in ("doc_id", "page", "section", "uri")}
        expected |= {
            "anchor": getattr(of, "anchor", None),
            "chunk_id": chunk.chunk_id,
            "document_name": of.document_name or of.title or None,
            "text_sha256": text_sha256(of.text),
            "offset_base": "chunk" if of.char_start is None else "document",
            "snippet": chunk.at(*span),
        }
    for name, right in expected.items():
        if (claimed := getattr(citation, name)) != right:
            yield f".{name}", f"is {claimed!r}, in the source {right!r}"
    if chunk is None:
        yield ".uuid", f"is not a chunk of the source ({citation.chunk_id})"
        return
    if chunk.document is not None and chunk.document[slice(*span)] != citation.snippet:
        yield ".snippet", "is not in the file at its offsets"
    if citation.full_text is not None and not chunk.of.text.startswith(citation.full_text):
        yield ".full_text", "is not the beginning of the source's text"
    if citation.kg_evidence:
        yield from _check_path(citation.kg_evidence, citation.kg_path, chunks)


def _check_path(
    evidence: KgEvidence, stations: Sequence[str], chunks: Chunks
) -> Iterable[tuple[str, str]]:
    if (evidence.match_type == "direct_mention") is bool(evidence.path):
        yield ".kg_evidence.path", f"has {len(evidence.path)} edges for a {evidence.match_type}"
    at = stations[0] if stations else ""
    for number, edge in enumerate(evidence.path):
        field = f".kg_evidence.path[{number}]"
        if at not in (edge.src, edge.dst):
            yield field, f"does not continue from {at}"
        at = edge.dst if edge.src == at else edge.src
        if edge.evidence is None:
            continue
        source = chunks.get(edge.evidence.uuid)
        if source is None or source.chunk_id != edge.evidence.chunk_id:
            yield f"{field}.evidence", "is not a chunk of the source"
        elif not 0 <= (edge.evidence.start or 0) <= (edge.evidence.end or 0) <= len(source.of.text):
            yield f"{field}.evidence", "is not a span of its chunk's text"
    if at != evidence.entity_id:
        yield ".kg_evidence.path", f"ends at {at}, not at {evidence.entity_id}"


def _check_counts(response: RAGResponse) -> Iterable[Finding]:
    if response.results_count != len(response.citations):
        count = response.results_count
        yield Finding(
            "$.results_count", f"is {count}, but there are {len(response.citations)} citations"
        )
    uuids = [citation.uuid for citation in response.citations]
    if len(set(uuids)) != len(uuids):
        yield Finding("$.citations", "a chunk is cited twice")


def _check_markers(response: RAGResponse) -> Iterable[Finding]:
    ranks = {citation.rank for citation in response.citations}
    marked: set[int] = set()
    for marker in find_markers(response.answer):
        text = response.answer[marker.start : marker.end]
        path = f"$.answer[{marker.start}:{marker.end}]"
        if marker.kind == "malformed":
            yield Finding(path, f"{text} is not a valid marker")
        if marker.kind == "citation":
            marked |= set(marker.ranks)
            for rank in sorted(set(marker.ranks) - ranks):
                yield Finding(path, f"{text} refers to citation {rank}, which does not exist")
    for place, citation in enumerate(response.citations):
        if citation.cited != (citation.rank in marked):
            claimed = "true" if citation.cited else "false"
            problem = f"is {claimed}, contrary to the markers in the answer"
            yield Finding(f"$.citations[{place}].cited", problem)


def _check_grounding(response: RAGResponse, chunks: Chunks) -> Iterable[Finding]:
    grounding = response.grounding
    if grounding is None:
        return
    by_span = {statement.span: statement for statement in statements(response.answer)}
    if {(sentence.start, sentence.end) for sentence in grounding.sentences} != set(by_span):
        yield Finding("$.grounding.sentences", "are not the sentences of the answer")
        return
    markers = find_markers(response.answer)
    by_rank = {citation.rank: citation for citation in response.citations}
    for place, sentence in enumerate(grounding.sentences):
        statement = by_span[Place(sentence.start, sentence.end)]
        ranks = set(ranks_within(markers, sentence.start, sentence.end)) or set(statement.ranks)
        cited = [by_rank[rank] for rank in sentence.citations if rank in by_rank]
        path = f"$.grounding.sentences[{place}]"
        if ranks != set(sentence.citations):
            yield Finding(f"{path}.citations", "are not the markers in the sentence")
        for field, problem in _check_sentence(sentence, statement, cited, chunks):
            yield Finding(f"{path}.{field}", problem)


def _check_sentence(
    sentence: SentenceVerdict,
    statement: Statement,
    cited: Sequence[Citation],
    chunks: Chunks,
) -> Iterable[tuple[str, str]]:
    span, texts = sentence.span, [chunks[c.uuid].of.text for c in cited if c.uuid in chunks]
    holders = [citation for citation in cited if span and citation.uuid == span.uuid]
    if span:
        chunk = chunks.get(span.uuid)
        text = chunk.at(span.char_start, span.char_end) if chunk else None
        if not holders:
            yield "span", "is in no chunk that the sentence cites"
        elif not text:
            yield "span", "is not a span of its source"
        elif sentence.verdict == "supported" and any(
            _differs(citation, span, text) for citation in holders
        ):
            yield "span", "is not the text that the citation shows there"
    if sentence.verdict != "supported" or not texts:
        return
    if sentence.quote is not None and not any(sentence.quote in text for text in texts):
        yield "quote", "is not in the sources that the sentence cites"
    elif sentence.decided_by == RULES and not any(
        find_statement(statement, text) for text in texts
    ):
        yield "verdict", "is supported, but the sentence is not a quotation of its sources"


def _differs(citation: Citation, span: Span, text: str) -> bool:
    start, end = span.char_start - citation.char_start, span.char_end - citation.char_start
    return start >= 0 and end <= len(citation.snippet) and citation.snippet[start:end] != text


def show_findings(findings: Sequence[Finding], proven: int) -> None:
    """Print the findings and the number of proven citations."""
    from rich.markup import escape

    from docstokg_local.cli.display import screen

    out = screen()
    for finding in findings:
        out.print(f"[red]not proven[/] {escape(str(finding))}")
    colour = "red" if findings else "green"
    out.print(
        f"[{colour}]{counted(proven, 'citation')} proven[/], {counted(len(findings), 'finding')}"
    )

"""Import of an exported namespace."""

import datetime
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, ValidationError
from ulid import ULID

from docstokg.contracts.model import Contract, StrictContract
from docstokg.contracts.records import (
    ChunkRecord,
    DocumentRecord,
    EntityRecord,
    FactRecord,
    MentionRecord,
    RelationRecord,
)
from docstokg.domain.identity import chunk_uuid
from docstokg.errors import LoadError
from docstokg.loading.context import ROW_BATCH, LoadReport, NullProgress, Progress, Stores
from docstokg.loading.read.records import chunk_node, made_fingerprints, text_sha256
from docstokg.loading.read.rejects import Rejected, RejectLog
from docstokg.loading.readers.export_lines import (
    ChunkRow,
    DocumentRow,
    EntityRow,
    FactRow,
    MentionRow,
    RelationRow,
)
from docstokg.loading.readers.lines import LONGEST_LINE, checked, parse_object
from docstokg.loading.transfer.exporting import FORMAT, MANIFEST, PARTS
from docstokg.loading.write.edges import fact_id
from docstokg.loading.write.removal import exclusive_load, remove

LARGEST_MANIFEST = 100_000
# Maximum compression ratio of a part; JSON lines do not exceed it.
SQUEEZED = 1000

Rows = Sequence[tuple[str, int, StrictContract]]


class Manifest(Contract):
    """The manifest of an exported file."""

    format: int
    namespace: str
    embedding_model: str | None = None
    dimension: int | None = Field(None, ge=1, le=65536)
    sparse_model: str | None = None
    recogniser: str = ""
    counts: dict[str, int] = {}
    digest: str = ""


class _Chunk(NamedTuple):
    length: int
    doc_id: str
    acl: tuple[str, ...]


@dataclass(slots=True)
class _Import:
    manifest: Manifest
    namespace: str
    stores: Stores
    rejects: RejectLog
    run_id: str
    now: str
    chunks: dict[str, _Chunk] = field(default_factory=dict)

    def uuid(self, chunk_id: str, start: int | None = None, end: int | None = None) -> str:
        record = self.chunks.get(chunk_id)
        if record is None:
            raise Rejected(f"chunk {chunk_id!r} is not in this file")
        if (start is None) != (end is None) or (
            end is not None and not (start or 0) < end <= record.length
        ):
            raise Rejected(f"{start}..{end} is not a span of chunk {chunk_id!r}")
        return chunk_uuid(self.namespace, chunk_id)


def manifest_of(path: Path) -> Manifest:
    """Read a file's manifest; raise `LoadError` unless it is a readable export."""
    try:
        with zipfile.ZipFile(path) as file:
            _check_names(file, path)
            if file.getinfo(MANIFEST).file_size > LARGEST_MANIFEST:
                raise LoadError(f"{path}: its manifest is too large")
            manifest = Manifest.model_validate_json(file.read(MANIFEST))
    except (zipfile.BadZipFile, KeyError, ValidationError, NotImplementedError, RuntimeError) as no:
        raise LoadError(f"{path} is not a file written by `docstokg export`") from no
    except OSError as broken:
        raise LoadError(f"{path} cannot be read: {broken.strerror}") from broken
    if manifest.format != FORMAT:
        raise LoadError(f"{path} has format {manifest.format}, this version reads {FORMAT}")
    return manifest


def load_export(
    path: Path,
    namespace: str,
    stores: Stores,
    rejects: RejectLog,
    only: bool = False,
    progress: Progress | None = None,
) -> LoadReport:
    """Load an exported file into a namespace that contains nothing else.

    `only`: remove chunks that are not in the file; otherwise they are a `LoadError`, as is a file
    that is not an export. Invalid lines are rejected.
    """
    shown, started = progress or NullProgress(), time.monotonic()
    with exclusive_load(stores.index_writer, namespace, shown):
        manifest = manifest_of(path)
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        run = _Import(manifest, namespace, stores, rejects, str(ULID()), now)
        report = LoadReport(run_id=run.run_id, files=1)
        report.embedding_model, report.sparse_model = (
            manifest.embedding_model,
            manifest.sparse_model,
        )
        report.names_by = manifest.recogniser or None
        others = _others(path, run)
        if others and not only:
            raise LoadError(
                f"namespace {namespace!r} contains {len(others):,} chunks that {path.name} does"
                " not; choose another namespace with --namespace, or use --replace-docs"
            )
        stores.index_writer.open_load(
            run.run_id,
            manifest.embedding_model,
            manifest.dimension,
            manifest.sparse_model,
            namespace,
        )
        stores.graph_writer.note_recogniser(namespace, "")
        if others:
            report.removed = remove(stores, namespace, others)
        with zipfile.ZipFile(path) as file:
            for name in PARTS:
                with shown.stage(name, manifest.counts.get(name)) as advance:
                    for batch in _batches(_rows(file, path, name, rejects)):
                        _put(run, report, name, batch)
                        advance(len(batch))
        stores.graph_writer.note_recogniser(namespace, manifest.recogniser)
        stores.graph_writer.close_load(namespace)
        stores.index_writer.close_load(namespace)
    report.rejected, report.seconds = rejects.count, time.monotonic() - started
    return report


def _batches(rows: Iterator[tuple[str, int, StrictContract]]) -> Iterator[Rows]:
    batch: list[tuple[str, int, StrictContract]] = []
    for _, together in groupby(rows, lambda item: getattr(item[2], "chunk", item[1])):
        batch += together
        if len(batch) >= ROW_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _check_names(file: zipfile.ZipFile, path: Path) -> None:
    entries = {MANIFEST, *(f"{name}.jsonl" for name in PARTS)}
    if sorted(entry.filename for entry in file.infolist()) != sorted(entries):
        raise LoadError(f"{path} is not a file written by `docstokg export`")
    for entry in file.infolist():
        if entry.file_size > SQUEEZED * max(entry.compress_size, 1):
            raise LoadError(
                f"{path}: {entry.filename} unpacks to more than the maximum size of a text"
            )


def _others(path: Path, run: _Import) -> list[str]:
    with zipfile.ZipFile(path) as file:
        mine = {
            chunk_uuid(run.namespace, row.chunk_id)
            for _, _, row in _rows(file, path, "chunks", RejectLog())
            if isinstance(row, ChunkRow)
        }
    # The reader's counts are from the last finished load.
    stored = run.stores.graph_writer.labels(run.namespace)
    return [uuid for uuid, *_ in stored if uuid not in mine]


def _rows(
    file: zipfile.ZipFile, path: Path, name: str, rejects: RejectLog
) -> Iterator[tuple[str, int, StrictContract]]:
    shown = f"{path}:{name}.jsonl"
    with file.open(f"{name}.jsonl") as part:
        number = 0
        while raw := part.readline(LONGEST_LINE + 1):
            number += 1
            if len(raw) > LONGEST_LINE:
                raise LoadError(f"{shown}:{number}: the line is longer than {LONGEST_LINE} bytes")
            try:
                yield shown, number, checked(_PARTS[name][0], parse_object(raw))
            except Rejected as rejected:
                rejects.add(shown, number, str(rejected))


def _put(run: _Import, report: LoadReport, name: str, rows: Rows) -> None:
    made: list[Any] = []
    for shown, number, row in rows:
        try:
            made.append(_PARTS[name][1](run, row))
        except Rejected as rejected:
            run.rejects.add(shown, number, str(rejected))
    index, graph, count = run.stores.index_writer, run.stores.graph_writer, len(made)
    match name:
        case "chunks" if made:
            index.put(made)
            graph.put_chunks([chunk_node(chunk, run.namespace) for chunk, _ in made])
            # Mentions of an earlier version must be removed.
            graph.put_mentions(run.namespace, {chunk.uuid: () for chunk, _ in made})
            report.chunks, report.written = report.chunks + count, report.written + count
        case "documents":
            run.stores.register.put(made)
        case "entities":
            graph.put_entities(made)
            report.entities += count
        case "relations":
            graph.put_relations(made)
            report.relations += count
        case "facts":
            index.put_facts(made)
        case "mentions":
            by_chunk: dict[str, list[MentionRecord]] = defaultdict(list)
            for mention in made:
                by_chunk[mention.uuid].append(mention)
            graph.put_mentions(run.namespace, by_chunk)
            report.mentions += count


def _record(run: _Import, row: ChunkRow) -> tuple[ChunkRecord, str]:
    if row.chunk_id in run.chunks:
        raise Rejected(f"chunk {row.chunk_id!r} is repeated")
    _check_dimension(run, row.vector)
    width = ((run.manifest.dimension or 0) + 1) // 2
    if row.sentence_vectors and len(row.sentence_vectors) != width * len(row.sentences):
        raise Rejected("sentence_vectors: must be one per sentence")
    chunk = ChunkRecord(
        uuid=chunk_uuid(run.namespace, row.chunk_id),
        namespace=run.namespace,
        run_id=run.run_id,
        text_sha256=text_sha256(row.text),
        **row.model_dump(exclude={"fingerprint"}),
    )
    run.chunks[row.chunk_id] = _Chunk(len(row.text), row.doc_id, row.acl)
    return chunk, _fingerprint(run.manifest, chunk, row.fingerprint)


def _fingerprint(manifest: Manifest, chunk: ChunkRecord, model: str) -> str:
    made = made_fingerprints(chunk, manifest.embedding_model or "", manifest.sparse_model or "")
    return model if model in made else made[0]


def _document(run: _Import, row: DocumentRow) -> DocumentRecord:
    return DocumentRecord(
        namespace=run.namespace, run_id=run.run_id, loaded_at=run.now, **row.model_dump()
    )


def _entity(run: _Import, row: EntityRow) -> EntityRecord:
    _check_dimension(run, row.vector)
    return EntityRecord(namespace=run.namespace, **row.model_dump())


def _relation(run: _Import, row: RelationRow) -> RelationRecord:
    uuid = None
    if row.evidence is not None:
        uuid = run.uuid(row.evidence, row.evidence_start, row.evidence_end)
    fields = row.model_dump(exclude={"evidence"})
    return RelationRecord(namespace=run.namespace, evidence_uuid=uuid, **fields)


def _fact(run: _Import, row: FactRow) -> FactRecord:
    fields: dict[str, Any] = row.model_dump(exclude={"evidence"})
    if row.evidence is not None:
        fields["evidence_uuid"] = run.uuid(row.evidence)
        owner = run.chunks[row.evidence]
        fields |= {"doc_id": owner.doc_id, "acl": owner.acl}
    uuid = fields.get("evidence_uuid")
    identity = fact_id(run.namespace, row.source, row.type, row.target, uuid)
    return FactRecord(id=identity, namespace=run.namespace, **fields)


def _mention(run: _Import, row: MentionRow) -> MentionRecord:
    uuid = run.uuid(row.chunk, row.start, row.end)
    return MentionRecord(uuid=uuid, **row.model_dump(exclude={"chunk"}))


def _check_dimension(run: _Import, vector: bytes | None) -> None:
    if vector is not None and len(vector) != 4 * (run.manifest.dimension or 0):
        raise Rejected(f"vector: must have {run.manifest.dimension} numbers")


# Row type of each part, and its conversion to a record.
_PARTS: dict[str, tuple[type[StrictContract], Callable[[_Import, Any], object]]] = {
    "chunks": (ChunkRow, _record),
    "documents": (DocumentRow, _document),
    "entities": (EntityRow, _entity),
    "relations": (RelationRow, _relation),
    "facts": (FactRow, _fact),
    "mentions": (MentionRow, _mention),
}

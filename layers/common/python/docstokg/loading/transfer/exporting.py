"""Namespace export: zip of JSON lines.

References are chunk ids; folders, runs and times are excluded.
"""

import base64
import json
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from docstokg.contracts import Json
from docstokg.contracts.records import FactRecord, RelationRecord
from docstokg.domain.deadline import Deadline
from docstokg.errors import LoadError
from docstokg.loading.context import READ_S, Stores
from docstokg.loading.transfer.contents import digests
from docstokg.ports import every_document

FORMAT = 1
MANIFEST = "manifest.json"
# Files of an export, `NAME.jsonl`, in load order.
PARTS = ("chunks", "documents", "entities", "relations", "facts", "mentions")

# Fields of a chunk that are derived from others.
UNSAID = {"uuid", "namespace", "run_id", "text_sha256"}


def export(stores: Stores, namespace: str, target: Path) -> dict[str, int]:
    """Write or replace `target` atomically with a namespace; return the number of lines per part.

    Raises `LoadError` if it is empty, or if a load into it did not finish.
    """
    info = stores.search_index.info(Deadline.after(READ_S))
    if info.open_run(namespace):
        raise LoadError("a load into this namespace did not finish: load again before exporting")
    partial = target.with_name(f"{target.name}.partial")
    counts = {}
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
            for name, rows in _parts(stores, namespace).items():
                counts[name] = _write(file, f"{name}.jsonl", rows)
            if not counts["chunks"] and not counts["entities"]:
                raise LoadError(f"namespace {namespace!r} is empty")
            model, dimension = info.space_of(namespace)
            manifest = {
                "format": FORMAT,
                "namespace": namespace,
                "embedding_model": model,
                "dimension": dimension,
                "sparse_model": info.sparse_model,
                "recogniser": stores.graph_writer.recogniser(namespace) or "",
                "counts": counts,
                "digest": content_digest(stores, namespace),
            }
            file.writestr(MANIFEST, json.dumps(manifest, indent=1))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return counts


def content_digest(stores: Stores, namespace: str) -> str:
    """Return the digest of a namespace's name and content in both stores."""
    parts = digests(stores.index_writer, stores.graph_writer, stores.register, [namespace])
    return parts[2]


def _write(file: zipfile.ZipFile, name: str, rows: Iterable[Json]) -> int:
    count = 0
    with file.open(name, "w", force_zip64=True) as part:
        for row in rows:
            fields = {key: value for key, value in row.items() if value not in (None, "", [], {})}
            line = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
            part.write(line.encode("utf-8", "surrogatepass") + b"\n")
            count += 1
    return count


def _parts(stores: Stores, namespace: str) -> dict[str, Iterator[Json]]:
    index, graph = stores.index_writer, stores.graph_writer
    chunk_ids: dict[str, str] = {}

    def stated(records: Iterable[RelationRecord | FactRecord], fields: set[str]) -> Iterator[Json]:
        for record in records:
            evidence = _chunk_id(record.evidence_uuid, chunk_ids)
            yield record.model_dump(mode="json", include=fields) | {"evidence": evidence}

    fact = {"text", "source", "type", "target"}
    return {
        "chunks": _chunks(stores, namespace, chunk_ids),
        "documents": _documents(stores, namespace),
        "entities": (
            entity.model_dump(mode="json", exclude={"namespace", "vector"})
            | {"vector": _text(entity.vector)}
            for entity in graph.stored_entities(namespace)
        ),
        "relations": stated(
            graph.stored_relations(namespace),
            RelationRecord.model_fields.keys() - {"namespace", "evidence_uuid"},
        ),
        "facts": stated(index.stored_facts(namespace), fact),
        "mentions": (
            mention.model_dump(mode="json", exclude={"uuid"})
            | {"chunk": _chunk_id(mention.uuid, chunk_ids)}
            for mention in graph.stored_mentions(namespace)
        ),
    }


def _chunks(stores: Stores, namespace: str, chunk_ids: dict[str, str]) -> Iterator[Json]:
    for chunk, fingerprint in stores.index_writer.stored_chunks(namespace):
        chunk_ids[chunk.uuid] = chunk.chunk_id
        row = chunk.model_dump(mode="json", exclude=UNSAID | {"vector", "sentence_vectors"})
        row["vector"] = _text(chunk.vector)
        row["sentence_vectors"] = _text(chunk.sentence_vectors)
        yield row | {"fingerprint": fingerprint}


def _documents(stores: Stores, namespace: str) -> Iterator[Json]:
    for record in every_document(stores.register, namespace):
        without = {"namespace", "root", "path", "run_id", "loaded_at"}
        text = stores.register.text(namespace, record.doc_id) if record.converter else None
        yield record.model_dump(mode="json", exclude=without) | {"text": text}


def _chunk_id(uuid: str | None, chunk_ids: dict[str, str]) -> str | None:
    if uuid is None:
        return None
    if uuid not in chunk_ids:
        raise LoadError("graph and index contain different chunks; load again")
    return chunk_ids[uuid]


def _text(vector: bytes | None) -> str:
    return base64.b64encode(vector or b"").decode("ascii")

"""Namespace export: zip of JSON lines, in the formats of data files.

References are chunk ids; folders, runs and times are excluded. Computed fields are below the key
`docstokg` of each line.
"""

import base64
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from docstokg.contracts import Json, compact_json
from docstokg.contracts.records import CALLED, ChunkRecord, MentionRecord
from docstokg.domain.deadline import Deadline
from docstokg.domain.identity import is_own_id
from docstokg.errors import LoadError
from docstokg.loading.context import READ_S, Stores
from docstokg.loading.names.candidates import FOUND, NamesRecord
from docstokg.loading.read.records import SAME_FIELDS, is_linked_here, possible_fingerprints
from docstokg.loading.transfer.contents import digests
from docstokg.loading.transfer.export_file import FORMAT, MANIFEST
from docstokg.ports import every_document

# Fields of a chunk that are keys of its line.
PUBLIC = {*SAME_FIELDS} - {"headings", "layout"}


def export(stores: Stores, namespace: str, target: Path) -> dict[str, int]:
    """Write or replace `target` atomically with a namespace; return the number of lines per part.

    Raises `LoadError` if it is empty, or if a load into it did not finish.
    """
    info = stores.search_index.info(Deadline.after(READ_S))
    if info.open_run(namespace):
        raise LoadError("a load into this namespace did not finish: load again before exporting")
    model, dimension = info.space_of(namespace)
    source = _Namespace(stores, namespace, model, info.sparse_model)
    partial = target.with_name(f"{target.name}.partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
            counts = {
                "chunks": _write(file, "chunks", source.chunks()),
                "documents": _write(file, "documents", source.documents()),
                "entities": _write(file, "entities", source.entities()),
                "relations": _write(file, "relations", source.relations()),
            }
            if not counts["chunks"] and not counts["entities"]:
                raise LoadError(f"namespace {namespace!r} is empty")
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
    return digests(stores.index_writer, stores.graph_writer, stores.register, [namespace])[2]


def _write(file: zipfile.ZipFile, name: str, rows: Iterable[Json]) -> int:
    count = 0
    with file.open(f"{name}.jsonl", "w", force_zip64=True) as part:
        for row in rows:
            fields = {key: value for key, value in row.items() if value not in (None, "", {})}
            line = compact_json(fields)
            part.write(line.encode("utf-8", "surrogatepass") + b"\n")
            count += 1
    return count


class _Namespace:
    def __init__(
        self, stores: Stores, namespace: str, model: str | None, sparse_model: str | None
    ) -> None:
        self._stores, self._namespace = stores, namespace
        self._models = model or "", sparse_model or ""
        self._chunk_ids: dict[str, str] = {}

    def chunks(self) -> Iterator[Json]:
        graph, namespace = self._stores.graph_writer, self._namespace
        names = dict(graph.names(namespace))
        labels = {e.id: e.name for e in graph.stored_entities(namespace) if is_own_id(e.id)}
        mentions: defaultdict[str, list[MentionRecord]] = defaultdict(list)
        for mention in graph.stored_mentions(namespace):
            if mention.about or mention.start is not None:
                mentions[mention.uuid].append(mention)
        for chunk, fingerprint in self._stores.index_writer.stored_chunks(namespace):
            self._chunk_ids[chunk.uuid] = chunk.chunk_id
            row = chunk.model_dump(mode="json", include=PUBLIC) | {"id": chunk.chunk_id}
            if not is_linked_here(fingerprint):
                row["mentions"] = [
                    mention.model_dump(mode="json", include={"start", "end", "about"})
                    | {"entity": labels.get(mention.entity, mention.entity)}
                    for mention in mentions[chunk.uuid]
                ]
            yield row | {"docstokg": self._computed(chunk, fingerprint, names.get(chunk.uuid, ""))}

    def _computed(self, chunk: ChunkRecord, fingerprint: str, names: str) -> Json:
        variants = possible_fingerprints(chunk, *self._models)
        variant = variants.index(fingerprint) if fingerprint in variants else 0
        has_own_vector, has_own_weights = bool(variant & 4), bool(variant & 2)
        is_encoded = chunk.vector is not None or not self._models[0]
        recognised = [
            (n.surface, n.kind or None) for n in NamesRecord.read(names).names if n.place == FOUND
        ]
        return {
            "headings": chunk.headings,
            "layout": chunk.layout,
            "language": chunk.language if is_encoded else None,
            "vector": _text(chunk.vector),
            "sentence_vectors": _text(chunk.sentence_vectors) or "",
            "weights": chunk.sparse,
            "has_own_vector": has_own_vector,
            "has_own_weights": has_own_weights,
            "names": recognised if names else None,
        }

    def documents(self) -> Iterator[Json]:
        register = self._stores.register
        fields = {"doc_id", "title", "sha256", "converter", "named", "note"}
        for record in every_document(register, self._namespace):
            text = register.text(self._namespace, record.doc_id) if record.converter else None
            yield record.model_dump(mode="json", include=fields) | {"text": text}

    def entities(self) -> Iterator[Json]:
        for entity in self._stores.graph_writer.stored_entities(self._namespace):
            row = entity.model_dump(mode="json", exclude={"namespace", "vector", "listed"})
            yield row | {"docstokg": {"vector": _text(entity.vector)}}

    def relations(self) -> Iterator[Json]:
        index, graph = self._stores.index_writer, self._stores.graph_writer
        facts = {
            (fact.source, fact.type, fact.target, fact.evidence_uuid): fact.text
            for fact in index.stored_facts(self._namespace)
            if fact.type != CALLED
        }
        for relation in graph.stored_relations(self._namespace):
            row: Json = {
                "source": relation.source,
                "type": relation.type,
                "target": relation.target,
                "weight": relation.weight,
            }
            if relation.evidence_uuid is not None:
                row["evidence"] = {
                    "chunk_id": self._chunk_id(relation.evidence_uuid),
                    "start": relation.evidence_start,
                    "end": relation.evidence_end,
                }
            key = (relation.source, relation.type, relation.target, relation.evidence_uuid)
            fact = facts.get(key, "")
            yield row | {"docstokg": {"properties": relation.properties, "fact": fact}}

    def _chunk_id(self, uuid: str) -> str:
        if uuid not in self._chunk_ids:
            raise LoadError("graph and index contain different chunks; load again")
        return self._chunk_ids[uuid]


def _text(vector: bytes | None) -> str | None:
    return None if vector is None else base64.b64encode(vector).decode("ascii")

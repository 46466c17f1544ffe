"""Store records and fingerprints."""

import hashlib
import json
from dataclasses import asdict, fields, replace
from itertools import product
from typing import Any

from docstokg.contracts.records import ChunkNode, ChunkRecord
from docstokg.domain.identity import chunk_uuid, text_sha256
from docstokg.domain.visibility import FIELDS, facets
from docstokg.loading.read.chunking import SEPARATOR
from docstokg.loading.read.raw_input import RawChunk

# Increase it when sentence boundaries or stored fields change, to rewrite all.
FINGERPRINT = "3"


# Fields that the index copies from the file's chunk.
SAME_FIELDS = tuple(
    field.name
    for field in fields(RawChunk)
    if field.name in ChunkRecord.model_fields and field.name != "sparse"
)


def encoder_text(chunk: RawChunk | ChunkRecord) -> str:
    """Return the encoder input: `title > heading > heading. text`, without missing parts."""
    place = SEPARATOR.join((chunk.title, *chunk.headings) if chunk.title else chunk.headings)
    return f"{place}. {chunk.text}" if place else chunk.text


def chunk_record(chunk: RawChunk, namespace: str, run_id: str, **computed: Any) -> ChunkRecord:
    """Return the index record of a chunk; `computed`: `ChunkRecord` fields from encoders."""
    return ChunkRecord(
        uuid=chunk_uuid(namespace, chunk.id),
        chunk_id=chunk.id,
        namespace=namespace,
        text_sha256=text_sha256(chunk.text),
        **{name: getattr(chunk, name) for name in SAME_FIELDS},
        run_id=run_id,
        **computed,
    )


def chunk_node(chunk: RawChunk | ChunkRecord, namespace: str) -> ChunkNode:
    """Return the graph node of a chunk."""
    chunk_id = chunk.id if isinstance(chunk, RawChunk) else chunk.chunk_id
    filterable = {key: getattr(chunk, key) for key in FIELDS}
    return ChunkNode(
        uuid=chunk_uuid(namespace, chunk_id),
        chunk_id=chunk_id,
        namespace=namespace,
        doc_id=chunk.doc_id,
        title=chunk.title,
        section=chunk.section or "",
        acl=chunk.acl,
        topics=chunk.topics,
        facets=facets(filterable, chunk.topics, chunk.metadata),
    )


def fingerprint(chunk: RawChunk, dense: str, sparse: str) -> str:
    """Return the fingerprint of a chunk's content: `all.statements.links`.

    `statements` changes with the text, document or acl. `links` is g for given mentions, else l.
    `dense`, `sparse`: models of the vector and weights ("" = none; given ones are hashed).
    """
    statements = _hash([chunk.text, chunk.doc_id, list(chunk.acl)])
    content = asdict(chunk)
    for key in ("mentions", "whole", "embedding", "sparse", "recognised", "encoding", "kind"):
        del content[key]
    if not chunk.layout:
        del content["layout"]  # same fingerprint as before `layout` was added
    vector_digest = hashlib.sha256(chunk.embedding).hexdigest() if chunk.embedding else dense
    weights = _hash(chunk.sparse) if chunk.sparse is not None else sparse
    every = _hash([FINGERPRINT, content, vector_digest, weights])
    return f"{every}.{statements}.{'l' if chunk.mentions is None else 'g'}"


def possible_fingerprints(chunk: ChunkRecord, dense: str, sparse: str) -> list[str]:
    """Return all possible fingerprints of a stored chunk.

    Bits of the position: 4 if the vector came with the chunk, 2 if the weights did, 1 if the
    mentions did.
    """
    whole = RawChunk(
        id=chunk.chunk_id,
        embedding=chunk.vector,
        sparse=chunk.sparse,
        mentions=(),
        **{key: getattr(chunk, key) for key in SAME_FIELDS},
    )
    choices = product((None, whole.embedding), (None, whole.sparse), (None, whole.mentions))
    return [
        fingerprint(replace(whole, embedding=a, sparse=b, mentions=c), dense, sparse)
        for a, b, c in choices
    ]


def same_statements(old: str, new: str) -> bool:
    """Return whether a chunk's statements are the same in two fingerprints."""
    return old.split(".")[1:2] == new.split(".")[1:2]


def is_linked_here(stored: str) -> bool:
    """Return whether a chunk with this fingerprint had no mentions in its file."""
    return not stored.endswith(".g")


def _hash(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text_sha256(text)[:32]

"""An index in memory: the shortest thing that keeps the contract, to test others against."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from docstokg.contracts.records import (
    ChunkRecord,
    DocumentChange,
    FactRecord,
    IndexInfo,
    Scope,
    StoredChunk,
)
from docstokg.contracts.retrieval import ChannelQuery, ChannelResult, FactHit, Hit, Hydrated
from docstokg.domain.text.query_terms import indexed_text, option_words
from docstokg.domain.vectors import quantise, unpack
from docstokg.domain.visibility import facets, may_see, required
from docstokg.errors import Misconfigured

_RUNS = re.compile(r"[^\W_]+")
STOP = {"the", "a", "an", "of", "is", "in", "and", "or", "not", "what", "to", "near"}


class MemoryIndex:
    """Both sides of a search index; what was put is searchable when the load is closed."""

    def __init__(self) -> None:
        self._chunks: dict[str, tuple[ChunkRecord, str]] = {}
        self._facts: dict[tuple[str, str], FactRecord] = {}
        self._info = IndexInfo()
        self._finished: str | None = None

    def open_load(
        self,
        run_id: str,
        embedding_model: str | None,
        dimension: int | None,
        sparse_model: str | None,
    ) -> None:
        known = self._info if self._chunks else IndexInfo()
        for key, value in (
            ("embedding_model", embedding_model),
            ("dimension", dimension),
            ("sparse_model", sparse_model),
        ):
            if value is not None and getattr(known, key) not in (None, value):
                raise Misconfigured(f"this index has {key} {getattr(known, key)!r}")
        self._info = IndexInfo(
            embedding_model=embedding_model or known.embedding_model,
            dimension=dimension or known.dimension,
            sparse_model=sparse_model or known.sparse_model,
            unfinished_load=True,
        )

    def fingerprints(self, namespace: str, uuids: Sequence[str]) -> dict[str, str]:
        return {
            uuid: self._chunks[uuid][1]
            for uuid in uuids
            if uuid in self._chunks and self._chunks[uuid][0].namespace == namespace
        }

    def put(self, chunks: Sequence[tuple[ChunkRecord, str]]) -> None:
        for chunk, _ in chunks:
            if chunk.vector is not None and len(chunk.vector) != 4 * (self._info.dimension or 0):
                raise Misconfigured("a vector of another dimension")
        self._chunks.update({chunk.uuid: (chunk, mark) for chunk, mark in chunks})

    @contextmanager
    def hold(
        self, wait_s: float, waiting: Any = None, run: str = "", more: bool = False
    ) -> Iterator[None]:
        yield

    def put_document(self, change: DocumentChange) -> int:
        self._facts = {
            key: fact
            for key, fact in self._facts.items()
            if fact.evidence_uuid not in {*change.fallen, *change.gone}
        }
        self.put(change.chunks)
        return self.delete(change.namespace, change.gone)

    def put_facts(self, facts: Sequence[FactRecord]) -> None:
        self._facts.update({(fact.namespace, fact.id): fact for fact in facts})

    def doc_uuids(self, namespace: str, doc_id: str) -> tuple[str, ...]:
        return tuple(
            uuid
            for uuid, (chunk, _) in sorted(self._chunks.items())
            if (chunk.namespace, chunk.doc_id) == (namespace, doc_id)
        )

    def delete(self, namespace: str, uuids: Sequence[str] | None) -> int:
        gone = [
            uuid
            for uuid, (chunk, _) in self._chunks.items()
            if chunk.namespace == namespace and (uuids is None or uuid in uuids)
        ]
        for uuid in gone:
            del self._chunks[uuid]
        self._facts = {
            key: fact
            for key, fact in self._facts.items()
            if fact.namespace != namespace
            or (uuids is not None and fact.evidence_uuid not in uuids)
        }
        return len(gone)

    def close_load(self) -> None:
        self._info = self._info.model_copy(update={"unfinished_load": False})
        self._finished = uuid4().hex

    def stored_chunks(self, namespace: str) -> Iterator[tuple[ChunkRecord, str]]:
        for _, (chunk, mark) in sorted(self._chunks.items()):
            if chunk.namespace == namespace:
                yield chunk, mark

    def stored_facts(self, namespace: str) -> Iterator[FactRecord]:
        for (space, _), fact in sorted(self._facts.items()):
            if space == namespace:
                yield fact.model_copy(update={"acl": tuple(sorted(fact.acl))})

    def search(
        self, queries: Sequence[ChannelQuery], scope: Scope, timeout_s: float
    ) -> tuple[ChannelResult, ...]:
        return tuple(self._channel(query, scope) for query in queries)

    def get(self, uuids: Sequence[str], scope: Scope, timeout_s: float) -> Hydrated:
        shown = {
            uuid: _stored(self._chunks[uuid][0])
            for uuid in uuids
            if uuid in self._chunks and _sees(scope, self._chunks[uuid][0])
        }
        return Hydrated(
            chunks=shown, missing=tuple(dict.fromkeys(u for u in uuids if u not in shown))
        )

    def sentence_vectors(
        self, uuids: Sequence[str], scope: Scope, timeout_s: float
    ) -> dict[str, bytes]:
        known = [self._chunks[uuid][0] for uuid in uuids if uuid in self._chunks]
        return {
            chunk.uuid: chunk.sentence_vectors
            for chunk in known
            if chunk.sentence_vectors and _sees(scope, chunk)
        }

    def generation(self, timeout_s: float) -> str | None:
        return None if self._info.unfinished_load else self._finished

    def info(self, timeout_s: float, anew: bool = False) -> IndexInfo:
        return self._info.model_copy(
            update={"chunks": len(self._chunks), "facts": len(self._facts)}
        )

    def _channel(self, query: ChannelQuery, scope: Scope) -> ChannelResult:
        if query.channel == "dense" and self._info.embedding_model is None:
            return ChannelResult(channel="dense", failure="unavailable")
        if query.channel == "facts":
            facts = [fact for fact in self._facts.values() if _sees_fact(scope, fact)]
            scores = _bm25(query.text, [fact.text for fact in facts])
            ranked = sorted(
                ((score, fact) for score, fact in zip(scores, facts, strict=True) if score > 0),
                key=lambda pair: (-pair[0], pair[1].id),
            )
            return ChannelResult(
                channel="facts",
                facts=tuple(
                    FactHit(
                        id=fact.id,
                        score=score,
                        source=fact.source,
                        type=fact.type,
                        target=fact.target,
                        evidence_uuid=fact.evidence_uuid,
                    )
                    for score, fact in ranked[: query.size]
                ),
            )
        chunks = [chunk for chunk, _ in self._chunks.values() if _sees(scope, chunk)]
        found = [
            (score, chunk)
            for score, chunk in zip(
                self._scores(query, chunks, scope.namespace), chunks, strict=True
            )
            if score is not None
        ]
        found.sort(key=lambda pair: (-pair[0], pair[1].uuid))
        return ChannelResult(
            channel=query.channel,
            hits=tuple(
                Hit(uuid=chunk.uuid, score=score, vector=_compact(chunk))
                for score, chunk in found[: query.size]
            ),
        )

    def _scores(
        self, query: ChannelQuery, chunks: Sequence[ChunkRecord], namespace: str
    ) -> list[float | None]:
        if query.channel == "bm25":
            words = _bm25(query.text, [_searched(chunk) for chunk in chunks])
            return [score if score > 0 else None for score in words]
        if query.channel == "splade":
            space = [c for c, _ in self._chunks.values() if c.namespace == namespace and c.sparse]
            weights = {
                token: weight * _rarity(sum(token in c.sparse for c in space), len(space))
                for token, weight in query.weights.items()
            }
            products = [
                sum(weight * chunk.sparse.get(token, 0) for token, weight in weights.items())
                for chunk in chunks
            ]
            return [product if product > 0 else None for product in products]
        assert query.vector is not None
        wanted = unpack(query.vector)
        return [
            None
            if chunk.vector is None
            else round(math.fsum(unpack(chunk.vector).astype(float) * wanted), 6)
            for chunk in chunks
        ]


def _rarity(holders: int, total: int) -> float:
    return math.log(1 + (total - holders + 0.5) / (holders + 0.5))


def _bm25(question: str, texts: Sequence[str]) -> list[float]:
    words = [word for word in _RUNS.findall(question) if word.casefold() not in STOP]
    asked = set(_words(" ".join((*words, *option_words(question)))))
    counted = [Counter(_words(text)) for text in texts]
    mean = sum(sum(counts.values()) for counts in counted) / max(1, len(counted)) or 1.0
    scores = []
    for counts in counted:
        total = 0.0
        for word in asked:
            rarity = _rarity(sum(1 for other in counted if other[word]), len(counted))
            length = 0.25 + 0.75 * sum(counts.values()) / mean
            total += rarity * 2.2 * counts[word] / (counts[word] + 1.2 * length)
        scores.append(total)
    return scores


def _searched(chunk: ChunkRecord) -> str:
    return " ".join((chunk.title, *chunk.headings, indexed_text(chunk.text)))


def _words(text: str) -> list[str]:
    return [word.removesuffix("s") for word in _RUNS.findall(text.casefold())]


def _sees(scope: Scope, chunk: ChunkRecord) -> bool:
    fields = {
        "doc_id": chunk.doc_id,
        "document_name": chunk.document_name,
        "section": chunk.section,
    }
    own = set(facets(fields, chunk.topics, chunk.metadata))
    return (
        chunk.namespace == scope.namespace
        and may_see(chunk.acl, scope.groups)
        and (scope.doc_ids is None or chunk.doc_id in scope.doc_ids)
        and all(not own.isdisjoint(group) for group in required(scope.filter))
    )


def _sees_fact(scope: Scope, fact: FactRecord) -> bool:
    return (
        fact.namespace == scope.namespace
        and may_see(fact.acl, scope.groups)
        and (scope.doc_ids is None or fact.doc_id in scope.doc_ids)
    )


def _compact(chunk: ChunkRecord) -> bytes | None:
    return None if chunk.vector is None else quantise(chunk.vector)


def _stored(chunk: ChunkRecord) -> StoredChunk:
    names = StoredChunk.model_fields.keys() & ChunkRecord.model_fields.keys() - {"vector"}
    kept = {name: getattr(chunk, name) for name in names}
    return StoredChunk(**kept, vector=_compact(chunk))


def _digest(record: ChunkRecord | FactRecord) -> str:
    values = record.model_dump(mode="python")
    if isinstance(record, ChunkRecord):
        values["vector"] = None if record.vector is None else record.vector.hex()
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()

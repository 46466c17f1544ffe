"""Store contents as canonical lines."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import chain

from docstokg.contracts.records import ChunkRecord
from docstokg.domain.vectors import quantise
from docstokg.loading.read.source_registry import document_rows
from docstokg.ports import DocumentRegister, GraphWriter, IndexWriter

# Digits of a sparse weight: stores may keep 32 bits.
DIGITS = 4


def index_rows(index: IndexWriter, namespace: str) -> Iterator[str]:
    """Yield a line per chunk and fact, by id, without run ids and times."""
    for chunk, _ in index.stored_chunks(namespace):
        yield f"chunk {chunk.uuid} {_canonical(_chunk(chunk))}"
    for fact in index.stored_facts(namespace):
        yield f"fact {fact.id} {_canonical(fact.model_dump(mode='json', exclude={'namespace'}))}"


def graph_rows(graph: GraphWriter, namespace: str) -> Iterator[str]:
    """Yield sorted lines of the graph's chunks, entities, relations and mentions."""
    without = {"namespace"}
    for node in graph.stored_nodes(namespace):
        yield f"node {_canonical(node.model_dump(mode='json', exclude=without))}"
    for entity in graph.stored_entities(namespace):
        line = entity.model_dump(mode="json", exclude=without | {"vector"})
        line["vector"] = _compact(entity.vector)
        yield f"entity {_canonical(line)}"
    for relation in graph.stored_relations(namespace):
        yield f"relation {_canonical(relation.model_dump(mode='json', exclude=without))}"
    for mention in graph.stored_mentions(namespace):
        row = [mention.uuid, mention.entity, mention.start, mention.end, mention.about]
        yield f"mention {_canonical(row)}"


def digests(
    index: IndexWriter, graph: GraphWriter, register: DocumentRegister, namespaces: Iterable[str]
) -> tuple[str, str, str]:
    """Return the SHA-256 of index and documents, of the graph, and of both."""
    names = list(namespaces)
    first = _digest(
        (name, chain(index_rows(index, name), document_rows(register, name))) for name in names
    )
    second = _digest((name, graph_rows(graph, name)) for name in names)
    return first, second, hashlib.sha256(f"{first}\n{second}\n".encode()).hexdigest()


def _chunk(chunk: ChunkRecord) -> dict[str, object]:
    without = {"run_id", "namespace", "vector", "sentence_vectors", "sparse"}
    line = chunk.model_dump(mode="json", exclude=without)
    line["vector"] = _compact(chunk.vector)
    line["sentence_vectors"] = chunk.sentence_vectors.hex()
    line["sparse"] = {token: round(weight, DIGITS) for token, weight in chunk.sparse.items()}
    return line


def _compact(vector: bytes | None) -> str | None:
    return quantise(vector).hex() if vector is not None and any(vector) else None


def _digest(rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    digest = hashlib.sha256()
    for namespace, lines in rows:
        for line in lines:
            digest.update(f"{namespace}\x1f{line}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))

"""Writing of relations and triples."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import batched, islice

from docstokg.contracts import Json
from docstokg.contracts.records import CALLED, FactRecord, RelationRecord, StoredChunk
from docstokg.domain.deadline import Deadline
from docstokg.domain.graph.same_names import SAME_AS, are_distinct, same_names
from docstokg.domain.identity import chunk_uuid
from docstokg.domain.text.sentences import sentence_spans
from docstokg.loading.context import READ_S, ROW_BATCH, Context
from docstokg.loading.names.naming import Names
from docstokg.loading.read.raw_input import RawChunk, RawRelation
from docstokg.loading.read.rejects import Rejected
from docstokg.loading.resolve.entity_resolver import called_id
from docstokg.loading.resolve.load_plan import Linking

# The uuid of a stating chunk, and the chunk.
Place = tuple[str, RawChunk | StoredChunk]

# Stored chunks by uuid.
Stored = Mapping[str, StoredChunk]

# Stored documents that this load removes: they are no longer evidence.
Removed = frozenset[str]


def resolve_edges(context: Context, names: Names, removed: Removed) -> None:
    """Stage edges by entity ids and chunk uuids; an unknown name gets its own id.

    Statements with evidence that is not loaded, or `removed`, become rejects.
    """
    with context.progress.stage("relations", context.staging.count("statement")) as advance:
        for batch in batched(_edge_rows(context), ROW_BATCH):
            stored = _stored_evidence(context, [edge for _, _, edge in batch])
            for file, line, edge in batch:
                try:
                    _resolve(context, names, edge, removed, stored)
                except Rejected as rejected:
                    context.rejects.add(file, line, str(rejected))
            advance(len(batch))


def write_edges(linking: Linking, after: str) -> Iterator[str]:
    """Write relations to the graph and, as sentences, to the index.

    Yields the total number written, as text, after each batch; `after`: resume from it.
    """
    context, resolver = linking.context, linking.resolver
    done = int(after or 0)
    with context.progress.stage("facts", context.staging.count("edge")) as advance:
        advance(done)
        for batch in batched(islice(context.staging.edges(), done, None), ROW_BATCH):
            ends = {end for row in batch for end in (row[0], row[2])}
            resolver.write_named(ends)
            names = resolver.display_names(ends)
            relations, facts = [], []
            for source, kind, target, evidence, payload, fact in batch:
                edge: Json = {
                    "namespace": context.namespace,
                    "source": source,
                    "type": kind,
                    "target": target,
                    "evidence_uuid": evidence,
                }
                relation = RelationRecord(
                    **edge,
                    weight=payload["weight"],
                    evidence_start=payload.get("start"),
                    evidence_end=payload.get("end"),
                    properties=payload["properties"],
                )
                relations.append(relation)
                if kind == SAME_AS:  # not useful as a fact for questions
                    continue
                identity = fact_id(context.namespace, source, kind, target, evidence)
                sentence = f"{names[source]} {kind.replace('_', ' ')} {names[target]}"
                source_fields = {key: payload[key] for key in ("doc_id", "acl") if key in payload}
                text = fact or sentence
                facts.append(FactRecord(id=identity, **edge, text=text, **source_fields))
            context.stores.graph_writer.put_relations(relations)
            context.stores.index_writer.put_facts(facts)
            context.report.relations += len(relations)
            done += len(batch)
            advance(len(batch))
            yield str(done)


def fact_id(namespace: str, source: str, kind: str, target: str, evidence: str | None) -> str:
    """Return the id of a fact: the UUIDv5 of edge and evidence; of kind CALLED, `called_id`."""
    if kind == CALLED:
        return called_id(source)
    return chunk_uuid(namespace, "\x1f".join(("fact", source, kind, target, evidence or "")))


def stating_sentence(text: str, subject: str, object_: str) -> tuple[int, int] | None:
    """Return the span of the first sentence with both ends of a triple in any case, or None."""
    ends = (subject.casefold(), object_.casefold())
    if not all(end in text.casefold() for end in ends):
        return None
    for span in sentence_spans(text):
        sentence = text[span.start : span.end].casefold()
        if all(end in sentence for end in ends):
            return span.start, span.end
    return None


def _edge_rows(context: Context) -> Iterator[tuple[str, int, RawRelation]]:
    yield from context.staging.statements()
    for chunk in context.staging.chunks():
        for number, same in enumerate(same_names(chunk.text, chunk.title), 1):
            triple = RawRelation(
                source=same.name,
                type=SAME_AS,
                target=same.other,
                evidence=chunk.id,
                start=same.start,
                end=same.end,
                properties={"reason": same.reason},
                from_text=True,
            )
            yield f"chunk {chunk.id}", number, triple


def _stored_evidence(context: Context, edges: Sequence[RawRelation]) -> Stored:
    staging, namespace = context.staging, context.namespace
    chunk_ids = {edge.evidence for edge in edges if edge.evidence is not None}
    documents = {edge.doc_id for edge in edges if edge.evidence is None and edge.doc_id}
    uuids = {chunk_uuid(namespace, name) for name in chunk_ids if staging.chunk(name) is None}
    for doc_id in documents:
        if next(staging.document_chunks(doc_id), None) is None:
            uuids.update(context.stores.index_writer.doc_uuids(namespace, doc_id))
    stored: dict[str, StoredChunk] = {}
    for batch in batched(sorted(uuids), ROW_BATCH):
        until = Deadline.after(READ_S)
        stored |= context.stores.search_index.get(batch, context.scope, until).chunks
    return stored


def _resolve(
    context: Context, names: Names, edge: RawRelation, removed: Removed, stored: Stored
) -> None:
    payload: Json = {"properties": edge.properties, "weight": edge.weight}
    evidence = None
    if edge.evidence is not None or edge.doc_id is not None:
        evidence, chunk = _stating_place(context, edge, removed, stored)
        start, end = edge.start, edge.end
        if edge.from_text and end is None:
            start, end = stating_sentence(chunk.text, edge.source, edge.target) or (None, None)
        if end is not None and end > len(chunk.text):
            raise Rejected(f"evidence: {start}..{end} is not a span of the chunk's text")
        # A fact has the document and acl of its chunk.
        payload |= {"start": start, "end": end, "doc_id": chunk.doc_id, "acl": list(chunk.acl)}
    resolve = names.id_of_name if edge.from_text else names.resolve
    source, target = resolve(edge.source), resolve(edge.target)
    if not edge.from_text:
        fact = edge.fact
    elif edge.type == SAME_AS and (source == target or are_distinct(source, target)):
        return
    else:
        fact = f"{edge.source} {edge.type} {edge.target}"
    context.staging.add_edge((source, edge.type, target, evidence), payload, fact)


def _stating_place(context: Context, edge: RawRelation, removed: Removed, stored: Stored) -> Place:
    if edge.evidence is not None:
        return _place(context, edge.evidence, removed, stored)
    doc_id = edge.doc_id or ""
    parts = context.staging.document_chunks(doc_id)
    candidates = [(chunk.id, chunk.text) for part in parts for chunk in part]
    if not candidates and doc_id not in removed:
        chunks = (chunk for chunk in stored.values() if chunk.doc_id == doc_id)
        candidates = sorted((chunk.chunk_id, chunk.text) for chunk in chunks)
    if not candidates:
        raise Rejected(f"document {doc_id!r} has no loaded chunk")
    ends = [part.casefold() for part in (edge.source, edge.target)]
    chunk_id, _ = max(
        candidates, key=lambda candidate: sum(end in candidate[1].casefold() for end in ends)
    )
    return _place(context, chunk_id, removed, stored)


def _place(context: Context, chunk_id: str, removed: Removed, stored: Stored) -> Place:
    uuid = chunk_uuid(context.namespace, chunk_id)
    staged = context.staging.chunk(chunk_id)
    if staged is not None:
        return uuid, staged
    chunk = stored.get(uuid)
    if chunk is None or chunk.doc_id in removed:
        raise Rejected(f"evidence: chunk {chunk_id!r} is not loaded")
    return uuid, chunk

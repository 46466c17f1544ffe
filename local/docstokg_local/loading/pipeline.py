"""A load: read, check, name, link, encode and write, repeatable after any interruption.

The order makes it so. Everything that depends on what the store holds is decided from the union
of store and load, which an interrupted load does not change; a chunk's stored fingerprint is its
commit mark, so what a changed chunk invalidates goes before it; the index closes last, and until
then counts as unfinished.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import batched
from pathlib import Path
from typing import Any, Protocol

from ulid import ULID

from docstokg.contracts.records import (
    ChunkRecord,
    EntityRecord,
    FactRecord,
    MentionRecord,
    RelationRecord,
    Scope,
)
from docstokg.domain.linking import Linker, Match
from docstokg.domain.sentences import sentence_spans
from docstokg.errors import Unavailable
from docstokg.ports import (
    Embedder,
    GraphWriter,
    IndexWriter,
    KnowledgeGraph,
    SearchIndex,
    SparseEncoder,
)
from docstokg_local.loading.given import GivenChunk, GivenEntity, GivenRelation, GivenTriple
from docstokg_local.loading.naming import Aliases, NamedEntity, Names
from docstokg_local.loading.reading import stage, title_names
from docstokg_local.loading.records import (
    chunk_node,
    chunk_record,
    chunk_uuid,
    encoder_text,
    fingerprint,
    is_linked_here,
    same_statements,
)
from docstokg_local.loading.rejects import Rejected, RejectLog
from docstokg_local.loading.sources import find_files
from docstokg_local.loading.staging import Staging

CHUNK_BATCH = 128
ROW_BATCH = 500
RELATION_BATCH = 20
READ_S = 60.0
MOST_HOMONYMS = 8
REDIRECTS = 4
UPSTREAM = "upstream"
"""The model's name when vectors come with the files and no embedder is configured."""


class Progress(Protocol):
    """Where a load says how far it is."""

    def stage(self, title: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:
        """Begin a stage of `total` steps; call the result with the steps done since."""
        ...


class Silent:
    """Says nothing."""

    @contextmanager
    def stage(self, title: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """Count nothing."""
        yield lambda steps: None


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load: `embed` false runs no encoder, `replace_docs` replaces whole documents."""

    namespace: str = "default"
    embed: bool = True
    replace_docs: bool = False


@dataclass(slots=True)
class LoadReport:
    """What a load did."""

    run_id: str
    files: int = 0
    chunks: int = 0
    written: int = 0
    unchanged: int = 0
    removed: int = 0
    entities: int = 0
    mentions: int = 0
    relations: int = 0
    relinked: int = 0
    rejected: int = 0
    embedding_model: str | None = None
    sparse_model: str | None = None
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The ports a load needs."""

    search_index: SearchIndex
    index_writer: IndexWriter
    knowledge_graph: KnowledgeGraph
    graph_writer: GraphWriter
    embedder: Embedder | None = None
    sparse_encoder: SparseEncoder | None = None


def load(
    sources: Sequence[Path],
    options: LoadOptions,
    stores: Stores,
    rejects: RejectLog,
    progress: Progress | None = None,
) -> LoadReport:
    """Load files and folders into both stores; `LoadError` when a source cannot be read.

    Running it again, also after it was killed, ends in the same content.
    """
    started = time.monotonic()
    files = find_files(sources)
    staging = Staging()
    try:
        run = _Load(options, stores, rejects, progress or Silent(), staging)
        run.report.files = len(files)
        run.read(files)
        run.write()
    finally:
        staging.close()
    run.report.rejected = rejects.count
    run.report.seconds = time.monotonic() - started
    return run.report


class _Load:
    """One run: the ports, what was staged, and what was found out on the way."""

    def __init__(
        self,
        options: LoadOptions,
        stores: Stores,
        rejects: RejectLog,
        progress: Progress,
        staging: Staging,
    ) -> None:
        self.namespace = options.namespace
        self.options = options
        self.stores = stores
        self.rejects = rejects
        self.progress = progress
        self.staging = staging
        self.report = LoadReport(run_id=str(ULID()))
        self.scope = Scope(namespace=options.namespace)
        self.embedder = stores.embedder if options.embed else None
        self.sparse = stores.sparse_encoder if options.embed else None
        self.named: dict[str, NamedEntity] = {}
        self.placed: set[str] = set()
        self.names = Names()
        self.unfinished = False

    def read(self, files: Sequence[Any]) -> None:
        """Stage all files."""
        try:
            info = self.stores.search_index.info(READ_S)
            self.unfinished = info.unfinished_load
            stored_model, stored_dimension = info.embedding_model, info.dimension
        except Unavailable:
            stored_model, stored_dimension = None, None
        if self.options.embed and self.embedder is None:
            self.report.warnings.append(
                "no embedder is installed or configured: these chunks are found by words only"
            )
        dimension = self.embedder.dimension if self.embedder else stored_dimension
        with self.progress.stage("reading", None) as advance:
            for file in files:
                dimension = stage(file, self.staging, self.rejects, dimension, advance)
        given = self.staging.given_dimensions()
        self.model = stored_model or (UPSTREAM if given else None)
        if self.embedder is not None:
            self.model = self.embedder.model
        self.dimension = dimension if self.model else None

    def write(self) -> None:
        """Bring both stores to what the files say."""
        sparse_model = self.sparse.model if self.sparse else None
        self.report.embedding_model, self.report.sparse_model = self.model, sparse_model
        self.stores.index_writer.open_load(
            self.report.run_id, self.model, self.dimension, sparse_model
        )
        aliases = self._name_everything()
        self._resolve_edges()
        self._put_listed()
        linking = list(aliases.for_linking(self.names))
        self._put_chunks(Linker(linking))
        self._remove_stale()
        self._put_edges()
        fresh = linking if self.unfinished else list(aliases.new(linking))
        if fresh:
            self._relink(Linker(linking), Linker(fresh))
        self.stores.graph_writer.close_load()
        self.stores.index_writer.close_load()

    # Names and entities

    def _name_everything(self) -> Aliases:
        aliases = Aliases(self.stores.graph_writer.aliases(self.namespace))
        for entity in self.staging.entities():
            leads_to = self._current(entity)
            aliases.put(entity.id, entity.name, entity.synonyms, leads_to=leads_to)
        self.names.add(aliases.of_curies())
        for surface, kind, synonym in self.staging.names():
            identity = self.names.named(surface)
            if identity.startswith("ent:"):
                entity_ = self.named.setdefault(
                    identity, NamedEntity(identity, surface, kind or None)
                )
                if synonym:
                    entity_.synonyms.add(synonym)
        for identities in batched(sorted(self.named), ROW_BATCH, strict=False):
            self._merge_stored(identities)
        for named in self.named.values():
            aliases.put(named.id, named.name, sorted(named.synonyms))
        return aliases

    def _merge_stored(self, identities: Sequence[str]) -> None:
        """Let an entity keep the type and the names that earlier loads gave it."""
        graph = self.stores.knowledge_graph
        for stored in graph.entities(identities, self.scope, READ_S):
            mine = self.named[stored.id]
            mine.type = mine.type or stored.type
        for identity, names in graph.names(identities, self.scope, READ_S).items():
            self.named[identity].synonyms.update(names[1:])

    def _current(self, entity: GivenEntity) -> str:
        """Follow `replaced_by` through this load's entities, so that old names find new terms."""
        identity = entity.id
        for _ in range(REDIRECTS):
            if not entity.obsolete or entity.replaced_by is None:
                break
            replacement = self.staging.entity(entity.replaced_by)
            if replacement is None:
                break
            identity, entity = replacement.id, replacement
        return identity

    def _put_listed(self) -> None:
        total = self.staging.count("entity")
        with self.progress.stage("entities", total) as advance:
            for batch in batched(self.staging.entities(), ROW_BATCH, strict=False):
                vectors = self._name_vectors([(entity.name, entity.embedding) for entity in batch])
                self.stores.graph_writer.put_entities(
                    [
                        EntityRecord(
                            id=entity.id,
                            namespace=self.namespace,
                            name=entity.name,
                            type=entity.type,
                            synonyms=entity.synonyms,
                            definition=entity.definition,
                            obsolete=entity.obsolete,
                            replaced_by=entity.replaced_by,
                            vector=vector,
                        )
                        for entity, vector in zip(batch, vectors, strict=True)
                    ]
                )
                self.report.entities += len(batch)
                advance(len(batch))

    def _put_named(self, identities: Iterable[str]) -> None:
        """Write the entities of this load's texts that are needed now and not yet there."""
        wanted = sorted(i for i in set(identities) if i in self.named and i not in self.placed)
        for batch in batched(wanted, ROW_BATCH, strict=False):
            rows = [self.named[identity] for identity in batch]
            vectors = self._name_vectors([(row.name, None) for row in rows])
            self.stores.graph_writer.put_entities(
                [
                    EntityRecord(
                        id=row.id,
                        namespace=self.namespace,
                        name=row.name,
                        type=row.type,
                        synonyms=tuple(sorted(row.synonyms)),
                        listed=False,
                        vector=vector,
                    )
                    for row, vector in zip(rows, vectors, strict=True)
                ]
            )
            self.placed.update(batch)
            self.report.entities += len(batch)

    def _name_vectors(self, names: Sequence[tuple[str, bytes | None]]) -> list[bytes | None]:
        vectors = [given for _, given in names]
        missing = [i for i, given in enumerate(vectors) if given is None]
        if self.embedder is not None and missing:
            made = self.embedder.embed([names[i][0] for i in missing], None)
            for i, vector in zip(missing, made, strict=True):
                vectors[i] = vector
        return vectors

    # Chunks

    def _put_chunks(self, linker: Linker) -> None:
        total = self.staging.count("chunk")
        dense = self.model if self.embedder is not None and self.model else ""
        sparse = self.sparse.model if self.sparse is not None else ""
        with self.progress.stage("chunks", total) as advance:
            for batch in batched(self.staging.chunks(), CHUNK_BATCH, strict=False):
                uuids = [chunk_uuid(self.namespace, chunk.id) for chunk in batch]
                stored = self.stores.index_writer.known(self.namespace, uuids)
                fresh: list[tuple[GivenChunk, str]] = []
                fallen: list[str] = []
                for uuid, chunk in zip(uuids, batch, strict=True):
                    mark = fingerprint(chunk, dense, sparse)
                    if stored.get(uuid) != mark:
                        fresh.append((chunk, mark))
                        if uuid in stored and not same_statements(stored[uuid], mark):
                            fallen.append(uuid)
                records = self._encoded(fresh)
                if fallen:
                    self._remove(fallen)
                if records:
                    self.stores.index_writer.put(records)
                self._put_nodes(batch, linker)
                self.report.chunks += len(batch)
                self.report.written += len(records)
                self.report.unchanged += len(batch) - len(records)
                advance(len(batch))

    def _encoded(self, fresh: Sequence[tuple[GivenChunk, str]]) -> list[tuple[ChunkRecord, str]]:
        texts = [encoder_text(chunk.title, chunk.text) for chunk, _ in fresh]
        dense = [i for i, (chunk, _) in enumerate(fresh) if chunk.embedding is None]
        sparse = [i for i, (chunk, _) in enumerate(fresh) if chunk.sparse is None]
        vectors = {i: chunk.embedding for i, (chunk, _) in enumerate(fresh)}
        weights = {i: chunk.sparse or {} for i, (chunk, _) in enumerate(fresh)}
        if self.embedder is not None and dense:
            made = self.embedder.embed([texts[i] for i in dense], None)
            vectors.update(zip(dense, made, strict=True))
        if self.sparse is not None and sparse:
            encoded = self.sparse.encode([texts[i] for i in sparse], None)
            weights.update(zip(sparse, encoded, strict=True))
        return [
            (
                chunk_record(chunk, self.namespace, self.report.run_id).model_copy(
                    update={"vector": vectors[i], "sparse": weights[i]}
                ),
                mark,
            )
            for i, (chunk, mark) in enumerate(fresh)
        ]

    def _put_nodes(self, batch: Sequence[GivenChunk], linker: Linker) -> None:
        nodes, mentions = [], {}
        for chunk in batch:
            record = chunk_record(chunk, self.namespace, self.report.run_id)
            nodes.append(chunk_node(record))
            mentions[record.uuid] = self._mentions(chunk, record.uuid, linker)
        self._put_named(row.entity for rows in mentions.values() for row in rows)
        self.stores.graph_writer.put_chunks(nodes)
        self.stores.graph_writer.put_mentions(self.namespace, mentions)
        self.report.mentions += sum(len(rows) for rows in mentions.values())

    def _mentions(self, chunk: GivenChunk, uuid: str, linker: Linker) -> list[MentionRecord]:
        if chunk.mentions is None:
            places = linked(linker.find(chunk.text))
        else:
            places = {}
            for given in chunk.mentions:
                places.setdefault(self.names.resolve(given.entity), (given.start, given.end))
        for name in title_names(chunk):
            places.setdefault(self.names.named(name), None)
        for end in self.staging.endpoints(uuid):
            places.setdefault(end, None)
        return _mention_records(uuid, places)

    # Relations

    def _resolve_edges(self) -> None:
        """Turn names into ids and chunk ids into uuids; what has no evidence is rejected."""
        total = self.staging.count("relation") + self.staging.count("triple")
        with self.progress.stage("relations", total) as advance:
            for file, line, relation in self.staging.relations():
                try:
                    self._resolve_relation(relation)
                except Rejected as rejected:
                    self.rejects.add(file, line, str(rejected))
                advance(1)
            for file, line, triple in self.staging.triples():
                try:
                    self._resolve_triple(triple)
                except Rejected as rejected:
                    self.rejects.add(file, line, str(rejected))
                advance(1)

    def _resolve_relation(self, relation: GivenRelation) -> None:
        evidence, payload = None, {"properties": relation.properties, "weight": relation.weight}
        if relation.evidence is not None:
            place = self._evidence(relation.evidence)
            if relation.end is not None and relation.end > place.length:
                raise Rejected(
                    f"evidence: {relation.start}..{relation.end} is no stretch of the chunk's text"
                )
            evidence = place.uuid
            payload |= {"start": relation.start, "end": relation.end, **place.owner()}
        source = self.names.resolve(relation.source)
        target = self.names.resolve(relation.target)
        self.staging.add_edge((source, relation.type, target, evidence), payload, "")

    def _resolve_triple(self, triple: GivenTriple) -> None:
        chunk_id, text = self._stating_chunk(triple)
        place = self._evidence(chunk_id)
        span = stating_sentence(text, triple.subject, triple.object)
        payload = {
            "properties": triple.properties,
            "weight": 1.0,
            "start": span[0] if span else None,
            "end": span[1] if span else None,
            **place.owner(),
        }
        key = (
            self.names.named(triple.subject),
            triple.relation,
            self.names.named(triple.object),
            place.uuid,
        )
        fact = f"{triple.subject} {triple.relation} {triple.object}"
        self.staging.add_edge(key, payload, fact)

    def _evidence(self, chunk_id: str) -> "_Place":
        uuid = chunk_uuid(self.namespace, chunk_id)
        staged = self.staging.chunk(chunk_id)
        if staged is not None:
            return _Place(uuid, staged.doc_id, staged.length, staged.acl)
        text = self._stored_text(uuid)
        if text is None:
            raise Rejected(f"evidence: chunk {chunk_id!r} is not loaded")
        return text

    def _stored_text(self, uuid: str) -> "_Place | None":
        stored = self.stores.search_index.get([uuid], self.scope, READ_S).chunks.get(uuid)
        if stored is None:
            return None
        open_to_all = Scope(namespace=self.namespace, groups=())
        public = uuid in self.stores.search_index.get([uuid], open_to_all, READ_S).chunks
        # The index does not tell who may see a guarded chunk, so its facts stay unsearchable.
        return _Place(uuid, stored.doc_id, len(stored.text), () if public else None, stored.text)

    def _stating_chunk(self, triple: GivenTriple) -> tuple[str, str]:
        """Choose the chunk of the document that holds both ends, else one end, else the first."""
        if triple.chunk_id is not None:
            staged = self.staging.chunk(triple.chunk_id)
            if staged is not None:
                texts = dict(self.staging.document_texts(staged.doc_id))
                return triple.chunk_id, texts[triple.chunk_id]
            stored = self._stored_text(chunk_uuid(self.namespace, triple.chunk_id))
            return triple.chunk_id, stored.text if stored else ""
        doc_id = triple.doc_id or ""
        candidates = self.staging.document_texts(doc_id)
        if not candidates:
            uuids = self.stores.index_writer.doc_uuids(self.namespace, doc_id)
            stored_chunks = self.stores.search_index.get(uuids, self.scope, READ_S).chunks
            candidates = sorted((c.chunk_id, c.text) for c in stored_chunks.values())
        if not candidates:
            raise Rejected(f"document {doc_id!r} has no loaded chunk")
        ends = [part.casefold() for part in (triple.subject, triple.object)]
        return max(
            candidates,
            key=lambda candidate: sum(end in candidate[1].casefold() for end in ends),
        )

    def _put_edges(self) -> None:
        total = self.staging.count("edge")
        with self.progress.stage("facts", total) as advance:
            for batch in batched(self.staging.edges(), ROW_BATCH, strict=False):
                ends = {end for row in batch for end in (row[0], row[2])}
                self._put_named(ends)
                names = self._display_names(ends)
                relations, facts = [], []
                for source, kind, target, evidence, payload, fact in batch:
                    relations.append(
                        RelationRecord(
                            namespace=self.namespace,
                            source=source,
                            type=kind,
                            target=target,
                            weight=payload["weight"],
                            evidence_uuid=evidence,
                            evidence_start=payload.get("start"),
                            evidence_end=payload.get("end"),
                            properties=payload["properties"],
                        )
                    )
                    acl = payload.get("acl", [])
                    if acl is None:
                        continue
                    said = f"{names[source]} {kind.replace('_', ' ')} {names[target]}"
                    facts.append(
                        FactRecord(
                            id=fact_id(self.namespace, source, kind, target, evidence),
                            namespace=self.namespace,
                            text=fact or said,
                            source=source,
                            type=kind,
                            target=target,
                            evidence_uuid=evidence,
                            doc_id=payload.get("doc_id"),
                            acl=tuple(acl),
                        )
                    )
                self.stores.graph_writer.put_relations(relations)
                self.stores.index_writer.put_facts(facts)
                self.report.relations += len(relations)
                advance(len(batch))

    def _display_names(self, identities: Iterable[str]) -> dict[str, str]:
        found, missing = {}, []
        for identity in sorted(identities):
            own = self.named.get(identity)
            listed = None if own else self.staging.entity(identity)
            name = own.name if own else listed.name if listed else None
            if name is None:
                missing.append(identity)
            found[identity] = name or identity
        if missing:
            stored = self.stores.knowledge_graph.names(missing, self.scope, READ_S)
            found.update((identity, names[0]) for identity, names in stored.items() if names)
        return found

    # What was there before

    def _remove(self, uuids: Sequence[str]) -> None:
        self.stores.graph_writer.delete(self.namespace, uuids)
        self.stores.index_writer.delete(self.namespace, uuids)

    def _remove_stale(self) -> None:
        """Remove what replaced documents no longer hold."""
        documents = self.staging.documents(every=self.options.replace_docs)
        with self.progress.stage("replaced documents", len(documents)) as advance:
            for doc_id in documents:
                stored = set(self.stores.index_writer.doc_uuids(self.namespace, doc_id))
                kept = {chunk_uuid(self.namespace, i) for i in self.staging.chunk_ids(doc_id)}
                if stale := sorted(stored - kept):
                    self._remove(stale)
                    self.report.removed += len(stale)
                advance(1)

    def _relink(self, linker: Linker, fresh: Linker) -> None:
        """Let chunks of earlier loads mention what this load named."""
        mine = {chunk_uuid(self.namespace, chunk.id) for chunk in self.staging.chunks()}
        others = [
            uuid
            for uuid in self.stores.graph_writer.chunk_uuids(self.namespace)
            if uuid not in mine
        ]
        if not others:
            return
        stated = self._stated_by(set(others))
        with self.progress.stage("earlier chunks", len(others)) as advance:
            for batch in batched(others, ROW_BATCH, strict=False):
                marks = self.stores.index_writer.known(self.namespace, batch)
                linkable = [uuid for uuid in batch if is_linked_here(marks.get(uuid, ".g"))]
                chunks = self.stores.search_index.get(linkable, self.scope, READ_S).chunks
                mentions: dict[str, list[MentionRecord]] = {}
                for uuid, chunk in sorted(chunks.items()):
                    if not fresh.find(chunk.text):
                        continue
                    places = linked(linker.find(chunk.text))
                    for name in title_names(GivenChunk("", "", "", title=chunk.title)):
                        places.setdefault(self.names.named(name), None)
                    if chunk.section and chunk.anchor:
                        places.setdefault(self.names.named(chunk.section), None)
                    for end in stated.get(uuid, ()):
                        places.setdefault(end, None)
                    mentions[uuid] = _mention_records(uuid, places)
                if mentions:
                    self._put_named(row.entity for rows in mentions.values() for row in rows)
                    self.stores.graph_writer.put_mentions(self.namespace, mentions)
                    self.report.relinked += len(mentions)
                advance(len(batch))

    def _stated_by(self, uuids: set[str]) -> dict[str, set[str]]:
        """Map each of these chunks to the ends of the edges it states."""
        found: dict[str, set[str]] = {}
        aliases = self.stores.graph_writer.aliases(self.namespace)
        entities = sorted({entry[1] for entry in aliases})
        for batch in batched(entities, RELATION_BATCH, strict=False):
            for edge in self.stores.knowledge_graph.relations_of(batch, self.scope, READ_S):
                if edge.evidence_uuid in uuids:
                    found.setdefault(edge.evidence_uuid, set()).update((edge.source, edge.target))
        return found


@dataclass(frozen=True, slots=True)
class _Place:
    """A chunk that states something; `acl` None = guarded by groups nobody told."""

    uuid: str
    doc_id: str
    length: int
    acl: tuple[str, ...] | None
    text: str = ""

    def owner(self) -> dict[str, Any]:
        return {"doc_id": self.doc_id, "acl": None if self.acl is None else list(self.acl)}


def linked(matches: Iterable[Match]) -> dict[str, tuple[int, int] | None]:
    """Give each entity found its first place; nested names and names of too many are left out."""
    places: dict[str, tuple[int, int] | None] = {}
    for match in matches:
        if not match.nested and len(match.entity_ids) <= MOST_HOMONYMS:
            for identity in match.entity_ids:
                places.setdefault(identity, (match.start, match.end))
    return places


def stating_sentence(text: str, subject: str, object_: str) -> tuple[int, int] | None:
    """Find the first sentence that holds both ends of a triple, whatever their case."""
    ends = (subject.casefold(), object_.casefold())
    if not all(end in text.casefold() for end in ends):
        return None
    for span in sentence_spans(text):
        sentence = text[span.start : span.end].casefold()
        if all(end in sentence for end in ends):
            return span.start, span.end
    return None


def fact_id(namespace: str, source: str, kind: str, target: str, evidence: str | None) -> str:
    """Name a fact by what it states and where: UUIDv5 like a chunk's."""
    return chunk_uuid(namespace, "\x1f".join(("fact", source, kind, target, evidence or "")))


def _mention_records(uuid: str, places: dict[str, tuple[int, int] | None]) -> list[MentionRecord]:
    return [
        MentionRecord(
            uuid=uuid,
            entity=entity,
            start=place[0] if place else None,
            end=place[1] if place else None,
        )
        for entity, place in sorted(places.items())
    ]

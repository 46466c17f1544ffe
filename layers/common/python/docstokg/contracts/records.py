"""What the stores hold: the loader writes these, the adapters keep them, the steps read them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field

from docstokg.contracts.model import Contract
from docstokg.contracts.request import Scalar

Filters = dict[str, tuple[Scalar, ...]]


class Scope(Contract):
    """What one caller may see of one namespace; every query of both stores carries it.

    `groups` None sees every `acl`; otherwise a chunk is visible iff its `acl` is empty or
    shares a group. `filter` keys are joined by AND, values by OR. `doc_ids` (not None) further
    restricts to these documents. `others`: namespaces that are asked at once with `namespace`.
    """

    namespace: str
    others: tuple[str, ...] = ()
    groups: tuple[str, ...] | None = None
    filter: Filters | None = None
    doc_ids: tuple[str, ...] | None = None

    @property
    def namespaces(self) -> tuple[str, ...]:
        """List all that is asked."""
        return (self.namespace, *self.others)

    def each(self) -> "list[Scope]":
        """Give the scope of each of them."""
        return [self.model_copy(update={"namespace": n, "others": ()}) for n in self.namespaces]


class ChunkText(Contract):
    """What a chunk says, and where; `run_id`: of the load that wrote it.

    `sentences`: code-point spans of `text` that do not overlap, in order. `char_start`: place in
    the source document, or None when unknown. `headings`: those it stands under, searched with the
    title. `language`: ISO 639-1, "" for English and where nobody can say. `layout`: where its words
    stand on their page, see `domain.layout`.
    """

    uuid: str
    chunk_id: str
    doc_id: str
    text: str
    text_sha256: str
    title: str = ""
    headings: tuple[str, ...] = ()
    document_name: str | None = None
    page: int | str | None = None
    section: str | None = None
    uri: str | None = None
    anchor: str | None = None
    char_start: int | None = None
    layout: str = ""
    topics: tuple[str, ...] = ()
    acl: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    sentences: tuple[tuple[int, int], ...] = ()
    language: str = Field("", exclude_if=lambda code: not code)
    run_id: str


class ChunkRecord(ChunkText):
    """A chunk as the search index keeps it.

    `vector`: unit vector, float32 little-endian bytes, or None. `sparse`: token -> weight > 0.
    `sentence_vectors`: a unit vector of each sentence, in order, packed by
    `domain.vectors.packed`; empty without an embedder.
    """

    namespace: str
    sentence_vectors: bytes = b""
    sparse: dict[str, float] = {}
    vector: bytes | None = None


class VectorRow(NamedTuple):
    """What another encoder made of a stored chunk; see `ChunkRecord`."""

    uuid: str
    fingerprint: str
    vector: bytes
    sentence_vectors: bytes


class DocumentChange(NamedTuple):
    """What a load changes of a document that the index holds already, by uuid.

    `chunks`: new or changed ones with their fingerprints. `unchanged_uuids`: stored ones that
    stay. `fallen`: stored ones whose statements no longer hold. `gone`: those the document has
    no more.
    `generation`: a ULID, later than that of every load before.
    """

    namespace: str
    doc_id: str
    chunks: Sequence[tuple[ChunkRecord, str]]
    unchanged_uuids: Sequence[str]
    fallen: Sequence[str]
    gone: Sequence[str]
    generation: str


class DocumentRecord(Contract):
    """A document as lists show it, and where it came from.

    `root`: a keyed hash of the folder it was read from, `path` its place there; neither is ever
    shown. `named`: its id was written by its owner, not made from its path. `sha256`: of its
    text. `converter`: what made the text, "" where that is the decoded file; then `text` is None.
    `original`: the file itself, of a PDF. `note`: what was not read, or read differently.
    """

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    namespace: str
    doc_id: str
    title: str = ""
    acl: tuple[str, ...] = ()
    chunks: int = 0
    sha256: str = ""
    converter: str = ""
    run_id: str = ""
    loaded_at: str = ""
    root: str = ""
    path: str = ""
    named: bool = False
    note: str = ""
    text: str | None = None
    original: bytes | None = None


class FactRecord(Contract):
    """A relation as a searchable sentence; visible iff its evidence chunk is."""

    id: str
    namespace: str
    text: str
    source: str
    type: str
    target: str
    evidence_uuid: str | None = None
    doc_id: str | None = None
    acl: tuple[str, ...] = ()


class StoredChunk(ChunkText):
    """A hydrated chunk; `vector` is int8-quantised (x127), or None without an embedding.

    `generation`: of the load that last changed its document, where a store needs it to tell old
    from new; see `domain.generations`.
    """

    vector: bytes | None = None
    generation: str = ""


class IndexInfo(Contract):
    """What an index says of itself; the embedding model fixes its vector space.

    `open_run`: the run_id of the load that is open or unfinished. `languages`: by namespace with
    others than English, the share of its passages in each. `spaces`: model and dimension of
    namespaces with another than `embedding_model`, which an index that `is_one_space` cannot hold.
    """

    embedding_model: str | None = None
    dimension: int | None = None
    sparse_model: str | None = None
    chunks: int = 0
    facts: int = 0
    unfinished_load: bool = False
    open_run: str = ""
    namespaces: tuple[str, ...] = ()
    languages: dict[str, dict[str, float]] = {}
    spaces: dict[str, tuple[str, int]] = {}
    is_one_space: bool = False

    def space_of(self, namespace: str) -> tuple[str | None, int | None]:
        """Give the model and the dimension of a namespace's vectors."""
        return self.spaces.get(namespace, (self.embedding_model, self.dimension))

    def model_of(self, namespace: str) -> str | None:
        """Name the encoder of a namespace's vectors."""
        return self.space_of(namespace)[0]

    def languages_of(self, namespace: str) -> dict[str, float]:
        """Give the share of a namespace's passages in each language; all are English by default."""
        return self.languages.get(namespace, {"en": 1.0})


class EntityRecord(Contract):
    """An entity of the graph. `listed`: from an entity list or ontology, not from a text."""

    id: str
    namespace: str
    name: str
    type: str | None = None
    synonyms: tuple[str, ...] = ()
    definition: str | None = None
    obsolete: bool = False
    replaced_by: str | None = None
    listed: bool = True
    vector: bytes | None = None


class RelationRecord(Contract):
    """A typed, directed edge between two entities, with the span that states it when known."""

    namespace: str
    source: str
    type: str
    target: str
    weight: float = 1.0
    evidence_uuid: str | None = None
    evidence_start: int | None = None
    evidence_end: int | None = None
    properties: dict[str, Any] = {}


class MentionRecord(Contract):
    """A chunk names an entity at text[start:end]; None where only the fact is known.

    `about`: the entity is the title of the chunk's document, or the heading of its section.
    """

    uuid: str
    entity: str
    start: int | None = None
    end: int | None = None
    about: bool = False


class FoundName(NamedTuple):
    """A name that a recogniser found in a text, and what kind of thing it names."""

    text: str
    kind: str | None = None


class ChunkNode(Contract):
    """A chunk as the graph keeps it: identity, visibility and what filters need.

    `section`: the label of the section it stands in. `facets`: see `domain.visibility.facets`.
    """

    uuid: str
    chunk_id: str
    namespace: str
    doc_id: str
    title: str = ""
    section: str = ""
    acl: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    facets: tuple[str, ...] = ()


class GraphInfo(Contract):
    """What a graph says of itself."""

    chunks: int = 0
    entities: int = 0
    relations: int = 0
    mentions: int = 0
    namespaces: tuple[str, ...] = ()

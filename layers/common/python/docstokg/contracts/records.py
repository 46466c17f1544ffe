"""Records in the stores."""

from collections.abc import Sequence
from typing import NamedTuple

from pydantic import ConfigDict, Field

from docstokg.contracts import Json
from docstokg.contracts.model import Contract
from docstokg.contracts.request import Scalar

Filters = dict[str, tuple[Scalar, ...]]


class Scope(Contract):
    """Visibility of a namespace for one caller; a part of every store query.

    `groups`: None for all; otherwise a chunk is visible iff its `acl` is empty or shares a group.
    `filter`: values of one key are ORed, different keys are ANDed. `doc_ids`: if not None, only
    these documents. `others`: namespaces to query too.
    """

    namespace: str
    others: tuple[str, ...] = ()
    groups: tuple[str, ...] | None = None
    filter: Filters | None = None
    doc_ids: tuple[str, ...] | None = None

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Return all namespaces of the query."""
        return (self.namespace, *self.others)

    @property
    def names_documents(self) -> bool:
        """Return whether the filter selects documents by id or name."""
        return bool({"doc_id", "document_name"} & (self.filter or {}).keys())

    def each(self) -> "list[Scope]":
        """Return one scope per namespace."""
        return [self.model_copy(update={"namespace": n, "others": ()}) for n in self.namespaces]


class ChunkText(Contract):
    """Text and location of a chunk.

    `run_id`: load that wrote the chunk. `sentences`: ordered, non-overlapping code-point spans of
    `text`. `char_start`: offset in the source document, or None. `headings`: enclosing headings.
    `language`: ISO 639-1, or "" for English or unknown. `layout`: positions of the words on the
    page, see `domain.layout`.
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
    metadata: Json = {}
    sentences: tuple[tuple[int, int], ...] = ()
    language: str = Field("", exclude_if=lambda code: not code)
    run_id: str


class ChunkRecord(ChunkText):
    """A chunk in the search index.

    `vector`: unit vector, float32 little-endian bytes, or None. `sparse`: token -> weight > 0.
    `sentence_vectors`: unit vectors of the sentences, packed by `domain.vectors.packed`; empty
    without an embedder.
    """

    namespace: str
    sentence_vectors: bytes = b""
    sparse: dict[str, float] = {}
    vector: bytes | None = None


class ReceiptText(Contract):
    """A passage in a receipt, whole and exactly as stored."""

    uuid: str
    """uuid of the passage"""
    char_start: int | None = None
    """start of the passage in its document; null: offsets count in the passage"""
    text: str
    """text whose SHA-256 is the citation's `text_sha256`"""


class VectorRow(NamedTuple):
    """Vectors of a stored chunk by another encoder; see `ChunkRecord`."""

    uuid: str
    fingerprint: str
    vector: bytes
    sentence_vectors: bytes


class DocumentChange(NamedTuple):
    """Changes of a load to an indexed document.

    `chunks`: new or changed chunks with their fingerprints. `outdated_uuids`: stored chunks with
    outdated statements. `removed_uuids`: deleted chunks. `generation`: a ULID, later than those
    of all previous loads.
    """

    namespace: str
    doc_id: str
    chunks: Sequence[tuple[ChunkRecord, str]]
    unchanged_uuids: Sequence[str]
    outdated_uuids: Sequence[str]
    removed_uuids: Sequence[str]
    generation: str


class DocumentRecord(Contract):
    """A loaded document and its origin.

    `root`: keyed hash of the source folder; `path`: path in it; neither is shown to users. `named`:
    the owner set the id. `version`: of the object that it was read from whole, or "". `sha256`:
    hash of the text. `converter`: name of the converter, or "" if the text is the decoded file;
    then `text` is None. `original`: file content of a PDF. `note`: parts not read or read
    differently.
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
    version: str = ""
    note: str = ""
    text: str | None = None
    original: bytes | None = None


# Type of a fact that holds the names of a listed entity, and the start of its id.
CALLED = "docstokg.names"


class FactRecord(Contract):
    """A relation as a searchable sentence; visible iff its evidence chunk is.

    Of type CALLED: the names of the entity `source`, one per line, the preferred name first.
    """

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

    `generation`: of the load that last changed the document; see `domain.generations`.
    """

    vector: bytes | None = None
    generation: str = ""


class IndexInfo(Contract):
    """Properties of an index.

    `unfinished`: run_id of the running or unfinished load of each namespace; "" stands for all, in
    stores of earlier versions. `running`: those whose load still runs. `languages`: share of
    passages per language, for namespaces that are not only English. `spaces`: model and dimension
    of namespaces with another model than `embedding_model`.
    """

    embedding_model: str | None = None
    dimension: int | None = None
    sparse_model: str | None = None
    chunks: int = 0
    facts: int = 0
    unfinished: dict[str, str] = {}
    running: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    languages: dict[str, dict[str, float]] = {}
    spaces: dict[str, tuple[str, int]] = {}
    is_one_space: bool = False

    def open_run(self, namespace: str) -> str:
        """Return the run_id of an unfinished load into a namespace, else into all, or ""."""
        return self.unfinished.get(namespace) or self.unfinished.get("", "")

    def warnings_of(self, namespaces: Sequence[str]) -> list[str]:
        """Return a warning per namespace whose load is unfinished and no longer runs."""
        return [
            f"A load into namespace {name!r} is unfinished; run it again to complete it."
            for name in namespaces
            if {name, ""} & self.unfinished.keys() - {*self.running}
        ]

    def space_of(self, namespace: str) -> tuple[str | None, int | None]:
        """Return embedding model and dimension of a namespace; default: the index's."""
        return self.spaces.get(namespace, (self.embedding_model, self.dimension))

    def model_of(self, namespace: str) -> str | None:
        """Return the embedding model of a namespace, as `space_of`."""
        return self.space_of(namespace)[0]

    def languages_of(self, namespace: str) -> dict[str, float]:
        """Return the share of passages per language; default: all English."""
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
    """A typed, directed edge between entities, with the span that states it if known."""

    namespace: str
    source: str
    type: str
    target: str
    weight: float = 1.0
    evidence_uuid: str | None = None
    evidence_start: int | None = None
    evidence_end: int | None = None
    properties: Json = {}


class MentionRecord(Contract):
    """A mention of an entity at `text[start:end]` of a chunk; None if the span is unknown.

    `about`: whether the entity is the title or the heading.
    """

    uuid: str
    entity: str
    start: int | None = None
    end: int | None = None
    about: bool = False


class FoundName(NamedTuple):
    """A recognised name and the kind of its entity."""

    text: str
    kind: str | None = None


class ChunkNode(Contract):
    """A chunk in the graph, without text.

    `section`: section label. `facets`: filter values, see `domain.visibility.facets`.
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
    """Properties of a graph."""

    chunks: int = 0
    entities: int = 0
    relations: int = 0
    mentions: int = 0
    namespaces: tuple[str, ...] = ()

"""Records of a load's files, after checking and before names become entities."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from docstokg.contracts.records import FoundName

BINARY = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


@dataclass(frozen=True, slots=True)
class RawMention:
    """A stretch `text[start:end]` of a chunk that names `entity`: an id, or a name.

    `about`: the chunk is about it; then there may be no stretch.
    """

    entity: str
    start: int | None = None
    end: int | None = None
    about: bool = False


@dataclass(frozen=True, slots=True)
class RawChunk:
    """A chunk as its file has it.

    `headings`: those its place in the document stands under, given to encoders and word search
    with the title. `mentions` None = link it here. `embedding`: unit vector, float32
    little-endian. `whole`: its document is replaced entirely. `found`: names that the recogniser
    found in it, None if it has not read it.
    """

    id: str
    doc_id: str
    text: str
    title: str = ""
    headings: tuple[str, ...] = ()
    document_name: str | None = None
    page: int | str | None = None
    section: str | None = None
    uri: str | None = None
    anchor: str | None = None
    char_start: int | None = None
    layout: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    acl: tuple[str, ...] = ()
    mentions: tuple[RawMention, ...] | None = None
    embedding: bytes | None = None
    sparse: dict[str, float] | None = None
    whole: bool = False
    found: tuple[FoundName, ...] | None = None
    kind: Literal["chunk"] = "chunk"
    __pydantic_config__: ClassVar[ConfigDict] = BINARY


@dataclass(frozen=True, slots=True)
class RawEntity:
    """An entity of a list or ontology."""

    id: str
    name: str
    type: str | None = None
    synonyms: tuple[str, ...] = ()
    definition: str | None = None
    obsolete: bool = False
    replaced_by: str | None = None
    embedding: bytes | None = None
    kind: Literal["entity"] = "entity"
    __pydantic_config__: ClassVar[ConfigDict] = BINARY


@dataclass(frozen=True, slots=True)
class RawRelation:
    """An edge between two ids or names, stated by chunk `evidence` or somewhere in a document.

    `start`, `end`: the stretch of the chunk's text, if known. `from_text`: a triple, whose ends
    are names as a text has them.
    """

    source: str
    type: str
    target: str
    weight: float = 1.0
    evidence: str | None = None
    doc_id: str | None = None
    start: int | None = None
    end: int | None = None
    properties: dict[str, Any] = field(default_factory=dict)
    from_text: bool = False
    kind: Literal["relation"] = "relation"


@dataclass(frozen=True, slots=True)
class RawDocument:
    """A document that was read whole, even when nothing of it is left.

    `digest`: of its text. `note`: what its owner should know. `text`: kept where a converter,
    `converter`, made it; `original`: the file, where its pages can be shown. `named`: its id
    is its owner's.
    """

    doc_id: str
    digest: str = ""
    note: str = ""
    title: str = ""
    named: bool = False
    converter: str = ""
    text: str | None = None
    # Not in a run's rows: the bucket has it already.
    original: Annotated[bytes | None, Field(exclude=True)] = None
    kind: Literal["document"] = "document"


RawRecord = RawChunk | RawEntity | RawRelation | RawDocument


CHUNK, ENTITY = TypeAdapter(RawChunk), TypeAdapter(RawEntity)
ROW: TypeAdapter[tuple[int, RawRecord | str]] = TypeAdapter(
    tuple[int, Annotated[RawRecord, Field(discriminator="kind")] | str]
)
"""A line of a file, counted from 1, with its record or the reason why it has none, as JSON."""

"""Records of a load's files."""

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import ConfigDict, Field

if TYPE_CHECKING:
    from pydantic import TypeAdapter

from docstokg.contracts.records import FoundName

BINARY = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


@dataclass(frozen=True, slots=True)
class RawMention:
    """A mention of `entity` (an id or a name) at `text[start:end]` of a chunk.

    `about`: the chunk is about it; then offsets are optional.
    """

    entity: str
    start: int | None = None
    end: int | None = None
    about: bool = False


class Encoding(NamedTuple):
    """Encoder output for a chunk: its vector, its sentences' vectors, and its weights.

    `language`: "" for English, None if it is unknown.
    """

    vector: bytes | None
    sentences: bytes
    weights: dict[str, float]
    language: str | None = None


@dataclass(frozen=True, slots=True)
class RawChunk:
    """A chunk as its file has it.

    `mentions`: None means that the linker finds them. `embedding`: unit vector, float32
    little-endian. `whole`: its document is replaced entirely. `recognised`: names from the
    recogniser, None if it has not run. `encoding`: recorded encoder output.
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
    recognised: tuple[FoundName, ...] | None = None
    encoding: Encoding | None = None
    kind: Literal["chunk"] = "chunk"
    __pydantic_config__: ClassVar[ConfigDict] = BINARY


@dataclass(frozen=True, slots=True)
class RawEntity:
    """An entity of a list or ontology; with an `ent:` id, a name of an unlisted one."""

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
    """An edge between two ids or names, with evidence from a chunk or a document.

    `start`, `end`: offsets in the chunk's text, if known. `from_text`: a triple; its ends are
    names. `fact`: its sentence in the index, "" for one of its names.
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
    fact: str = ""
    kind: Literal["relation"] = "relation"


@dataclass(frozen=True, slots=True)
class RawDocument:
    """A document that was read entirely, even if it is empty.

    `note`: message for its owner. `text`: kept if `converter` made it. `original`: the file, if its
    pages can be displayed. `named`: its file sets its id.
    """

    doc_id: str
    digest: str = ""
    note: str = ""
    title: str = ""
    named: bool = False
    converter: str = ""
    text: str | None = None
    # Not in a run's rows: the bucket already has it.
    original: Annotated[bytes | None, Field(exclude=True)] = None
    kind: Literal["document"] = "document"


RawRecord = RawChunk | RawEntity | RawRelation | RawDocument


# A line number from 1, with its record or reject reason, as JSON.
ROW = tuple[int, Annotated[RawRecord, Field(discriminator="kind")] | str]


@cache
def adapter(kind: Any) -> "TypeAdapter[Any]":
    """Return the pydantic adapter of a record type or of ROW, built at the first use."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)

"""Lines of an exported file."""

import base64
import binascii
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from docstokg.contracts import Json
from docstokg.contracts.model import Many, StrictContract
from docstokg.domain.identity import is_id
from docstokg.domain.vectors import is_unit
from docstokg.loading.readers.chunks import Id, Placed, Text, Weight


def _decoded(value: object) -> bytes:
    if not isinstance(value, str):
        raise ValueError("not base64 in a string")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as broken:
        raise ValueError("not base64") from broken


def _unit(value: object) -> bytes:
    vector = _decoded(value)
    if len(vector) % 4:
        raise ValueError("not float32 numbers")
    if not is_unit(vector):
        raise ValueError("not a unit vector")
    return vector


def _entity(value: object) -> object:
    if not isinstance(value, str) or not (is_id(value) or value.strip()):
        raise ValueError("not an id")
    return value


Vector = Annotated[bytes, BeforeValidator(_unit)]
Packed = Annotated[bytes, BeforeValidator(_decoded)]
Entity = Annotated[Id, BeforeValidator(_entity)]
Place = Annotated[int, Field(ge=0)]
PartRef = Annotated[tuple[Place, Place], Field(strict=False)]
Labels = Many[Annotated[str, Field(max_length=512)]]


class ChunkRow(Placed):
    """A chunk with its computed data."""

    chunk_id: Id
    fingerprint: Annotated[str, Field(max_length=200)] = ""
    title: str = ""
    headings: Many[str] = ()
    layout: str = ""
    metadata: Json = {}
    topics: Labels = ()
    acl: Labels = ()
    language: str = ""
    sentences: Many[PartRef] = ()
    sentence_vectors: Packed = b""
    sparse: dict[str, Weight] = {}
    vector: Vector | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        end = 0
        for start, stop in self.sentences:
            if not end <= start < stop <= len(self.text):
                raise ValueError("sentences: not ordered spans of the text")
            end = stop
        return self


class DocumentRow(StrictContract):
    """A document's list entry, with the text from a converter."""

    doc_id: Id
    title: str = ""
    acl: Labels = ()
    chunks: Place = 0
    sha256: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")] = ""
    converter: Annotated[str, Field(max_length=200)] = ""
    named: bool = False
    text: str | None = None


class EntityRow(StrictContract):
    """An entity with the vector of its name."""

    id: Entity
    name: Annotated[str, Field(min_length=1, max_length=2000)]
    type: str | None = None
    synonyms: Many[str] = ()
    definition: str | None = None
    obsolete: bool = False
    replaced_by: str | None = None
    listed: bool = False
    vector: Vector | None = None


class _Edge(StrictContract):
    source: Entity
    type: Id
    target: Entity
    evidence: Id | None = None


class RelationRow(_Edge):
    """A relation."""

    weight: float = 1.0
    evidence_start: Place | None = None
    evidence_end: Place | None = None
    properties: Json = {}


class FactRow(_Edge):
    """A relation as a sentence."""

    text: Text


class MentionRow(StrictContract):
    """A mention of an entity by a chunk of the file."""

    chunk: Id
    entity: Entity
    start: Place | None = None
    end: Place | None = None
    about: bool = False

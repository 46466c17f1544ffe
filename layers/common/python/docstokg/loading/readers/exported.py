"""Computed fields of exported lines."""

import base64
import binascii
from typing import Annotated

from pydantic import BeforeValidator, Field

from docstokg.contracts import Json
from docstokg.contracts.model import Many, StrictContract
from docstokg.contracts.records import FoundName
from docstokg.domain.text.sentences import sentence_spans
from docstokg.domain.vectors import is_unit
from docstokg.loading.read.raw_input import Encoding, RawDocument
from docstokg.loading.read.rejects import Rejected
from docstokg.loading.readers.lines import checked

Id = Annotated[str, Field(min_length=1, max_length=512)]
Weight = Annotated[float, Field(gt=0)]


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


Vector = Annotated[bytes, BeforeValidator(_unit)]
Packed = Annotated[bytes, BeforeValidator(_decoded)]


class ExportedChunk(StrictContract):
    """Fields of an exported chunk that its file did not contain.

    `language`: None if the chunk was not encoded. `has_own_vector`, `has_own_weights`: they came
    with the chunk. `names`: output of the recogniser, None if it has not run.
    """

    headings: Many[str] = ()
    layout: str = ""
    language: str | None = None
    vector: Vector | None = None
    sentence_vectors: Packed = b""
    weights: dict[str, Weight] = {}
    has_own_vector: bool = False
    has_own_weights: bool = False
    names: Many[Many[str | None]] | None = None

    def encoding(self, text: str) -> Encoding | None:
        """Return the recorded encoder output; raise `Rejected` unless it fits the text."""
        width = (len(self.vector or b"") // 4 + 1) // 2
        if len(self.sentence_vectors) not in (0, width * len(sentence_spans(text))):
            raise Rejected("sentence_vectors: must be one per sentence")
        if self.language is None:
            return None
        return Encoding(self.vector, self.sentence_vectors, self.weights, self.language)

    def recognised(self) -> tuple[FoundName, ...] | None:
        """Return the names from the recogniser."""
        if self.names is None:
            return None
        return tuple(FoundName(name[0] or "", *name[1:2]) for name in self.names if name)


class ExportedEntity(StrictContract):
    """The vector of an entity's name."""

    vector: Vector | None = None


class ExportedRelation(StrictContract):
    """Properties of an exported relation, and its text in the index."""

    properties: Json = {}
    fact: str = ""


class ExportedDocument(StrictContract):
    """A document's list entry, with the text from a converter."""

    doc_id: Id
    title: str = ""
    sha256: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")] = ""
    converter: Annotated[str, Field(max_length=200)] = ""
    named: bool = False
    note: str = ""
    text: str | None = None


def read_document(line: Json) -> RawDocument:
    """Parse one line; raise `Rejected` with all its errors."""
    row = checked(ExportedDocument, line)
    return RawDocument(
        doc_id=row.doc_id,
        digest=row.sha256,
        note=row.note,
        title=row.title,
        named=row.named,
        converter=row.converter,
        text=row.text,
    )

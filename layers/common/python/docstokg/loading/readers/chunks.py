"""`chunks*.jsonl` and `passages*.jsonl`, and the documents of an export."""

import base64
import binascii
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, StrictInt, StrictStr, model_validator

from docstokg.contracts import Json
from docstokg.contracts.model import Many, StrictContract
from docstokg.contracts.records import FoundName
from docstokg.domain.text.sentences import sentence_spans
from docstokg.domain.vectors import is_unit, pack
from docstokg.loading.read.raw_input import Encoding, RawChunk, RawDocument, RawMention
from docstokg.loading.read.rejects import Rejected
from docstokg.loading.readers.lines import Line, checked

Id = Annotated[str, Field(min_length=1, max_length=512)]
LONGEST_TEXT = 200_000
Text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
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


class MentionLine(StrictContract):
    """An entity at `text[start:end]`, or one that the text is about."""

    entity: Id
    start: int | None = Field(None, ge=0)
    end: int | None = Field(None, ge=1)
    about: bool = False

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        if (self.start is None) != (self.end is None):
            raise ValueError("start and end must be set together")
        if self.start is None and not self.about:
            raise ValueError("start and end may be missing only when about is true")
        return self


class Placed(StrictContract):
    """A passage with its place in a document."""

    doc_id: Id
    text: Text
    document_name: str | None = None
    page: StrictInt | StrictStr | None = None
    section: str | None = None
    uri: str | None = None
    anchor: str | None = None
    char_start: Annotated[int, Field(ge=0)] | None = None


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


class ChunkLine(Placed, Line):
    """The known keys of a chunk; others become metadata."""

    id: Id
    title: str | None = None
    metadata: Json | None = None
    topics: Many[str] | None = None
    acl: Many[str] | None = None
    mentions: Many[MentionLine] | None = None
    embedding: Annotated[Many[float], Field(min_length=1)] | None = None
    sparse: dict[str, Weight] | None = None
    docstokg: ExportedChunk = ExportedChunk()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.text.strip():
            raise ValueError("text: only white space")
        for mention in self.mentions or ():
            if not (mention.start or 0) < (mention.end or 1) <= len(self.text):
                raise ValueError(
                    f"mentions: {mention.start}..{mention.end} is not a span of the text"
                )
        if self.embedding is not None and not any(self.embedding):
            raise ValueError("embedding: all zero")
        return self


def read_chunk(line: Json) -> RawChunk:
    """Parse one line; raise `Rejected` with all its errors."""
    seen = checked(ChunkLine, line)
    exported = seen.docstokg
    embedding = exported.vector if exported.has_own_vector else None
    mentions = None
    if seen.mentions is not None:
        mentions = tuple(RawMention(m.entity, m.start, m.end, m.about) for m in seen.mentions)
    return RawChunk(
        **{name: getattr(seen, name) for name in _SAME},
        title=seen.title or "",
        metadata={**(seen.model_extra or {}), **(seen.metadata or {})},
        topics=tuple(dict.fromkeys(seen.topics or ())),
        acl=tuple(dict.fromkeys(seen.acl or ())),
        mentions=mentions,
        embedding=pack(seen.embedding) if seen.embedding is not None else embedding,
        sparse=exported.weights if exported.has_own_weights else seen.sparse,
        headings=exported.headings,
        layout=exported.layout,
        recognised=exported.recognised(),
        encoding=exported.encoding(seen.text),
    )


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
    return RawDocument(digest=row.sha256, **row.model_dump(exclude={"sha256"}))


_SAME = ("id", *Placed.model_fields)

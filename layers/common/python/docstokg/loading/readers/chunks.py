"""`chunks*.jsonl` and `passages*.jsonl`."""

from typing import Annotated, Self

from pydantic import Field, StrictInt, StrictStr, model_validator

from docstokg.contracts import Json
from docstokg.contracts.model import Many, StrictContract
from docstokg.domain.vectors import pack
from docstokg.loading.read.raw_input import RawChunk, RawMention
from docstokg.loading.readers.exported import ExportedChunk, Id, Weight
from docstokg.loading.readers.lines import Line, checked

LONGEST_TEXT = 200_000
Text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]


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


_SAME = (
    *("id", "doc_id", "text", "document_name", "page", "section", "uri", "anchor"),
    "char_start",
)

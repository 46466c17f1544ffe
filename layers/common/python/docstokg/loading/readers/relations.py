"""`relations*.jsonl`: typed, directed edges."""

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from docstokg.contracts import Json
from docstokg.contracts.model import StrictContract
from docstokg.loading.read.raw_input import RawRelation
from docstokg.loading.readers.chunks import Id
from docstokg.loading.readers.lines import Line, checked

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=512)]


class EvidenceLine(StrictContract):
    """The chunk that states an edge, and the range of its text."""

    chunk_id: Id
    start: Annotated[int, Field(ge=0)] | None = None
    end: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _whole_span(self) -> Self:
        if (self.start is None) != (self.end is None):
            raise ValueError("start and end must be set together")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise ValueError("start must come before end")
        return self


class ExportedRelation(StrictContract):
    """Properties of an exported relation, and its text in the index."""

    properties: Json = {}
    fact: str = ""


class RelationLine(Line):
    """The known keys of an edge; others are its properties."""

    source: Name
    type: Annotated[Name, Field(max_length=128)]
    target: Name
    weight: Annotated[float, Field(ge=0)] | None = None
    evidence: EvidenceLine | None = None
    docstokg: ExportedRelation | None = None


def read_relation(line: Json) -> RawRelation:
    """Parse one line, weight 1 by default; raise `Rejected` with all its errors."""
    seen = checked(RelationLine, line)
    evidence, exported = seen.evidence, seen.docstokg
    return RawRelation(
        source=seen.source,
        type=seen.type,
        target=seen.target,
        weight=1.0 if seen.weight is None else float(seen.weight),
        evidence=evidence.chunk_id if evidence else None,
        start=evidence.start if evidence else None,
        end=evidence.end if evidence else None,
        properties=dict(seen.model_extra or {}) if exported is None else exported.properties,
        fact="" if exported is None else exported.fact,
    )

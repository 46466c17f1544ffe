"""`relations*.jsonl`: typed, directed edges, each with the span that states it when known."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from docstokg.contracts.model import StrictContract
from docstokg.loading.read.raw_input import RawRelation
from docstokg.loading.read.rejects import Rejected
from docstokg.loading.readers.chunks import Id
from docstokg.loading.readers.lines import Line, checked


class EvidenceLine(StrictContract):
    """The chunk that states an edge, and the span of its text."""

    chunk_id: Id
    start: Annotated[int, Field(ge=0)] | None = None
    end: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _whole_span(self) -> Self:
        if (self.start is None) != (self.end is None):
            raise ValueError("start and end belong together")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise ValueError("start must come before end")
        return self


class RelationLine(Line):
    """The keys of an edge that mean something; the others are its properties."""

    source: Id
    type: Annotated[str, Field(min_length=1, max_length=128)]
    target: Id
    weight: Annotated[float, Field(ge=0)] | None = None
    evidence: EvidenceLine | None = None


def read_relation(line: dict[str, Any]) -> RawRelation:
    """Check one line; `Rejected` lists everything wrong with it."""
    seen = checked(RelationLine, line)
    if not (seen.source.strip() and seen.type.strip() and seen.target.strip()):
        raise Rejected("source, type and target must say something")
    evidence = seen.evidence
    return RawRelation(
        source=seen.source.strip(),
        type=seen.type.strip(),
        target=seen.target.strip(),
        weight=1.0 if seen.weight is None else float(seen.weight),
        evidence=evidence.chunk_id if evidence else None,
        start=evidence.start if evidence else None,
        end=evidence.end if evidence else None,
        properties=dict(seen.model_extra or {}),
    )

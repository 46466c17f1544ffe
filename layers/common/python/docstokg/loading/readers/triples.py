"""`triples*.jsonl`: open information extraction."""

from typing import Annotated, Any, Self

from pydantic import StringConstraints, model_validator

from docstokg.loading.read.raw_input import RawRelation
from docstokg.loading.readers.chunks import Id
from docstokg.loading.readers.lines import Line, checked

Part = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4096)]


class TripleLine(Line):
    """The known keys of a triple; others are properties of its relation."""

    doc_id: Id | None = None
    chunk_id: Id | None = None
    subject: Part
    relation: Part
    object: Part

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        if self.doc_id is None and self.chunk_id is None:
            raise ValueError("doc_id or chunk_id is required")
        return self


def read_triple(line: dict[str, Any]) -> RawRelation:
    """Parse one line; raise `Rejected` with all its errors."""
    seen = checked(TripleLine, line)
    return RawRelation(
        source=seen.subject,
        type=seen.relation,
        target=seen.object,
        evidence=seen.chunk_id,
        doc_id=seen.doc_id,
        properties=dict(seen.model_extra or {}),
        from_text=True,
    )

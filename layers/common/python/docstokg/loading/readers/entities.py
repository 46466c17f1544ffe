"""`entities*.jsonl`: entities with ids."""

from typing import Annotated, Any, Self

from pydantic import Field, StringConstraints, model_validator

from docstokg.contracts.model import Many, StrictContract
from docstokg.domain.identity import entity_id, is_curie
from docstokg.domain.vectors import pack
from docstokg.loading.read.raw_input import RawEntity
from docstokg.loading.read.rejects import Rejected
from docstokg.loading.readers.chunks import Id, Vector
from docstokg.loading.readers.lines import Line, checked


class ExportedEntity(StrictContract):
    """The vector of an entity's name."""

    vector: Vector | None = None


class EntityLine(Line):
    """The known keys of an entity; others are ignored."""

    id: Id
    name: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    type: str | None = None
    synonyms: Many[str] | None = None
    definition: str | None = None
    obsolete: bool | None = None
    replaced_by: str | None = None
    embedding: Annotated[Many[float], Field(min_length=1)] | None = None
    docstokg: ExportedEntity = ExportedEntity()

    @model_validator(mode="after")
    def _is_identified(self) -> Self:
        # An exported name of an unlisted entity has the id of its name.
        if not is_curie(self.id) and self.id != entity_id(self.name):
            raise ValueError(f"id: {self.id!r} is not a CURIE such as HP:0001250")
        return self


def read_entity(line: dict[str, Any]) -> RawEntity:
    """Parse one line; raise `Rejected` with all its errors."""
    seen = checked(EntityLine, line)
    if seen.embedding is not None and not any(seen.embedding):
        raise Rejected("embedding: all zero")
    return RawEntity(
        id=seen.id,
        name=seen.name,
        type=seen.type or None,
        synonyms=tuple(dict.fromkeys(s.strip() for s in seen.synonyms or () if s.strip())),
        definition=seen.definition or None,
        obsolete=bool(seen.obsolete),
        replaced_by=seen.replaced_by or None,
        embedding=seen.docstokg.vector if seen.embedding is None else pack(seen.embedding),
    )

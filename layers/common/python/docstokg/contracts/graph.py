"""What goes to and comes from the knowledge graph in one round trip.

A slice holds some two thousand parts, is made by our own adapters and crosses no step: its parts
are named tuples, which cost a third of a validated model.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from docstokg.contracts.model import Contract
from docstokg.contracts.request import Direction

DOCUMENT, TOPIC = "doc:", "topic:"
"""What ids of documents and topics begin with, where nodes of all kinds have ids."""


class SliceRequest(Contract):
    """What to open and how much to fetch.

    Opened are the entities named by `alias_keys` (folded n-grams of the question, looked up in
    the alias index) and `entity_ids` (given seeds, fact endpoints; CURIEs in any case), and
    `chunk_uuids`, best first; before those the chunks of `groups`: documents (`doc:ID`), then
    topics (`topic:NAME`), `chunks_per_group` of each, preferred ones first. An opened entity gives
    its chunks and what relations lead to, an opened chunk what it mentions, and every entity
    reached the chunks about it. Of the chunks about an entity those of `preferred_uuids` come
    first, in their order. `known_ids`: entities fetched before, to which edges are wanted as well.
    `entity_types` and `relations` (lower case) bound what is reached; None = all. `direction`: in
    which relations lead from an opened entity to its neighbours. Caps:
    `max_nodes` over chunks and entities together, `chunks_per_entity` by rank for hubs,
    `about_per_entity`, `neighbours_per_entity` in each direction.
    """

    alias_keys: tuple[str, ...] = ()
    entity_ids: tuple[str, ...] = ()
    chunk_uuids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    preferred_uuids: tuple[str, ...] = ()
    known_ids: tuple[str, ...] = ()
    entity_types: tuple[str, ...] | None = None
    relations: tuple[str, ...] | None = None
    direction: Direction = "both"
    max_nodes: int = 600
    chunks_per_entity: int = 10
    about_per_entity: int = 10
    neighbours_per_entity: int = 20
    chunks_per_group: int = 20


class AliasMatch(NamedTuple):
    """A key of the alias index and an entity it names (as its name, or as a synonym)."""

    key: str
    entity_id: str
    preferred: bool


class SliceEntity(NamedTuple):
    """An entity of a slice.

    `mentions`: visible chunks that mention it, counted up to 1,000; `heads`: visible chunks that
    are about it, counted likewise.
    """

    id: str
    name: str
    type: str | None = None
    mentions: int = 0
    obsolete: bool = False
    replaced_by: str | None = None
    heads: int = 0


class SliceChunk(NamedTuple):
    """A chunk of a slice."""

    uuid: str
    chunk_id: str
    doc_id: str


class SliceMention(NamedTuple):
    """An edge chunk -> entity; the span is in the chunk's text, when known.

    `about`: the entity heads the chunk, as its document's title or its section's heading.
    """

    uuid: str
    entity_id: str
    start: int | None = None
    end: int | None = None
    about: bool = False


class SliceRelation(NamedTuple):
    """An edge entity -> entity and the chunk that states it, when known and visible."""

    source: str
    type: str
    target: str
    weight: float = 1.0
    evidence_uuid: str | None = None
    evidence_chunk_id: str | None = None
    evidence_start: int | None = None
    evidence_end: int | None = None


def identity(relation: SliceRelation) -> tuple[str, str, str, str]:
    """Tell a relation apart from every other of its slice; slices are sorted by it."""
    return relation[0], relation[1], relation[2], relation[4] or ""


def ordered(relations: Iterable[SliceRelation]) -> tuple[SliceRelation, ...]:
    """Sort relations as a slice has them."""
    return tuple(sorted(relations, key=identity))


@dataclass(frozen=True, slots=True)
class GraphSlice:
    """A capped neighbourhood; everything in it is visible to the caller, sorted by id.

    `members`: (group, uuid) of the chunks that the request's groups opened.
    """

    aliases: tuple[AliasMatch, ...] = ()
    entities: tuple[SliceEntity, ...] = ()
    chunks: tuple[SliceChunk, ...] = ()
    mentions: tuple[SliceMention, ...] = ()
    relations: tuple[SliceRelation, ...] = ()
    members: tuple[tuple[str, str], ...] = ()

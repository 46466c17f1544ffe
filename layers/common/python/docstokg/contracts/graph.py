"""Queries and results of the graph."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from docstokg.contracts.model import Contract
from docstokg.contracts.request import Direction

# Prefixes of document and topic ids, where ids of all node kinds are mixed.
DOCUMENT, TOPIC = "doc:", "topic:"


class SliceRequest(Contract):
    """Start nodes and limits of a graph slice.

    Start entities: of `alias_keys` (folded n-grams of the question) and `entity_ids` (CURIEs in any
    case). Start chunks: those of `groups` (documents `doc:ID`, then topics `topic:NAME`;
    `chunks_per_group` each), then `chunk_uuids`, best first.

    Start entities lead to their chunks and related entities, start chunks to their entities, each
    reached entity to the chunks about it; `preferred_uuids` come first. `known_ids`: entities
    fetched before; edges to them are included. `entity_types`, `relations` (lower case): allowed
    types, None for all.

    Limits: `max_nodes` chunks and entities in total; per entity `chunks_per_entity`,
    `about_per_entity`, and `neighbours_per_entity` in each direction.
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
    """An alias key and its entity; `preferred`: name of the entity rather than a synonym."""

    key: str
    entity_id: str
    preferred: bool


class SliceEntity(NamedTuple):
    """An entity of a slice.

    `mentions`, `heads`: number of visible chunks that mention it or are about it, up to 1,000.
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
    """An edge chunk -> entity, with the span in the chunk's text if known.

    `about`: whether the entity is the title or the heading.
    """

    uuid: str
    entity_id: str
    start: int | None = None
    end: int | None = None
    about: bool = False


class SliceRelation(NamedTuple):
    """An edge entity -> entity, and the chunk that states it if known and visible."""

    source: str
    type: str
    target: str
    weight: float = 1.0
    evidence_uuid: str | None = None
    evidence_chunk_id: str | None = None
    evidence_start: int | None = None
    evidence_end: int | None = None


def identity(relation: SliceRelation) -> tuple[str, str, str, str]:
    """Return the sort key of a relation, unique in its slice: source, type, target, evidence."""
    return relation[0], relation[1], relation[2], relation[4] or ""


def ordered(relations: Iterable[SliceRelation]) -> tuple[SliceRelation, ...]:
    """Return relations sorted by `identity`."""
    return tuple(sorted(relations, key=identity))


def united[Item](parts: Iterable[Iterable[Item]], key: Callable[[Item], Any]) -> tuple[Item, ...]:
    """Return the items of all parts sorted by `key`; of items with equal keys the last."""
    by_key = {key(item): item for part in parts for item in part}
    return tuple(by_key[name] for name in sorted(by_key))


@dataclass(frozen=True, slots=True)
class GraphSlice:
    """A limited part of the graph, visible to the caller and sorted by id.

    `members`: (group, uuid) of the chunks of the requested groups.
    """

    aliases: tuple[AliasMatch, ...] = ()
    entities: tuple[SliceEntity, ...] = ()
    chunks: tuple[SliceChunk, ...] = ()
    mentions: tuple[SliceMention, ...] = ()
    relations: tuple[SliceRelation, ...] = ()
    members: tuple[tuple[str, str], ...] = ()

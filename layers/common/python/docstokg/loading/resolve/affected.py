"""Recomputed entities; see docs/decisions/graph-of-names.md."""

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import batched, chain
from typing import NamedTuple

from docstokg.contracts.records import StoredChunk
from docstokg.domain.deadline import Deadline
from docstokg.domain.graph.same_names import SAME_AS
from docstokg.domain.identity import chunk_uuid, entity_id, is_own_id
from docstokg.errors import Unavailable
from docstokg.loading.context import READ_S, ROW_BATCH, Context
from docstokg.loading.names.candidates import (
    ChunkName,
    Labels,
    NamesRecord,
    as_raw,
    chunk_names,
    installed_recogniser,
    naming_digest,
    recogniser_of,
)
from docstokg.loading.read.raw_input import RawChunk
from docstokg.loading.read.records import fingerprint, is_linked_here, same_statements
from docstokg.loading.resolve.entity_resolver import stored_names

UNREAD = (
    "names that occur only in replaced or removed texts are kept: the names of some stored"
    " chunks are unknown, and their recogniser is not installed here"
)


class Unread(Unavailable):
    """The namespace's recogniser is not installed here."""


def complete_names(context: Context, leaving: Set[str], check: bool) -> None:
    """Compute and store the names of stored chunks without names.

    `check`: also recompute names of another text or recogniser, except of chunks in `leaving`.
    Raises `Unread` if the required recogniser is not installed.
    """
    graph, model = context.stores.graph_writer, recogniser_of(context)
    mentioned: dict[str, list[ChunkName]] = {}
    digests: dict[str, str] = {}
    for batch in batched(graph.names(context.namespace), ROW_BATCH):
        stored = {
            uuid: NamesRecord.read(text).digest
            for uuid, text in batch
            if (uuid not in leaving if check else not text)
        }
        texts: dict[str, RawChunk] = {}
        for chunk, is_given in _chunks(context, list(stored)):
            raw = as_raw(chunk, is_given)
            digest = naming_digest(model, raw)
            if digest != stored[chunk.uuid]:
                texts[chunk.uuid], digests[chunk.uuid] = raw, digest
        names = dict(zip(texts, _find_names(context, [*texts.values()]), strict=True))
        mentioned |= {uuid: names.pop(uuid) for uuid in texts if texts[uuid].mentions is not None}
        _put(context, digests, names)
    _put(context, digests, _with_mentions(context, mentioned))


def _put(
    context: Context, digests: Mapping[str, str], names: Mapping[str, Sequence[ChunkName]]
) -> None:
    if names:
        texts = {uuid: NamesRecord(digests[uuid], rows).text() for uuid, rows in names.items()}
        context.stores.graph_writer.put_names(context.namespace, texts)


def _chunks(context: Context, uuids: Sequence[str]) -> Iterator[tuple[StoredChunk, bool]]:
    if not uuids:
        return
    marks = context.stores.index_writer.fingerprints(context.namespace, uuids)
    chunks = context.stores.search_index.get(
        list(marks), context.scope, Deadline.after(READ_S)
    ).chunks
    for uuid, chunk in sorted(chunks.items()):
        yield chunk, not is_linked_here(marks[uuid])


def _find_names(context: Context, chunks: Sequence[RawChunk]) -> list[list[ChunkName]]:
    if chunks and recogniser_of(context) != installed_recogniser(context):
        raise Unread
    try:
        return chunk_names(context.stores.names, chunks)
    except Unavailable as missing:
        raise Unread(str(missing)) from missing


def _with_mentions(
    context: Context, names: dict[str, list[ChunkName]]
) -> dict[str, list[ChunkName]]:
    mentions = context.stores.graph_writer.stored_mentions(context.namespace) if names else ()
    for mention in mentions:
        if mention.uuid in names and is_own_id(mention.entity):
            for entity in stored_names(context, [mention.entity]):
                for other in ("", *sorted(entity.synonyms)):
                    names[mention.uuid].append(ChunkName(entity.name, entity.type or "", other))
    return names


class Changes(NamedTuple):
    """Changes by a load to the data that names depend on.

    `labels`: before and after the load. `leaving`: uuids that the load writes, replaces or removes.
    `keys`: folded names that a listed entity gains or loses.
    """

    labels: tuple[Labels, Labels]
    leaving: Set[str]
    keys: Set[str]


def stage_affected(context: Context, changes: Changes, every: Set[str] | None) -> set[str]:
    """Stage the names of stored chunks for the entities that a load affects; return their ids.

    `every`: all entities of the store.
    """
    affected = affected_entities(context, changes, every)
    _stage_stored_names(context, changes, None if every is not None else affected)
    return affected


def affected_entities(context: Context, changes: Changes, every: Set[str] | None) -> set[str]:
    """Return the unlisted entities whose names or statements this load adds, changes or removes.

    `every`: see `stage_affected`.
    """
    outdated = _outdated_statements(context, changes.leaving)
    if every is not None:
        ids = {identity for identity in every if is_own_id(identity)}
    else:
        before, after = changes.labels
        keys = changes.keys | (before.common ^ after.common) | (before.parts ^ after.parts)
        ids = {entity_id(name) for name in chain(_changed_names(context, changes.leaving), keys)}
        ids.update(end for ends in outdated.values() for end in ends if is_own_id(end))
    return ids - _other_ends(context, outdated.keys())


def _changed_names(context: Context, leaving: Set[str]) -> Iterator[str]:
    unchanged: set[str] = set()
    for uuid, text in context.stores.graph_writer.names(context.namespace):
        if uuid in leaving:
            if context.staging.names_of(uuid) == text:
                unchanged.add(uuid)
            else:
                yield from (name.surface for name in NamesRecord.read(text).names)
    for uuid, text in context.staging.chunk_names():
        if uuid not in unchanged:
            yield from (name.surface for name in NamesRecord.read(text).names)


def _outdated_statements(context: Context, leaving: Set[str]) -> dict[str, set[str]]:
    namespace, graph = context.namespace, context.stores.graph_writer
    ends_by_chunk: dict[str, set[str]] = {}
    for uuids in batched(sorted(leaving), ROW_BATCH):
        ends_by_chunk |= graph.relation_ends(namespace, uuids)
    marks: dict[str, str] = {}
    for uuids in batched(ends_by_chunk, ROW_BATCH):
        marks |= context.stores.index_writer.fingerprints(namespace, uuids)
    for chunk in context.staging.chunks() if ends_by_chunk else ():
        uuid = chunk_uuid(namespace, chunk.id)
        if uuid in ends_by_chunk and same_statements(
            marks.get(uuid, ""), fingerprint(chunk, "", "")
        ):
            del ends_by_chunk[uuid]
    return ends_by_chunk


def _other_ends(context: Context, outdated: Set[str]) -> set[str]:
    ends: set[str] = set()
    for relation in context.stores.graph_writer.stored_relations(context.namespace):
        is_read = relation.type == SAME_AS and relation.evidence_uuid is not None
        if not is_read and relation.evidence_uuid not in outdated:
            ends.update((relation.source, relation.target))
    return ends


def _stage_stored_names(context: Context, changes: Changes, ids: Set[str] | None) -> None:
    id_of, labels = lru_cache(200_000)(entity_id), changes.labels[1]
    for uuid, text in context.stores.graph_writer.names(context.namespace):
        if uuid in changes.leaving:
            continue
        for row in labels.names(NamesRecord.read(text).names):
            if ids is None or id_of(row[0]) in ids:
                context.staging.add_name(*row)

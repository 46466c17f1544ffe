"""A graph in memory: the shortest thing that keeps the contract, to test the others against."""

import hashlib
import uuid as uuids
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from docstokg.contracts.graph import (
    AliasMatch,
    GraphSlice,
    SliceChunk,
    SliceEntity,
    SliceMention,
    SliceRelation,
    SliceRequest,
)
from docstokg.contracts.records import (
    ChunkNode,
    EntityRecord,
    GraphInfo,
    MentionRecord,
    RelationRecord,
    Scope,
)
from docstokg.domain.graph.neighbourhood import (
    Choice,
    Mentioned,
    choose_chunks,
    choose_entities,
    choose_near,
    place_weight,
)
from docstokg.domain.text.folding import alias_keys
from docstokg.domain.visibility import may_see, required

RelationKey = tuple[str, str, str, str, str]


class MemoryGraph:
    """Both sides of a knowledge graph."""

    def __init__(self) -> None:
        self._chunks: dict[str, ChunkNode] = {}
        self._entities: dict[tuple[str, str], EntityRecord] = {}
        self._bare: set[tuple[str, str]] = set()
        self._relations: dict[RelationKey, RelationRecord] = {}
        self._mentions: dict[tuple[str, str, str], MentionRecord] = {}
        self._degree: dict[str, int] = {}
        self._recognisers: dict[str, str] = {}

    # ---- reading

    def slice(self, request: SliceRequest, scope: Scope, timeout_s: float) -> GraphSlice:
        found = []
        for key in sorted(set(request.alias_keys)):
            for item in self._visible(scope):
                for alias, preferred in self._aliases_of(item):
                    if alias == key:
                        found.append((key, self._current(item, scope), preferred))
        given = [self._current(item, scope) for item in self._by_ids(request.entity_ids, scope)]
        named = list(dict.fromkeys([*(item.id for _, item, _ in found), *(i.id for i in given)]))
        near: list[list[int]] = []
        for name in named:
            near.append(self._about(name, request, scope))
            near.append(self._near(name, request.chunks_per_entity, scope))
        members = self._members(request, scope)
        asked = dict.fromkeys([*(uuid for _, uuid in members), *request.chunk_uuids])
        allowed = [uuid for uuid in asked if self._allowed(uuid, scope)]
        opened = choose_chunks([_chunk_number(u) for u in allowed], near, request.max_nodes)
        by_key = {_chunk_number(uuid): uuid for uuid in self._chunks}
        visible = {item.id for item in self._visible(scope)}
        weights: dict[str, int] = {}
        for place, key in enumerate(opened):
            for m in self._of_chunk(by_key[key]):
                if self._typed(scope, m.entity, request) and m.entity in visible:
                    weights[m.entity] = weights.get(m.entity, 0) + place_weight(place)
        mentioned = [
            Mentioned(
                _number(name),
                weight,
                self._everyone(scope, name),
                bool(self._everyone(scope, name, about=True)),
            )
            for name, weight in weights.items()
        ]
        neighbours = self._neighbours(named, request, scope)
        starts = [_number(name) for name in named]
        before = {_number(name) for name in request.known_ids}
        kept = choose_entities(starts, neighbours, mentioned, request.max_nodes, before)
        by_number = {_number(e): e for ns, e in self._entities if ns == scope.namespace}
        chunks = dict.fromkeys(opened)
        for key in kept:
            if by_number[key] not in named and by_number[key] in visible:
                chunks.update(dict.fromkeys(self._about(by_number[key], request, scope)))
        room = request.max_nodes - len(kept)
        choice = Choice(kept, tuple(chunks)[:room])
        part = self._part(choice, request, scope)
        aliases = {AliasMatch(key=k, entity_id=i.id, preferred=p) for k, i, p in found}
        ordered = sorted(aliases, key=lambda a: (a.key, not a.preferred, a.entity_id))
        return replace(part, aliases=tuple(ordered), members=tuple(sorted(set(members))))

    def _members(self, request: SliceRequest, scope: Scope) -> list[tuple[str, str]]:
        places = {uuid: i for i, uuid in enumerate(request.preferred_uuids)}
        found = []
        for kind in ("doc:", "topic:"):
            for group in [group for group in request.groups if group.startswith(kind)]:
                name = group.partition(":")[2]
                own = [
                    node.uuid
                    for node in self._chunks.values()
                    if self._allowed(node.uuid, scope)
                    and (node.doc_id == name if kind == "doc:" else name in node.topics)
                ]
                own.sort(key=lambda uuid: (places.get(uuid, len(places)), _chunk_number(uuid)))
                found += [(group, uuid) for uuid in own[: request.chunks_per_group]]
        return found

    def widen(
        self, frontier: Sequence[str], request: SliceRequest, scope: Scope, timeout_s: float
    ) -> GraphSlice:
        found = [self._current(item, scope).id for item in self._by_ids(frontier, scope)]
        named = list(dict.fromkeys(found))[: request.max_nodes]
        starts = [_number(name) for name in named]
        near = [
            (_number(name), chunk)
            for name in named
            for chunk in self._near(name, request.chunks_per_entity, scope)
        ]
        around = self._neighbours(named, request, scope)
        pairs = [(starts[place], other) for place, other in around]
        choice = choose_near(starts, near, pairs, request.max_nodes)
        return self._part(choice, request, scope)

    def entities(
        self, ids: Sequence[str], scope: Scope, timeout_s: float
    ) -> tuple[SliceEntity, ...]:
        return tuple(
            sorted(
                (self._slice_entity(i, scope) for i in self._by_ids(ids, scope)),
                key=lambda item: item.id,
            )
        )

    def names(
        self, ids: Sequence[str], scope: Scope, timeout_s: float
    ) -> dict[str, tuple[str, ...]]:
        return {
            item.id: tuple(dict.fromkeys([item.name, *item.synonyms]))
            for item in self._by_ids(ids, scope)
        }

    def vectors(self, ids: Sequence[str], scope: Scope, timeout_s: float) -> dict[str, bytes]:
        return {i.id: i.vector for i in self._by_ids(ids, scope) if i.vector is not None}

    def relations_of(
        self, ids: Sequence[str], scope: Scope, timeout_s: float
    ) -> tuple[SliceRelation, ...]:
        wanted = {item.id for item in self._by_ids(ids, scope)}
        return self._edges(scope, SliceRequest(), lambda r: r.source in wanted)

    def info(self, timeout_s: float) -> GraphInfo:
        return GraphInfo(
            chunks=len(self._chunks),
            entities=len(self._entities),
            relations=len(self._relations),
            mentions=len(self._mentions),
            namespaces=tuple(sorted({c.namespace for c in self._chunks.values()})),
        )

    def _allowed(self, uuid: str, scope: Scope, *, filtered: bool = True) -> bool:
        node = self._chunks.get(uuid)
        if node is None or node.namespace != scope.namespace:
            return False
        if not may_see(node.acl, scope.groups):
            return False
        if not filtered:
            return True
        if scope.doc_ids is not None and node.doc_id not in scope.doc_ids:
            return False
        return all(set(group) & set(node.facets) for group in required(scope.filter))

    def _of_chunk(self, uuid: str) -> list[MentionRecord]:
        return [m for (_, of, _), m in sorted(self._mentions.items()) if of == uuid]

    def _everyone(self, scope: Scope, entity: str, *, about: bool = False) -> int:
        return sum(
            ns == scope.namespace and e == entity and m.about >= about
            for (ns, _, e), m in self._mentions.items()
        )

    def _count(self, scope: Scope, entity: str, *, about: bool = False) -> int:
        return sum(
            ns == scope.namespace
            and e == entity
            and m.about >= about
            and self._allowed(uuid, scope, filtered=False)
            for (ns, uuid, e), m in self._mentions.items()
        )

    def _visible(self, scope: Scope) -> list[EntityRecord]:
        return [
            item
            for (namespace, _), item in sorted(self._entities.items())
            if namespace == scope.namespace and (item.listed or self._count(scope, item.id))
        ]

    def _by_ids(self, ids: Iterable[str], scope: Scope) -> list[EntityRecord]:
        seen = self._visible(scope)
        wanted = dict.fromkeys(identifier.casefold() for identifier in ids)
        return [item for name in wanted for item in seen if item.id.casefold() == name]

    def _current(self, item: EntityRecord, scope: Scope) -> EntityRecord:
        for _ in range(4):
            if not (item.obsolete and item.replaced_by):
                break
            item = next(iter(self._by_ids([item.replaced_by], scope)), item)
        return item

    def _slice_entity(self, item: EntityRecord, scope: Scope) -> SliceEntity:
        return SliceEntity(
            id=item.id,
            name=item.name,
            type=item.type,
            mentions=min(1000, self._count(scope, item.id)),
            obsolete=item.obsolete,
            replaced_by=item.replaced_by,
            heads=min(1000, self._count(scope, item.id, about=True)),
        )

    def _typed(self, scope: Scope, entity: str, request: SliceRequest) -> bool:
        if request.entity_types is None:
            return True
        item = self._entities[scope.namespace, entity]
        prefix = "" if entity.startswith("ent:") else entity.partition(":")[0].casefold()
        kinds = {kind.casefold() for kind in request.entity_types}
        return prefix in kinds or (item.type or "").casefold() in kinds

    def _near(self, name: str, size: int, scope: Scope, *, about: bool = False) -> list[int]:
        own = [m.uuid for (_, _, e), m in self._mentions.items() if e == name and m.about >= about]
        own = [uuid for uuid in own if self._allowed(uuid, scope)]
        own.sort(key=lambda uuid: (self._degree[uuid], _chunk_number(uuid)))
        return [_chunk_number(uuid) for uuid in own[:size]]

    def _about(self, name: str, request: SliceRequest, scope: Scope) -> list[int]:
        places = {_chunk_number(uuid): i for i, uuid in enumerate(request.preferred_uuids)}
        own = self._near(name, 500, scope, about=True)
        own.sort(key=lambda key: places.get(key, len(places)))
        return own[: request.about_per_entity]

    def _neighbours(
        self, names: Sequence[str], request: SliceRequest, scope: Scope
    ) -> list[tuple[int, int]]:
        found = []
        edges = self._edges(scope, request, lambda r: True)
        for place, name in enumerate(names):
            for here, there in (("source", "target"), ("target", "source")):
                out = [r for r in edges if getattr(r, here) == name]
                out.sort(key=lambda r: (-r.weight, _number(getattr(r, there))))
                ends = [getattr(r, there) for r in out[: request.neighbours_per_entity]]
                found += [(place, _number(e)) for e in ends if self._typed(scope, e, request)]
        return found

    def _part(self, choice: Choice, request: SliceRequest, scope: Scope) -> GraphSlice:
        by_number = {_number(e): e for ns, e in self._entities if ns == scope.namespace}
        by_key = {_chunk_number(uuid): uuid for uuid in self._chunks}
        visible = {item.id: item for item in self._visible(scope)}
        kept = {by_number[n] for n in choice.entities} & visible.keys()
        ends = kept | set(request.known_ids)
        chunks = {by_key[n] for n in choice.chunks}
        return GraphSlice(
            entities=tuple(self._slice_entity(visible[name], scope) for name in sorted(kept)),
            chunks=tuple(
                SliceChunk(uuid=u, chunk_id=self._chunks[u].chunk_id, doc_id=self._chunks[u].doc_id)
                for u in sorted(chunks)
            ),
            mentions=tuple(
                SliceMention(uuid=uuid, entity_id=m.entity, start=m.start, end=m.end, about=m.about)
                for uuid in sorted(chunks)
                for m in self._of_chunk(uuid)
                if m.entity in ends
            ),
            relations=self._edges(
                scope,
                request,
                lambda r: {r.source, r.target} <= ends and bool({r.source, r.target} & kept),
            ),
        )

    def _edges(self, scope: Scope, request: SliceRequest, keep) -> tuple[SliceRelation, ...]:  # type: ignore[no-untyped-def]
        kinds = None if request.relations is None else {k.casefold() for k in request.relations}
        found = []
        for item in self._relations.values():
            stated = item.evidence_uuid
            if item.namespace != scope.namespace or not keep(item):
                continue
            if kinds is not None and item.type.casefold() not in kinds:
                continue
            if stated is not None and not self._allowed(stated, scope, filtered=False):
                continue
            found.append(
                SliceRelation(
                    source=item.source,
                    type=item.type,
                    target=item.target,
                    weight=item.weight,
                    evidence_uuid=stated,
                    evidence_chunk_id=self._chunks[stated].chunk_id if stated else None,
                    evidence_start=item.evidence_start,
                    evidence_end=item.evidence_end,
                )
            )
        return tuple(
            sorted(found, key=lambda r: (r.source, r.type, r.target, r.evidence_uuid or ""))
        )

    # ---- writing

    def put_chunks(self, nodes: Sequence[ChunkNode]) -> None:
        self._chunks |= {node.uuid: node for node in nodes}

    def put_entities(self, entities: Sequence[EntityRecord]) -> None:
        for item in entities:
            self._entities[item.namespace, item.id] = item
            self._bare.discard((item.namespace, item.id))

    def put_relations(self, relations: Sequence[RelationRecord]) -> None:
        for item in relations:
            for end in (item.source, item.target):
                self._make_bare(item.namespace, end, listed=item.evidence_uuid is None)
            key = (item.namespace, item.source, item.type, item.target, item.evidence_uuid or "")
            self._relations[key] = item

    def _make_bare(self, namespace: str, entity: str, *, listed: bool) -> None:
        key = (namespace, entity)
        known = self._entities.get(key)
        if known is None:
            self._bare.add(key)
            self._entities[key] = EntityRecord(
                id=entity, namespace=namespace, name=entity, listed=listed
            )
        elif key in self._bare and listed:
            self._entities[key] = known.model_copy(update={"listed": True})

    def put_mentions(self, namespace: str, mentions: Mapping[str, Sequence[MentionRecord]]) -> None:
        for uuid, records in mentions.items():
            for key in [key for key in self._mentions if key[1] == uuid]:
                del self._mentions[key]
            for m in sorted(records, key=lambda m: (m.start is None, m.start or 0, -(m.end or 0))):
                self._make_bare(namespace, m.entity, listed=False)
                self._mentions.setdefault((namespace, uuid, m.entity), m)
            for m in records:
                if m.about:
                    key = (namespace, uuid, m.entity)
                    self._mentions[key] = self._mentions[key].model_copy(update={"about": True})
            self._degree[uuid] = sum(key[1] == uuid for key in self._mentions)

    def _aliases_of(self, item: EntityRecord) -> tuple[tuple[str, bool], ...]:
        if (item.namespace, item.id) in self._bare:
            return alias_keys(item.id)
        return alias_keys(item.id, item.name, item.synonyms)

    def aliases(self, namespace: str) -> Iterable[tuple[str, str, bool]]:
        everyone = Scope(namespace=namespace)
        best: dict[tuple[str, str], bool] = {}
        for (space, _), item in self._entities.items():
            if space != namespace:
                continue
            now = item
            for _ in range(5):
                if now.obsolete and now.replaced_by:
                    now = next(
                        (
                            other
                            for (s, _), other in self._entities.items()
                            if s == namespace and other.id.casefold() == now.replaced_by.casefold()
                        ),
                        now,
                    )
            for key, preferred in self._aliases_of(item):
                pair = (key, now.id)
                best[pair] = best.get(pair, False) or (preferred and now is item)
        assert everyone.groups is None
        return [(key, entity, preferred) for (key, entity), preferred in sorted(best.items())]

    def chunk_uuids(self, namespace: str) -> Iterable[str]:
        return sorted(c.uuid for c in self._chunks.values() if c.namespace == namespace)

    def labels(self, namespace: str) -> Iterable[tuple[str, str, str, str]]:
        rows = [c for c in self._chunks.values() if c.namespace == namespace]
        return sorted((c.uuid, c.doc_id, c.title, c.section) for c in rows)

    def stated(self, namespace: str, uuids: Sequence[str]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for item in self._relations.values():
            if item.namespace == namespace and item.evidence_uuid in uuids:
                found.setdefault(item.evidence_uuid, set()).update((item.source, item.target))
        return found

    def most_mentioned(self, namespace: str, limit: int) -> tuple[SliceEntity, ...]:
        scope = Scope(namespace=namespace)
        items = [self._slice_entity(i, scope) for i in self._visible(scope)]
        mentioned = [item for item in items if item.mentions]
        return tuple(sorted(mentioned, key=lambda item: (-item.mentions, item.id))[:limit])

    def recogniser(self, namespace: str) -> str | None:
        return self._recognisers.get(namespace)

    def note_recogniser(self, namespace: str, name: str) -> None:
        self._recognisers[namespace] = name

    def delete(self, namespace: str, uuids: Sequence[str] | None, tidy: bool = True) -> int:
        if uuids is None:
            self._recognisers.pop(namespace, None)
            gone = {c.uuid for c in self._chunks.values() if c.namespace == namespace}
            self._entities = {k: v for k, v in self._entities.items() if k[0] != namespace}
            self._relations = {k: v for k, v in self._relations.items() if k[0] != namespace}
        else:
            gone = {
                u for u in uuids if u in self._chunks and self._chunks[u].namespace == namespace
            }
        touched = {e for (_, u, e) in self._mentions if u in gone}
        self._mentions = {k: v for k, v in self._mentions.items() if k[1] not in gone}
        for key, item in list(self._relations.items()):
            if item.evidence_uuid in gone:
                touched |= {item.source, item.target}
                del self._relations[key]
        for uuid in gone:
            del self._chunks[uuid]
        supported = {e for (s, _, e) in self._mentions if s == namespace}
        supported |= {
            end
            for r in self._relations.values()
            if r.namespace == namespace
            for end in (r.source, r.target)
        }
        for entity in touched - supported:
            known = self._entities.get((namespace, entity))
            if known is not None and not known.listed:
                del self._entities[namespace, entity]
        return len(gone)

    def close_load(self) -> None:
        """Everything is readable at once here."""

    def stored_nodes(self, namespace: str) -> Iterator[ChunkNode]:
        for _, node in sorted(self._chunks.items()):
            if node.namespace == namespace:
                lists = {"acl": tuple(sorted(set(node.acl)))}
                yield node.model_copy(update=lists | {"topics": tuple(sorted(set(node.topics)))})

    def stored_entities(self, namespace: str) -> Iterator[EntityRecord]:
        for key, entity in sorted(self._entities.items()):
            if key[0] == namespace and key not in self._bare:
                yield entity

    def stored_relations(self, namespace: str) -> Iterator[RelationRecord]:
        for key, relation in sorted(self._relations.items()):
            if key[0] == namespace:
                yield relation

    def stored_mentions(self, namespace: str) -> Iterator[MentionRecord]:
        for key, mention in sorted(self._mentions.items()):
            if key[0] == namespace:
                yield mention


def _number(entity: str) -> int:
    """Give the order in which stores break ties between entities: a hash of the id."""
    return _hash("e", "default", entity)


def _chunk_number(uuid: str) -> int:
    return int.from_bytes(uuids.UUID(uuid).bytes[:8]) >> 1


def _hash(*parts: str) -> int:
    text = "\x00".join(parts).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) >> 1

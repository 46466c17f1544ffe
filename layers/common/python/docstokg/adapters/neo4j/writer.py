"""Neo4j graph writer."""

import json
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from itertools import batched
from typing import Any, Unpack

from neo4j import Record

from docstokg.adapters.neo4j import cypher_loading as cypher
from docstokg.adapters.neo4j.cypher import INFO, SCHEMA_VERSION, STORE, Template
from docstokg.adapters.neo4j.server import (
    DEADLOCK,
    MADE_BY_OTHERS,
    Connection,
    Server,
    has_code,
)
from docstokg.contracts.graph import SliceEntity
from docstokg.contracts.records import ChunkNode, EntityRecord, MentionRecord, RelationRecord
from docstokg.domain.deadline import Deadline
from docstokg.domain.identity import (
    chunk_key,
    chunk_uuid,
    entity_key,
    namespaced,
    prefix_of,
    relation_row,
)
from docstokg.domain.mentions import first_places
from docstokg.domain.text.folding import alias_keys
from docstokg.domain.visibility import facets
from docstokg.errors import Misconfigured, Unavailable, WrongAnswer

BATCH = 500
PAGE = 5000
DEADLOCK_TRIES, DEADLOCK_S = 8, 0.05
LOAD_TIMEOUT_S = 120.0


class Neo4jGraphWriter:
    """A `GraphWriter`; each batch is one idempotent transaction."""

    def __init__(self, **connection: Unpack[Connection]) -> None:
        self._server = Server(**connection)
        self._ready = False
        self.deadlocks = 0

    def put_chunks(self, nodes: Sequence[ChunkNode]) -> None:
        """Write chunk nodes, documents and topics, replacing by uuid; remove their stored names."""
        rows = []
        for node in nodes:
            topics = sorted(set(node.topics))
            derived = {
                "key": chunk_key(node.uuid),
                "document": namespaced(node.namespace, node.doc_id),
                "acl": sorted(set(node.acl)),
                "open": not node.acl,
                "topics": topics,
                "topic_keys": [namespaced(node.namespace, topic) for topic in topics],
            }
            rows.append(node.model_dump() | derived)
        self._put(cypher.PUT_CHUNKS, rows)

    def put_entities(self, entities: Sequence[EntityRecord]) -> None:
        """Write entities with their aliases, replacing by id; mention counts are kept."""
        rows = []
        for entity in sorted(entities, key=lambda entity: entity.id):
            keys = alias_keys(entity.id, entity.name, entity.synonyms)
            derived = {
                "type_key": (entity.type or "").casefold(),
                "aliases": [
                    _alias(entity.namespace, key) | {"preferred": preferred}
                    for key, preferred in keys
                ],
            }
            rows.append(entity.model_dump() | _named(entity.namespace, entity.id) | derived)
        self._put(cypher.PUT_ENTITIES, rows)

    def put_relations(self, relations: Sequence[RelationRecord]) -> None:
        """Write relations, replacing by (source, type, target, evidence); create missing ends."""
        ends: dict[tuple[str, str], bool] = {}
        rows = []
        for item in relations:
            for end in (item.source, item.target):
                pair = (item.namespace, end)
                ends[pair] = ends.get(pair, False) or item.evidence_uuid is None
            rows.append(item.model_dump() | relation_row(item))
        self._put(cypher.PUT_BARE, [_bare(*pair, listed) for pair, listed in ends.items()])
        self._put(cypher.PUT_RELATIONS, rows)

    def put_mentions(self, namespace: str, mentions: Mapping[str, Sequence[MentionRecord]]) -> None:
        """Replace all mentions of each given chunk uuid; the first of each entity is kept.

        Unknown chunks are ignored.
        """
        bare: dict[str, None] = {}
        rows = []
        for uuid, records in mentions.items():
            first = first_places(records)
            bare |= dict.fromkeys(first)
            rows.append(
                {
                    "uuid": uuid,
                    "degree": len(first),
                    "mentions": [
                        {
                            "key": entity_key(namespace, entity),
                            "start": record.start,
                            "stop": record.end,
                            "about": record.about,
                        }
                        for entity, record in first.items()
                    ],
                }
            )
        self._put(cypher.PUT_BARE, [_bare(namespace, name, listed=False) for name in sorted(bare)])
        self._put(cypher.PUT_MENTIONS, rows)

    def aliases(self, namespace: str) -> Iterable[tuple[str, str, bool]]:
        """Yield (folded key, entity id, is the preferred name), sorted.

        Names of obsolete terms lead to their replacement.
        """
        best: dict[tuple[str, str], bool] = {}
        for row in self._read(cypher.ALL_ALIASES, {"namespace": namespace}):
            pair = (row["key"], row["id"])
            best[pair] = best.get(pair, False) or row["preferred"]
        return [(key, entity, preferred) for (key, entity), preferred in sorted(best.items())]

    def labels(self, namespace: str) -> Iterable[tuple[str, str, str, str]]:
        """Yield (uuid, doc_id, title, section) of every chunk of a namespace, sorted."""
        for row in self._pages(cypher.NODES, namespace):
            yield row["uuid"], row["doc_id"], row["title"], row["section"]

    def put_names(self, namespace: str, names: Mapping[str, str]) -> None:
        """Store the names found in chunks, by chunk uuid; unknown chunks are ignored."""
        self._put(cypher.PUT_NAMES, [{"uuid": uuid, "names": n} for uuid, n in names.items()])

    def names(self, namespace: str) -> Iterable[tuple[str, str]]:
        """Yield (uuid, stored names or "") of every chunk of a namespace."""
        for row in self._pages(cypher.NAMES, namespace):
            yield row["uuid"], row["names"]

    def relation_ends(self, namespace: str, uuids: Sequence[str]) -> dict[str, set[str]]:
        """Map uuids of chunks that are evidence for relations to the entity ids at their ends."""
        rows = self._read(cypher.STATED, {"namespace": namespace, "uuids": list(uuids)})
        return {row["uuid"]: set(row["ends"]) for row in rows}

    def most_mentioned(self, namespace: str, limit: int) -> tuple[SliceEntity, ...]:
        """Return at most `limit` mentioned entities: most mentions first, then by id."""
        rows = self._read(cypher.MOST_MENTIONED, {"namespace": namespace, "limit": limit})
        return tuple(SliceEntity(**row) for row in rows)

    def recogniser(self, namespace: str) -> str | None:
        """Return the recogniser of a namespace's names; None or "" if unknown."""
        rows = self._read(cypher.RECOGNISER, {"name": f"{STORE}/{namespace}"})
        return rows[0]["recogniser"] if rows else None

    def note_recogniser(self, namespace: str, name: str) -> None:
        """Store the recogniser of a namespace's names."""
        note = {"name": f"{STORE}/{namespace}", "recogniser": name}
        self._write(cypher.NOTE_RECOGNISER, note)

    def delete(self, namespace: str, uuids: Sequence[str] | None, tidy: bool = True) -> int:
        """Remove chunks with mentions and relations; return the number of chunks.

        None: all of the namespace, with every entity. `tidy`: then remove unsupported entities.
        """
        deleted = 0
        targets = [row[0] for row in self.labels(namespace)] if uuids is None else list(uuids)
        for batch in batched(targets, BATCH):
            part = {"namespace": namespace, "uuids": list(batch)}
            deleted += self._write(cypher.DELETE_CHUNKS, part)[0]["done"]
        if uuids is None:
            self.note_recogniser(namespace, "")
            self._repeat(cypher.DELETE_ENTITIES, namespace=namespace)
        if tidy:
            self._tidy(namespace)
        return deleted

    def close_load(self, namespace: str = "") -> None:
        """Link relations to later chunks, update counts, drop unsupported entities ("": of all)."""
        self._write(cypher.PROVE_RELATIONS, {"namespace": namespace})
        every = (row["namespace"] for row in self._read(cypher.NAMESPACES, {}))
        for name in [namespace] if namespace else every:
            self._write(cypher.LINK_REPLACED, {"namespace": name})
        self._tidy(namespace)
        self._write(cypher.NOTE_COUNTS, {"name": STORE, "schema": SCHEMA_VERSION})

    def stored_nodes(self, namespace: str) -> Iterator[ChunkNode]:
        """Yield every chunk, by uuid."""
        for row in self._pages(cypher.NODES, namespace):
            yield ChunkNode(namespace=namespace, **row)

    def stored_entities(self, namespace: str) -> Iterator[EntityRecord]:
        """Yield every written entity, by id."""
        for row in self._pages(cypher.ENTITIES, namespace):
            yield EntityRecord(namespace=namespace, **row)

    def stored_relations(self, namespace: str) -> Iterator[RelationRecord]:
        """Yield every relation, by source, type, target and evidence."""
        rows = [
            RelationRecord(
                namespace=namespace, **dict(row) | {"properties": json.loads(row["properties"])}
            )
            for row in self._read(cypher.RELATIONS, {"namespace": namespace})
        ]
        yield from sorted(rows, key=lambda r: (r.source, r.type, r.target, r.evidence_uuid or ""))

    def stored_mentions(self, namespace: str) -> Iterator[MentionRecord]:
        """Yield every mention, by chunk and entity."""
        for mention in self._pages(cypher.MENTIONS, namespace):
            uuid = str(mention["uuid"])
            for entity, start, end, about in sorted(mention["rows"], key=lambda row: row[0]):
                yield MentionRecord(uuid=uuid, entity=entity, start=start, end=end, about=about)

    def _pages(self, template: Template, namespace: str) -> Iterator[dict[str, Any]]:
        after = ""
        while True:
            page = {"namespace": namespace, "after": after, "batch": PAGE}
            rows = [dict(row) for row in self._read(template, page)]
            yield from rows
            if len(rows) < PAGE:
                return
            after = str(next(iter(rows[-1].values())))

    def close(self) -> None:
        """Close connections."""
        self._server.close()

    def _tidy(self, namespace: str) -> None:
        for template in (cypher.DROP_UNSUPPORTED, cypher.COUNT_MENTIONS, *cypher.DROP_UNUSED):
            self._repeat(template, namespace=namespace)

    def _repeat(self, template: Template, **parameters: object) -> None:
        while self._write(template, {**parameters, "batch": PAGE})[0]["done"]:
            pass

    def _put(self, template: Template, rows: Sequence[Mapping[str, object]]) -> None:
        if rows:
            self._write(template, {"rows": list(rows)})

    def _write(self, template: Template, parameters: Mapping[str, object]) -> list[Record]:
        self._prepare()
        return self._send(template, **parameters)

    def _send(self, template: Template, **parameters: object) -> list[Record]:
        return self._commit(template.text, template.checked(parameters))

    def _commit(self, text: str, values: Mapping[str, object]) -> list[Record]:
        for attempt in range(DEADLOCK_TRIES):
            try:
                return self._server.write(text, values, Deadline.after(LOAD_TIMEOUT_S))
            except Unavailable as refused:
                if not has_code(refused, DEADLOCK) or attempt == DEADLOCK_TRIES - 1:
                    raise
            # The server has rolled back; meanwhile the other writer's transaction continues.
            self.deadlocks += 1
            time.sleep(random.uniform(0, DEADLOCK_S * 2**attempt))  # noqa: S311 (no secret)
        raise AssertionError("the last try returns or raises")

    def _read(self, template: Template, parameters: Mapping[str, object]) -> list[Record]:
        self._prepare()
        values = template.checked(parameters)
        return self._server.read(template.text, values, Deadline.after(LOAD_TIMEOUT_S))

    def _prepare(self) -> None:
        if self._ready:
            return
        stored = self._send(INFO, name=STORE)
        version = stored[0]["schema"] if stored else None
        if version not in (None, SCHEMA_VERSION):
            raise Misconfigured(
                f"the database holds a graph of layout {version}, this version writes layout "
                f"{SCHEMA_VERSION}: load into another database"
            )
        if version != SCHEMA_VERSION:
            for statement in schema_statements():
                try:
                    self._commit(statement, {})
                except WrongAnswer as refused:
                    if not has_code(refused, MADE_BY_OTHERS):
                        raise
            self._commit("CALL db.awaitIndexes(60)", {})
            self._adopt_sections()
            while self._send(cypher.RANK_MENTIONS, batch=PAGE)[0]["done"]:
                pass
            self._send(cypher.NOTE_SCHEMA, name=STORE, schema=SCHEMA_VERSION)
        self._ready = True

    def _adopt_sections(self) -> None:
        after = ""
        while True:
            page = self._send(cypher.SECTIONS, after=after, batch=PAGE)
            if page:
                self._send(cypher.SECTIONS_TO_CHUNKS, rows=[_section(row) for row in page])
            if len(page) < PAGE:
                return
            after = page[-1]["element"]


def _section(row: Record) -> dict[str, object]:
    namespace, chunk_id, doc_id = row["namespace"], row["chunk_id"], row["doc_id"]
    uuid = row["uuid"] or chunk_uuid(namespace, chunk_id)
    return {
        "element": row["element"],
        "uuid": uuid,
        "key": chunk_key(uuid),
        "chunk_id": chunk_id,
        "namespace": namespace,
        "doc_id": doc_id,
        "document": namespaced(namespace, doc_id),
        "facets": list(facets({"doc_id": doc_id}, (), {})),
    }


def schema_statements() -> tuple[str, ...]:
    """Return the statements of the schema file."""
    text = resources.files(__package__).joinpath(f"schema.v{SCHEMA_VERSION}.cypher")
    lines = [line for line in text.read_text("utf-8").splitlines() if not line.startswith("//")]
    return tuple(part.strip() for part in "\n".join(lines).split(";") if part.strip())


def _bare(namespace: str, entity: str, listed: bool) -> dict[str, object]:
    aliases = [_alias(namespace, key) for key, _ in alias_keys(entity)]
    return _named(namespace, entity) | {"listed": listed, "aliases": aliases}


def _named(namespace: str, entity: str) -> dict[str, object]:
    return {
        "key": entity_key(namespace, entity),
        "id": entity,
        "namespace": namespace,
        "folded": namespaced(namespace, entity.casefold()),
        "prefix": prefix_of(entity),
    }


def _alias(namespace: str, key: str) -> dict[str, object]:
    return {"key": namespaced(namespace, key), "name": key}

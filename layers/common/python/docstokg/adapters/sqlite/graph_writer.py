"""SQLite graph writer."""

# ruff: noqa: S608 - names and conditions are constants, values are bound

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from docstokg.adapters.sqlite.graph_schema import NAMES_TABLE, SCHEMA_VERSION, TABLES
from docstokg.adapters.sqlite.session import (
    UPSERT,
    Closing,
    immediate,
    insert,
    prepared,
    translated,
)
from docstokg.contracts.graph import SliceEntity
from docstokg.contracts.model import Contract
from docstokg.contracts.records import (
    ChunkNode,
    EntityRecord,
    GraphInfo,
    MentionRecord,
    RelationRecord,
)
from docstokg.domain.identity import REDIRECT_DEPTH, chunk_key, entity_key, prefix_of, relation_row
from docstokg.domain.mentions import first_places
from docstokg.domain.text.folding import alias_keys
from docstokg.errors import Timeout

BUSY_S = 60.0
BATCH = 500


class SqliteGraphWriter:
    """A `GraphWriter`; use it from one thread at a time."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._opened: Closing | None = None

    def put_chunks(self, nodes: Sequence[ChunkNode]) -> None:
        """Write chunk nodes with topics, replacing by uuid; remove their stored names."""
        rows = [(chunk_key(node.uuid), node) for node in nodes]
        keys = _array(key for key, _ in rows)
        with self._writing() as run:
            run(_TOUCH, (keys,))
            run(
                "DELETE FROM graph_topics WHERE (namespace, topic, chunk) IN (SELECT c.namespace,"
                " t.value, c.chunk FROM json_each(?) k CROSS JOIN graph_chunks c"
                " ON c.chunk = k.value CROSS JOIN json_each(c.topics) t)",
                (keys,),
            )
            run("DELETE FROM graph_names WHERE chunk IN (SELECT value FROM json_each(?))", (keys,))
            for key, node in rows:
                lists = {
                    "acl": _array(sorted(set(node.acl))),
                    "topics": _array(sorted(set(node.topics))),
                    "facets": _array(node.facets),
                }
                fields = {name: getattr(node, name) for name in _NODE}
                insert(run, "graph_chunks", UPSERT, chunk=key, **fields, **lists)
                for topic in set(node.topics):
                    row = {"namespace": node.namespace, "topic": topic, "chunk": key}
                    insert(run, "graph_topics", UPSERT, **row)

    def put_entities(self, entities: Sequence[EntityRecord]) -> None:
        """Write entities with their aliases, replacing by id; mention counts are kept.

        `close_load` removes unlisted ones if a killed load wrote no mention of them.
        """
        with self._writing() as run:
            for entity in entities:
                key = entity_key(entity.namespace, entity.id)
                derived = {
                    "entity": key,
                    "folded": entity.id.casefold(),
                    "prefix": prefix_of(entity.id),
                    "type_key": (entity.type or "").casefold(),
                    "synonyms": _array(entity.synonyms),
                    "bare": 0,
                }
                run(_PUT_ENTITY, entity.model_dump() | derived)
                if not entity.listed:
                    run("INSERT OR IGNORE INTO graph_dirty VALUES (?)", (key,))
                run("DELETE FROM graph_aliases WHERE entity = ?", (key,))
                for alias, preferred in alias_keys(entity.id, entity.name, entity.synonyms):
                    row = {"namespace": entity.namespace, "key": alias, "preferred": preferred}
                    insert(run, "graph_aliases", UPSERT, entity=key, **row)

    def put_relations(self, relations: Sequence[RelationRecord]) -> None:
        """Write relations, replacing by (source, type, target, evidence); create missing ends."""
        with self._writing() as run:
            for item in relations:
                for end in (item.source, item.target):
                    self._bare(run, item.namespace, end, listed=item.evidence_uuid is None)
                row, uuid = relation_row(item), item.evidence_uuid
                row |= {"relation": row.pop("key"), "evidence": uuid and chunk_key(uuid)}
                insert(run, "graph_relations", UPSERT, **row)

    def _bare(self, run: "_Run", namespace: str, entity: str, *, listed: bool) -> None:
        key = entity_key(namespace, entity)
        inserted = run(
            "INSERT INTO graph_entities (entity, namespace, id, folded, prefix, name, synonyms,"
            " obsolete, listed, bare) VALUES (?, ?, ?, ?, ?, ?, '[]', 0, ?, 1)"
            " ON CONFLICT (entity) DO UPDATE SET listed = max(listed, excluded.listed)"
            " WHERE bare = 1",
            (key, namespace, entity, entity.casefold(), prefix_of(entity), entity, listed),
        )
        if inserted.rowcount:
            for alias, _ in alias_keys(entity):
                row = {"namespace": namespace, "key": alias, "entity": key}
                insert(run, "graph_aliases", "INSERT OR IGNORE", **row, preferred=0)

    def put_mentions(self, namespace: str, mentions: Mapping[str, Sequence[MentionRecord]]) -> None:
        """Replace all mentions of each given chunk uuid; only an entity's first place is kept."""
        with self._writing() as run:
            self._drop_mentions(run, [chunk_key(uuid) for uuid in mentions])
            for uuid, records in mentions.items():
                first = first_places(records)
                chunk, degree = chunk_key(uuid), len(first)
                for entity, record in first.items():
                    self._bare(run, namespace, entity, listed=False)
                    key = entity_key(namespace, entity)
                    run(
                        "INSERT OR REPLACE INTO graph_mentions VALUES (?, ?, ?, ?, ?, ?)",
                        (key, degree, chunk, record.start, record.end, record.about),
                    )
                    run("INSERT OR IGNORE INTO graph_dirty VALUES (?)", (key,))

    def _drop_mentions(self, run: "_Run", chunks: Sequence[int]) -> None:
        keys = _array(chunks)
        run(_TOUCH, (keys,))
        run(
            "DELETE FROM graph_mentions WHERE (entity, degree, chunk) IN (SELECT m.entity,"
            " m.degree, m.chunk FROM json_each(?) k CROSS JOIN graph_mentions m"
            " ON m.chunk = k.value)",
            (keys,),
        )

    def aliases(self, namespace: str) -> Iterable[tuple[str, str, bool]]:
        """Yield (folded key, entity id, is the preferred name), sorted.

        Names of obsolete terms lead to their successors.
        """
        connection = self._connection()
        replaced = self._replacements(connection, namespace)
        cursor = connection.execute(
            "SELECT a.key, e.id, a.preferred FROM graph_aliases a"
            " CROSS JOIN graph_entities e ON e.entity = a.entity WHERE a.namespace = ?",
            (namespace,),
        )
        best: dict[tuple[str, str], bool] = {}
        for key, entity, preferred in cursor:
            now = replaced.get(entity, entity)
            pair = (key, now)
            best[pair] = best.get(pair, False) or (bool(preferred) and now == entity)
        return [(key, entity, preferred) for (key, entity), preferred in sorted(best.items())]

    def _replacements(self, connection: sqlite3.Connection, namespace: str) -> dict[str, str]:
        stored = {
            old.casefold(): new
            for old, new in connection.execute(
                "SELECT o.id, n.id FROM graph_entities o CROSS JOIN graph_entities n"
                " ON n.namespace = o.namespace AND n.folded = lower(o.replaced_by)"
                " WHERE o.namespace = ? AND o.obsolete AND o.replaced_by IS NOT NULL",
                (namespace,),
            )
        }
        final: dict[str, str] = {}
        for old, replacement in stored.items():
            now = replacement
            for _ in range(REDIRECT_DEPTH):
                now = stored.get(now.casefold(), now)
            final[old] = now
        ids = connection.execute(
            "SELECT id FROM graph_entities WHERE namespace = ? AND obsolete", (namespace,)
        )
        return {row[0]: final[row[0].casefold()] for row in ids if row[0].casefold() in final}

    def labels(self, namespace: str) -> Iterable[tuple[str, str, str, str]]:
        """Yield (uuid, doc_id, title, section) of every chunk of a namespace, sorted."""
        return self._connection().execute(
            "SELECT uuid, doc_id, title, section FROM graph_chunks WHERE namespace = ?"
            " ORDER BY uuid",
            (namespace,),
        )

    def put_names(self, namespace: str, names: Mapping[str, str]) -> None:
        """Store the names read from chunks, replacing by chunk uuid."""
        with self._writing() as run:
            for uuid, text in names.items():
                row = (chunk_key(uuid), namespace, text)
                run("INSERT OR REPLACE INTO graph_names VALUES (?, ?, ?)", row)

    def names(self, namespace: str) -> Iterable[tuple[str, str]]:
        """Yield (uuid, stored names or "") of every chunk of a namespace."""
        after = -1
        while rows := self._connection().execute(_NAMES, (after, namespace)).fetchall():
            for after, uuid, names in rows:  # noqa: B007 - the last key begins the next page
                yield uuid, names

    def relation_ends(self, namespace: str, uuids: Sequence[str]) -> dict[str, set[str]]:
        """Map uuids of chunks that are evidence for relations to the entity ids at their ends."""
        by_key = {chunk_key(uuid): uuid for uuid in uuids}
        entities: dict[str, set[str]] = {}
        for key, source, target in self._connection().execute(
            "SELECT r.evidence, s.id, t.id FROM json_each(?) k"
            " CROSS JOIN graph_relations r ON r.evidence = k.value"
            " CROSS JOIN graph_entities s ON s.entity = r.source"
            " CROSS JOIN graph_entities t ON t.entity = r.target WHERE r.namespace = ?",
            (_array(by_key), namespace),
        ):
            entities.setdefault(by_key[key], set()).update((source, target))
        return entities

    def most_mentioned(self, namespace: str, limit: int) -> tuple[SliceEntity, ...]:
        """Return at most `limit` mentioned entities: most mentions first, then by id."""
        rows = self._connection().execute(
            "SELECT id, name, type, open_mentions + closed_mentions AS mentions,"
            " open_heads + closed_heads FROM graph_entities WHERE namespace = ? AND mentions > 0"
            " ORDER BY mentions DESC, id LIMIT ?",
            (namespace, limit),
        )
        return tuple(
            SliceEntity(identity, name, kind, mentions, heads=heads)
            for identity, name, kind, mentions, heads in rows
        )

    def recogniser(self, namespace: str) -> str | None:
        """Return the recogniser of a namespace's names; None or "" if unknown."""
        query = "SELECT value FROM graph_meta WHERE key = ?"
        row = self._connection().execute(query, (_recogniser(namespace),)).fetchone()
        return None if row is None else str(row[0])

    def note_recogniser(self, namespace: str, name: str) -> None:
        """Store the recogniser of a namespace's names."""
        with self._writing() as run:
            run("INSERT OR REPLACE INTO graph_meta VALUES (?, ?)", (_recogniser(namespace), name))

    def delete(self, namespace: str, uuids: Sequence[str] | None, tidy: bool = True) -> int:
        """Remove chunks with mentions and relations, then unlisted entities left without either.

        Return the number of chunks. None: all of the namespace, with every entity. `tidy` is
        ignored.
        """
        with self._writing() as run:
            if uuids is None:
                return self._delete_namespace(run, namespace)
            keys = _array(chunk_key(uuid) for uuid in uuids)
            rows = run(
                "SELECT c.chunk FROM json_each(?) k CROSS JOIN graph_chunks c"
                " ON c.chunk = k.value WHERE c.namespace = ?",
                (keys, namespace),
            )
            present = [row[0] for row in rows]
            self._drop_mentions(run, present)
            keys = _array(present)
            run(
                "INSERT OR IGNORE INTO graph_dirty SELECT r.source FROM json_each(?) k"
                " CROSS JOIN graph_relations r ON r.evidence = k.value UNION SELECT r.target FROM"
                " json_each(?) k CROSS JOIN graph_relations r ON r.evidence = k.value",
                (keys, keys),
            )
            for table, column in (
                ("graph_relations", "evidence"),
                ("graph_topics", "chunk"),
                ("graph_names", "chunk"),
                ("graph_chunks", "chunk"),
            ):
                run(
                    f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))",
                    (keys,),
                )
            self._refresh(run, namespace)
            return len(present)

    def _delete_namespace(self, run: "_Run", namespace: str) -> int:
        run(
            "DELETE FROM graph_mentions WHERE entity IN"
            " (SELECT entity FROM graph_entities WHERE namespace = ?)",
            (namespace,),
        )
        for table in ("relations", "topics", "aliases", "entities", "names", "chunks"):
            deleted = run(f"DELETE FROM graph_{table} WHERE namespace = ?", (namespace,))
        run("DELETE FROM graph_meta WHERE key = ?", (_recogniser(namespace),))
        return int(deleted.rowcount)

    def _refresh(self, run: "_Run", namespace: str) -> None:
        # Loads of other namespaces have written entities, but not yet their mentions.
        run(
            "DELETE FROM graph_entities WHERE entity IN (SELECT entity FROM graph_dirty)"
            " AND NOT listed AND ? IN ('', namespace)"
            " AND NOT EXISTS (SELECT 1 FROM graph_mentions m"
            " WHERE m.entity = graph_entities.entity)"
            " AND NOT EXISTS (SELECT 1 FROM graph_relations r"
            " WHERE r.source = graph_entities.entity)"
            " AND NOT EXISTS (SELECT 1 FROM graph_relations r"
            " WHERE r.target = graph_entities.entity)",
            (namespace,),
        )
        run(
            "DELETE FROM graph_aliases WHERE entity IN (SELECT d.entity FROM graph_dirty d"
            " LEFT JOIN graph_entities e ON e.entity = d.entity WHERE e.entity IS NULL)"
        )
        run(
            "UPDATE graph_entities SET"
            " (open_mentions, closed_mentions, open_heads, closed_heads) = ("
            " SELECT COALESCE(SUM(c.acl = '[]'), 0), COALESCE(SUM(c.acl <> '[]'), 0),"
            " COALESCE(SUM(c.acl = '[]' AND m.about), 0),"
            " COALESCE(SUM(c.acl <> '[]' AND m.about), 0)"
            " FROM graph_mentions m CROSS JOIN graph_chunks c ON c.chunk = m.chunk"
            " WHERE m.entity = graph_entities.entity)"
            " WHERE entity IN (SELECT entity FROM graph_dirty) AND ? IN ('', namespace)",
            (namespace,),
        )
        run(
            "DELETE FROM graph_dirty WHERE NOT EXISTS (SELECT 1 FROM graph_entities e"
            " WHERE e.entity = graph_dirty.entity AND ? NOT IN ('', e.namespace))",
            (namespace,),
        )

    def close_load(self, namespace: str = "") -> None:
        """Recount changed entities ("": of all), delete unsupported ones, make all durable."""
        with self._writing() as run:
            self._refresh(run, namespace)
            counts = {
                name: run(f"SELECT COUNT(*) FROM graph_{name}").fetchone()[0]
                for name in ("chunks", "entities", "relations", "mentions")
            }
            spaces = run("SELECT DISTINCT namespace FROM graph_chunks ORDER BY 1").fetchall()
            info = GraphInfo(**counts, namespaces=tuple(name for (name,) in spaces))
            run("INSERT OR REPLACE INTO graph_meta VALUES ('counts', ?)", (info.model_dump_json(),))
        try:
            self._connection().execute("PRAGMA optimize")
            self._connection().execute("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.Error as error:
            refused = translated(error, self._path)
            # Another load writes, and does the same at its end.
            if not isinstance(refused, Timeout):
                raise refused from error

    def stored_nodes(self, namespace: str) -> Iterator[ChunkNode]:
        """Yield every chunk, by uuid."""
        yield from self._records(ChunkNode, _NODES, namespace)

    def stored_entities(self, namespace: str) -> Iterator[EntityRecord]:
        """Yield every entity that was put, by id."""
        yield from self._records(EntityRecord, _ENTITIES, namespace)

    def stored_relations(self, namespace: str) -> Iterator[RelationRecord]:
        """Yield every relation, by source, type, target and evidence."""
        yield from self._records(RelationRecord, _RELATIONS, namespace)

    def stored_mentions(self, namespace: str) -> Iterator[MentionRecord]:
        """Yield every mention, by chunk and entity."""
        yield from self._records(MentionRecord, _MENTIONS, namespace)

    def _records[Record: Contract](
        self, kind: type[Record], query: str, namespace: str
    ) -> Iterator[Record]:
        cursor = self._connection().execute(query, (namespace,))
        names = [column[0] for column in cursor.description]
        for row in cursor:
            pairs = zip(names, row, strict=True)
            fields = {name: json.loads(value) if name in _JSON else value for name, value in pairs}
            yield kind(**fields)

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._opened:
            self._opened.close()
            self._opened = None

    @contextmanager
    def _writing(self) -> Iterator["_Run"]:
        try:
            with immediate(self._connection()) as connection:
                yield connection.execute
        except sqlite3.Error as error:
            raise translated(error, self._path) from error

    def _connection(self) -> Closing:
        if self._opened is None:
            version = str(SCHEMA_VERSION)
            try:
                self._opened = prepared(self._path, BUSY_S, TABLES, "graph_meta", version)
                self._opened.execute(NAMES_TABLE)
            except sqlite3.Error as error:
                raise translated(error, self._path) from error
        return self._opened


_Run = Any
_TOUCH = (
    "INSERT OR IGNORE INTO graph_dirty SELECT m.entity FROM json_each(?) k"
    " CROSS JOIN graph_mentions m ON m.chunk = k.value"
)

_NODE = ("namespace", "uuid", "chunk_id", "doc_id", "title", "section")
_ENTITY = ("name", "type", "definition", "obsolete", "replaced_by", "listed", "vector")
_FIXED = ("entity", "namespace", "id", "folded", "prefix")
_CHANGED = (*_ENTITY, "type_key", "synonyms", "bare")
_PUT_ENTITY = (
    f"INSERT INTO graph_entities ({', '.join((*_FIXED, *_CHANGED))})"
    f" VALUES ({', '.join(f':{name}' for name in (*_FIXED, *_CHANGED))})"
    " ON CONFLICT (entity) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _CHANGED)
)

_NAMES = (
    "SELECT c.chunk, c.uuid, coalesce(n.names, '') FROM graph_chunks c"
    " LEFT JOIN graph_names n ON n.chunk = c.chunk"
    " WHERE c.chunk > ? AND c.namespace = ? ORDER BY c.chunk LIMIT 5000"
)
_NODES = (
    "SELECT namespace, uuid, chunk_id, doc_id, title, section, acl, topics, facets"
    " FROM graph_chunks WHERE namespace = ? ORDER BY uuid"
)
_ENTITIES = (
    "SELECT namespace, id, name, type, synonyms, definition, obsolete, replaced_by, listed, vector"
    " FROM graph_entities WHERE namespace = ? AND NOT bare ORDER BY id"
)
_MENTIONS = (
    'SELECT c.uuid, e.id AS entity, m.start, m.stop AS "end", m.about FROM graph_chunks c'
    " CROSS JOIN graph_mentions m ON m.chunk = c.chunk"
    " CROSS JOIN graph_entities e ON e.entity = m.entity"
    " WHERE c.namespace = ? ORDER BY c.uuid, e.id"
)
_RELATIONS = (
    "SELECT r.namespace, s.id AS source, r.type, t.id AS target, r.weight, c.uuid AS evidence_uuid,"
    " r.start AS evidence_start, r.stop AS evidence_end, r.properties"
    " FROM graph_relations r CROSS JOIN graph_entities s ON s.entity = r.source"
    " CROSS JOIN graph_entities t ON t.entity = r.target"
    " LEFT JOIN graph_chunks c ON c.chunk = r.evidence WHERE r.namespace = ?"
    " ORDER BY s.id, r.type, t.id, coalesce(evidence_uuid, '')"
)
_JSON = frozenset({"acl", "topics", "facets", "synonyms", "properties"})


def _recogniser(namespace: str) -> str:
    return f"recogniser/{namespace}"


def _array(values: Iterable[object]) -> str:
    return json.dumps(list(values), ensure_ascii=False)

"""SQLite graph reader."""

# ruff: noqa: S608 - names and conditions are constants, values are bound

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from docstokg.adapters.sqlite.graph_schema import check_layout
from docstokg.adapters.sqlite.session import Reading, Sessions, snapshot
from docstokg.contracts.graph import (
    DOCUMENT,
    TOPIC,
    AliasMatch,
    GraphSlice,
    SliceChunk,
    SliceEntity,
    SliceMention,
    SliceRelation,
    SliceRequest,
    ordered,
)
from docstokg.contracts.records import GraphInfo, Scope
from docstokg.domain.across_namespaces import across, entities, mappings, slices
from docstokg.domain.deadline import Deadline
from docstokg.domain.graph.neighbourhood import (
    COUNT_LIMIT,
    LEAST_MENTIONS,
    MAX_ALIASES,
    MAX_HEADED,
    MAX_RELATIONS,
    SMOOTHING,
    UNIT,
    Choice,
    choose_chunks,
    choose_entities,
    choose_near,
)
from docstokg.domain.identity import REDIRECT_DEPTH, chunk_key, entity_key
from docstokg.domain.visibility import required

READING = Reading("graph", check_layout, steps=2_000, cache_kib=32 * 1024, columns=False)
# Maximum mentions of selected chunks that a slice reads.
MAX_MENTIONS = 20_000


# Covering index of a slice's columns; rows with vectors fill half a page.
_CARD = "graph_entities e INDEXED BY graph_entities_card"

_ABOUT = " INDEXED BY graph_mentions_about"
_ENTITY = (
    "e.entity, e.id, e.name, e.type, e.obsolete, e.replaced_by, e.listed, e.open_mentions,"
    " e.closed_mentions, e.open_heads, e.closed_heads"
)
Row = tuple[Any, ...]


class SqliteGraph:
    """A `KnowledgeGraph` in one SQLite file; one read-only connection per thread.

    Raises `Unavailable` for a missing, replaced, damaged or never loaded file, and `Timeout`.
    """

    def __init__(self, path: str | Path) -> None:
        self._sessions = Sessions(Path(path), READING)

    @across(slices)
    def slice(self, request: SliceRequest, scope: Scope, deadline: Deadline) -> GraphSlice:
        """Return aliases, given nodes and their one-hop neighbourhood, from one snapshot."""
        with self._reading(scope, deadline) as reader:
            return reader.slice(request)

    @across(slices)
    def widen(
        self, frontier: Sequence[str], request: SliceRequest, scope: Scope, deadline: Deadline
    ) -> GraphSlice:
        """Return chunks and related entities of the entity ids `frontier`, from one snapshot.

        Raise `Timeout` after `deadline`.
        """
        with self._reading(scope, deadline) as reader:
            return reader.widen(frontier, request)

    @across(entities)
    def entities(
        self, ids: Sequence[str], scope: Scope, deadline: Deadline
    ) -> tuple[SliceEntity, ...]:
        """Return visible entities by id (case-insensitive), sorted by id; others are omitted."""
        with self._reading(scope, deadline) as reader:
            return tuple(sorted(reader.entities(reader.rows_of_ids(ids))))

    @across(mappings)
    def names(
        self, ids: Sequence[str], scope: Scope, deadline: Deadline
    ) -> dict[str, tuple[str, ...]]:
        """Map stored ids of visible entities (`ids`: any case) to preferred name, then synonyms."""
        with self._reading(scope, deadline) as reader:
            return reader.names(ids)

    @across(mappings)
    def vectors(self, ids: Sequence[str], scope: Scope, deadline: Deadline) -> dict[str, bytes]:
        """Map stored ids of visible entities (`ids`: any case) to their name's vector, if any."""
        with self._reading(scope, deadline) as reader:
            return reader.vectors(ids)

    def info(self, deadline: Deadline) -> GraphInfo:
        """Return the counts of the last finished load, zeros before one."""
        with self._sessions.use(deadline) as connection:
            query = "SELECT value FROM graph_meta WHERE key = 'counts'"
            row = connection.execute(query).fetchone()
        return GraphInfo.model_validate_json(row[0]) if row else GraphInfo()

    def close(self) -> None:
        """Close this thread's connection; the next call opens another."""
        self._sessions.close()

    @contextmanager
    def _reading(self, scope: Scope, deadline: Deadline) -> Iterator["_Reader"]:
        with self._sessions.use(deadline) as connection, snapshot(connection):
            yield _Reader(connection, scope)


class _Reader:
    def __init__(self, connection: sqlite3.Connection, scope: Scope) -> None:
        self._run = connection.execute
        self._scope = scope
        self._space = scope.namespace
        self._sees_all = scope.groups is None or not self._any_closed()
        self._seen_sql, self._seen_values = self._seen()
        self._allowed_sql, self._allowed_values = self._allowed()
        is_free = self._allowed_sql == "TRUE"
        self._joined = "" if is_free else " CROSS JOIN graph_chunks c ON c.chunk = n.chunk"
        self._places: dict[int, int] | None = None  # ranks of preferred chunks, computed on demand

    def _any_closed(self) -> bool:
        closed = "SELECT 1 FROM graph_chunks WHERE namespace = ? AND acl <> '[]' LIMIT 1"
        return self._run(closed, (self._space,)).fetchone() is not None

    def _seen(self) -> tuple[str, tuple[str, ...]]:
        if self._sees_all:
            return "TRUE", ()
        return (
            "(c.acl = '[]' OR EXISTS (SELECT 1 FROM json_each(c.acl) a WHERE a.value IN"
            " (SELECT value FROM json_each(?))))",
            (_array(self._scope.groups or ()),),
        )

    def _allowed(self) -> tuple[str, tuple[str, ...]]:
        parts, values = [self._seen_sql], list(self._seen_values)
        for group in required(self._scope.filter):
            parts.append(
                "EXISTS (SELECT 1 FROM json_each(c.facets) f WHERE f.value IN"
                " (SELECT value FROM json_each(?)))"
            )
            values.append(_array(group))
        if self._scope.doc_ids is not None:
            parts.append("c.doc_id IN (SELECT value FROM json_each(?))")
            values.append(_array(self._scope.doc_ids))
        return " AND ".join(parts), tuple(values)

    def slice(self, request: SliceRequest) -> GraphSlice:
        aliases = self._aliases(request.alias_keys)
        seed_rows = self._current(self.rows_of_ids(request.entity_ids))
        row_of = {row[0]: row for row in [*(row for _, row, _ in aliases), *seed_rows]}
        entities = list(row_of)
        members = self._members(request)
        keys = [*(key for _, key in members), *map(chunk_key, request.chunk_uuids)]
        given_chunks = self._chunks(keys)
        near: list[list[int]] = []
        for entity in entities:
            near.append(self._about(row_of[entity], request))
            near.append(self._mentioning(entity, request.chunks_per_entity))
        known_chunks = [key for key in dict.fromkeys(keys) if key in given_chunks]
        opened = choose_chunks(known_chunks, near, request.max_nodes)
        mentioned = self._mentioned(opened, request)
        neighbours = self._neighbours(entities, request)
        known_ids = self._known_ids(request)
        entity_rows = choose_entities(entities, neighbours, mentioned, request.max_nodes, known_ids)
        rows = self._rows(entity_rows, row_of)
        heads = [rows[key] for key in entity_rows if key in rows and key not in row_of]
        about = (chunk for row in heads for chunk in self._about(row, request))
        chunk_keys = dict.fromkeys((*opened, *about))
        room = request.max_nodes - len(entity_rows)
        choice = Choice(entity_rows, tuple(chunk_keys)[:room])
        part = self._assemble(choice, given_chunks, request, rows)
        matches = {AliasMatch(key, row[1], preferred) for key, row, preferred in aliases}
        ordered = sorted(matches, key=lambda m: (m.key, not m.preferred, m.entity_id))
        belongs = {(group, given_chunks[key][1]) for group, key in members}
        return replace(part, aliases=tuple(ordered), members=tuple(sorted(belongs)))

    def _members(self, request: SliceRequest) -> list[tuple[str, int]]:
        members: list[tuple[str, int]] = []
        places = self._places_of(request) if request.groups else {}
        for kind, text in (
            (DOCUMENT, "graph_chunks c WHERE c.namespace = ? AND c.doc_id = ?"),
            (
                TOPIC,
                "graph_topics t CROSS JOIN graph_chunks c ON c.chunk = t.chunk"
                " WHERE t.namespace = ? AND t.topic = ?",
            ),
        ):
            for group in dict.fromkeys(request.groups):
                if group.startswith(kind):
                    rows = self._run(
                        f"SELECT c.chunk FROM {text} AND {self._allowed_sql}"
                        " ORDER BY c.chunk LIMIT ?",
                        (self._space, group.removeprefix(kind), *self._allowed_values, MAX_HEADED),
                    )
                    keys = sorted((k for (k,) in rows), key=lambda k: places.get(k, len(places)))
                    members += [(group, key) for key in keys[: request.chunks_per_group]]
        return members

    def widen(self, frontier: Sequence[str], request: SliceRequest) -> GraphSlice:
        row_of = {row[0]: row for row in self._current(self.rows_of_ids(frontier))}
        starts = list(row_of)[: request.max_nodes]
        near = [
            (entity, chunk)
            for entity in starts
            for chunk in self._mentioning(entity, request.chunks_per_entity)
        ]
        places = self._neighbours(starts, request)
        neighbours = [(starts[place], other) for place, other in places]
        choice = choose_near(starts, near, neighbours, request.max_nodes)
        rows = self._rows(choice.entities, row_of)
        return self._assemble(choice, {}, request, rows)

    def _aliases(self, keys: Sequence[str]) -> list[tuple[str, Row, bool]]:
        cursor = self._run(
            f"SELECT a.key, a.preferred, {_ENTITY} FROM json_each(?) k"
            " CROSS JOIN graph_aliases a ON a.namespace = ? AND a.key = k.value"
            f" CROSS JOIN {_CARD} ON e.entity = a.entity"
            " ORDER BY a.key, a.preferred DESC, e.id LIMIT ?",
            (_array(keys), self._space, MAX_ALIASES),
        ).fetchall()
        rows = {row[2]: tuple(row[2:]) for row in cursor}
        visible = {row[0] for row in self._visible(rows.values())}
        current = {key: now for key in visible for now in self._current([rows[key]])}
        return [(row[0], current[row[2]], bool(row[1])) for row in cursor if row[2] in current]

    def rows_of_ids(self, ids: Iterable[str]) -> list[Row]:
        folded = dict.fromkeys(identifier.casefold() for identifier in ids)
        cursor = self._run(
            f"SELECT {_ENTITY} FROM json_each(?) k"
            " CROSS JOIN graph_entities n ON n.namespace = ? AND n.folded = k.value"
            f" CROSS JOIN {_CARD} ON e.entity = n.entity"
            " ORDER BY k.key, e.id",
            (_array(folded), self._space),
        ).fetchall()
        return self._visible(cursor)

    def _current(self, rows: Sequence[Row]) -> list[Row]:
        now = list(rows)
        for _ in range(REDIRECT_DEPTH):
            old = {row[0]: row[5] for row in now if row[4] and row[5]}
            if not old:
                break
            current_rows = {row[1].casefold(): row for row in self.rows_of_ids(old.values())}
            now = [
                current_rows.get(old[row[0]].casefold(), row) if row[0] in old else row
                for row in now
            ]
        return list({row[0]: row for row in now}.values())

    def _visible(self, rows: Iterable[Row]) -> list[Row]:
        every = self._sees_all
        return [
            row
            for row in rows
            if row[6] or row[7] or (row[8] and (every or self._count(row[0], limit=1)))
        ]

    def _count(self, entity: int, which: str = "", limit: int = COUNT_LIMIT) -> int:
        counted = self._run(
            "SELECT COUNT(*) FROM (SELECT 1 FROM graph_mentions m CROSS JOIN graph_chunks c"
            f" ON c.chunk = m.chunk WHERE m.entity = ?{which} AND {self._seen_sql} LIMIT ?)",
            (entity, *self._seen_values, limit),
        )
        return int(counted.fetchone()[0])

    def entities(self, rows: Iterable[Row]) -> list[SliceEntity]:
        every = self._sees_all
        return [
            SliceEntity(
                row[1],
                row[2],
                row[3],
                min(COUNT_LIMIT, row[7] + row[8]) if every or not row[8] else self._count(row[0]),
                bool(row[4]),
                row[5],
                min(COUNT_LIMIT, row[9] + row[10])
                if every or not row[10]
                else self._count(row[0], " AND m.about"),
            )
            for row in rows
        ]

    def _chunks(self, keys: Sequence[int]) -> dict[int, Row]:
        cursor = self._run(
            "SELECT c.chunk, c.uuid, c.chunk_id, c.doc_id FROM json_each(?) k"
            " CROSS JOIN graph_chunks c ON c.chunk = k.value"
            f" WHERE c.namespace = ? AND {self._allowed_sql}",
            (_array(keys), self._space, *self._allowed_values),
        )
        return {row[0]: row for row in cursor}

    def _typed(self, request: SliceRequest) -> tuple[str, tuple[str, ...]]:
        if request.entity_types is None:
            return "TRUE", ()
        kinds = _array(kind.casefold() for kind in request.entity_types)
        return (
            "(e.prefix IN (SELECT value FROM json_each(?))"
            " OR e.type_key IN (SELECT value FROM json_each(?)))",
            (kinds, kinds),
        )

    def _mentioned(self, opened: Sequence[int], request: SliceRequest) -> list[Row]:
        typed, values = self._typed(request)
        cursor = self._run(
            "SELECT w.entity, w.weight, e.open_mentions + e.closed_mentions AS count,"
            " e.open_heads + e.closed_heads > 0 AS heads FROM"
            " (SELECT entity, SUM(weight) AS weight FROM"
            f" (SELECT m.entity, {UNIT} / ({SMOOTHING} + k.key) AS weight FROM json_each(?) k"
            "  CROSS JOIN graph_mentions m ON m.chunk = k.value LIMIT ?) GROUP BY entity) w"
            f" CROSS JOIN {_CARD} ON e.entity = w.entity"
            f" WHERE (count >= {LEAST_MENTIONS} OR heads) AND {typed}",
            (_array(opened), MAX_MENTIONS, *values),
        )
        return cursor.fetchall()

    def _mentioning(self, entity: int, size: int, which: str = "") -> list[int]:
        if size <= 0:
            return []
        text = (
            f"SELECT n.chunk FROM graph_mentions n{which}{self._joined} WHERE n.entity = ?"
            f"{' AND n.about' if which else ''} AND {self._allowed_sql}"
            " ORDER BY n.degree, n.chunk LIMIT ?"
        )
        return [chunk for (chunk,) in self._run(text, (entity, *self._allowed_values, size))]

    def _about(self, row: Row, request: SliceRequest) -> list[int]:
        if not row[9] + row[10] or request.about_per_entity <= 0:
            return []
        chunks, places = self._mentioning(row[0], MAX_HEADED, _ABOUT), self._places_of(request)
        chunks.sort(key=lambda key: places.get(key, len(places)))
        return chunks[: request.about_per_entity]

    def _known_ids(self, request: SliceRequest) -> dict[int, str]:
        return {entity_key(self._space, name): name for name in request.known_ids}

    def _places_of(self, request: SliceRequest) -> dict[int, int]:
        if self._places is None:
            self._places = {chunk_key(u): i for i, u in enumerate(request.preferred_uuids)}
        return self._places

    def _neighbours(self, entities: Sequence[int], request: SliceRequest) -> list[tuple[int, int]]:
        chosen, values = self._relation_sql(request)
        typed, kinds = self._typed(request)
        pairs: list[tuple[int, int]] = []
        limit = max(0, request.neighbours_per_entity)
        for way, near, far in (("out", "source", "target"), ("in", "target", "source")):
            if request.direction not in (way, "both"):
                continue
            text = (
                f"SELECT o.there FROM (SELECT n.{far} AS there FROM graph_relations n"
                f" WHERE n.{near} = ? AND {chosen} ORDER BY n.weight DESC, n.{far} LIMIT ?) o"
                f" CROSS JOIN {_CARD} ON e.entity = o.there WHERE {typed}"
            )
            for place, entity in enumerate(entities):
                rows = self._run(text, (entity, *values, limit, *kinds))
                pairs += [(place, other) for (other,) in rows]
        return pairs

    def _relation_sql(self, request: SliceRequest, name: str = "n") -> tuple[str, tuple[str, ...]]:
        parts, values = [], []
        if request.relations is not None:
            parts.append(f"{name}.type_key IN (SELECT value FROM json_each(?))")
            values.append(_array(kind.casefold() for kind in request.relations))
        if not self._sees_all:
            parts.append(
                f"({name}.evidence IS NULL OR EXISTS (SELECT 1 FROM graph_chunks c"
                f" WHERE c.chunk = {name}.evidence AND {self._seen_sql}))"
            )
            values.extend(self._seen_values)
        return " AND ".join(parts) or "TRUE", tuple(values)

    def _rows(self, keys: Sequence[int], cached: dict[int, Row]) -> dict[int, Row]:
        fetched = self._run(
            f"SELECT {_ENTITY} FROM json_each(?) k CROSS JOIN {_CARD} ON e.entity = k.value",
            (_array(key for key in keys if key not in cached),),
        ).fetchall()
        hits = {key: cached[key] for key in keys if key in cached}
        return {row[0]: row for row in self._visible(fetched)} | hits

    def _assemble(
        self, choice: Choice, cached: dict[int, Row], request: SliceRequest, rows: dict[int, Row]
    ) -> GraphSlice:
        chunks = {key: cached[key] for key in choice.chunks if key in cached}
        chunks |= self._chunks([key for key in choice.chunks if key not in cached])
        # Keys sort like uuids, so rows are almost sorted.
        uuids = {key: chunks[key][1] for key in sorted(chunks)}
        names = self._known_ids(request) | {key: row[1] for key, row in rows.items()}
        names_json = _array(names)
        mentions = self._mentions_among(uuids, names, names_json)
        return GraphSlice(
            entities=tuple(sorted(self.entities(rows.values()))),  # ids are unique
            chunks=tuple(sorted(SliceChunk(*row[1:]) for row in chunks.values())),
            mentions=tuple(sorted(mentions)),  # (uuid, entity) is unique
            relations=self._relations_among(rows, names, names_json, request),
        )

    def _mentions_among(
        self, uuids: dict[int, str], names: dict[int, str], names_json: str
    ) -> list[SliceMention]:
        rows = self._run(
            "SELECT m.chunk, m.entity, m.start, m.stop, m.about FROM json_each(?) k"
            " CROSS JOIN graph_mentions m ON m.chunk = k.value"
            " WHERE +m.entity IN (SELECT value FROM json_each(?))",
            (_array(uuids), names_json),
        )
        return [
            SliceMention(uuids[chunk], names[entity], start, stop, about == 1)
            for chunk, entity, start, stop, about in rows
        ]

    def _relations_among(
        self, rows: dict[int, Row], names: dict[int, str], names_json: str, request: SliceRequest
    ) -> tuple[SliceRelation, ...]:
        if len(names) < 2 or not rows:
            return ()
        chosen, values = self._relation_sql(request, "r")
        # Relations between known entities were returned before.
        keys, rows_json = _array(key for key in names if key not in rows), _array(rows)
        relations: list[Row] = []
        for near, far, ends in (("source", "target", names_json), ("target", "source", keys)):
            if ends == "[]":
                continue
            relations += self._run(
                "SELECT r.source, r.type, r.target, r.weight, c.uuid, c.chunk_id, r.start, r.stop"
                f" FROM json_each(?) k CROSS JOIN graph_relations r ON r.{near} = k.value"
                " LEFT JOIN graph_chunks c ON c.chunk = r.evidence"
                f" WHERE +r.{far} IN (SELECT value FROM json_each(?)) AND {chosen} LIMIT ?",
                (rows_json, ends, *values, MAX_RELATIONS),
            )
        return ordered(
            SliceRelation(names[source], kind, names[target], weight, uuid, chunk_id, start, stop)
            for source, kind, target, weight, uuid, chunk_id, start, stop in relations
        )

    def names(self, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        rows = self.rows_of_ids(ids)
        cursor = self._run(
            "SELECT e.id, e.name, e.synonyms FROM json_each(?) k"
            " CROSS JOIN graph_entities e ON e.entity = k.value ORDER BY e.id",
            (_array(row[0] for row in rows),),
        )
        return {
            identifier: tuple(dict.fromkeys([name, *json.loads(synonyms)]))
            for identifier, name, synonyms in cursor
        }

    def vectors(self, ids: Sequence[str]) -> dict[str, bytes]:
        text = "SELECT id, vector FROM graph_entities WHERE entity = ?"
        rows = [self._run(text, (row[0],)).fetchone() for row in self.rows_of_ids(ids)]
        return {identifier: vector for identifier, vector in rows if vector is not None}


def _array(values: Iterable[object] | Collection[object]) -> str:
    return json.dumps(list(values))

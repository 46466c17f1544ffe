"""On-disk staging area."""

import json
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from itertools import starmap
from pathlib import Path
from typing import Any, Literal, NamedTuple

from docstokg.loading.read.raw_input import (
    Encoding,
    RawChunk,
    RawEntity,
    RawRelation,
    adapter,
)
from docstokg.loading.read.rejects import Rejected

_SCHEMA = """
CREATE TABLE chunk (seq INTEGER PRIMARY KEY, id TEXT UNIQUE, doc_id TEXT, digest TEXT,
    payload TEXT, embedding BLOB, shard TEXT, part INTEGER, line INTEGER);
CREATE INDEX chunk_doc ON chunk (doc_id, seq);
CREATE INDEX chunk_shard ON chunk (shard) WHERE shard <> '';
CREATE TABLE name (seq INTEGER PRIMARY KEY, surface TEXT, synonym TEXT, type TEXT,
    UNIQUE (surface, synonym, type));
CREATE TABLE chunk_names (uuid TEXT PRIMARY KEY, names TEXT) WITHOUT ROWID;
CREATE TABLE entity (seq INTEGER PRIMARY KEY, id TEXT UNIQUE, payload TEXT, embedding BLOB);
CREATE TABLE statement (seq INTEGER PRIMARY KEY, from_text INTEGER, file TEXT, line INTEGER,
    payload TEXT);
CREATE TABLE edge (source TEXT, type TEXT, target TEXT, evidence TEXT, payload TEXT, fact TEXT,
    PRIMARY KEY (evidence, source, type, target)) WITHOUT ROWID;
CREATE TABLE document (doc_id TEXT PRIMARY KEY, digest TEXT, contested INTEGER) WITHOUT ROWID;
CREATE TABLE origin (doc_id TEXT PRIMARY KEY, record TEXT) WITHOUT ROWID;
CREATE TABLE encoding (id TEXT PRIMARY KEY, vector BLOB, sentences BLOB, weights TEXT,
    language TEXT) WITHOUT ROWID;
CREATE TABLE plan (kind TEXT, seq INTEGER, row TEXT, PRIMARY KEY (kind, seq)) WITHOUT ROWID;
"""

_FIRSTS = "SELECT doc_id, min(seq) AS first, shard FROM chunk{} GROUP BY doc_id ORDER BY first"
_PAGE = (
    "SELECT seq, id, doc_id, payload, embedding FROM chunk"
    " WHERE {} AND seq > ? ORDER BY seq LIMIT 500"
)
_EMPTIED = (
    "UPDATE chunk SET embedding = NULL,"
    " payload = json_remove(json_set(payload, '$.text', ''), '$.recognised')"
    " WHERE payload ->> 'text' <> '' AND {}"
)
_UNRECORDED = "DELETE FROM encoding WHERE id IN (SELECT id FROM chunk WHERE {})"
_OF_SHARD = " WHERE doc_id IN (SELECT doc_id FROM chunk WHERE shard = ? AND shard <> '')"

# Fields of an entity whose first value remains.
_SINGLE = ("type", "definition", "obsolete", "replaced_by", "embedding")


def name_key(name: str) -> str:
    """Return the key of a name's encoding; those of chunks are their ids."""
    return f"name:{name}"


class Place(NamedTuple):
    """Origin of the row being staged: a run's shard of rows, part and line."""

    shard: str = ""
    part: int = 0
    line: int = 0


class Staging:
    """A temporary unnamed SQLite file, freed when the load ends."""

    def __init__(self, path: Path | None = None) -> None:
        # Used by one thread at a time, not always its creator.
        self._db = sqlite3.connect(
            "" if path is None else path, isolation_level=None, check_same_thread=False
        )
        weakref.finalize(self, self._db.close)  # a process may exit without close()
        self._db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        if not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            self._db.executescript(_SCHEMA)
        self.place = Place()
        self._db.execute("BEGIN")

    def close(self) -> None:
        """Close and remove the file."""
        self._db.close()

    def _rows(self, query: str, *values: object) -> list[Any]:
        return self._db.execute(query, values).fetchall()

    def _column(self, query: str, *values: object) -> list[Any]:
        return [value for (value,) in self._rows(query, *values)]

    def _each(self, query: str) -> Iterator[Any]:
        with closing(self._db.execute(query)) as rows:
            yield from rows

    def add_chunk(self, chunk: RawChunk, digest: str) -> None:
        """Add a chunk once; raise `Rejected` if its id has other text."""
        for (staged_digest,) in self._rows("SELECT digest FROM chunk WHERE id = ?", chunk.id):
            if staged_digest != digest:
                raise Rejected(f"id {chunk.id!r} is repeated with different text")
            return
        self._db.execute(
            "INSERT INTO chunk (id, doc_id, digest, payload, embedding, shard, part, line)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (chunk.id, chunk.doc_id, digest, _payload(chunk), chunk.embedding, *self.place),
        )
        if chunk.whole:
            self.add_document(chunk.doc_id)
        if chunk.encoding is not None:
            self.add_encoding(chunk.id, chunk.encoding)

    def add_encoding(self, identity: str, encoding: Encoding) -> None:
        """Add the recorded encoder output of a chunk or, by `name_key`, of a name."""
        vector, sentences, weights, language = encoding
        self._db.execute(
            "INSERT OR REPLACE INTO encoding VALUES (?, ?, ?, ?, ?)",
            (identity, vector, sentences, json.dumps(weights), language),
        )

    def encodings(self, identities: Iterable[str]) -> dict[str, Encoding]:
        """Return the recorded encoder output of chunks or names."""
        rows = self._rows(
            "SELECT * FROM encoding WHERE id IN (SELECT value FROM json_each(?))",
            json.dumps(list(identities)),
        )
        return {
            identity: Encoding(vector, sentences, json.loads(weights), language)
            for identity, vector, sentences, weights, language in rows
        }

    def add_document(self, doc_id: str, digest: str = "", contested: bool = False) -> bool:
        """Mark a document as replaced; return False if another text has its id.

        A `contested` text is withdrawn if another file claims the id.
        """
        rows = self._rows("SELECT digest, contested FROM document WHERE doc_id = ?", doc_id)
        if digest and not contested and any(is_contested for _, is_contested in rows):
            if rows[0][0] != digest:
                self.withdraw(doc_id)
                rows = []
            self._db.execute("UPDATE document SET contested = 0 WHERE doc_id = ?", (doc_id,))
        if not rows:
            self._db.execute("INSERT INTO document VALUES (?, ?, ?)", (doc_id, digest, contested))
        return not rows or not digest or bool(rows[0][0] == digest)

    def withdraw(self, doc_id: str) -> int:
        """Remove a document if it is contested; return its number of chunks."""
        if not self._rows("SELECT 1 FROM document WHERE doc_id = ? AND contested", doc_id):
            return 0
        chunks = "DELETE FROM chunk WHERE doc_id = ? AND payload ->> 'whole'"
        count = self._db.execute(chunks, (doc_id,)).rowcount
        for table in ("document", "origin"):
            self._db.execute(f"DELETE FROM {table} WHERE doc_id = ?", (doc_id,))  # noqa: S608
        return count

    def add_origin(self, doc_id: str, record: str) -> None:
        """Add the origin of a document once; one of several files has no version."""
        self._db.execute(
            "INSERT INTO origin VALUES (?, ?) ON CONFLICT DO UPDATE SET record = json_set(record,"
            " '$.version', '') WHERE record ->> 'path' <> excluded.record ->> 'path'",
            (doc_id, record),
        )

    def clear_versions(self, field: Literal["doc_id", "path"], values: Iterable[str]) -> None:
        """Remove the version of origins with one of these values, so that they are read again."""
        self._db.execute(
            "UPDATE origin SET record = json_set(record, '$.version', '')"
            " WHERE record ->> ? IN (SELECT value FROM json_each(?))",
            (field, json.dumps(list(values))),
        )

    def origins(self) -> Iterator[tuple[str, str]]:
        """Yield (doc_id, record as JSON), sorted."""
        return self._each("SELECT doc_id, record FROM origin ORDER BY 1")

    def document_facts(self, doc_id: str) -> tuple[int, str, tuple[str, ...]]:
        """Return a document's chunk count, title, and groups that may see any chunk (() = all)."""
        query = "SELECT payload FROM chunk WHERE doc_id = ? ORDER BY seq"
        payloads = self._column(query, doc_id)
        chunks = list(map(json.loads, payloads))
        lists = [chunk.get("acl", ()) for chunk in chunks]
        groups = {group for names in lists for group in names} if all(lists) else set()
        title = chunks[0].get("title", "") if chunks else ""
        return len(chunks), title, tuple(sorted(groups))

    def add_name(self, surface: str, type_: str = "", synonym: str = "") -> None:
        """Add a name that becomes an entity, with another form of it."""
        self._db.execute(
            "INSERT OR IGNORE INTO name (surface, synonym, type) VALUES (?, ?, ?)",
            (surface, synonym, type_),
        )

    def names(self) -> Iterator[tuple[str, str, str]]:
        """Yield (name, type or "", synonym or "") as added."""
        return self._each("SELECT surface, type, synonym FROM name ORDER BY seq")

    def add_names(self, uuid: str, names: str) -> None:
        """Stage or replace the names of a chunk as the graph stores them."""
        self._db.execute("INSERT OR REPLACE INTO chunk_names VALUES (?, ?)", (uuid, names))

    def names_of(self, uuid: str) -> str:
        """Return the staged names of a chunk, "" for none."""
        rows = self._rows("SELECT names FROM chunk_names WHERE uuid = ?", uuid)
        return str(rows[0][0]) if rows else ""

    def chunk_names(self) -> Iterator[tuple[str, str]]:
        """Yield (uuid, names) of every chunk with staged names."""
        return self._each("SELECT uuid, names FROM chunk_names")

    def add_entity(self, entity: RawEntity) -> None:
        """Add an entity or complete the stored one; raise `Rejected` if its name differs."""
        if stored := self.entity(entity.id):
            if stored.name != entity.name:
                raise Rejected(f"id {entity.id!r} is repeated with a different name")
            synonyms = tuple(dict.fromkeys((*stored.synonyms, *entity.synonyms)))
            stated = {key: value for key in _SINGLE if (value := getattr(stored, key))}
            entity = replace(entity, synonyms=synonyms, **stated)
        self._db.execute(
            "INSERT OR REPLACE INTO entity (id, payload, embedding) VALUES (?, ?, ?)",
            (entity.id, _payload(entity), entity.embedding),
        )

    def add_statement(self, relation: RawRelation, file: str, line: int) -> None:
        """Add a relation with its place, to be checked later."""
        self._db.execute(
            "INSERT INTO statement (from_text, file, line, payload) VALUES (?, ?, ?, ?)",
            (relation.from_text, file, line, json.dumps(asdict(relation))),
        )

    def add_edge(
        self, key: tuple[str, str, str, str | None], payload: dict[str, Any], fact: str
    ) -> None:
        """Add a resolved edge (source, type, target, evidence uuid); the first one wins."""
        source, kind, target, evidence = key
        self._db.execute(
            "INSERT OR IGNORE INTO edge VALUES (?, ?, ?, ?, ?, ?)",
            (source, kind, target, evidence or "", json.dumps(payload), fact),
        )

    def chunks(self) -> Iterator[RawChunk]:
        """Yield every chunk in file order."""
        for page in self._pages("true"):
            yield from page

    def _pages(self, which: str, *values: object) -> Iterator[list[RawChunk]]:
        last = 0
        while rows := self._rows(_PAGE.format(which), *values, last):
            last = rows[-1][0]
            yield [_chunk(*row[1:]) for row in rows]

    def documents_chunks(self, shard: str | None) -> Iterator[tuple[str, list[RawChunk]]]:
        """Yield (doc_id, batch of its chunks in order), document by document.

        `shard`: only the documents whose first chunk is in it.
        """
        for doc_id in self.documents_beginning(shard):
            for chunks in self.document_chunks(doc_id):
                yield doc_id, chunks

    def document_chunks(self, doc_id: str) -> Iterator[list[RawChunk]]:
        """Yield the chunks of one document in order, in batches."""
        return self._pages("doc_id = ?", doc_id)

    def documents_beginning(self, shard: str | None) -> list[str]:
        """Return the doc_ids by first chunk; `shard`: only those whose first chunk is in it."""
        # SQLite returns bare columns next to min() from the row with the minimum.
        shards = () if shard is None else (shard,)
        firsts = self._rows(_FIRSTS.format(_OF_SHARD if shards else ""), *shards)
        return [doc_id for doc_id, _, first in firsts if shard is None or first == shard]

    def shards_of(self, doc_ids: Iterable[str]) -> list[str]:
        """Return the shards that contain chunks of these documents, sorted."""
        return self._column(
            "SELECT DISTINCT shard FROM chunk WHERE doc_id IN (SELECT value FROM json_each(?))"
            " ORDER BY 1",
            json.dumps(list(doc_ids)),
        )

    def fill(self, chunk: RawChunk) -> bool:
        """Restore the text of the chunk at `place`; return False if it is another or not empty."""
        done = self._db.execute(
            "UPDATE chunk SET payload = json_set(?, '$.metadata',"
            " json(coalesce(payload -> '$.metadata', '{}'))), embedding = ? WHERE id = ?"
            " AND doc_id = ? AND shard = ? AND part = ? AND line = ? AND payload ->> 'text' = ''",
            (_payload(chunk), chunk.embedding, chunk.id, chunk.doc_id, *self.place),
        )
        return done.rowcount > 0

    def empty(self, doc_ids: Iterable[str] | None = None) -> None:
        """Drop the texts and vectors of all chunks (None) or of these documents."""
        chunks = "doc_id IN (SELECT value FROM json_each(?))" if doc_ids is not None else "true"
        values = () if doc_ids is None else (json.dumps([*doc_ids]),)
        self._db.execute(_EMPTIED.format(chunks), values)
        self._db.execute(_UNRECORDED.format(chunks), values)

    def add_plan(self, kind: str, rows: Iterable[Any]) -> None:
        """Add JSON values of one kind for a later task, in order; once per kind."""
        numbered = ((kind, number, json.dumps(row)) for number, row in enumerate(rows))
        self._db.executemany("INSERT INTO plan VALUES (?, ?, ?)", numbered)

    def plan(self, kind: str) -> Iterator[Any]:
        """Yield the values of one kind in order."""
        rows = self._db.execute("SELECT row FROM plan WHERE kind = ? ORDER BY seq", (kind,))
        return (json.loads(row) for (row,) in rows)

    def save(self) -> None:
        """Commit and compact the file."""
        self._db.execute("COMMIT")
        self._db.execute("VACUUM")
        self._db.execute("BEGIN")

    def chunk(self, chunk_id: str) -> RawChunk | None:
        """Return one chunk of this load, or None."""
        query = "SELECT id, doc_id, payload, embedding FROM chunk WHERE id = ?"
        return next((_chunk(*row) for row in self._rows(query, chunk_id)), None)

    def beginnings(self) -> Iterator[RawChunk]:
        """Yield the first chunk of each document, by doc_id, with the text of its first three."""
        query = (
            "SELECT id, doc_id, json_set(payload, '$.text', group_concat(payload ->> 'text', ?)),"
            " embedding, min(seq) FROM (SELECT *, row_number() OVER (PARTITION BY doc_id"
            " ORDER BY seq) AS place FROM chunk) WHERE place <= 3 GROUP BY doc_id ORDER BY doc_id"
        )
        return (_chunk(*row[:4]) for row in self._rows(query, "\n\n"))

    def declare(self, doc_id: str, name: str, values: Sequence[str]) -> None:
        """Set a value of the metadata of all chunks of a document."""
        self._db.execute(
            "UPDATE chunk SET payload = json_set(payload, '$.metadata', json_patch("
            "coalesce(payload -> '$.metadata', '{}'), ?)) WHERE doc_id = ?",
            (json.dumps({name: list(values)}), doc_id),
        )

    def entities(self) -> Iterator[RawEntity]:
        """Yield every listed entity, by id."""
        return starmap(_entity, self._each("SELECT id, payload, embedding FROM entity ORDER BY id"))

    def entity(self, identity: str) -> RawEntity | None:
        """Return a listed entity of this load, or None."""
        query = "SELECT id, payload, embedding FROM entity WHERE id = ?"
        return next((_entity(*row) for row in self._rows(query, identity)), None)

    def statements(self) -> Iterator[tuple[str, int, RawRelation]]:
        """Yield every relation with its place in file order, triples last."""
        query = "SELECT file, line, payload FROM statement ORDER BY from_text, seq"
        for file, line, payload in self._each(query):
            yield file, line, RawRelation(**json.loads(payload))

    def edges(self) -> Iterator[tuple[str, str, str, str | None, dict[str, Any], str]]:
        """Yield (source, type, target, evidence uuid, payload, fact text), sorted."""
        query = (
            "SELECT source, type, target, evidence, payload, fact FROM edge"
            " ORDER BY evidence, source, type, target"
        )
        for source, kind, target, evidence, payload, fact in self._each(query):
            yield source, kind, target, evidence or None, json.loads(payload), fact

    def endpoints(self, uuid: str) -> list[str]:
        """Return the entities of the edges that one chunk states, sorted, each once."""
        rows = self._rows("SELECT source, target FROM edge WHERE evidence = ?", uuid)
        return sorted({end for row in rows for end in row})

    def evidence(self) -> list[str]:
        """Return the uuids of the chunks that state edges of this load."""
        return self._column("SELECT DISTINCT evidence FROM edge WHERE evidence <> '' ORDER BY 1")

    def documents(self, every: bool) -> list[str]:
        """Return the documents to replace: those read whole, or `every` one."""
        others = " UNION SELECT doc_id FROM chunk" if every else ""
        return self._column(f"SELECT doc_id FROM document{others} ORDER BY 1")  # noqa: S608

    def emptied(self) -> list[str]:
        """Return the documents that were read whole and have no chunk."""
        query = "SELECT doc_id FROM document WHERE doc_id NOT IN (SELECT doc_id FROM chunk)"
        return self._column(f"{query} ORDER BY 1")

    def is_whole(self, doc_id: str) -> bool:
        """Return whether a document was read whole; other stored chunks are removed."""
        return bool(self._rows("SELECT 1 FROM document WHERE doc_id = ?", doc_id))

    def count(self, table: Literal["chunk", "entity", "statement", "edge"]) -> int:
        """Return the number of rows of a table."""
        ((count,),) = self._rows(f"SELECT count(*) FROM {table}")  # noqa: S608 (four literals)
        return int(count)

    def holds_vectors(self) -> bool:
        """Return whether vectors came with chunks or entities."""
        exists = "EXISTS (SELECT 1 FROM {} WHERE embedding IS NOT NULL)"
        ((count,),) = self._rows(f"SELECT {exists.format('chunk')} OR {exists.format('entity')}")
        return bool(count)


def _payload(record: RawChunk | RawEntity) -> str:
    columns = {"id", "doc_id", "embedding", "encoding"}
    payload = adapter(RawChunk if isinstance(record, RawChunk) else RawEntity).dump_json(
        record, exclude=columns, exclude_defaults=True
    )
    return payload.decode()


def _chunk(identity: str, doc_id: str, payload: str, embedding: bytes | None) -> RawChunk:
    columns = {"id": identity, "doc_id": doc_id, "embedding": embedding}
    chunk: RawChunk = adapter(RawChunk).validate_python(json.loads(payload) | columns)
    return chunk


def _entity(identity: str, payload: str, embedding: bytes | None) -> RawEntity:
    columns = {"id": identity, "embedding": embedding}
    entity: RawEntity = adapter(RawEntity).validate_python(json.loads(payload) | columns)
    return entity

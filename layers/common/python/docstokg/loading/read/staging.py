"""What the files say, checked and on disk, so that a load needs little memory and reads once."""

import json
import sqlite3
import weakref
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from docstokg.loading.read.raw_input import RawChunk, RawEntity, RawMention, RawRelation, RawTriple
from docstokg.loading.read.rejects import Rejected

_SCHEMA = """
CREATE TABLE chunk (seq INTEGER PRIMARY KEY, id TEXT UNIQUE, doc_id TEXT, digest TEXT,
    acl TEXT, payload TEXT, embedding BLOB, shard TEXT, part INTEGER, line INTEGER);
CREATE INDEX chunk_doc ON chunk (doc_id, seq);
CREATE INDEX chunk_shard ON chunk (shard) WHERE shard <> '';
CREATE TABLE name (seq INTEGER PRIMARY KEY, surface TEXT, synonym TEXT, type TEXT,
    UNIQUE (surface, synonym, type));
CREATE TABLE entity (seq INTEGER PRIMARY KEY, id TEXT UNIQUE, payload TEXT, embedding BLOB);
CREATE TABLE relation (seq INTEGER PRIMARY KEY, file TEXT, line INTEGER, evidence TEXT,
    payload TEXT);
CREATE TABLE triple (seq INTEGER PRIMARY KEY, file TEXT, line INTEGER, payload TEXT);
CREATE TABLE edge (source TEXT, type TEXT, target TEXT, evidence TEXT, payload TEXT, fact TEXT,
    PRIMARY KEY (evidence, source, type, target)) WITHOUT ROWID;
CREATE TABLE document (doc_id TEXT PRIMARY KEY, digest TEXT) WITHOUT ROWID;
CREATE TABLE origin (doc_id TEXT PRIMARY KEY, record TEXT) WITHOUT ROWID;
"""

_FIRSTS = "SELECT doc_id, min(seq) AS first, shard FROM chunk{} GROUP BY doc_id ORDER BY first"
_OF_SHARD = " WHERE doc_id IN (SELECT doc_id FROM chunk WHERE shard = ? AND shard <> '')"


@dataclass(frozen=True, slots=True)
class StagedChunk:
    """Where a chunk of this load stands and what its evidence needs."""

    id: str
    doc_id: str
    text: str
    acl: tuple[str, ...]


class Place(NamedTuple):
    """Where the row comes from that is staged now: a run's shard of rows, its part, its line."""

    shard: str = ""
    part: int = 0
    line: int = 0


class Staging:
    """A temporary SQLite file without a name: the system frees it however the load ends."""

    def __init__(self, path: Path | None = None) -> None:
        """`path`: a file to work in, which may hold what `slim` left there."""
        # One thread at a time has it, not always the one that made it.
        self._db = sqlite3.connect(
            "" if path is None else path, isolation_level=None, check_same_thread=False
        )
        weakref.finalize(self, self._db.close)  # a process may end with one that it kept
        self._db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        if not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            self._db.executescript(_SCHEMA)
        self.place = Place()
        self._db.execute("BEGIN")

    def close(self) -> None:
        """Close and remove the file."""
        self._db.close()

    def add_chunk(self, chunk: RawChunk, digest: str) -> bool:
        """Keep a chunk; False when the same was there, `Rejected` when its id has other text."""
        row = self._db.execute("SELECT digest FROM chunk WHERE id = ?", (chunk.id,)).fetchone()
        if row is not None:
            if row[0] != digest:
                raise Rejected(f"id {chunk.id!r} is repeated with other text")
            return False
        payload = _chunk_payload(chunk)
        self._db.execute(
            "INSERT INTO chunk (id, doc_id, digest, acl, payload, embedding, shard, part, line)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                chunk.id,
                chunk.doc_id,
                digest,
                json.dumps(chunk.acl),
                json.dumps(payload),
                chunk.embedding,
                *self.place,
            ),
        )
        if chunk.whole:
            self.add_document(chunk.doc_id)
        return True

    def add_document(self, doc_id: str, digest: str = "") -> bool:
        """Mark a document as replaced entirely by this load; False when other text has its id."""
        self._db.execute("INSERT OR IGNORE INTO document VALUES (?, ?)", (doc_id, digest))
        row = self._db.execute("SELECT digest FROM document WHERE doc_id = ?", (doc_id,))
        return bool(not digest or row.fetchone()[0] == digest)

    def add_origin(self, doc_id: str, record: str) -> None:
        """Keep where a document came from, the first time it is seen."""
        self._db.execute("INSERT OR IGNORE INTO origin VALUES (?, ?)", (doc_id, record))

    def origins(self) -> Iterator[tuple[str, str]]:
        """Yield (doc_id, record as JSON), sorted."""
        with closing(self._db.execute("SELECT doc_id, record FROM origin ORDER BY 1")) as rows:
            yield from rows

    def document_facts(self, doc_id: str) -> tuple[int, str, tuple[str, ...]]:
        """Give a document's number of chunks, its title, and who may see any of them."""
        rows = self._db.execute(
            "SELECT acl, payload FROM chunk WHERE doc_id = ? ORDER BY seq", (doc_id,)
        ).fetchall()
        lists = [json.loads(row[0]) for row in rows]
        groups = {group for names in lists for group in names} if all(lists) else set()
        title = json.loads(rows[0][1]).get("title", "") if rows else ""
        return len(rows), title, tuple(sorted(groups))

    def add_name(self, surface: str, type_: str = "", synonym: str = "") -> None:
        """Keep a name that becomes an entity, and another form of it."""
        self._db.execute(
            "INSERT OR IGNORE INTO name (surface, synonym, type) VALUES (?, ?, ?)",
            (surface, synonym, type_),
        )

    def names(self) -> Iterator[tuple[str, str, str]]:
        """Yield (name, type or "", synonym or ""), in no order that means anything."""
        with closing(
            self._db.execute("SELECT surface, type, synonym FROM name ORDER BY seq")
        ) as rows:
            yield from rows

    def add_entity(self, entity: RawEntity) -> None:
        """Keep an entity; the same id again adds synonyms, under another name it is refused."""
        row = self._db.execute(
            "SELECT payload, embedding FROM entity WHERE id = ?", (entity.id,)
        ).fetchone()
        if row is None:
            self._db.execute(
                "INSERT INTO entity (id, payload, embedding) VALUES (?, ?, ?)",
                (entity.id, _entity_payload(entity), entity.embedding),
            )
            return
        stored = _entity(entity.id, row[0], row[1])
        if stored.name != entity.name:
            raise Rejected(f"id {entity.id!r} is repeated with another name")
        merged = RawEntity(
            id=entity.id,
            name=stored.name,
            type=stored.type or entity.type,
            synonyms=tuple(dict.fromkeys((*stored.synonyms, *entity.synonyms))),
            definition=stored.definition or entity.definition,
            obsolete=stored.obsolete or entity.obsolete,
            replaced_by=stored.replaced_by or entity.replaced_by,
            embedding=stored.embedding or entity.embedding,
        )
        self._db.execute(
            "UPDATE entity SET payload = ?, embedding = ? WHERE id = ?",
            (_entity_payload(merged), merged.embedding, entity.id),
        )

    def add_relation(self, relation: RawRelation, file: str, line: int) -> None:
        """Keep a relation with its place, for what can only be checked at the end."""
        self._db.execute(
            "INSERT INTO relation (file, line, evidence, payload) VALUES (?, ?, ?, ?)",
            (file, line, relation.evidence, json.dumps(asdict(relation))),
        )

    def add_triple(self, triple: RawTriple, file: str, line: int) -> None:
        """Keep a triple with its place."""
        self._db.execute(
            "INSERT INTO triple (file, line, payload) VALUES (?, ?, ?)",
            (file, line, json.dumps(asdict(triple))),
        )

    def add_edge(
        self, key: tuple[str, str, str, str | None], payload: dict[str, Any], fact: str
    ) -> bool:
        """Keep a resolved edge (source, type, target, evidence uuid); the first one wins."""
        source, kind, target, evidence = key
        done = self._db.execute(
            "INSERT OR IGNORE INTO edge VALUES (?, ?, ?, ?, ?, ?)",
            (source, kind, target, evidence or "", json.dumps(payload), fact),
        )
        return done.rowcount > 0

    def chunks(self) -> Iterator[RawChunk]:
        """Yield every chunk, in the order of the files."""
        last = 0
        while rows := self._db.execute(
            "SELECT seq, id, doc_id, payload, embedding FROM chunk WHERE seq > ?"
            " ORDER BY seq LIMIT 500",
            (last,),
        ).fetchall():
            for seq, identity, doc_id, payload, embedding in rows:
                last = seq
                yield _chunk(identity, doc_id, payload, embedding)

    def documents_chunks(self, shard: str | None) -> Iterator[tuple[str, list[RawChunk]]]:
        """Yield (doc_id, some of its chunks in order), all of a document one after another.

        `shard`: only the documents whose first chunk is of that shard.
        """
        for doc_id in self.documents_beginning(shard):
            last = 0
            while rows := self._db.execute(
                "SELECT seq, id, doc_id, payload, embedding FROM chunk "
                "WHERE doc_id = ? AND seq > ? ORDER BY seq LIMIT 500",
                (doc_id, last),
            ).fetchall():
                last = rows[-1][0]
                yield doc_id, [_chunk(*row[1:]) for row in rows]

    def documents_beginning(self, shard: str | None) -> list[str]:
        """List the documents by their first chunks; `shard`: those whose first is of it."""
        # Of a bare column beside min(), SQLite gives the value of the row that has it.
        if shard is None:
            firsts = self._db.execute(_FIRSTS.format("")).fetchall()
        else:
            firsts = self._db.execute(_FIRSTS.format(_OF_SHARD), (shard,)).fetchall()
        return [doc_id for doc_id, _, own in firsts if shard is None or own == shard]

    def shards_of(self, doc_ids: Iterable[str]) -> list[str]:
        """List the shards that hold chunks of these documents."""
        rows = self._db.execute(
            "SELECT DISTINCT shard FROM chunk WHERE doc_id IN (SELECT value FROM json_each(?))"
            " ORDER BY 1",
            (json.dumps(list(doc_ids)),),
        )
        return [row[0] for row in rows]

    def fill(self, chunk: RawChunk) -> None:
        """Give a chunk of a slim file its text again, if it is the one that stands at `place`."""
        self._db.execute(
            "UPDATE chunk SET payload = ?, embedding = ? WHERE id = ? AND doc_id = ?"
            " AND shard = ? AND part = ? AND line = ? AND payload ->> 'text' = ''",
            (
                json.dumps(_chunk_payload(chunk)),
                chunk.embedding,
                chunk.id,
                chunk.doc_id,
                *self.place,
            ),
        )

    def empty(self, doc_ids: Iterable[str]) -> None:
        """Forget the texts and vectors of these documents, as `slim` does of all."""
        self._db.execute(
            "UPDATE chunk SET payload = json_set(payload, '$.text', ''), embedding = NULL"
            " WHERE doc_id IN (SELECT value FROM json_each(?))",
            (json.dumps(list(doc_ids)),),
        )

    def slim(self) -> None:
        """Forget the texts and vectors of the chunks."""
        self._db.execute(
            "UPDATE chunk SET payload = json_set(payload, '$.text', ''), embedding = NULL"
            " WHERE payload ->> 'text' <> ''"
        )

    def save(self) -> None:
        """Make the file whole and as small as it can be."""
        self._db.execute("COMMIT")
        self._db.execute("VACUUM")
        self._db.execute("BEGIN")

    def chunk(self, chunk_id: str) -> StagedChunk | None:
        """Find one chunk of this load."""
        row = self._db.execute(
            "SELECT id, doc_id, payload, acl FROM chunk WHERE id = ?", (chunk_id,)
        ).fetchone()
        if row is None:
            return None
        return StagedChunk(row[0], row[1], json.loads(row[2])["text"], tuple(json.loads(row[3])))

    def document_texts(self, doc_id: str) -> list[tuple[str, str]]:
        """List (chunk id, text) of one document, in order."""
        rows = self._db.execute(
            "SELECT id, payload FROM chunk WHERE doc_id = ? ORDER BY seq", (doc_id,)
        )
        return [(identity, json.loads(payload)["text"]) for identity, payload in rows]

    def chunk_ids(self, doc_id: str) -> list[str]:
        """List the chunks of one document."""
        rows = self._db.execute("SELECT id FROM chunk WHERE doc_id = ? ORDER BY seq", (doc_id,))
        return [row[0] for row in rows]

    def entities(self) -> Iterator[RawEntity]:
        """Yield every listed entity, by id."""
        query = "SELECT id, payload, embedding FROM entity ORDER BY id"
        with closing(self._db.execute(query)) as rows:
            for row in rows:
                yield _entity(*row)

    def entity(self, identity: str) -> RawEntity | None:
        """Find a listed entity of this load."""
        row = self._db.execute(
            "SELECT id, payload, embedding FROM entity WHERE id = ?", (identity,)
        ).fetchone()
        return None if row is None else _entity(*row)

    def relations(self) -> Iterator[tuple[str, int, RawRelation]]:
        """Yield every relation with its place, in the order of the files."""
        with closing(
            self._db.execute("SELECT file, line, payload FROM relation ORDER BY seq")
        ) as rows:
            for file, line, payload in rows:
                yield file, line, RawRelation(**json.loads(payload))

    def triples(self) -> Iterator[tuple[str, int, RawTriple]]:
        """Yield every triple with its place, in the order of the files."""
        with closing(
            self._db.execute("SELECT file, line, payload FROM triple ORDER BY seq")
        ) as rows:
            for file, line, payload in rows:
                yield file, line, RawTriple(**json.loads(payload))

    def edges(self) -> Iterator[tuple[str, str, str, str | None, dict[str, Any], str]]:
        """Yield (source, type, target, evidence uuid, payload, fact text), sorted."""
        with closing(
            self._db.execute(
                "SELECT source, type, target, evidence, payload, fact FROM edge"
                " ORDER BY evidence, source, type, target"
            )
        ) as rows:
            for source, kind, target, evidence, payload, fact in rows:
                yield source, kind, target, evidence or None, json.loads(payload), fact

    def endpoints(self, uuid: str) -> list[str]:
        """List the entities of the edges that one chunk states."""
        rows = self._db.execute("SELECT source, target FROM edge WHERE evidence = ?", (uuid,))
        return sorted({end for row in rows for end in row})

    def evidence(self) -> list[str]:
        """List the uuids of the chunks that state edges of this load."""
        rows = self._db.execute(
            "SELECT DISTINCT evidence FROM edge WHERE evidence <> '' ORDER BY 1"
        )
        return [row[0] for row in rows]

    def documents(self, every: bool) -> list[str]:
        """List the documents to replace: those read whole, or `every` document of the load."""
        query = "SELECT doc_id FROM document"
        if every:
            query += " UNION SELECT doc_id FROM chunk"
        return [row[0] for row in self._db.execute(query + " ORDER BY 1")]

    def is_whole(self, doc_id: str) -> bool:
        """Tell whether a document was read whole: what it does not hold now is gone."""
        row = self._db.execute("SELECT 1 FROM document WHERE doc_id = ?", (doc_id,)).fetchone()
        return row is not None

    def count(self, table: Literal["chunk", "entity", "relation", "triple", "edge"]) -> int:
        """Count the rows of a table."""
        query = f"SELECT count(*) FROM {table}"  # noqa: S608 (one of five literals)
        return int(self._db.execute(query).fetchone()[0])

    def vector_dimensions(self) -> list[int]:
        """List the dimensions of the vectors that came with chunks and entities."""
        rows = self._db.execute(
            "SELECT DISTINCT length(embedding) / 4 FROM (SELECT embedding FROM chunk UNION ALL"
            " SELECT embedding FROM entity) WHERE embedding IS NOT NULL ORDER BY 1"
        )
        return [int(row[0]) for row in rows]


def _chunk_payload(chunk: RawChunk) -> dict[str, Any]:
    payload = {
        key: value
        for key, value in asdict(chunk).items()
        if key not in ("id", "doc_id", "embedding") and value not in (None, "", (), {})
    }
    if chunk.mentions is not None:
        payload["mentions"] = [asdict(mention) for mention in chunk.mentions]
    return payload


def _chunk(identity: str, doc_id: str, payload: str, embedding: bytes | None) -> RawChunk:
    fields = json.loads(payload)
    mentions = fields.pop("mentions", None)
    for key in ("topics", "acl", "headings"):
        fields[key] = tuple(fields.get(key, ()))
    return RawChunk(
        id=identity,
        doc_id=doc_id,
        mentions=None if mentions is None else tuple(RawMention(**row) for row in mentions),
        embedding=embedding,
        **fields,
    )


def _entity_payload(entity: RawEntity) -> str:
    fields = asdict(entity)
    del fields["id"], fields["embedding"]
    return json.dumps(fields)


def _entity(identity: str, payload: str, embedding: bytes | None) -> RawEntity:
    fields = json.loads(payload)
    fields["synonyms"] = tuple(fields["synonyms"])
    return RawEntity(id=identity, embedding=embedding, **fields)

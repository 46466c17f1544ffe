"""SQLite index writer."""

# ruff: noqa: S608 - names and conditions are constants, values are bound

import json
import secrets
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np

from docstokg.adapters.sqlite.index_files import (
    SECTIONS,
    ArrayFiles,
    GenerationWriter,
    LoadLock,
    rebuilding,
    remove_other_generations,
    write_dense,
    write_sparse,
)
from docstokg.adapters.sqlite.index_schema import (
    LANGUAGES,
    RELATIONS,
    SCHEMA_VERSION,
    SPACE,
    TABLES,
    UNFINISHED,
    acl_column,
    fact_words_table,
    known_namespace,
    make_word_tables,
    notes_of,
    rest_of,
    searched_words,
    space_of,
    words_table,
)
from docstokg.adapters.sqlite.session import (
    HOW,
    Closing,
    immediate,
    insert,
    prepared,
    snapshot,
    translated,
)
from docstokg.contracts.records import ChunkRecord, DocumentChange, FactRecord, VectorRow
from docstokg.domain.deadline import Deadline
from docstokg.domain.text.language_weights import ENGLISH, counts
from docstokg.domain.vectors import quantise
from docstokg.domain.visibility import facet, facets
from docstokg.errors import Misconfigured, Unavailable

BUSY_S = 60.0
LOAD_WAIT_S = 3600.0


class SqliteIndexWriter:
    """An `IndexWriter`; `open_load` creates the file."""

    def __init__(self, path: Path) -> None:
        self._path = Path(path)
        self._connection: Closing | None = None
        self._token_ids: dict[str, int] = {}
        self._locks: dict[str, LoadLock] = {}
        self._held: set[str] = set()
        self._turn = threading.RLock()

    @contextmanager
    def hold(
        self,
        wait_s: float,
        waiting: Callable[[int], None] | None = None,
        run: str = "",
        keeps_lease: bool = False,
        namespace: str = "",
    ) -> Iterator[None]:
        """Lock a namespace for this process, with `run` for this thread.

        Raise `Timeout` after `wait_s`. `waiting`: called every second. `keeps_lease`: unused.
        """
        # The lock is per process; a run's threads exclude each other here.
        with self._turn if run else nullcontext():
            lock = self._lock_of(namespace)
            lock.acquire(Deadline.after(wait_s), waiting)
            self._held.add(namespace)
            try:
                yield
            finally:
                self._held.discard(namespace)
                lock.release()

    def _lock_of(self, namespace: str) -> LoadLock:
        return self._locks.setdefault(namespace, LoadLock(self._path, namespace))

    def open_load(
        self,
        run_id: str,
        embedding_model: str | None,
        dimension: int | None,
        sparse_model: str | None,
        namespace: str = "",
    ) -> None:
        """Store the load's id and spaces; raise `Misconfigured` for other spaces or another layout.

        Waits up to an hour for another process's load, then raises `Timeout`.
        """
        self._lock_of(namespace).acquire(Deadline.after(LOAD_WAIT_S))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.touch()
        with self._transaction() as db:
            notes = notes_of(db)
            others = {key for key in notes if key.startswith(UNFINISHED)}
            rows = db.execute("SELECT EXISTS (SELECT 1 FROM index_rows)").fetchone()[0]
            # The first load of several into a new file sets the spaces.
            empty = not rows and others <= {UNFINISHED, UNFINISHED + namespace}
            separate = not empty and _has_own_space(db, namespace, embedding_model, dimension)
            spaces = {
                "embedding_model": None if separate else embedding_model,
                "dimension": None if separate or dimension is None else str(dimension),
                "sparse_model": sparse_model,
            }
            for key, value in spaces.items():
                stored = None if empty else notes.get(key)
                if value is not None and stored is not None and value != stored:
                    raise Misconfigured(
                        f"{self._path} was built with {key.replace('_', ' ')} {stored!r}, not "
                        f"{value!r}: load with the same one, or into another file"
                    )
                _note(db, key, value if value is not None else stored)
            _note(db, UNFINISHED + namespace, run_id)

    def fingerprints(self, namespace: str, uuids: Sequence[str]) -> dict[str, str]:
        """Map each stored uuid to its fingerprint; raise `Unavailable` without a file."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT r.uuid, c.fingerprint FROM index_rows r "
                "JOIN index_chunks c ON c.id = r.id "
                "JOIN index_namespaces n ON n.id = r.ns AND n.name = ? "
                "WHERE r.uuid IN (SELECT value FROM json_each(?))",
                (namespace, json.dumps(list(uuids))),
            )
            return dict(rows.fetchall())

    def put(self, chunks: Sequence[tuple[ChunkRecord, str]]) -> None:
        """Write chunks with their fingerprints, replacing by uuid, all or none.

        Raise `Misconfigured` for vectors of another length.
        """
        if not chunks:
            return
        with self._transaction() as db:
            self._replace(db, chunks)
            _note_change(db)

    def put_document(self, change: DocumentChange) -> int:
        """Change a stored document in one transaction; raise errors as `put`.

        Return the number of removed chunks, without replaced ones.
        """
        with self._transaction() as db:
            ns = known_namespace(db, change.namespace)
            if ns is not None:
                _remove_stated(db, ns, [*change.outdated_uuids, *change.removed_uuids])
            removed = self._remove_chunks(db, change.removed_uuids)
            self._replace(db, change.chunks)
            _note_change(db)
            return removed

    def put_facts(self, facts: Sequence[FactRecord]) -> None:
        """Write facts, replacing by id, all or none; unchanged facts are skipped."""
        if not facts:
            return
        with self._transaction() as db:
            changes = [_put_fact(db, _namespace(db, fact.namespace), fact) for fact in facts]
            if any(changes):
                _note_change(db)

    def doc_uuids(self, namespace: str, doc_id: str) -> tuple[str, ...]:
        """Return the chunk uuids of one document, sorted; raise `Unavailable` without a file."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT r.uuid FROM index_facets a "
                "JOIN index_namespaces n ON n.id = a.ns AND n.name = ? "
                "JOIN index_rows r ON r.id = a.chunk WHERE a.facet = ? ORDER BY r.uuid",
                (namespace, facet("doc_id", doc_id)),
            )
            return tuple(row[0] for row in rows)

    def delete(self, namespace: str, uuids: Sequence[str] | None) -> int:
        """Remove chunks (None: the namespace's) with their facts; return the number of chunks."""
        with self._transaction() as db:
            ns = known_namespace(db, namespace)
            if ns is None:
                return 0
            _note_change(db)
            if uuids is None:
                return _remove_namespace(db, ns)
            _remove_stated(db, ns, uuids)
            chunk_rows = db.execute(
                "SELECT uuid FROM index_rows "
                "WHERE ns = ? AND uuid IN (SELECT value FROM json_each(?))",
                (ns, json.dumps(list(uuids))),
            ).fetchall()
            return self._remove_chunks(db, [row[0] for row in chunk_rows])

    def close_load(self, namespace: str = "") -> None:
        """Mark the load as finished, after rebuilding the arrays for search if anything changed.

        Others may write meanwhile: the arrays are of a snapshot, and stay marked as outdated then.
        """
        with rebuilding(self._path):
            with self._reading() as connection, snapshot(connection):
                arrays = self._arrays(connection)
            with self._transaction() as db:
                kept = self._finish(db, namespace, arrays)
            self._clean(namespace, kept)

    def replace_vectors(
        self, namespace: str, model: str, dimension: int, rows: Iterable[VectorRow]
    ) -> None:
        """Replace vectors and fingerprints of chunks in one transaction, and finish the load.

        Raise TypeError for an unknown uuid.
        """
        with rebuilding(self._path):
            with self._transaction() as db:
                for row in rows:
                    (chunk,) = db.execute(
                        "SELECT id FROM index_rows WHERE uuid = ?", (row.uuid,)
                    ).fetchone()
                    db.execute(
                        "INSERT OR REPLACE INTO index_vectors VALUES (?, ?, ?)",
                        (chunk, quantise(row.vector), row.vector),
                    )
                    db.execute(
                        "INSERT OR REPLACE INTO index_sentences VALUES (?, ?)",
                        (chunk, row.sentence_vectors),
                    )
                    db.execute(
                        "UPDATE index_chunks SET fingerprint = ? WHERE id = ?",
                        (row.fingerprint, chunk),
                    )
                notes = notes_of(db)
                plain = (model, dimension) == space_of(notes, "")
                _note(db, SPACE + namespace, None if plain else f"{dimension} {model}")
                _note_change(db)
                kept = self._finish(db, namespace, self._arrays(db))
            self._clean(namespace, kept)

    def _arrays(self, db: sqlite3.Connection) -> tuple[str | None, str]:
        """Return the mark of the last change, and the generation with it, written if outdated."""
        notes = notes_of(db)
        mark, generation = notes.get("dirty"), notes.get("generation")
        if generation is not None and mark is None and self._generation_is_there(generation):
            return None, generation
        files = GenerationWriter(self._path)
        try:
            write_dense(db, files, int(notes.get("dimension") or 0))
            write_sparse(db, files)
            return mark, files.finish()
        except BaseException:
            files.discard()
            raise

    def _finish(
        self, db: sqlite3.Connection, namespace: str, arrays: tuple[str | None, str]
    ) -> set[str]:
        """Finish the load; return the generations that readers may use."""
        notes = notes_of(db)
        for kind, table in (("chunks", "index_rows"), ("facts", RELATIONS)):
            counted = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            _note(db, kind, str(counted))
        mark, generation = arrays
        _note(db, "generation", generation)
        if notes.get("dirty") == mark:
            _note(db, "dirty", None)
        for name in ("", namespace):
            _note(db, UNFINISHED + name, None)
        _note(db, "finished", secrets.token_hex(8))
        return {generation, notes.get("generation", "")}

    def _clean(self, namespace: str, generations: set[str]) -> None:
        self._checkpoint()
        with self._transaction() as db:
            _note(db, "bytes", str(self._path.stat().st_size))
            remove_other_generations(self._path, generations)
        self._checkpoint()
        if namespace not in self._held:
            self._lock_of(namespace).release()

    def stored_chunks(self, namespace: str) -> Iterator[tuple[ChunkRecord, str]]:
        """Yield chunks as they were put, with fingerprints, by uuid.

        Raise `Unavailable` without a file.
        """
        with self._reading() as db:
            tokens = dict(db.execute("SELECT id, token FROM index_tokens").fetchall())
            rows = db.execute(
                "SELECT r.uuid, c.*, v.vector, s.tokens, s.weights, p.vectors FROM index_rows r "
                "JOIN index_namespaces n ON n.id = r.ns AND n.name = ? "
                "JOIN index_chunks c ON c.id = r.id LEFT JOIN index_vectors v ON v.chunk = r.id "
                "LEFT JOIN index_sparse s ON s.chunk = r.id "
                "LEFT JOIN index_sentences p ON p.chunk = r.id ORDER BY r.uuid",
                (namespace,),
            )
            for row in rows:
                weights = zip(*_sparse_arrays(row), strict=True)
                chunk = ChunkRecord(
                    **{key: row[key] for key in _CHUNK_COLUMNS},
                    namespace=namespace,
                    vector=row["vector"],
                    sentence_vectors=row["vectors"] or b"",
                    sparse={tokens[token]: round(float(weight), 6) for token, weight in weights},
                    **json.loads(row["rest"]),
                )
                yield chunk, row["fingerprint"]

    def stored_facts(self, namespace: str) -> Iterator[FactRecord]:
        """Yield every fact, by id; raise `Unavailable` without a file."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT f.* FROM index_facts f "
                "JOIN index_namespaces n ON n.id = f.ns AND n.name = ? ORDER BY f.fact",
                (namespace,),
            )
            for row in rows:
                yield FactRecord(
                    id=row["fact"],
                    namespace=namespace,
                    evidence_uuid=row["evidence"],
                    acl=tuple(json.loads(row["acl"] or "[]")),
                    **{key: row[key] for key in ("text", "source", "type", "target", "doc_id")},
                )

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        for lock in self._locks.values():
            lock.release()

    def __del__(self) -> None:
        self.close()

    def _generation_is_there(self, generation: str) -> bool:
        try:
            for section in SECTIONS:
                ArrayFiles(self._path).section(section, generation, Deadline.after(BUSY_S))
        except Unavailable:
            return False
        return True

    def _checkpoint(self) -> None:
        with self._reading() as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _db(self) -> Closing:
        if self._connection is None:
            self._connection = prepared(self._path, BUSY_S, TABLES, "index_meta", SCHEMA_VERSION)
            self._connection.row_factory = sqlite3.Row
        return self._connection

    @contextmanager
    def _reading(self) -> Iterator[Closing]:
        if self._connection is None and not self._path.exists():
            raise Unavailable(f"there is no index at {self._path}: {HOW}")
        try:
            yield self._db()
        except sqlite3.Error as exc:
            self.close()
            raise translated(exc, self._path) from exc

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._reading() as db, immediate(db):
                yield db
        except BaseException:
            # Token ids of a rolled back transaction are invalid.
            self._token_ids.clear()
            raise

    def _replace(self, db: sqlite3.Connection, chunks: Sequence[tuple[ChunkRecord, str]]) -> None:
        notes = notes_of(db)
        for chunk, fingerprint in chunks:
            _, dimension = space_of(notes, chunk.namespace)
            if chunk.vector is not None and len(chunk.vector) != 4 * dimension:
                raise Misconfigured(
                    f"chunk {chunk.chunk_id!r} has a vector of {len(chunk.vector) // 4} "
                    f"components; this load was opened for {dimension}"
                )
            self._remove_chunks(db, [chunk.uuid])
            self._insert(db, chunk, fingerprint)
        _note_languages(
            db, Counter((chunk.namespace, chunk.language or ENGLISH) for chunk, _ in chunks)
        )

    def _insert(self, db: sqlite3.Connection, chunk: ChunkRecord, fingerprint: str) -> None:
        ns = _namespace(db, chunk.namespace)
        run, headings = db.execute, "\n".join(chunk.headings)
        row = insert(run, "index_rows", uuid=chunk.uuid, ns=ns, acl=acl_column(chunk.acl))
        columns = {key: getattr(chunk, key) for key in _OWN}
        columns |= {"fingerprint": fingerprint, "headings": headings, "rest": rest_of(chunk)}
        insert(run, "index_chunks", id=row, **columns)
        searched = searched_words(chunk.title, headings, chunk.text, chunk.language)
        words = zip(_WORDS, searched, strict=True)
        insert(run, words_table(ns), rowid=row, **dict(words))
        db.executemany(
            "INSERT INTO index_facets (ns, facet, chunk) VALUES (?, ?, ?)",
            [(ns, name, row) for name in facets(dict(chunk), chunk.topics, chunk.metadata)],
        )
        if chunk.vector is not None:
            compact = quantise(chunk.vector)
            insert(run, "index_vectors", chunk=row, compact=compact, vector=chunk.vector)
        if chunk.sentence_vectors:
            insert(run, "index_sentences", chunk=row, vectors=chunk.sentence_vectors)
        if chunk.sparse:
            tokens = sorted(chunk.sparse)
            ids = np.array([self._token_id(db, token) for token in tokens], dtype="<i4").tobytes()
            weights = np.array([chunk.sparse[token] for token in tokens], dtype="<f4").tobytes()
            insert(run, "index_sparse", chunk=row, tokens=ids, weights=weights)

    def _token_id(self, db: sqlite3.Connection, token: str) -> int:
        if (token_id := self._token_ids.get(token)) is None:
            db.execute("INSERT OR IGNORE INTO index_tokens (token) VALUES (?)", (token,))
            row = db.execute("SELECT id FROM index_tokens WHERE token = ?", (token,)).fetchone()
            token_id = self._token_ids[token] = int(row[0])
        return token_id

    def _remove_chunks(self, db: sqlite3.Connection, uuids: Iterable[str]) -> int:
        removed = 0
        for uuid in uuids:
            chunk_row = db.execute(
                "SELECT r.id, r.ns, c.title, c.headings, c.text, c.doc_id, c.rest "
                "FROM index_rows r JOIN index_chunks c ON c.id = r.id WHERE r.uuid = ?",
                (uuid,),
            ).fetchone()
            if chunk_row is None:
                continue
            row, ns, payload = chunk_row["id"], chunk_row["ns"], json.loads(chunk_row["rest"])
            table = words_table(ns)
            title, headings, text = (chunk_row[key] for key in _WORDS)
            words = searched_words(title, headings, text, payload.get("language", ""))
            # A contentless FTS5 table needs the deleted words.
            db.execute(
                f"INSERT INTO {table} ({table}, rowid, title, headings, text) "
                "VALUES ('delete', ?, ?, ?, ?)",
                (row, *words),
            )
            fields = {**payload, "doc_id": chunk_row["doc_id"]}
            stored = facets(fields, payload["topics"], payload["metadata"])
            db.executemany(
                "DELETE FROM index_facets WHERE ns = ? AND facet = ? AND chunk = ?",
                [(ns, name, row) for name in stored],
            )
            for name, key in _CHUNK_TABLES:
                db.execute(f"DELETE FROM {name} WHERE {key} = ?", (row,))
            removed += 1
        return removed


_OWN = ("doc_id", "chunk_id", "run_id", "title", "text")
_WORDS = ("title", "headings", "text")
_CHUNK_COLUMNS = ("uuid", "chunk_id", "doc_id", "title", "text", "run_id")
_CHUNK_TABLES = (
    ("index_sentences", "chunk"),
    ("index_vectors", "chunk"),
    ("index_sparse", "chunk"),
    ("index_chunks", "id"),
    ("index_rows", "id"),
)


def _put_fact(db: sqlite3.Connection, ns: int, fact: FactRecord) -> bool:
    values = {
        "acl": acl_column(fact.acl),
        "evidence": fact.evidence_uuid,
        **{key: getattr(fact, key) for key in ("doc_id", "source", "type", "target", "text")},
    }
    stored = db.execute(
        f"SELECT {', '.join(values)} FROM index_facts WHERE ns = ? AND fact = ?", (ns, fact.id)
    ).fetchone()
    if stored is not None:
        if tuple(stored) == tuple(values.values()):
            return False
        _remove_facts(db, "f.ns = ? AND f.fact = ?", (ns, fact.id))
    row = insert(db.execute, "index_facts", ns=ns, fact=fact.id, **values)
    insert(db.execute, fact_words_table(ns), rowid=row, text=fact.text)
    return True


def _remove_stated(db: sqlite3.Connection, ns: int, uuids: Sequence[str]) -> None:
    condition = "f.ns = ? AND f.evidence IN (SELECT value FROM json_each(?))"
    _remove_facts(db, condition, (ns, json.dumps(list(uuids))))


def _remove_facts(db: sqlite3.Connection, condition: str, values: Sequence[object]) -> None:
    rows = db.execute(
        f"SELECT f.id, f.ns, f.text FROM index_facts f WHERE {condition}", values
    ).fetchall()
    for row in rows:
        table = fact_words_table(row["ns"])
        db.execute(
            f"INSERT INTO {table} ({table}, rowid, text) VALUES ('delete', ?, ?)",
            (row["id"], row["text"]),
        )
        db.execute("DELETE FROM index_facts WHERE id = ?", (row["id"],))


def _remove_namespace(db: sqlite3.Connection, ns: int) -> int:
    for name, key in _CHUNK_TABLES[:-1]:
        db.execute(
            f"DELETE FROM {name} WHERE {key} IN (SELECT id FROM index_rows WHERE ns = ?)", (ns,)
        )
    removed = db.execute("DELETE FROM index_rows WHERE ns = ?", (ns,)).rowcount
    db.execute("DELETE FROM index_facets WHERE ns = ?", (ns,))
    db.execute("DELETE FROM index_facts WHERE ns = ?", (ns,))
    db.execute(f"DROP TABLE IF EXISTS {words_table(ns)}")
    db.execute(f"DROP TABLE IF EXISTS {fact_words_table(ns)}")
    (name,) = db.execute("SELECT name FROM index_namespaces WHERE id = ?", (ns,)).fetchone()
    for key in (LANGUAGES, SPACE):
        _note(db, key + name, None)
    db.execute("DELETE FROM index_namespaces WHERE id = ?", (ns,))
    return removed


def _namespace(db: sqlite3.Connection, name: str) -> int:
    space = known_namespace(db, name)
    if space is not None:
        return space
    namespace_id = insert(db.execute, "index_namespaces", name=name)
    make_word_tables(db, namespace_id)
    return namespace_id


def _note(db: sqlite3.Connection, key: str, value: str | None) -> None:
    if value is None:
        db.execute("DELETE FROM index_meta WHERE key = ?", (key,))
    else:
        db.execute("INSERT OR REPLACE INTO index_meta (key, value) VALUES (?, ?)", (key, value))


def _note_change(db: sqlite3.Connection) -> None:
    """Mark the arrays as outdated, by another mark for each change."""
    _note(db, "dirty", secrets.token_hex(8))


def _has_own_space(
    db: sqlite3.Connection, namespace: str, model: str | None, dimension: int | None
) -> bool:
    notes = notes_of(db)
    if not namespace or model is None or notes.get("embedding_model") is None:
        return False
    stored, size = space_of(notes, namespace)
    ns = known_namespace(db, namespace)
    rows = "SELECT EXISTS (SELECT 1 FROM index_rows WHERE ns = ?)"
    if ns is None or not db.execute(rows, (ns,)).fetchone()[0]:
        is_other = (model, dimension) != space_of(notes, "")
        _note(db, SPACE + namespace, f"{dimension} {model}" if is_other else None)
        return is_other
    if (model, dimension) != (stored, size):
        raise Misconfigured(
            f"namespace {namespace!r} was embedded by {stored!r}, not by {model!r}: load with that "
            "model, move it with `docstokg reembed`, or take another namespace"
        )
    return SPACE + namespace in notes


def _note_languages(db: sqlite3.Connection, chunk_counts: Counter[tuple[str, str]]) -> None:
    for namespace in {name for name, _ in chunk_counts}:
        key = LANGUAGES + namespace
        added = Counter({code: n for (name, code), n in chunk_counts.items() if name == namespace})
        totals = counts(notes_of(db).get(key)) + added
        _note(db, key, " ".join(f"{code}={n}" for code, n in sorted(totals.items())))


def _sparse_arrays(row: sqlite3.Row) -> tuple[list[int], list[float]]:
    if row["tokens"] is None:
        return [], []
    tokens, weights = row["tokens"], row["weights"]
    return np.frombuffer(tokens, "<i4").tolist(), np.frombuffer(weights, "<f4").tolist()

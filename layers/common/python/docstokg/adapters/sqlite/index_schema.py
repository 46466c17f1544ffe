"""Index tables."""

# ruff: noqa: S608 - names and conditions are constants, values are bound

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docstokg.adapters.languages import indexed
from docstokg.adapters.sqlite.session import HOW
from docstokg.contracts.records import CALLED, ChunkRecord, ChunkText, Scope, StoredChunk
from docstokg.domain.text.query_terms import indexed_text, option_words
from docstokg.domain.visibility import facet, required
from docstokg.errors import Misconfigured, NotLoaded

# 3: headings and options are searched, sentences have vectors; shared by all stores.
SCHEMA_VERSION = "3"

# `index_rows` is narrow: a word query reads one row per match. Ids are never reused, so array
# entries of replaced chunks match nothing. Each namespace has its own word index, so that
# statistics do not leak between tenants.
TABLES = """
CREATE TABLE IF NOT EXISTS index_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS index_namespaces (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS index_rows (
  id INTEGER PRIMARY KEY AUTOINCREMENT, uuid TEXT NOT NULL UNIQUE, ns INTEGER NOT NULL, acl TEXT);
CREATE INDEX IF NOT EXISTS index_rows_ns ON index_rows (ns, uuid);
CREATE TABLE IF NOT EXISTS index_chunks (
  id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL, doc_id TEXT NOT NULL, chunk_id TEXT NOT NULL,
  run_id TEXT NOT NULL, title TEXT NOT NULL, headings TEXT NOT NULL,
  text TEXT NOT NULL, rest TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS index_facets (
  ns INTEGER NOT NULL, facet TEXT NOT NULL, chunk INTEGER NOT NULL,
  PRIMARY KEY (ns, facet, chunk)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS index_vectors (
  chunk INTEGER PRIMARY KEY, compact BLOB NOT NULL, vector BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS index_sentences (chunk INTEGER PRIMARY KEY, vectors BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS index_tokens (id INTEGER PRIMARY KEY, token TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS index_sparse (
  chunk INTEGER PRIMARY KEY, tokens BLOB NOT NULL, weights BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS index_facts (
  id INTEGER PRIMARY KEY AUTOINCREMENT, ns INTEGER NOT NULL, fact TEXT NOT NULL, acl TEXT,
  doc_id TEXT, evidence TEXT, source TEXT NOT NULL, type TEXT NOT NULL, target TEXT NOT NULL,
  text TEXT NOT NULL, UNIQUE (ns, fact));
CREATE INDEX IF NOT EXISTS index_facts_evidence ON index_facts (evidence);
"""
# The facts that are counted.
RELATIONS = f"index_facts WHERE type <> '{CALLED}'"
# Key prefix of a namespace's note `LANGUAGE=PASSAGES ...` of all passages ever written.
LANGUAGES = "languages/"
# Key prefix of a namespace's own note `DIMENSION MODEL`.
SPACE = "space/"
# Key prefix of the run_id of a namespace's open load; earlier versions noted one for all.
UNFINISHED = "unfinished"
ANALYSIS = 'tokenize = "porter unicode61 remove_diacritics 2"'

_COLUMNS = ("uuid", "chunk_id", "doc_id", "text", "title", "run_id")
# Chunk fields without own columns.
STORED_FIELDS = ChunkText.model_fields.keys() - set(_COLUMNS)


def words_table(ns: int) -> str:
    """Return the table name of a namespace's word index over chunks."""
    return f"index_words_{ns:d}"


def fact_words_table(ns: int) -> str:
    """Return the table name of a namespace's word index over facts."""
    return f"index_fact_words_{ns:d}"


def make_word_tables(connection: sqlite3.Connection, ns: int) -> None:
    """Create both word indexes of a namespace unless they exist."""
    connection.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS {words_table(ns)} USING fts5("
        f"title, headings, text, content = 'index_chunks', content_rowid = 'id', {ANALYSIS})"
    )
    connection.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS {fact_words_table(ns)} USING fts5("
        f"text, content = 'index_facts', content_rowid = 'id', {ANALYSIS})"
    )


def searched_words(title: str, headings: str, text: str, language: str) -> tuple[str, str, str]:
    """Return title, headings and text as they are indexed; `language`: "" for English."""
    if language:
        return (
            indexed(title, language),
            indexed(headings, language),
            " ".join((indexed(text, language), *option_words(f"{headings}\n{text}"))),
        )
    return title, indexed_text(headings), indexed_text(text)


def space_of(notes: Mapping[str, str], namespace: str) -> tuple[str | None, int]:
    """Return model and dimension of a namespace's vectors, by default the index's.

    (None, 0) without.
    """
    dimension, _, model = notes.get(SPACE + namespace, "").partition(" ")
    if model:
        return model, int(dimension)
    return notes.get("embedding_model"), int(notes.get("dimension") or 0)


def rest_of(chunk: ChunkRecord) -> str:
    """Return the fields without own columns as canonical JSON."""
    fields = chunk.model_dump(mode="json", include={*STORED_FIELDS})
    return json.dumps(fields, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def stored_chunk(row: Mapping[str, Any]) -> StoredChunk:
    """Return the chunk of a row of `uuid, compact` and all columns of `index_chunks`."""
    stored = json.loads(row["rest"])
    fields = {name: row[name] for name in _COLUMNS}
    fields |= {name: stored[name] for name in STORED_FIELDS if name in stored}
    return StoredChunk(vector=row["compact"], **fields)


def acl_column(acl: tuple[str, ...]) -> str | None:
    """Return an access list as JSON, sorted and without duplicates; None if empty (public)."""
    return json.dumps(sorted(set(acl)), ensure_ascii=False) if acl else None


def visible(scope: Scope, ns: int) -> tuple[str, dict[str, object]]:
    """Return the visibility condition on `r` (index_rows), with its values."""
    parts, values = _seen("r", scope, ns)
    groups = list(required(scope.filter))
    if scope.doc_ids is not None:
        groups.append(tuple(facet("doc_id", doc_id) for doc_id in sorted(set(scope.doc_ids))))
    for number, group in enumerate(groups):
        parts.append(
            f"r.id IN (SELECT chunk FROM index_facets WHERE ns = :ns "
            f"AND facet IN (SELECT value FROM json_each(:facets{number})))"
        )
        values[f"facets{number}"] = _json(group)
    return " AND ".join(parts), values


def visible_fact(scope: Scope, ns: int) -> tuple[str, dict[str, object]]:
    """Return the visibility condition on `f` (index_facts), with its values.

    The request's filter is not applied to facts.
    """
    parts, values = _seen("f", scope, ns)
    if scope.doc_ids is not None:
        parts.append("f.doc_id IN (SELECT value FROM json_each(:docs))")
        values["docs"] = _json(scope.doc_ids)
    return " AND ".join(parts), values


def _seen(table: str, scope: Scope, ns: int) -> tuple[list[str], dict[str, object]]:
    if scope.groups is None:
        return [f"{table}.ns = :ns"], {"ns": ns}
    shares_a_group = (
        f"({table}.acl IS NULL OR EXISTS (SELECT 1 FROM json_each({table}.acl) "
        "WHERE value IN (SELECT value FROM json_each(:groups))))"
    )
    return [f"{table}.ns = :ns", shares_a_group], {"ns": ns, "groups": _json(scope.groups)}


def _json(values: object) -> str:
    return json.dumps(values, ensure_ascii=False)


def known_namespace(db: sqlite3.Connection, name: str) -> int | None:
    """Return the number of a namespace, None if it is unknown."""
    row = db.execute("SELECT id FROM index_namespaces WHERE name = ?", (name,)).fetchone()
    return None if row is None else int(row[0])


def notes_of(db: sqlite3.Connection) -> dict[str, str]:
    """Return the rows of `index_meta` by key."""
    return dict(db.execute("SELECT key, value FROM index_meta").fetchall())


def check_layout(connection: sqlite3.Connection, path: Path) -> int:
    """Return the bytes of the file `path` after its last load, 0 before one.

    Raises `NotLoaded` without an index and `Misconfigured` for one of another version.
    """
    tables = "SELECT count(*) FROM sqlite_master WHERE name = 'index_meta'"
    if not connection.execute(tables).fetchone()[0]:
        raise NotLoaded(f"{path} holds no index: {HOW}")
    notes = notes_of(connection)
    if notes.get("schema") != SCHEMA_VERSION:
        raise Misconfigured(
            f"{path} was written by another version (schema {notes.get('schema')}, this one "
            f"reads {SCHEMA_VERSION}): load it again into a new file"
        )
    return int(notes.get("bytes", 0))

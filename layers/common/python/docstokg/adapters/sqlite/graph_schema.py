"""Graph tables."""

import sqlite3
from pathlib import Path

from docstokg.errors import Unavailable

# 3: mentions have `about`, entities count the chunks about them.
SCHEMA_VERSION = 3

# Integer keys are hashes of identities: loads need no lookups, and equal content has equal order.
# `degree` = entities of the chunk; it precedes the chunk in the key, to read a hub's most focused
# chunks first.
TABLES = """
CREATE TABLE IF NOT EXISTS graph_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS graph_chunks (
  chunk INTEGER PRIMARY KEY, namespace TEXT NOT NULL, uuid TEXT NOT NULL, chunk_id TEXT NOT NULL,
  doc_id TEXT NOT NULL, title TEXT NOT NULL, acl TEXT NOT NULL, topics TEXT NOT NULL,
  facets TEXT NOT NULL, section TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS graph_chunks_doc ON graph_chunks (namespace, doc_id);
CREATE INDEX IF NOT EXISTS graph_chunks_closed ON graph_chunks (namespace) WHERE acl <> '[]';
CREATE TABLE IF NOT EXISTS graph_topics (
  namespace TEXT NOT NULL, topic TEXT NOT NULL, chunk INTEGER NOT NULL,
  PRIMARY KEY (namespace, topic, chunk)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS graph_entities (
  entity INTEGER PRIMARY KEY, namespace TEXT NOT NULL, id TEXT NOT NULL, folded TEXT NOT NULL,
  prefix TEXT NOT NULL, name TEXT NOT NULL, type TEXT, type_key TEXT NOT NULL DEFAULT '',
  synonyms TEXT NOT NULL, definition TEXT, obsolete INTEGER NOT NULL, replaced_by TEXT,
  listed INTEGER NOT NULL, bare INTEGER NOT NULL, vector BLOB,
  open_mentions INTEGER NOT NULL DEFAULT 0, closed_mentions INTEGER NOT NULL DEFAULT 0,
  open_heads INTEGER NOT NULL DEFAULT 0, closed_heads INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS graph_entities_folded ON graph_entities (namespace, folded);
CREATE INDEX IF NOT EXISTS graph_entities_card ON graph_entities (
  entity, id, name, type, obsolete, replaced_by, listed, open_mentions, closed_mentions,
  open_heads, closed_heads);
CREATE TABLE IF NOT EXISTS graph_aliases (
  namespace TEXT NOT NULL, key TEXT NOT NULL, entity INTEGER NOT NULL, preferred INTEGER NOT NULL,
  PRIMARY KEY (namespace, key, entity)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS graph_aliases_entity ON graph_aliases (entity);
CREATE TABLE IF NOT EXISTS graph_mentions (
  entity INTEGER NOT NULL, degree INTEGER NOT NULL, chunk INTEGER NOT NULL,
  start INTEGER, stop INTEGER, about INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (entity, degree, chunk)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS graph_mentions_of
  ON graph_mentions (chunk, entity, start, stop, about);
CREATE INDEX IF NOT EXISTS graph_mentions_about ON graph_mentions (entity, degree, chunk)
  WHERE about;
CREATE TABLE IF NOT EXISTS graph_relations (
  relation INTEGER PRIMARY KEY, namespace TEXT NOT NULL, source INTEGER NOT NULL,
  type TEXT NOT NULL, type_key TEXT NOT NULL, target INTEGER NOT NULL, weight REAL NOT NULL,
  evidence INTEGER, start INTEGER, stop INTEGER, properties TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS graph_relations_source
  ON graph_relations (source, weight DESC, target, type_key, evidence);
CREATE INDEX IF NOT EXISTS graph_relations_target
  ON graph_relations (target, weight DESC, source, type_key, evidence);
CREATE INDEX IF NOT EXISTS graph_relations_evidence ON graph_relations (evidence);
CREATE INDEX IF NOT EXISTS graph_relations_type ON graph_relations (namespace, type);
CREATE TABLE IF NOT EXISTS graph_dirty (entity INTEGER PRIMARY KEY);
"""

# Missing in older files: the writer adds it, the next load fills it.
NAMES_TABLE = """
CREATE TABLE IF NOT EXISTS graph_names (
  chunk INTEGER PRIMARY KEY, namespace TEXT NOT NULL, names TEXT NOT NULL)
"""


def check_layout(connection: sqlite3.Connection, path: Path) -> int:
    """Raise `Unavailable` for a file with the layout of another version, else return 0."""
    row = connection.execute("SELECT value FROM graph_meta WHERE key = 'schema'").fetchone()
    if row is not None and row[0] != str(SCHEMA_VERSION):
        raise Unavailable(
            f"{path} holds a graph of layout {row[0]}, this version reads layout"
            f" {SCHEMA_VERSION}: load into it again"
        )
    return 0

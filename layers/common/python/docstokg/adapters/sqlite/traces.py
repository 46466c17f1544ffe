"""SQLite traces."""

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from docstokg.adapters.sqlite.session import UPSERT, insert, transaction
from docstokg.contracts.state import TraceMessage
from docstokg.domain.deadline import Deadline
from docstokg.domain.identity import chunk_key

TABLES = """
CREATE TABLE IF NOT EXISTS trace_queries (
  id TEXT PRIMARY KEY, session TEXT NOT NULL, hash TEXT NOT NULL, namespace TEXT NOT NULL,
  at INTEGER NOT NULL, answered INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS trace_queries_at ON trace_queries (at);
CREATE TABLE IF NOT EXISTS trace_retrieved (
  query TEXT NOT NULL, uuid TEXT NOT NULL, rank INTEGER NOT NULL, score REAL NOT NULL,
  PRIMARY KEY (query, uuid)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS trace_focused_on (
  query TEXT NOT NULL, entity TEXT NOT NULL, score REAL NOT NULL,
  PRIMARY KEY (query, entity)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS trace_supported_by (
  query TEXT NOT NULL, uuid TEXT NOT NULL, rank INTEGER NOT NULL,
  PRIMARY KEY (query, uuid)) WITHOUT ROWID;
"""
EDGES = ("trace_retrieved", "trace_focused_on", "trace_supported_by")
# As in Neo4j an edge needs both ends.
IS_CHUNK = "EXISTS (SELECT 1 FROM graph_chunks WHERE chunk = :chunk AND uuid = :uuid)"
RETRIEVED = (
    f"INSERT OR REPLACE INTO trace_retrieved SELECT :query, :uuid, :rank, :score WHERE {IS_CHUNK}"
)
SUPPORTED = (
    f"INSERT OR REPLACE INTO trace_supported_by SELECT :query, :uuid, :rank WHERE {IS_CHUNK}"
)
FOCUSED = (
    "INSERT OR REPLACE INTO trace_focused_on SELECT :query, e.id, :score FROM graph_entities e "
    "WHERE e.namespace = :namespace AND e.folded = :folded"
)


class SqliteTraces:
    """A `TraceStore` on the graph's SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, messages: Sequence[TraceMessage], deadline: Deadline) -> None:
        """Write all messages or none; omit unknown chunks and entities; repeats change nothing."""
        with self._transaction(deadline) as db:
            for message in messages:
                _write(db, message)

    def read(self, request_id: str, deadline: Deadline) -> TraceMessage | None:
        """Return the trace of a request, None if it is unknown."""
        with self._transaction(deadline) as db:
            row = db.execute(
                "SELECT session, hash, namespace, at FROM trace_queries WHERE id = ?", (request_id,)
            ).fetchone()
            retrieved, focused, cited = (
                db.execute(text, (request_id,)).fetchall()
                for text in (
                    "SELECT uuid, rank, score FROM trace_retrieved WHERE query = ? ORDER BY rank",
                    "SELECT entity, score FROM trace_focused_on WHERE query = ?"
                    " ORDER BY score DESC, entity",
                    "SELECT rank FROM trace_supported_by WHERE query = ? ORDER BY rank",
                )
            )
        if row is None:
            return None
        return TraceMessage(
            request_id=request_id,
            session=row[0],
            query_hash=row[1],
            namespace=row[2],
            created_ms=row[3],
            retrieved=tuple({"uuid": uuid, "rank": n, "score": s} for uuid, n, s in retrieved),
            focused_on=tuple({"entity": entity, "score": score} for entity, score in focused),
            supported_by=tuple(rank for (rank,) in cited),
        )

    def remove_before(self, epoch_ms: int, deadline: Deadline) -> int:
        """Remove queries before this time with their edges; return the number of queries."""
        with self._transaction(deadline) as db:
            for edges in EDGES:
                db.execute(
                    f"DELETE FROM {edges} WHERE query IN "  # noqa: S608 - a name of ours
                    "(SELECT id FROM trace_queries WHERE at < ?)",
                    (epoch_ms,),
                )
            return db.execute("DELETE FROM trace_queries WHERE at < ?", (epoch_ms,)).rowcount

    def _transaction(self, deadline: Deadline) -> AbstractContextManager[sqlite3.Connection]:
        return transaction(self._path, TABLES, deadline.remaining(), make=False)


def _write(db: sqlite3.Connection, message: TraceMessage) -> None:
    query = message.request_id
    by_rank = {hit["rank"]: hit["uuid"] for hit in message.retrieved}
    cited = [(rank, by_rank[rank]) for rank in message.supported_by if rank in by_rank]
    insert(
        db.execute,
        "trace_queries",
        UPSERT,
        id=query,
        session=message.session,
        hash=message.query_hash,
        namespace=message.namespace,
        at=message.created_ms,
        answered=bool(cited),
    )
    for hit in message.retrieved:
        db.execute(RETRIEVED, {**hit, "query": query, "chunk": chunk_key(hit["uuid"])})
    for focus in message.focused_on:
        named = {"namespace": message.namespace, "folded": focus["entity"].casefold()}
        db.execute(FOCUSED, {**named, "query": query, "score": focus["score"]})
    for rank, uuid in cited:
        row = {"query": query, "uuid": uuid, "chunk": chunk_key(uuid), "rank": rank}
        db.execute(SUPPORTED, row)

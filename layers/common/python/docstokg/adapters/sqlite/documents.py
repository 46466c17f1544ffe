"""SQLite document register."""

# ruff: noqa: S608 - table names are constants, values are bound

import json
from collections.abc import Sequence

from docstokg.adapters.sqlite.file_store import FileStore
from docstokg.contracts.records import DocumentRecord

PAGE = 1000
_TABLES = (
    "CREATE TABLE IF NOT EXISTS index_documents (namespace TEXT NOT NULL, doc_id TEXT NOT NULL, "
    "record TEXT NOT NULL, text TEXT, PRIMARY KEY (namespace, doc_id)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS index_originals (namespace TEXT NOT NULL, doc_id TEXT NOT NULL, "
    "content BLOB NOT NULL, PRIMARY KEY (namespace, doc_id));"
)


class SqliteRegister(FileStore):
    """A `DocumentRegister`; empty without a file or before the first document."""

    tables, busy_s = _TABLES, 60.0

    def put(self, documents: Sequence[DocumentRecord]) -> None:
        """Write records, replacing by namespace and id, all or none."""
        with self._transaction() as db:
            db.executemany(
                "INSERT OR REPLACE INTO index_documents VALUES (?, ?, ?, ?)",
                [
                    (d.namespace, d.doc_id, d.model_dump_json(exclude={"text", "original"}), d.text)
                    for d in documents
                ],
            )
            db.executemany(
                "DELETE FROM index_originals WHERE namespace = ? AND doc_id = ?",
                [(d.namespace, d.doc_id) for d in documents],
            )
            db.executemany(
                "INSERT INTO index_originals VALUES (?, ?, ?)",
                [(d.namespace, d.doc_id, d.original) for d in documents if d.original],
            )

    def documents(self, namespace: str, after: str = "") -> tuple[DocumentRecord, ...]:
        """Return at most 1,000 records after the doc_id `after`, in order, without texts."""
        rows = self._rows(
            "SELECT record FROM index_documents WHERE namespace = ? AND doc_id > ? "
            "ORDER BY doc_id LIMIT ?",
            (namespace, after, PAGE),
        )
        return tuple(DocumentRecord.model_validate_json(row[0]) for row in rows)

    def find(self, namespace: str, doc_ids: Sequence[str]) -> tuple[DocumentRecord, ...]:
        """Return the records of those documents that are stored, in any order, without texts."""
        rows = self._rows(
            "SELECT record FROM index_documents WHERE namespace = ? "
            "AND doc_id IN (SELECT value FROM json_each(?))",
            (namespace, json.dumps(list(doc_ids))),
        )
        return tuple(DocumentRecord.model_validate_json(row[0]) for row in rows)

    def text(self, namespace: str, doc_id: str) -> str | None:
        """Return the converted text; None if the document is unknown or has none."""
        rows = self._rows(
            "SELECT text FROM index_documents WHERE namespace = ? AND doc_id = ?",
            (namespace, doc_id),
        )
        return rows[0][0] if rows else None

    def original(self, namespace: str, doc_id: str) -> bytes | None:
        """Return a document's original file, None if it is not stored."""
        query = "SELECT content FROM index_originals WHERE namespace = ? AND doc_id = ?"
        rows = self._rows(query, (namespace, doc_id))
        return rows[0][0] if rows else None

    def forget(self, namespace: str, doc_ids: Sequence[str] | None) -> None:
        """Remove records with texts and originals (None: all of the namespace)."""
        if not self.path.exists():
            return
        names = [(namespace, doc_id) for doc_id in doc_ids or ()]
        with self._transaction() as db:
            for table in ("index_documents", "index_originals"):
                if doc_ids is None:
                    db.execute(f"DELETE FROM {table} WHERE namespace = ?", (namespace,))
                db.executemany(f"DELETE FROM {table} WHERE namespace = ? AND doc_id = ?", names)

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces that contain documents."""
        rows = self._rows(
            "SELECT DISTINCT namespace FROM index_documents WHERE namespace <> '' ORDER BY 1"
        )
        return tuple(row[0] for row in rows)

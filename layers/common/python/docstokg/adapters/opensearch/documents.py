"""OpenSearch document register."""

import hashlib
import json
from collections.abc import Sequence
from typing import Unpack

from docstokg.adapters.opensearch.layout import Json, index_settings
from docstokg.adapters.opensearch.server import (
    Connection,
    Server,
    documents_there,
    schema_checked,
)
from docstokg.contracts.records import DocumentRecord
from docstokg.errors import WrongAnswer

PAGE = 1000
_MAPPINGS: Json = {
    "dynamic": "strict",
    "properties": {
        "namespace": {"type": "keyword"},
        "doc_id": {"type": "keyword"},
        "record": {"type": "keyword", "index": False, "doc_values": False},
        "text": {"type": "keyword", "index": False, "doc_values": False},
    },
}


class OpenSearchRegister:
    """A `DocumentRegister` in the index `NAME-documents`."""

    def __init__(self, *, name: str = "docstokg", **connection: Unpack[Connection]) -> None:
        self._index = f"{name}-documents"
        self._server = Server(**connection)

    def put(self, documents: Sequence[DocumentRecord]) -> None:
        """Write records, without originals, replacing by namespace and id.

        Raise `WrongAnswer` for a refused one.
        """
        ensure_register(self._server, self._index)
        lines: list[str] = []
        for document in documents:
            lines.append(json.dumps({"index": {"_id": _id(document.namespace, document.doc_id)}}))
            row = {
                "namespace": document.namespace,
                "doc_id": document.doc_id,
                "record": document.model_dump_json(exclude={"text", "original"}),
                "text": document.text,
            }
            lines.append(json.dumps(row))
        self._bulk(lines)

    def documents(self, namespace: str, after: str = "") -> tuple[DocumentRecord, ...]:
        """Return at most 1,000 records after the doc_id `after`, in order, without texts."""
        page = {
            "size": PAGE,
            "_source": ["record"],
            "sort": [{"doc_id": "asc"}],
            "search_after": [after],
            "query": {"bool": {"filter": [{"term": {"namespace": namespace}}]}},
        }
        answer = self._server.search(index=self._index, body=page, ignore=404)
        if not answer:
            return ()
        with schema_checked("_search"):
            rows = [hit["_source"]["record"] for hit in answer["hits"]["hits"]]
        return tuple(DocumentRecord.model_validate_json(row) for row in rows)

    def find(self, namespace: str, doc_ids: Sequence[str]) -> tuple[DocumentRecord, ...]:
        """Return the records of those documents that are stored, in order, without texts."""
        if not doc_ids:
            return ()
        body = {"docs": [{"_id": _id(namespace, d), "_source": ["record"]} for d in doc_ids]}
        answer = self._server.mget(index=self._index, body=body, ignore=404)
        if not answer:
            return ()
        rows = [doc["_source"]["record"] for doc in documents_there(answer)]
        return tuple(DocumentRecord.model_validate_json(row) for row in rows)

    def text(self, namespace: str, doc_id: str) -> str | None:
        """Return the converted text; None if the document is unknown or has none."""
        answer = self._server.get(index=self._index, id=_id(namespace, doc_id), ignore=404)
        if not answer.get("found"):
            return None
        with schema_checked("_doc"):
            text: str | None = answer["_source"]["text"]
        return text

    def original(self, namespace: str, doc_id: str) -> None:
        """Return None: files are in a bucket or the source folder."""

    def forget(self, namespace: str, doc_ids: Sequence[str] | None) -> None:
        """Remove records with their texts (None: all of the namespace)."""
        if doc_ids is None:
            query = {"query": {"bool": {"filter": [{"term": {"namespace": namespace}}]}}}
            self._server.delete_by_query(index=self._index, body=query, refresh=True, ignore=404)
        elif self._server.indices.get_mapping(index=self._index, ignore=404):
            self._bulk([json.dumps({"delete": {"_id": _id(namespace, d)}}) for d in doc_ids])

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces that contain documents."""
        counted = {"names": {"terms": {"field": "namespace", "size": PAGE}}}
        body = {"size": 0, "aggs": counted}
        answer = self._server.search(index=self._index, body=body, ignore=404)
        if not answer:
            return ()
        with schema_checked("_search"):
            names = [bucket["key"] for bucket in answer["aggregations"]["names"]["buckets"]]
        return tuple(sorted(name for name in names if name))

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _bulk(self, lines: Sequence[str]) -> None:
        if not lines:
            return
        answer = self._server.bulk(index=self._index, body="\n".join(lines), refresh=True)
        with schema_checked("_bulk"):
            outcomes = [outcome for item in answer["items"] for outcome in item.values()]
            failed = [outcome["error"] for outcome in outcomes if "error" in outcome]
        if failed:
            raise WrongAnswer(f"the register refused a document: {json.dumps(failed[0])[:300]}")


def ensure_register(server: Server, index: str) -> None:
    """Create the register's index if missing, also concurrently.

    Raise `WrongAnswer` if that fails.
    """
    if server.indices.get_mapping(index=index, ignore=404):
        return
    body = {"settings": index_settings("documents", server.shards), "mappings": _MAPPINGS}
    server.indices.create(index=index, body=body, ignore=400)
    if not server.indices.get_mapping(index=index, ignore=404):
        raise WrongAnswer(f"the index {index!r} could not be made")


def _id(namespace: str, doc_id: str) -> str:
    """OpenSearch ids have at most 512 bytes."""
    return hashlib.sha256(f"{namespace}/{doc_id}".encode()).hexdigest()

"""OpenSearch document register."""

import hashlib
import json
from collections.abc import Sequence
from functools import partial
from typing import Unpack

from docstokg.adapters.opensearch.layout import Json, index_settings
from docstokg.adapters.opensearch.server import (
    Connection,
    Server,
    documents_there,
    limited,
    schema_checked,
)
from docstokg.contracts.records import DocumentRecord
from docstokg.domain.deadline import Deadline
from docstokg.errors import WrongAnswer

PAGE = 1000
TIMEOUT_S = 120.0
REFRESH = {"refresh": "true"}
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
        self._call = limited(self._server, TIMEOUT_S, absent_is_none=True)

    def put(self, documents: Sequence[DocumentRecord]) -> None:
        """Write records, without originals, replacing by namespace and id.

        Raise `WrongAnswer` for a refused one.
        """
        ensure_register(self._server, f"/{self._index}")
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
        answer = self._call("POST", f"/{self._index}/_search", page)
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
        answer = self._call("POST", f"/{self._index}/_mget", body)
        if not answer:
            return ()
        rows = [doc["_source"]["record"] for doc in documents_there(answer)]
        return tuple(DocumentRecord.model_validate_json(row) for row in rows)

    def text(self, namespace: str, doc_id: str) -> str | None:
        """Return the converted text; None if the document is unknown or has none."""
        answer = self._call("GET", f"/{self._index}/_doc/{_id(namespace, doc_id)}")
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
            self._call("POST", f"/{self._index}/_delete_by_query", query, REFRESH)
        elif self._call("GET", f"/{self._index}/_mapping"):
            self._bulk([json.dumps({"delete": {"_id": _id(namespace, d)}}) for d in doc_ids])

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces that contain documents."""
        counted = {"names": {"terms": {"field": "namespace", "size": PAGE}}}
        answer = self._call("POST", f"/{self._index}/_search", {"size": 0, "aggs": counted})
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
        text = "\n".join(lines) + "\n"
        answer = self._server.call(
            "POST", f"/{self._index}/_bulk", text, REFRESH, deadline=Deadline.after(TIMEOUT_S)
        )
        with schema_checked("_bulk"):
            outcomes = [outcome for item in answer["items"] for outcome in item.values()]
            failed = [outcome["error"] for outcome in outcomes if "error" in outcome]
        if failed:
            raise WrongAnswer(f"the register refused a document: {json.dumps(failed[0])[:300]}")


def ensure_register(server: Server, path: str) -> None:
    """Create the register's index if missing, also concurrently.

    Raise `WrongAnswer` if that fails.
    """
    call = limited(server, TIMEOUT_S)
    mapping = partial(call, "GET", f"{path}/_mapping", absent_is_none=True)
    if mapping():
        return
    body = {"settings": index_settings("documents", server.shards), "mappings": _MAPPINGS}
    call("PUT", path, body, answered=400)
    if not mapping():
        raise WrongAnswer(f"the index {path[1:]!r} could not be made")


def _id(namespace: str, doc_id: str) -> str:
    """OpenSearch ids have at most 512 bytes."""
    return hashlib.sha256(f"{namespace}/{doc_id}".encode()).hexdigest()

"""An OpenSearch on loopback, over TLS, that lets nobody in without a right SigV4 signature.

It keeps what is written and gives it back by id; its searches hit every document in sight, best
the one that shares most words with the query. Enough for whole requests, not for relevance: the
real server is tests/services.py's.
"""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.loopback import Loopback
from tests.signatures import ALWAYS, signer_of

Json = dict[str, Any]
NO_INDEX = 404, {"status": 404, "error": {"type": "index_not_found_exception"}}
NEEDED = (*ALWAYS, "x-amz-content-sha256")
Heard = Callable[[str, str, str], None]
"""Is told who called, the method and the path, of every request with a right signature."""


class Documents:
    """Indices and their documents."""

    def __init__(self) -> None:
        self._behind: dict[str, str] = {}
        self._mappings: dict[str, Json] = {}
        self._documents: dict[str, dict[str, Json]] = {}

    def answer(self, method: str, path: str, body: str) -> tuple[int, Json]:
        """Status and answer of one request."""
        *scope, last = [unquote(part) for part in path.strip("/").split("/")]
        name = self._behind.get(scope[0], scope[0]) if scope else ""
        if not scope and last == "_msearch":
            lines = [json.loads(line) for line in body.splitlines()]
            pairs = zip(lines[::2], lines[1::2], strict=True)
            return 200, {"responses": [self._search(h["index"], b) for h, b in pairs]}
        payload: Json = json.loads(body) if body and last != "_bulk" else {}
        if scope[1:] == ["_doc"]:
            return self._document(method, name, last, payload)
        if scope[1:] == ["_create"]:
            if last in self._documents.get(name, {}):
                return 409, {"status": 409, "error": {"type": "version_conflict_engine_exception"}}
            return self._document(method, name, last, payload)
        match method, last:
            case "PUT", "_mapping":
                mapping = self._mappings[name]
                mapping.setdefault("properties", {}).update(payload.get("properties", {}))
                mapping["_meta"] = payload.get("_meta", mapping.get("_meta"))
                return 200, {"acknowledged": True}
            case "GET", "_mapping":
                if name not in self._mappings:
                    return NO_INDEX
                return 200, {name: {"mappings": self._mappings[name]}}
            case "POST", "_bulk":
                return 200, {"items": self._write(name, body)}
            case "POST", "_mget":
                if name not in self._documents:
                    return NO_INDEX
                keys = payload.get("ids") or [entry["_id"] for entry in payload["docs"]]
                return 200, {"docs": [self._stored_document(name, key) for key in keys]}
            case "POST", "_search":
                return 200, self._search(scope[0], payload)
            case "POST", "_refresh":
                return 200, {}
            case "PUT", _ if not scope:
                self._mappings[last] = payload["mappings"]
                self._documents[last] = {}
                self._behind |= dict.fromkeys(payload.get("aliases", {}), last)
                return 200, {"acknowledged": True}
        return 400, {"status": 400, "error": {"type": "unknown", "reason": f"{method} {path}"}}

    def _document(self, method: str, name: str, key: str, payload: Json) -> tuple[int, Json]:
        if name not in self._documents:
            return NO_INDEX
        documents = self._documents[name]
        if method == "GET":
            return (200 if key in documents else 404), self._stored_document(name, key)
        result = "updated" if key in documents else "created"
        if method == "DELETE":
            result = "deleted" if documents.pop(key, None) is not None else "not_found"
        else:
            documents[key] = payload
        return 200, {"_id": key, "result": result, "_seq_no": 0, "_primary_term": 1}

    def _write(self, name: str, body: str) -> list[Json]:
        lines = iter(body.splitlines())
        outcomes = []
        for line in lines:
            ((action, meta),) = json.loads(line).items()
            document = {} if action == "delete" else json.loads(next(lines))
            status, outcome = self._document(action.upper(), name, meta["_id"], document)
            outcomes.append({action: {"status": status, **outcome}})
        return outcomes

    def _stored_document(self, name: str, key: str) -> Json:
        source = self._documents[name].get(key)
        if source is None:
            return {"_id": key, "found": False}
        fields = {"shown": [source["shown"]]} if "shown" in source else {}
        stamp = {"_seq_no": 0, "_primary_term": 1}
        return {"_id": key, "found": True, "_source": source, "fields": fields, **stamp}

    def _search(self, alias: str, body: Json) -> Json:
        name = self._behind.get(alias, alias)
        query_text = json.dumps(body.get("query", {}))
        spaces = re.findall(r'"namespace": "([^"]+)"', query_text)
        doc_facets = re.findall(r'"facets": "([^"]+)"', query_text)
        words = set(re.findall(r"\w{3,}", query_text.lower()))
        visible = {
            key: source
            for key, source in self._documents.get(name, {}).items()
            if (not spaces or source["namespace"] in spaces)
            and (not doc_facets or set(doc_facets) & set(source.get("facets", ())))
            and all(_fits(source, name, wanted) for name, wanted in _ids_in(body))
        }
        hits = [_hit(key, source, words) for key, source in visible.items()]
        hits.sort(key=lambda hit: (-hit["_score"], hit["_id"]))
        if body.get("sort") == [{"doc_id": "asc"}]:
            (after,) = body["search_after"]
            hits = [hit for hit in hits if hit["_source"]["doc_id"] > after]
            hits.sort(key=lambda hit: hit["_source"]["doc_id"])
        size = body.get("size", 10)
        names = _buckets(document["namespace"] for document in visible.values())
        tokens = _buckets(t for document in visible.values() for t in document.get("tokens", ()))
        return {
            "took": 1,
            "timed_out": False,
            "_shards": {"total": 1, "failed": 0},
            "hits": {"total": {"value": len(hits)}, "hits": hits[:size]},
            "aggregations": {
                "names": {"buckets": names},
                "spaces": {"buckets": [{**bucket, "held": {"buckets": []}} for bucket in names]},
                "tokens": {"buckets": tokens},
            },
        }


def _ids_in(body: Json) -> list[tuple[str, list[str]]]:
    """Return the field and the values of a query by id."""
    clauses = body.get("query", {}).get("bool", {}).get("filter", [])
    return [
        (field, wanted)
        for clause in clauses
        for field, wanted in clause.get("terms", {}).items()
        if field in ("uuid", "evidence_uuid")
    ]


def _fits(source: Json, field: str, wanted: list[str]) -> bool:
    stored = source.get(field)
    return bool(set(stored if isinstance(stored, list) else [stored]) & set(wanted))


def _hit(key: str, source: Json, words: set[str]) -> Json:
    shared = len(words & set(re.findall(r"\w{3,}", (source.get("text") or "").lower())))
    fields = {name: [source[name]] for name in ("uuid", "compact", "doc_id") if name in source}
    score = 0.5 + shared / (2.0 * (len(words) + 1))
    return {"_id": key, "_score": score, "_source": source, "fields": fields, "sort": [key]}


def _buckets(names: Any) -> list[Json]:
    return [{"key": name, "doc_count": count} for name, count in Counter(names).items()]


class LoopbackSearch(Loopback):
    """The server; `secrets`: key id -> secret of who may sign."""

    def __init__(
        self, secrets: Mapping[str, str], certificate: tuple[Path, Path], heard: Heard
    ) -> None:
        self.documents = Documents()
        self.refused: list[str] = []
        self._secrets, self._heard, self._lock = secrets, heard, threading.Lock()
        super().__init__(self._answered, tls=certificate)

    def _answered(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, Json]:
        headers = {name.lower(): value for name, value in request.headers.items()}
        url = f"https://{headers['host']}{request.path}"
        path = request.path.partition("?")[0]
        try:
            signer = signer_of(self._secrets, "es", (request.command, url, headers, body), NEEDED)
        except ValueError as exc:
            self.refused.append(str(exc))
            return 403, {"message": str(exc)}
        self._heard(signer, request.command, path)
        plain = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        with self._lock:
            return self.documents.answer(request.command, path, plain.decode("utf-8"))

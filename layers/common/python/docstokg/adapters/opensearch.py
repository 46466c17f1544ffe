"""Chunks and facts in OpenSearch, for who outgrows the embedded index."""

import base64
import contextlib
import json
import logging
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal, Required, TypedDict, Unpack

import numpy as np
import urllib3.connection
from opensearchpy import OpenSearch, Urllib3AWSV4SignerAuth, Urllib3HttpConnection
from opensearchpy import exceptions as vendor

from docstokg.contracts.records import ChunkRecord, FactRecord, IndexInfo, Scope, StoredChunk
from docstokg.contracts.retrieval import ChannelQuery, ChannelResult, FactHit, Hit, Hydrated
from docstokg.domain.query_terms import content_words, rarity
from docstokg.domain.vectors import pack, quantise, unpack
from docstokg.domain.visibility import facets, may_see, required
from docstokg.errors import (
    DocsToKGError,
    Misconfigured,
    QuotaExceeded,
    Timeout,
    Unavailable,
    WrongAnswer,
)
from docstokg.observability import Telemetry

Auth = Literal["basic", "sigv4-es", "sigv4-aoss"]
Json = dict[str, Any]

TEMPLATE_VERSION = 2
"""2: titles count three times, tokens can be counted, what is read is stored in one field."""

CONNECTIONS = 8
MAX_CLAUSES = 400  # the server allows 1,024 in all; the exact sub-field doubles the words
MAX_TOKENS = 900
EXACT_BOOST = 0.1
MIN_CANDIDATES = 100  # HNSW looks at this many even when fewer hits are wanted
CHILD_SHARE = 0.9  # a child stops before the client does, so that the others are still heard
LOAD_TIMEOUT_S = 120.0
BULK_BYTES = 4_000_000
BULK_TRIES = 6
BULK_ANSWER = "items.*._id,items.*.status,items.*.result,items.*.error"
PAGE = 1000
MAX_NAMESPACES = 1000
MAX_COUNTED = 60_000  # the server allows 65,535 buckets; the rarest tokens beyond count as new
WARM_UP_S = 20.0
WARM_SIZE = 80
INFO_TTL_S = 10.0
for name in ("opensearch", "urllib3"):
    logging.getLogger(name).addHandler(logging.NullHandler())  # what they tell is raised as well

# The most specific vendor error wins; `ConnectionTimeout` is a `ConnectionError` there.
TRANSLATION: tuple[tuple[type[Exception], type[DocsToKGError], str], ...] = (
    (vendor.ConnectionTimeout, Timeout, "did not answer in time"),
    (vendor.ConnectionError, Unavailable, "could not be reached, or broke off"),
    (vendor.AuthenticationException, Misconfigured, "refused the credentials"),
    (vendor.AuthorizationException, Misconfigured, "does not allow this with these credentials"),
    (vendor.SerializationError, WrongAnswer, "sent something that is not JSON"),
)


class Connection(TypedDict, total=False):
    """Where a server is and how it wants to be spoken to; readers and writers take the same.

    `region`: for SigV4, else the session's. `ca_file`: PEM of a private certificate maker.
    """

    url: Required[str]
    auth: Auth
    user: str | None
    password: str | None
    region: str | None
    ca_file: str | None


class OpenSearchIndex:
    """The reading side: one `_msearch` to search, one `_mget` to hydrate."""

    def __init__(
        self,
        *,
        name: str = "docstokg",
        telemetry: Telemetry | None = None,
        info_ttl_s: float = INFO_TTL_S,
        **connection: Unpack[Connection],
    ) -> None:
        self._name = name
        self._telemetry = telemetry or Telemetry()
        self._server = _Server(**connection)
        self._info_ttl_s = info_ttl_s
        self._info: tuple[float, IndexInfo] | None = None
        self._rarity = Rarity()

    def warm(self, timeout_s: float = WARM_UP_S) -> None:
        """Open a connection and run each kind of search once: a server's first calls are slow."""
        until = time.monotonic() + timeout_s
        info = self.info(timeout_s)
        if not info.chunks:
            return
        queries = [
            ChannelQuery(channel="bm25", size=WARM_SIZE, text="warm up"),
            ChannelQuery(channel="splade", size=WARM_SIZE, weights={"warm": 1.0, "up": 1.0}),
            ChannelQuery(channel="facts", size=WARM_SIZE, text="warm up"),
        ]
        if info.dimension:
            level = pack([1.0] * info.dimension)
            queries.append(ChannelQuery(channel="dense", size=WARM_SIZE, vector=level))
        for namespace in info.namespaces[:1]:
            scope = Scope(namespace=namespace)
            self.search(queries, scope, max(0.0, until - time.monotonic()))

    def search(
        self, queries: Sequence[ChannelQuery], scope: Scope, timeout_s: float
    ) -> tuple[ChannelResult, ...]:
        """Send one child per query; see the port."""
        if not queries:
            return ()
        child_ms = max(1, int(timeout_s * CHILD_SHARE * 1000))
        lines: list[str] = []
        for query in queries:
            alias = facts_alias(self._name) if query.channel == "facts" else self._name
            header = {"index": alias, "cancel_after_time_interval": f"{child_ms}ms"}
            lines += [json.dumps(header), _child(query, scope, child_ms, self._rarity)]
        with self._telemetry.span("index.search", children=len(queries)):
            answer = self._server.call(
                "POST", "/_msearch", timeout_s=timeout_s, body="\n".join(lines) + "\n"
            )
            with _schema_checked("_msearch"):
                children = answer["responses"]
                if len(children) != len(queries):
                    raise WrongAnswer(
                        f"_msearch of {len(queries)} children gave {len(children)} answers"
                    )
                return tuple(_result(q, child) for q, child in zip(queries, children, strict=True))

    def get(self, uuids: Sequence[str], scope: Scope, timeout_s: float) -> Hydrated:
        """Read by id; visibility is checked here, with the same rule that searches use."""
        wanted = list(dict.fromkeys(uuids))
        if not wanted:
            return Hydrated()
        with self._telemetry.span("index.get", chunks=len(wanted)):
            answer = self._server.call(
                "POST",
                f"/{self._name}/_mget",
                timeout_s=timeout_s,
                params={"_source": "false", "stored_fields": "shown"},
                body=json.dumps({"ids": wanted}),
            )
        groups = required(scope.filter)
        chunks: dict[str, StoredChunk] = {}
        missing: list[str] = []
        failed: list[str] = []
        with _schema_checked("_mget"):
            for found in answer["docs"]:
                if "error" in found:
                    failed.append(found["_id"])
                elif found["found"] and _visible_to(
                    shown := json.loads(found["fields"]["shown"][0]), scope, groups
                ):
                    chunks[found["_id"]] = _stored(found["_id"], shown)
                else:
                    missing.append(found["_id"])
        unanswered = set(wanted) - chunks.keys() - set(missing) - set(failed)
        failed += sorted(unanswered)
        return Hydrated(chunks=chunks, missing=tuple(missing), failed=tuple(failed))

    def info(self, timeout_s: float) -> IndexInfo:
        """Read the counts and what `open_load` noted; an index not made yet is an empty one.

        Every request asks for the model: an answer is kept `info_ttl_s` when it names one and no
        load is open, so that requests stay at one round trip. What tokens are worth is read anew
        when another load was finished.
        """
        until = time.monotonic() + timeout_s
        kept = self._info
        if kept is not None and time.monotonic() - kept[0] < self._info_ttl_s:
            return kept[1]
        self._info = None
        noted = _noted(self._server, self._name, timeout_s)
        if noted is None:
            return IndexInfo()
        spaces = {"spaces": {"terms": {"field": "namespace", "size": MAX_NAMESPACES}}}
        count = {"size": 0, "track_total_hits": True, "aggs": spaces}
        body = "".join(
            f"{json.dumps({'index': alias})}\n{json.dumps(count)}\n"
            for alias in (self._name, facts_alias(self._name))
        )
        left = max(0.001, until - time.monotonic())
        answer = self._server.call("POST", "/_msearch", timeout_s=left, body=body)
        with _schema_checked("_msearch"):
            chunks, facts = (child["hits"]["total"]["value"] for child in answer["responses"])
            buckets = answer["responses"][0]["aggregations"]["spaces"]["buckets"]
            namespaces = tuple(sorted(bucket["key"] for bucket in buckets))
        info = IndexInfo(
            embedding_model=noted.get("embedding_model"),
            dimension=noted.get("dimension"),
            sparse_model=noted.get("sparse_model"),
            chunks=chunks,
            facts=facts,
            unfinished_load=noted.get("unfinished_load") is not None,
            namespaces=namespaces,
        )
        if not info.unfinished_load:
            self._count_tokens(noted.get("finished"), chunks, until - time.monotonic())
            if info.embedding_model is not None:
                self._info = (time.monotonic(), info)
        return info

    def _count_tokens(self, load: str | None, chunks: int, timeout_s: float) -> None:
        """Read how many chunks hold each token; without the counts every token is worth 1."""
        if load is None or load == self._rarity.load:
            return
        tokens = {"terms": {"field": "tokens", "size": MAX_COUNTED}}
        try:
            answer = self._server.call(
                "POST",
                f"/{self._name}/_search",
                timeout_s=timeout_s,
                body=json.dumps({"size": 0, "aggs": {"tokens": tokens}}),
                params={"filter_path": "aggregations.tokens.buckets"},
            )
            with _schema_checked("_search"):
                buckets = answer.get("aggregations", {}).get("tokens", {}).get("buckets", [])
                holders = {bucket["key"]: bucket["doc_count"] for bucket in buckets}
        except DocsToKGError as exc:
            self._telemetry.log("WARNING", "tokens_not_counted", error=str(exc))
            return
        self._rarity = Rarity(load, chunks, holders)

    def close(self) -> None:
        """Give the connections back."""
        self._server.close()


class OpenSearchWriter:
    """The loading side; whole chunks in bulk, made searchable by `close_load`."""

    def __init__(
        self,
        *,
        name: str = "docstokg",
        telemetry: Telemetry | None = None,
        **connection: Unpack[Connection],
    ) -> None:
        self._name = name
        self._telemetry = telemetry or Telemetry()
        self._server = _Server(**connection)
        self._stale = True  # what was put may not be searchable yet

    def open_load(
        self,
        run_id: str,
        embedding_model: str | None,
        dimension: int | None,
        sparse_model: str | None,
    ) -> None:
        """Make the indices when absent, note the load and the vector space; see the port."""
        noted = _noted(self._server, self._name, LOAD_TIMEOUT_S)
        if noted is None:
            noted = {"docstokg": TEMPLATE_VERSION, "unfinished_load": run_id}
            if embedding_model and dimension:
                noted |= {"embedding_model": embedding_model, "dimension": dimension}
            noted["sparse_model"] = sparse_model
            for kind, alias in self._aliases():
                self._create(_physical(self._name, kind, 1), kind, noted, alias)
            return
        self._check_layout(noted)
        stored = noted.get("embedding_model")
        space = (stored, noted.get("dimension"))
        if embedding_model and stored and (embedding_model, dimension) != space:
            raise Misconfigured(
                f"index {self._name!r} holds vectors of {stored!r} with {noted.get('dimension')} "
                f"components, not of {embedding_model!r} with {dimension}; load with that model, "
                f"or into another DOCSTOKG_INDEX_NAME"
            )
        if embedding_model and dimension and not stored:
            field = {"properties": {"vector": {**_template()["vector"], "dimension": dimension}}}
            for _, alias in self._aliases():
                self._call("PUT", f"/{alias}/_mapping", field)
            noted |= {"embedding_model": embedding_model, "dimension": dimension}
        noted["sparse_model"] = sparse_model or noted.get("sparse_model")
        self._note(noted | {"unfinished_load": run_id})

    def known(self, namespace: str, uuids: Sequence[str]) -> dict[str, str]:
        """Read fingerprints by id; see the port."""
        found: dict[str, str] = {}
        for start in range(0, len(uuids), PAGE):
            answer = self._call(
                "POST",
                f"/{self._name}/_mget",
                {"ids": list(uuids[start : start + PAGE])},
                {"_source_includes": "namespace,fingerprint"},
            )
            with _schema_checked("_mget"):
                for chunk in answer["docs"]:
                    if chunk.get("found") and chunk["_source"]["namespace"] == namespace:
                        found[chunk["_id"]] = chunk["_source"]["fingerprint"]
        return found

    def put(self, chunks: Sequence[tuple[ChunkRecord, str]]) -> None:
        """Write chunks in bulk.

        When the server refuses one for good, those this call created are removed again and the
        error is raised; each chunk is written whole or not at all.
        """
        self._bulk(
            self._name,
            ((chunk.uuid, _chunk_document(chunk, fingerprint)) for chunk, fingerprint in chunks),
        )

    def put_facts(self, facts: Sequence[FactRecord]) -> None:
        """Write facts in bulk, with the same promise as `put`."""
        self._bulk(
            facts_alias(self._name),
            ((_fact_id(fact.namespace, fact.id), _fact_document(fact)) for fact in facts),
        )

    def doc_uuids(self, namespace: str, doc_id: str) -> tuple[str, ...]:
        """List the chunks of one document, sorted."""
        terms = {"namespace": namespace, "facets": _doc_facet(doc_id)}
        return tuple(hit["_id"] for hit in self._scan(self._name, terms, "uuid", False))

    def delete(self, namespace: str, uuids: Sequence[str] | None) -> int:
        """Remove facts before their chunks, so that a kill leaves no fact without its chunk."""
        facts = facts_alias(self._name)
        if uuids is None:
            everything = {"namespace": namespace}
            self._remove(facts, self._ids(facts, everything, "id"))
            return self._remove(self._name, self._ids(self._name, everything, "uuid"))
        removed = 0
        for start in range(0, len(uuids), PAGE):
            some = list(uuids[start : start + PAGE])
            stated = self._ids(facts, {"namespace": namespace, "evidence_uuid": some}, "id")
            self._remove(facts, stated)
            own = self._ids(self._name, {"namespace": namespace, "uuid": some}, "uuid")
            removed += self._remove(self._name, own)
        return removed

    def delete_facts(self, namespace: str, ids: Sequence[str]) -> int:
        """Remove facts by id; count them."""
        return self._remove(facts_alias(self._name), [_fact_id(namespace, name) for name in ids])

    def close_load(self) -> None:
        """Refresh, so that all is searchable; every bulk was already made durable."""
        self._refresh()
        noted = _noted(self._server, self._name, LOAD_TIMEOUT_S)
        if noted is not None:
            self._note(noted | {"unfinished_load": None, "finished": secrets.token_hex(8)})

    def digest_rows(self, namespace: str) -> Iterator[str]:
        """Yield one canonical line per chunk and fact, sorted."""
        yield from sorted(self._digest_lines(namespace))

    def _digest_lines(self, namespace: str) -> Iterator[str]:
        terms = {"namespace": namespace}
        for hit in self._scan(self._name, terms, "uuid", ["fingerprint"]):
            yield json.dumps(["chunk", hit["_id"], hit["_source"]["fingerprint"]])
        fields = ["id", "text", "acl", "doc_id", "evidence_uuid", "rest"]
        for hit in self._scan(facts_alias(self._name), terms, "id", fields):
            row = [hit["_source"].get(field) for field in fields]
            yield json.dumps(["fact", *row], sort_keys=True, ensure_ascii=False)

    def rebuild(self) -> tuple[str, str]:
        """Copy both indices into fresh ones of the current template and swap the aliases.

        Readers notice nothing: the alias moves in one step. Nothing may be loading meanwhile.
        Returns the names of the new indices.
        """
        noted = _noted(self._server, self._name, LOAD_TIMEOUT_S)
        if noted is not None:
            self._check_layout(noted)
        if noted is None or noted.get("unfinished_load") is not None:
            raise Misconfigured(f"index {self._name!r} is absent, or a load is open or unfinished")
        self._refresh()
        swap: list[Json] = []
        fresh: list[str] = []
        for kind, alias in self._aliases():
            old = _behind(self._call("GET", f"/{alias}/_mapping"))
            number = int(old.rpartition("-")[2]) + 1
            new = _physical(self._name, kind, number)
            self._call("DELETE", f"/{new}", params={"ignore_unavailable": "true"})
            self._create(new, kind, noted | {"docstokg": TEMPLATE_VERSION}, None)
            self._copy(old, new)
            fresh.append(new)
            swap += [{"add": {"index": new, "alias": alias}}, {"remove_index": {"index": old}}]
        self._call("POST", "/_aliases", {"actions": swap})
        return fresh[0], fresh[1]

    def close(self) -> None:
        """Give the connections back."""
        self._server.close()

    def _check_layout(self, noted: Json) -> None:
        if noted["docstokg"] != TEMPLATE_VERSION:
            raise Misconfigured(
                f"index {self._name!r} has layout {noted['docstokg']}, this version writes layout "
                f"{TEMPLATE_VERSION}: load into another DOCSTOKG_INDEX_NAME"
            )

    def _aliases(self) -> tuple[tuple[str, str], tuple[str, str]]:
        return ("chunks", self._name), ("facts", facts_alias(self._name))

    def _call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Json:
        text = None if body is None else json.dumps(body)
        return self._server.call(method, path, timeout_s=LOAD_TIMEOUT_S, body=text, params=params)

    def _create(self, index: str, kind: str, noted: Json, alias: str | None) -> None:
        chosen = _template()[kind]
        mappings = {**chosen["mappings"], "_meta": noted}
        if dimension := noted.get("dimension"):
            vector = {**_template()["vector"], "dimension": dimension}
            mappings["properties"] = {**mappings["properties"], "vector": vector}
        body = {"settings": chosen["settings"], "mappings": mappings}
        if alias:
            body["aliases"] = {alias: {}}
        self._call("PUT", f"/{index}", body)

    def _note(self, noted: Json) -> None:
        self._call("PUT", f"/{self._name}/_mapping", {"_meta": noted})

    def _copy(self, old: str, new: str) -> None:
        task = self._call(
            "POST",
            "/_reindex",
            {"source": {"index": old}, "dest": {"index": new}},
            {"wait_for_completion": "false", "refresh": "true"},
        )["task"]
        while not (seen := self._call("GET", f"/_tasks/{task}"))["completed"]:
            time.sleep(0.2)
        if problem := seen.get("error") or seen["response"]["failures"]:
            raise WrongAnswer(f"copying {old} to {new} failed: {json.dumps(problem)[:300]}")

    def _refresh(self) -> None:
        for _, alias in self._aliases():
            self._call("POST", f"/{alias}/_refresh")
        self._stale = False

    def _ids(self, alias: str, terms: Mapping[str, object], key: str) -> list[str]:
        return [hit["_id"] for hit in self._scan(alias, terms, key, False)]

    def _scan(
        self, alias: str, terms: Mapping[str, object], key: str, source: list[str] | Literal[False]
    ) -> Iterator[Json]:
        """Yield every hit in the order of `key`, a page at a time."""
        if self._stale:
            self._refresh()
        exact = [
            {"terms" if isinstance(value, list) else "term": {field: value}}
            for field, value in terms.items()
        ]
        body: Json = {
            "size": PAGE,
            "_source": source,
            "track_total_hits": False,
            "sort": [{key: "asc"}],
            "query": {"bool": {"filter": exact}},
        }
        while True:
            answer = self._call("POST", f"/{alias}/_search", body)
            with _schema_checked("_search"):
                hits = answer["hits"]["hits"]
                if answer["timed_out"] or answer["_shards"]["failed"]:
                    raise Unavailable(f"only a part of index {alias!r} could be read")
            yield from hits
            if len(hits) < PAGE:
                return
            body["search_after"] = hits[-1]["sort"]

    def _remove(self, alias: str, ids: Sequence[str]) -> int:
        removed = self._bulk(alias, ((name, None) for name in ids))
        if ids:
            self._refresh()
        return removed

    def _bulk(self, alias: str, documents: Iterable[tuple[str, str | None]]) -> int:
        """Index (a document) or delete (None) by id; count what was made, replaced or removed."""
        self._stale = True
        done = 0
        created: list[str] = []
        batch: list[tuple[str, str | None]] = []
        size = 0
        try:
            for name, document in documents:
                batch.append((name, document))
                size += len(document or "")
                if size >= BULK_BYTES:
                    done += self._send(alias, batch, created)
                    batch, size = [], 0
            return done + (self._send(alias, batch, created) if batch else 0)
        except DocsToKGError:
            with contextlib.suppress(DocsToKGError):  # the first error is the one to report
                if created:
                    self._send(alias, [(name, None) for name in created], [])
            raise

    def _send(self, alias: str, batch: Sequence[tuple[str, str | None]], created: list[str]) -> int:
        done = 0
        left = dict(batch)
        busy: Json = {}
        for attempt in range(BULK_TRIES):
            if attempt:
                time.sleep(0.2 * 2**attempt)
            lines = []
            for name, document in left.items():
                action = "delete" if document is None else "index"
                lines.append(json.dumps({action: {"_id": name}}))
                lines += [] if document is None else [document]
            try:
                answer = self._server.call(
                    "POST",
                    f"/{alias}/_bulk",
                    timeout_s=LOAD_TIMEOUT_S,
                    body="\n".join(lines) + "\n",
                    params={"filter_path": BULK_ANSWER},
                )
            except QuotaExceeded:  # the whole of it: the server is short of memory
                if attempt == BULK_TRIES - 1:
                    raise
                continue
            busy = {}
            refusals: list[DocsToKGError] = []
            with _schema_checked("_bulk"):
                for item in answer["items"]:
                    (outcome,) = item.values()
                    name, status = outcome["_id"], outcome["status"]
                    if status in (429, 503) and not _blocked(outcome):
                        busy[name] = outcome.get("error", {})
                        continue
                    document = left.pop(name)
                    if "error" in outcome:
                        refusals.append(_refusal(alias, name, status, outcome["error"]))
                        continue
                    if outcome["result"] == "created":
                        created.append(name)
                    done += document is not None or outcome["result"] == "deleted"
            if refusals:  # only now is it known what else of this batch was created
                raise refusals[0]
            if not left:
                return done
        name = next(iter(busy))
        error: Json = busy[name]
        raise QuotaExceeded(
            f"index {alias!r} put off {len(left)} documents {BULK_TRIES} times, {name!r} for "
            f"{error.get('type')}: {str(error.get('reason'))[:200]}"
        )


def facts_alias(name: str) -> str:
    """Name the alias of the facts that belong to a chunk index."""
    return f"{name}-facts"


# --- what is asked ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rarity:
    """How many chunks hold each token after `load`; an encoder never saw the texts of an index.

    Counted over the whole index, as the server counts words: see docs/decisions/real-stores.md.
    """

    load: str | None = None
    chunks: int = 0
    holders: Mapping[str, int] = field(default_factory=dict)

    def weighed(self, weights: Mapping[str, float]) -> list[tuple[str, float]]:
        """Give the positive weights times `rarity`, heaviest first."""
        found = {token: weight for token, weight in weights.items() if weight > 0}
        if self.holders:
            found = {
                token: weight * rarity(self.holders.get(_token(token), 0), self.chunks)
                for token, weight in found.items()
            }
        return sorted(found.items(), key=lambda item: (-item[1], item[0]))[:MAX_TOKENS]


def _child(query: ChannelQuery, scope: Scope, child_ms: int, known: Rarity) -> str:
    facts = query.channel == "facts"
    body: Json = {
        "size": query.size,
        "track_total_hits": False,
        "timeout": f"{child_ms}ms",
        "sort": [{"_score": "desc"}, {"id" if facts else "uuid": "asc"}],
    }
    if facts:
        body["_source"] = ["id", "evidence_uuid", "rest"]
    else:  # a hit's stored fields, its id among them, lie in blocks that cost more than the search
        body |= {"stored_fields": "_none_", "docvalue_fields": ["uuid", "compact"]}
    visible = _visible(scope, facts=facts)
    if query.channel == "dense" or (facts and not query.text and query.vector):
        body["query"] = {
            "knn": {
                "vector": {
                    "vector": _numbers(query.vector or b""),
                    "k": max(query.size, MIN_CANDIDATES),
                    "filter": {"bool": {"filter": visible}},
                }
            }
        }
        return json.dumps(body)
    if query.channel == "splade":
        asked: list[Json] = [
            {"rank_feature": {"field": f"sparse.{_token(token)}", "linear": {}, "boost": weight}}
            for token, weight in known.weighed(query.weights)
        ]
    elif facts:
        asked = [{"match": {"text": _words(query.text)}}]
    else:
        words = _words(query.text)
        asked = [
            {"match": {"body": words}},
            {"match": {"body.exact": {"query": words, "boost": EXACT_BOOST}}},
        ]
        # A stop word alone is no hit: the analysed words decide what matches.
        body["query"] = {"bool": {"must": asked[:1], "should": asked[1:], "filter": visible}}
        return json.dumps(body)
    body["query"] = {
        "bool": {"should": asked, "minimum_should_match": 1, "filter": visible}
        if asked
        else {"must_not": {"match_all": {}}}
    }
    return json.dumps(body)


def _visible(scope: Scope, *, facts: bool) -> list[Json]:
    """Namespace, acl and, for chunks, the request's filter, as filter clauses."""
    clauses: list[Json] = [{"term": {"namespace": scope.namespace}}]
    if scope.groups is not None:
        free: Json = {"bool": {"must_not": {"exists": {"field": "acl"}}}}
        shared: Json = {"terms": {"acl": list(scope.groups)}}
        clauses.append({"bool": {"should": [free, shared], "minimum_should_match": 1}})
    if scope.doc_ids is not None:
        clauses.append({"terms": {"doc_id": list(scope.doc_ids)}})
    if not facts:  # a fact is a place to start from, not a citation: what it leads to is filtered
        clauses += [{"terms": {"facets": list(group)}} for group in required(scope.filter)]
    return clauses


def _words(text: str) -> str:
    """Give the words both stores search for, as many as the server's clause limit allows.

    Ideographs count one by one, as the server's analyser cuts them.
    """
    text = " ".join(content_words(text))
    budget = MAX_CLAUSES
    for match in re.finditer(r"[^\W_]+", text):
        word = match.group()
        cost = 1 if word.isascii() else len(word)
        if cost > budget:
            return text[: match.start() + (budget if cost > 1 else 0)]
        budget -= cost
    return text


def _token(token: str) -> str:
    """Escape what a feature name may not hold: a dot would silently never match."""
    return token.replace("%", "%25").replace(".", "%2E") or "%00"


def _numbers(vector: bytes) -> list[float]:
    return [float(f"{value:.7g}") for value in unpack(vector).tolist()]


# --- what is answered -------------------------------------------------------------------------


def _result(query: ChannelQuery, child: Json) -> ChannelResult:
    if "error" in child:
        late = "cancel" in json.dumps(child["error"]) or child.get("status") in (408, 504)
        return ChannelResult(channel=query.channel, failure="timeout" if late else "unavailable")
    partial = bool(child["timed_out"]) or child["_shards"]["failed"] > 0
    found = child["hits"]["hits"]
    if query.channel == "facts":
        facts = tuple(
            FactHit(
                id=hit["_source"]["id"],
                score=hit["_score"],
                source=hit["_source"]["rest"]["source"],
                type=hit["_source"]["rest"]["type"],
                target=hit["_source"]["rest"]["target"],
                evidence_uuid=hit["_source"].get("evidence_uuid"),
            )
            for hit in found
        )
        return ChannelResult(
            channel="facts", facts=facts, took_ms=float(child["took"]), partial=partial
        )
    cosine = query.channel == "dense"
    hits = [
        Hit(
            uuid=hit["fields"]["uuid"][0],
            # k-NN scores are (1 + cosine) / 2; the port speaks of cosines
            score=2.0 * hit["_score"] - 1.0 if cosine else hit["_score"],
            vector=_compact(hit["fields"].get("compact", [None])[0]),
        )
        for hit in found
    ]
    return ChannelResult(
        channel=query.channel, hits=tuple(hits), took_ms=float(child["took"]), partial=partial
    )


def _compact(text: str | None) -> bytes | None:
    """Decode base64; doc values come back without padding."""
    return None if text is None else base64.b64decode(text + "=" * (-len(text) % 4))


def _visible_to(source: Json, scope: Scope, groups: Sequence[Sequence[str]]) -> bool:
    own = set(source.get("facets", ()))
    return (
        source["namespace"] == scope.namespace
        and may_see(source.get("acl", ()), scope.groups)
        and (scope.doc_ids is None or source["doc_id"] in scope.doc_ids)
        and all(not own.isdisjoint(group) for group in groups)
    )


def _stored(uuid: str, shown: Json) -> StoredChunk:
    return StoredChunk(
        uuid=uuid,
        chunk_id=shown["chunk_id"],
        doc_id=shown["doc_id"],
        text=shown["text"],
        text_sha256=shown["text_sha256"],
        title=shown["title"],
        document_name=shown["document_name"],
        page=shown["page"],
        section=shown["section"],
        uri=shown["uri"],
        anchor=shown["anchor"],
        char_start=shown["char_start"],
        topics=tuple(shown["topics"]),
        sentences=tuple((start, end) for start, end in shown["sentences"]),
        vector=_compact(shown["compact"]),
        run_id=shown["run_id"],
        acl=tuple(shown["acl"]),
    )


# --- what is written --------------------------------------------------------------------------


def _chunk_document(chunk: ChunkRecord, fingerprint: str) -> str:
    """Give a chunk as it is searched and, in one stored field, as it is read.

    The server would take a chunk's whole source apart to give a part of it: its vector and its
    tokens are ten times what a reader wants.
    """
    sparse = {_token(token): weight for token, weight in chunk.sparse.items() if weight > 0}
    names = {
        "doc_id": chunk.doc_id,
        "document_name": chunk.document_name,
        "section": chunk.section,
    }
    both: Json = {
        "namespace": chunk.namespace,
        "acl": list(chunk.acl),
        "facets": list(facets(names, chunk.topics, chunk.metadata)),
        "topics": list(chunk.topics),
        "chunk_id": chunk.chunk_id,
        "title": chunk.title,
        "text": chunk.text,
        "run_id": chunk.run_id,
        **names,
        **_vector_fields(chunk.vector, compact=True),
    }
    vector = both.pop("vector", None)
    shown = {
        "compact": None,
        **both,
        "text_sha256": chunk.text_sha256,
        "page": chunk.page,
        "uri": chunk.uri,
        "anchor": chunk.anchor,
        "char_start": chunk.char_start,
        "sentences": chunk.sentences,
    }
    searched = {
        **both,
        **({} if vector is None else {"vector": vector}),
        "uuid": chunk.uuid,
        "sparse": sparse,
        "tokens": list(sparse),
        "fingerprint": fingerprint,
        "metadata": chunk.metadata,
        "shown": json.dumps(shown, allow_nan=False),
    }
    return json.dumps(searched, allow_nan=False)


def _fact_document(fact: FactRecord) -> str:
    document = {
        "id": fact.id,
        "namespace": fact.namespace,
        "acl": list(fact.acl),
        "doc_id": fact.doc_id,
        "evidence_uuid": fact.evidence_uuid,
        "text": fact.text,
        "rest": {"source": fact.source, "type": fact.type, "target": fact.target},
        **_vector_fields(fact.vector, compact=False),
    }
    return json.dumps(document, allow_nan=False)


def _vector_fields(vector: bytes | None, *, compact: bool) -> Json:
    """Give the vector with 7 digits, all a float32 holds; a zero vector has no direction."""
    if vector is None or not np.any(unpack(vector)):
        return {}
    found: Json = {"vector": _numbers(vector)}
    if compact:
        found["compact"] = base64.b64encode(quantise(vector)).decode("ascii")
    return found


def _fact_id(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def _doc_facet(doc_id: str) -> str:
    ((found,),) = required({"doc_id": (doc_id,)})
    return found


def _blocked(outcome: Json) -> bool:
    return bool(outcome.get("error", {}).get("type") == "cluster_block_exception")


def _refusal(alias: str, name: str, status: int, error: Json) -> DocsToKGError:
    told = f"{error.get('type')}: {str(error.get('reason'))[:200]}"
    if error.get("type") == "cluster_block_exception":
        return Unavailable(f"index {alias!r} takes no writes now ({told})")
    return WrongAnswer(f"index {alias!r} refused {name!r} with {status}, {told}")


def _template() -> Json:
    text = resources.files(__package__).joinpath(f"opensearch_index.v{TEMPLATE_VERSION}.json")
    loaded: Json = json.loads(text.read_text("utf-8"))
    return loaded


def _physical(name: str, kind: str, number: int) -> str:
    return f"{name}-{kind}-v{TEMPLATE_VERSION}-{number:06d}"


def _behind(mapping: Json) -> str:
    """Name the one index behind an alias."""
    if len(mapping) != 1:
        raise Misconfigured(f"one alias stands for several indices: {', '.join(sorted(mapping))}")
    return str(next(iter(mapping)))


def _noted(server: "_Server", name: str, timeout_s: float) -> Json | None:
    """Read what we noted in the mapping; None when the index does not exist.

    Raises `Misconfigured` for an index that is not ours, so that it is never touched.
    """
    answer = server.call("GET", f"/{name}/_mapping", timeout_s=timeout_s, absent_is_none=True)
    if not answer:
        return None
    with _schema_checked("_mapping"):
        noted: Json = answer[_behind(answer)]["mappings"].get("_meta", {})
    if noted.get("docstokg") is None:
        raise Misconfigured(f"index {name!r} was not made by DocsToKG; choose another name")
    return noted


@contextlib.contextmanager
def _schema_checked(what: str) -> Iterator[None]:
    """Turn an answer of another shape into `WrongAnswer`."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as exc:
        raise WrongAnswer(f"OpenSearch answered {what} in an unknown shape: {exc!r}") from exc


# --- the wire ---------------------------------------------------------------------------------


class _Server:
    """One OpenSearch address; every call ends at its total limit, whatever the server sends.

    The vendor's own limit is between two bytes, so a dripping answer would never end. Calls run
    in a worker; when the limit passes, the socket in use is shut down, which ends the worker too.
    """

    def __init__(self, **at: Unpack[Connection]) -> None:
        self._client = OpenSearch(
            hosts=[at["url"]],
            http_auth=_credentials(at),
            connection_class=_AbortableConnection,
            pool_maxsize=CONNECTIONS,
            max_retries=0,
            http_compress=at["url"].startswith("https"),
            ca_certs=at.get("ca_file"),
        )
        self._workers = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="opensearch")

    def call(
        self,
        method: str,
        path: str,
        *,
        timeout_s: float,
        body: str | None = None,
        params: Mapping[str, str] | None = None,
        absent_is_none: bool = False,
    ) -> Json:
        """Make one request and give the JSON object; `{}` for a 404 when that is an answer."""
        if timeout_s <= 0:
            raise Timeout("no time left to ask OpenSearch")
        line = _Line()
        asked_for: Json = dict(params or {})
        if absent_is_none:
            asked_for["ignore"] = 404
        asked: Future[Any] = self._workers.submit(
            self._perform, line, method, path, body, asked_for, timeout_s
        )
        try:
            answer = asked.result(timeout_s)
        except FutureTimeout:
            asked.cancel()
            line.cut()
            raise Timeout(f"OpenSearch did not answer in {timeout_s:.3f} s") from None
        except vendor.TransportError as exc:
            raise _translated(exc) from exc
        except vendor.OpenSearchException as exc:
            raise _translated(exc) from exc
        if not isinstance(answer, dict):
            raise WrongAnswer(f"OpenSearch answered {path} with something that is no object")
        return {} if absent_is_none and answer.get("status") == 404 else answer

    def _perform(
        self,
        line: "_Line",
        method: str,
        path: str,
        body: str | None,
        params: Json,
        timeout_s: float,
    ) -> object:
        _current.line = line
        try:
            found: object = self._client.transport.perform_request(
                method,
                path,
                params={**params, "request_timeout": timeout_s},
                body=None if body is None else body.encode("utf-8"),
            )
            return found
        finally:
            _current.line = None

    def close(self) -> None:
        self._workers.shutdown(wait=False, cancel_futures=True)
        self._client.close()


class _Line:
    """The socket one call uses, so that another thread can cut it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_cut = False

    def uses(self, sock: socket.socket | None) -> None:
        with self._lock:
            self._socket = sock
            if self._is_cut:
                self._shut()

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


_current = threading.local()  # the `_Line` of the call that runs in this worker


def _announce(sock: socket.socket | None) -> None:
    line: _Line | None = getattr(_current, "line", None)
    if line is not None:
        line.uses(sock)


class _PlainConnection(urllib3.connection.HTTPConnection):
    """Says which socket it uses: when new, and when taken from the pool."""

    def connect(self) -> None:
        super().connect()
        _announce(self.sock)

    def request(self, *arguments: Any, **named: Any) -> None:
        _announce(self.sock)
        super().request(*arguments, **named)


class _TlsConnection(urllib3.connection.HTTPSConnection):
    """The same over TLS."""

    def connect(self) -> None:
        super().connect()
        _announce(self.sock)

    def request(self, *arguments: Any, **named: Any) -> None:
        _announce(self.sock)
        super().request(*arguments, **named)


class _AbortableConnection(Urllib3HttpConnection):  # type: ignore[misc]
    """The vendor's connection over sockets that can be cut."""

    def _create_urllib3_pool(self) -> None:
        super()._create_urllib3_pool()
        self.pool.ConnectionCls = _TlsConnection if self.use_ssl else _PlainConnection


def _credentials(at: Connection) -> object | None:
    auth = at.get("auth", "basic")
    if auth == "basic":
        user = at.get("user")
        return (user, at.get("password") or "") if user else None
    import boto3  # only signed deployments carry it

    session = boto3.Session(region_name=at.get("region"))
    found = session.get_credentials()
    if found is None or session.region_name is None:
        raise Misconfigured("SigV4 needs AWS credentials and DOCSTOKG_AWS_REGION")
    signer: object = Urllib3AWSV4SignerAuth(found, session.region_name, auth.removeprefix("sigv4-"))
    return signer


def _reason(exc: vendor.TransportError) -> str:
    error = exc.info.get("error") if isinstance(exc.info, dict) else None
    told = error.get("reason") if isinstance(error, dict) else error
    return str(told or exc.error)[:200]


def _translated(exc: Exception) -> DocsToKGError:
    for theirs, ours, told in TRANSLATION:
        if isinstance(exc, theirs):
            return ours(f"OpenSearch {told}")
    if isinstance(exc, vendor.TransportError) and isinstance(exc.status_code, int):
        told = f"OpenSearch answered {exc.status_code}: {_reason(exc)}"
        if exc.status_code == 429:
            return QuotaExceeded(told)
        return Unavailable(told) if exc.status_code >= 500 else WrongAnswer(told)
    return WrongAnswer(f"OpenSearch client failed: {type(exc).__name__}")

"""OpenSearch reader."""

import base64
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Unpack

from docstokg.adapters.breaker import Breaker
from docstokg.adapters.languages import ANALYSED, searched
from docstokg.adapters.opensearch.layout import LANGUAGE, Json, facts_alias, feature_name, numbers
from docstokg.adapters.opensearch.lease import loading
from docstokg.adapters.opensearch.server import (
    Connection,
    Server,
    await_shards,
    index_notes,
    schema_checked,
)
from docstokg.contracts.records import CALLED, IndexInfo, Scope, StoredChunk
from docstokg.contracts.retrieval import ChannelQuery, ChannelResult, FactHit, Hit, Hydrated
from docstokg.domain.circuit import Circuit
from docstokg.domain.deadline import Deadline
from docstokg.domain.generations import outdated
from docstokg.domain.text.language_weights import ENGLISH, shares
from docstokg.domain.text.query_terms import rarity
from docstokg.domain.vectors import pack
from docstokg.domain.visibility import facet, may_see, required
from docstokg.errors import DocsToKGError, NotLoaded, WrongAnswer
from docstokg.observability import Telemetry

CANCELLED = "task_cancelled_exception"  # error of `cancel_after_time_interval`
ABSENT = "index_not_found_exception"
MAX_CLAUSES = 400  # of 1,024 allowed; the exact sub-field doubles the words
MAX_TOKENS = 900
EXACT_BOOST = 0.1
MIN_CANDIDATES = 100  # minimum of k for HNSW
CHILD_SHARE = 0.9  # share of the time limit; lets other results arrive
MAX_NAMESPACES = 1000
MAX_COUNTED = 60_000  # of 65,535 allowed buckets; rarer tokens count as new
WARM_UP_S = 20.0
WARM_SIZE = 80
INFO_TTL_S = 10.0
PROBE_S = 2.0
NAMES: Json = {"prefix": {"id": f"{CALLED}:"}}
RELATIONS: Json = {"bool": {"must_not": NAMES}}


class OpenSearchIndex:
    """A `SearchIndex` on one server."""

    def __init__(
        self,
        *,
        name: str = "docstokg",
        telemetry: Telemetry | None = None,
        info_ttl_s: float = INFO_TTL_S,
        circuit: Circuit | None = None,
        **connection: Unpack[Connection],
    ) -> None:
        self._name = name
        self._telemetry = telemetry or Telemetry()
        self._server = Server(**connection)
        self._breaker = Breaker(
            "index",
            circuit=circuit,
            probe=lambda: index_notes(self._server, name, Deadline.after(PROBE_S)),
            telemetry=self._telemetry,
        )
        self._info_ttl_s = info_ttl_s
        self._info: tuple[float, IndexInfo] | None = None
        self._rarity = Rarity()
        self._languages: Mapping[str, tuple[str, ...]] = {}
        self._shard_count = self._server.shards.primaries

    def warm(self, deadline: Deadline | None = None) -> None:
        """Run each kind of search once unless the index is empty; raise `NotLoaded` without one."""
        deadline = deadline or Deadline.after(WARM_UP_S)
        info = self.info(deadline)
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
            self.search(queries, scope, deadline)

    def search(
        self, queries: Sequence[ChannelQuery], scope: Scope, deadline: Deadline
    ) -> tuple[ChannelResult, ...]:
        """Return one result per query, in order, with its failure.

        Raise `WrongAnswer` for another number of answers.
        """
        if not queries:
            return ()
        child_ms = max(1, int(deadline.remaining() * CHILD_SHARE * 1000))
        lines: list[str] = []
        for query in queries:
            alias = facts_alias(self._name) if query.channel == "facts" else self._name
            header = {"index": alias, "cancel_after_time_interval": f"{child_ms}ms"}
            if query.text and self._shard_count > 1:
                # BM25 with the word counts of all shards: docs/measured.md, retrieval.
                header["search_type"] = "dfs_query_then_fetch"
            of = () if query.channel == "facts" else scope.namespaces
            codes = tuple({code for name in of for code in self._languages.get(name, ())})
            words = _words(query.text, codes)
            lines += [json.dumps(header), _child(query, words, scope, child_ms, self._rarity)]
        with self._telemetry.span("index.search", children=len(queries)):
            answer = self._post("/_msearch", "\n".join(lines) + "\n", deadline)
            with schema_checked("_msearch"):
                children = answer["responses"]
                if len(children) != len(queries):
                    raise WrongAnswer(
                        f"_msearch of {len(queries)} children gave {len(children)} answers"
                    )
                return tuple(_result(q, child) for q, child in zip(queries, children, strict=True))

    def get(self, uuids: Sequence[str], scope: Scope, deadline: Deadline) -> Hydrated:
        """Return the visible chunks; a failed request raises.

        Others are `missing`, unreadable ones `failed` with a `cause`.
        """
        ids = list(dict.fromkeys(uuids))
        if not ids:
            return Hydrated()
        answer = self._read(ids, "shown", deadline)
        groups = required(scope.filter)
        chunks: dict[str, StoredChunk] = {}
        missing: list[str] = []
        failed: list[str] = []
        cause: str | None = None
        with schema_checked("_mget"):
            for doc in answer["docs"]:
                if "error" in doc:
                    failed.append(doc["_id"])
                    cause = cause or _cause(doc["error"])
                elif doc["found"] and _visible_to(
                    content := json.loads(doc["fields"]["shown"][0]), scope, groups
                ):
                    chunks[doc["_id"]] = _stored(doc["_id"], content)
                else:
                    missing.append(doc["_id"])
        for uuid in sorted(outdated(chunks.values())):
            del chunks[uuid]
            missing.append(uuid)
        unanswered = set(ids) - chunks.keys() - set(missing) - set(failed)
        failed += sorted(unanswered)
        if unanswered:
            cause = cause or f"{len(unanswered)} of {len(ids)} were left out of the answer"
        return Hydrated(chunks=chunks, missing=tuple(missing), failed=tuple(failed), cause=cause)

    def sentence_vectors(
        self, uuids: Sequence[str], scope: Scope, deadline: Deadline
    ) -> dict[str, bytes]:
        """Map uuids of visible chunks to packed sentence vectors; others are omitted."""
        ids = list(dict.fromkeys(uuids))
        if not ids:
            return {}
        answer = self._read(ids, "shown,sentence_vectors", deadline)
        groups = required(scope.filter)
        vectors: dict[str, bytes] = {}
        with schema_checked("_mget"):
            for doc in answer["docs"]:
                fields = doc.get("fields", {})
                if "sentence_vectors" in fields and _visible_to(
                    json.loads(fields["shown"][0]), scope, groups
                ):
                    vectors[doc["_id"]] = base64.b64decode(fields["sentence_vectors"][0])
        return vectors

    def _read(self, uuids: Sequence[str], fields: str, deadline: Deadline) -> Json:
        with self._telemetry.span("index.get", chunks=len(uuids)):
            return self._post(
                f"/{self._name}/_mget",
                json.dumps({"ids": list(uuids)}),
                deadline,
                {"_source": "false", "stored_fields": fields},
            )

    def info(self, deadline: Deadline, refresh: bool = False) -> IndexInfo:
        """Return the counts and the notes of `open_load`; raise `NotLoaded` without an index.

        An answer with a model is cached for `info_ttl_s`; `refresh`: skip the cache, and wait for
        the shards of an index that another load has just created.
        """
        entry = self._info
        if not refresh and entry is not None and time.monotonic() - entry[0] < self._info_ttl_s:
            return entry[1]
        self._info = None
        notes = self._breaker.call(
            lambda: index_notes(self._server, self._name, deadline), deadline
        )
        if notes is None:
            raise NotLoaded(
                f"there is no index {self._name!r}: run `docstokg load SOURCE` first, or set "
                "DOCSTOKG_INDEX_NAME"
            )
        if refresh:
            await_shards(self._server, self._name, facts_alias(self._name))
        facets = [facet(LANGUAGE, code) for code in ANALYSED]
        codes = {"held": {"terms": {"field": "facets", "include": facets, "size": len(facets)}}}
        by_name = {"field": "namespace", "size": MAX_NAMESPACES}
        spaces = {"spaces": {"terms": by_name, "aggs": codes}}
        count = {"size": 0, "track_total_hits": True, "aggs": spaces}
        relations = count | {"query": RELATIONS}
        body = "".join(
            f"{json.dumps({'index': alias})}\n{json.dumps(counted)}\n"
            for alias, counted in ((self._name, count), (facts_alias(self._name), relations))
        )
        answer = self._post("/_msearch", body, deadline)
        with schema_checked("_msearch"):
            of_chunks, of_facts = answer["responses"]
            chunks = of_chunks["hits"]["total"]["value"]
            self._shard_count = of_chunks["_shards"]["total"]
            # A killed load may leave no facts index; the next one repairs it.
            absent = ABSENT in _kinds(of_facts.get("error"))
            facts = 0 if absent else of_facts["hits"]["total"]["value"]
            buckets = of_chunks["aggregations"]["spaces"]["buckets"]
            namespaces = tuple(sorted(bucket["key"] for bucket in buckets))
            languages = {
                space["key"]: _language_shares(space)
                for space in buckets
                if space["held"]["buckets"]
            }
            self._languages = {
                key: tuple(shares_by_code.keys() - {ENGLISH})
                for key, shares_by_code in languages.items()
            }
        info = IndexInfo(
            embedding_model=notes.get("embedding_model"),
            dimension=notes.get("dimension"),
            sparse_model=notes.get("sparse_model"),
            chunks=chunks,
            facts=facts,
            unfinished=notes["unfinished"],
            running=loading(self._server, self._name, notes["unfinished"], deadline),
            namespaces=namespaces,
            languages=languages,
            is_one_space=True,
        )
        self._count_tokens(notes.get("finished"), chunks, deadline)
        if info.embedding_model is not None:
            self._info = (time.monotonic(), info)
        return info

    def generation(self, namespaces: Sequence[str], deadline: Deadline) -> str | None:
        """Return the id of the last `close_load`.

        None before it, and during a load into `namespaces`.
        """
        notes = index_notes(self._server, self._name, deadline)
        if notes is None or {"", *namespaces} & notes["unfinished"].keys():
            return None
        finished = notes.get("finished")
        return None if finished is None else str(finished)

    def _count_tokens(self, load: str | None, chunks: int, deadline: Deadline) -> None:
        if load is None or load == self._rarity.load:
            return
        tokens = {"terms": {"field": "tokens", "size": MAX_COUNTED}}
        try:
            answer = self._post(
                f"/{self._name}/_search",
                json.dumps({"size": 0, "aggs": {"tokens": tokens}}),
                deadline,
                {"filter_path": "aggregations.tokens.buckets"},
            )
            with schema_checked("_search"):
                buckets = answer.get("aggregations", {}).get("tokens", {}).get("buckets", [])
                holders = {bucket["key"]: bucket["doc_count"] for bucket in buckets}
        except DocsToKGError as exc:
            self._telemetry.log("WARNING", "tokens_not_counted", error=str(exc))
            return
        self._rarity = Rarity(load, chunks, holders)

    def close(self) -> None:
        """Close the connections."""
        self._breaker.close()
        self._server.close()

    def _post(
        self, path: str, body: str, deadline: Deadline, params: Mapping[str, str] | None = None
    ) -> Json:
        def request() -> Json:
            return self._server.call("POST", path, deadline=deadline, body=body, params=params)

        try:
            return self._breaker.call(request, deadline)
        except DocsToKGError:
            self._info = None
            raise


@dataclass(frozen=True, slots=True)
class Rarity:
    """Number of chunks per token after `load`, over the whole index.

    See docs/decisions/real-stores.md.
    """

    load: str | None = None
    chunks: int = 0
    holders: Mapping[str, int] = field(default_factory=dict)

    def weighed(self, weights: Mapping[str, float]) -> list[tuple[str, float]]:
        """Return at most `MAX_TOKENS` tokens of positive weight, heaviest first.

        Weights are multiplied by `rarity` if tokens were counted.
        """
        by_token = {token: weight for token, weight in weights.items() if weight > 0}
        if self.holders:
            by_token = {
                token: weight * rarity(self.holders.get(feature_name(token), 0), self.chunks)
                for token, weight in by_token.items()
            }
        return sorted(by_token.items(), key=lambda item: (-item[1], item[0]))[:MAX_TOKENS]


def _child(query: ChannelQuery, words: str, scope: Scope, child_ms: int, rarity: Rarity) -> str:
    facts = query.channel == "facts"
    body: Json = {
        "size": query.size,
        "track_total_hits": False,
        "timeout": f"{child_ms}ms",
        "sort": [{"_score": "desc"}, {"id" if facts else "uuid": "asc"}],
    }
    if facts:
        body["_source"] = ["id", "evidence_uuid", "rest", *(["text"] if query.names else ())]
    else:  # stored fields are slower to read than the search
        body |= {"stored_fields": "_none_", "docvalue_fields": ["uuid", "compact", "doc_id"]}
    visible = _visible(scope, facts=facts)
    if facts:
        visible.append(NAMES if query.names else RELATIONS)
    if query.channel == "dense":
        body["query"] = {
            "knn": {
                "vector": {
                    "vector": numbers(query.vector or b""),
                    "k": max(query.size, MIN_CANDIDATES),
                    "filter": {"bool": {"filter": visible}},
                }
            }
        }
        return json.dumps(body)
    if query.channel == "splade":
        clauses: list[Json] = [
            {
                "rank_feature": {
                    "field": f"sparse.{feature_name(token)}",
                    "linear": {},
                    "boost": weight,
                }
            }
            for token, weight in rarity.weighed(query.weights)
        ]
    elif facts:
        clauses = [{"match": {"text": words}}]
    else:
        clauses = [
            {"match": {"body": words}},
            {"match": {"body.exact": {"query": words, "boost": EXACT_BOOST}}},
        ]
        # Stop words must not match by themselves.
        body["query"] = {"bool": {"must": clauses[:1], "should": clauses[1:], "filter": visible}}
        return json.dumps(body)
    body["query"] = {
        "bool": {"should": clauses, "minimum_should_match": 1, "filter": visible}
        if clauses
        else {"must_not": {"match_all": {}}}
    }
    return json.dumps(body)


def _visible(scope: Scope, *, facts: bool) -> list[Json]:
    clauses: list[Json] = [{"terms": {"namespace": list(scope.namespaces)}}]
    if scope.groups is not None:
        free: Json = {"bool": {"must_not": {"exists": {"field": "acl"}}}}
        shared: Json = {"terms": {"acl": list(scope.groups)}}
        clauses.append({"bool": {"should": [free, shared], "minimum_should_match": 1}})
    if scope.doc_ids is not None:
        clauses.append({"terms": {"doc_id": list(scope.doc_ids)}})
    if not facts:  # a fact is a starting point; its chunks are filtered
        clauses += [{"terms": {"facets": list(group)}} for group in required(scope.filter)]
    return clauses


def _words(text: str, languages: Sequence[str]) -> str:
    text = " ".join(searched(text, languages))
    budget = MAX_CLAUSES
    for match in re.finditer(r"[^\W_]+", text):
        word = match.group()
        cost = 1 if word.isascii() else len(word)
        if cost > budget:
            return text[: match.start() + (budget if cost > 1 else 0)]
        budget -= cost
    return text


def _language_shares(space: Json) -> dict[str, float]:
    counts = {
        json.loads(b["key"].partition("=")[2]): b["doc_count"] for b in space["held"]["buckets"]
    }
    return shares(counts | {ENGLISH: space["doc_count"] - sum(counts.values())})


def _kinds(error: object) -> set[str]:
    if isinstance(error, list):
        return set().union(*(_kinds(part) for part in error))
    if not isinstance(error, dict):
        return set()
    kinds = {error["type"]} if isinstance(error.get("type"), str) else set()
    return kinds.union(*(_kinds(part) for part in error.values()))


def _cause(error: object) -> str:
    return ", ".join(sorted(_kinds(error))) or "an error without a type"


def _result(query: ChannelQuery, child: Json) -> ChannelResult:
    if "error" in child:
        late = CANCELLED in _kinds(child["error"]) or child.get("status") in (408, 504)
        return ChannelResult(
            channel=query.channel,
            failure="timeout" if late else "unavailable",
            cause=_cause(child["error"]),
        )
    cause = None
    if child["timed_out"]:
        cause = "the search was stopped before its end"
    elif broken := child["_shards"]["failed"]:
        cause = f"{broken} of {child['_shards']['total']} shards failed"
    if query.channel == "facts":
        hits: Json = {"facts": tuple(map(_fact_hit, child["hits"]["hits"]))}
    else:
        cosine = query.channel == "dense"
        hits = {"hits": tuple(_hit(hit, cosine) for hit in child["hits"]["hits"])}
    return ChannelResult(
        channel=query.channel,
        took_ms=float(child["took"]),
        partial=cause is not None,
        cause=cause,
        **hits,
    )


def _fact_hit(hit: Json) -> FactHit:
    source = hit["_source"]
    return FactHit(
        id=source["id"],
        score=hit["_score"],
        evidence_uuid=source.get("evidence_uuid"),
        text=source.get("text", ""),
        **{name: source["rest"][name] for name in ("source", "type", "target")},
    )


def _hit(hit: Json, cosine: bool) -> Hit:
    score = _number(hit["_score"])
    return Hit(
        uuid=_text(hit["fields"]["uuid"][0]),
        # k-NN scores are (1 + cosine) / 2; the port returns cosines
        score=2.0 * score - 1.0 if cosine else score,
        vector=_compact(hit["fields"].get("compact", [None])[0]),
        doc_id=_text(hit["fields"].get("doc_id", [""])[0]),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{type(value).__name__} instead of text")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(f"{type(value).__name__} instead of a finite number")
    return float(value)


def _compact(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text + "=" * (-len(text) % 4))


def _visible_to(source: Json, scope: Scope, groups: Sequence[Sequence[str]]) -> bool:
    facets = set(source.get("facets", ()))
    return (
        source["namespace"] in scope.namespaces
        and may_see(source.get("acl", ()), scope.groups)
        and (scope.doc_ids is None or source["doc_id"] in scope.doc_ids)
        and all(not facets.isdisjoint(group) for group in groups)
    )


def _stored(uuid: str, content: Json) -> StoredChunk:
    fields = {name: content[name] for name in _SHOWN if name in content}
    return StoredChunk(uuid=uuid, vector=_compact(content["compact"]), **fields)


_SHOWN = StoredChunk.model_fields.keys() - {"uuid", "vector"}

"""OpenSearch writer."""

import base64
import contextlib
import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import batched
from typing import Literal, Unpack

import numpy as np

from docstokg.adapters.languages import indexed
from docstokg.adapters.opensearch.layout import (
    LANGUAGE,
    TEMPLATE_VERSION,
    Json,
    facts_alias,
    feature_name,
    index_name,
    index_settings,
    numbers,
    template,
    token_of,
)
from docstokg.adapters.opensearch.lease import NOTES, Lease, LoadLease
from docstokg.adapters.opensearch.server import (
    Connection,
    Server,
    await_shards,
    documents_there,
    error_text,
    index_notes,
    limited,
    pages,
    schema_checked,
)
from docstokg.contracts.records import ChunkRecord, DocumentChange, FactRecord, VectorRow
from docstokg.domain.deadline import Deadline
from docstokg.domain.identity import namespaced
from docstokg.domain.text.query_terms import option_words
from docstokg.domain.vectors import quantise, unpack
from docstokg.domain.visibility import facet, facets
from docstokg.errors import DocsToKGError, Misconfigured, QuotaExceeded, Unavailable, WrongAnswer
from docstokg.observability import Telemetry

LOAD_TIMEOUT_S = 120.0
BULK_BYTES = 4_000_000
BULK_TRIES = 6
BULK_ANSWER = "items.*._id,items.*.status,items.*.result,items.*.error"
PAGE = 1000
# Chunks that are read at once to be marked.
REMARKED = 100


class OpenSearchWriter:
    """An `IndexWriter`; chunks are searchable after `close_load`."""

    def __init__(
        self,
        *,
        name: str = "docstokg",
        telemetry: Telemetry | None = None,
        **connection: Unpack[Connection],
    ) -> None:
        self._name = name
        self._telemetry = telemetry or Telemetry()
        self._server = Server(**connection)
        self._call = limited(self._server, LOAD_TIMEOUT_S)
        self._leases: dict[str, LoadLease] = {}
        self._stale = True  # written documents may not be searchable yet

    @contextlib.contextmanager
    def hold(
        self,
        wait_s: float,
        waiting: Callable[[int], None] | None = None,
        run: str = "",
        keeps_lease: bool = False,
        namespace: str = "",
    ) -> Iterator[None]:
        """Hold a namespace's lease ("": the index's), as in `Lease`.

        Raise `Timeout` after `wait_s`, `Unavailable` if the index stays unreadable.
        """
        new_lease = LoadLease(self._server, self._name, namespace, self._telemetry)
        lease = self._leases.setdefault(namespace, new_lease)
        lease.acquire(Deadline.after(wait_s), waiting, run)
        try:
            self._await_shards()
            yield
        finally:
            lease.release(keeps_lease)

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        # The notes of all loads are one value that the server replaces whole.
        lease = Lease(self._server, self._name, NOTES, self._telemetry)
        lease.acquire(Deadline.after(LOAD_TIMEOUT_S))
        try:
            yield
        finally:
            lease.release()

    def open_load(
        self,
        run_id: str,
        embedding_model: str | None,
        dimension: int | None,
        sparse_model: str | None,
        namespace: str = "",
    ) -> None:
        """Create missing indices; store the load's id and vector space.

        Raise `Misconfigured` for another layout or encoder.
        """
        with self._noting():
            self._open(run_id, embedding_model, dimension, sparse_model, namespace)
        # A request of a killed load may have created the index a moment ago.
        self._await_shards()

    def _open(
        self,
        run_id: str,
        embedding_model: str | None,
        dimension: int | None,
        sparse_model: str | None,
        namespace: str,
    ) -> None:
        first: Json = {"docstokg": TEMPLATE_VERSION, "unfinished": {namespace: run_id}}
        if embedding_model and dimension:
            first |= {"embedding_model": embedding_model, "dimension": dimension}
        first["sparse_model"] = sparse_model
        # Facts first: notes in the chunk index then imply that both indices exist.
        for kind, alias in reversed(self._aliases()):
            notes = self._ensured(kind, alias, first)
            if notes["docstokg"] != TEMPLATE_VERSION:
                raise Misconfigured(
                    f"index {self._name!r} has layout {notes['docstokg']}, this version writes "
                    f"layout {TEMPLATE_VERSION}: load into another DOCSTOKG_INDEX_NAME"
                )
        if notes == first:
            return
        stored = notes.get("embedding_model")
        space = (stored, notes.get("dimension"))
        if embedding_model and stored and (embedding_model, dimension) != space:
            raise Misconfigured(
                f"index {self._name!r} holds vectors of {stored!r} with {notes.get('dimension')} "
                f"components, not of {embedding_model!r} with {dimension}; load with that model, "
                f"or into another DOCSTOKG_INDEX_NAME"
            )
        if embedding_model and dimension and not stored:
            field = {"properties": {"vector": {**template()["vector"], "dimension": dimension}}}
            self._call("PUT", f"/{self._name}/_mapping", field)
            notes |= {"embedding_model": embedding_model, "dimension": dimension}
        notes["sparse_model"] = sparse_model or notes.get("sparse_model")
        self._note(notes | {"unfinished": notes["unfinished"] | {namespace: run_id}})

    def fingerprints(self, namespace: str, uuids: Sequence[str]) -> dict[str, str]:
        """Map each uuid stored in the namespace to its fingerprint."""
        fingerprints: dict[str, str] = {}
        for batch in batched(uuids, PAGE):
            answer = self._call(
                "POST",
                f"/{self._name}/_mget",
                {"ids": batch},
                {"_source_includes": "namespace,fingerprint"},
            )
            documents = documents_there(answer)
            with schema_checked("_mget"):
                for chunk in documents:
                    if chunk["_source"]["namespace"] == namespace:
                        fingerprints[chunk["_id"]] = chunk["_source"]["fingerprint"]
        return fingerprints

    def put(self, chunks: Sequence[tuple[ChunkRecord, str]]) -> None:
        """Write chunks in bulk, replacing by uuid, each entirely or not at all.

        If one fails, created ones are removed. Raise `WrongAnswer` (refused), `QuotaExceeded` or
        `Unavailable` (blocked, lease lost).
        """
        self._bulk(
            self._name,
            ((chunk.uuid, _chunk_document(chunk, fingerprint)) for chunk, fingerprint in chunks),
        )

    def put_document(self, change: DocumentChange) -> int:
        """Change a stored document; its chunks get one generation, its own if it only gains chunks.

        Returns the number of removed chunks, without replaced ones; raises errors as `put`.
        """
        silent = [*change.outdated_uuids, *change.removed_uuids]
        facts = facts_alias(self._name)
        for batch in batched(silent, PAGE):
            terms = {"namespace": change.namespace, "evidence_uuid": list(batch)}
            self._remove(facts, self._ids(facts, terms, "id"))
        new_uuids = {chunk.uuid for chunk, _ in change.chunks}
        generation = change.generation
        others = [uuid for uuid in change.unchanged_uuids if uuid not in new_uuids]
        if (
            others
            and not change.removed_uuids
            and not self.fingerprints(change.namespace, sorted(new_uuids))
        ):
            (stored,) = self._documents(others[:1]) or [{"shown": "{}"}]
            generation, others = str(json.loads(stored["shown"]).get("generation", "")), []
        rows = [
            (chunk.uuid, _chunk_document(chunk, fingerprint, generation))
            for chunk, fingerprint in change.chunks
        ]
        self._bulk(self._name, [*rows, *self._remarked(others, generation)])
        return self._remove(self._name, change.removed_uuids)

    def _remarked(self, uuids: Sequence[str], generation: str) -> Iterator[tuple[str, str]]:
        for batch in batched(uuids, REMARKED):
            for document in self._documents(batch):
                content = {**json.loads(document["shown"]), "generation": generation}
                marked = {**document, "shown": json.dumps(content, allow_nan=False)}
                yield document["uuid"], json.dumps(marked, allow_nan=False)

    def _documents(self, uuids: Sequence[str]) -> list[Json]:
        answer = self._call("POST", f"/{self._name}/_mget", {"ids": list(uuids)})
        return [doc["_source"] for doc in documents_there(answer)]

    def put_facts(self, facts: Sequence[FactRecord]) -> None:
        """Write facts in bulk, replacing by id, each entirely or not; failures as in `put`."""
        self._bulk(
            facts_alias(self._name),
            ((namespaced(fact.namespace, fact.id), _fact_document(fact)) for fact in facts),
        )

    def doc_uuids(self, namespace: str, doc_id: str) -> tuple[str, ...]:
        """Return the chunk uuids of one document, sorted."""
        terms = {"namespace": namespace, "facets": facet("doc_id", doc_id)}
        return tuple(hit["_id"] for hit in self._scan(self._name, terms, "uuid", False))

    def delete(self, namespace: str, uuids: Sequence[str] | None) -> int:
        """Remove chunks (None: the namespace's) with their facts; return the number of chunks."""
        facts = facts_alias(self._name)
        if uuids is None:
            everything = {"namespace": namespace}
            self._remove(facts, self._ids(facts, everything, "id"))
            return self._remove(self._name, self._ids(self._name, everything, "uuid"))
        removed = 0
        for batch in map(list, batched(uuids, PAGE)):
            fact_ids = self._ids(facts, {"namespace": namespace, "evidence_uuid": batch}, "id")
            self._remove(facts, fact_ids)
            chunk_uuids = self._ids(self._name, {"namespace": namespace, "uuid": batch}, "uuid")
            removed += self._remove(self._name, chunk_uuids)
        return removed

    def close_load(self, namespace: str = "") -> None:
        """Make all writes searchable and the load into a namespace finished."""
        self._refresh()
        with self._noting():
            notes = index_notes(self._server, self._name, Deadline.after(LOAD_TIMEOUT_S))
            if notes is not None:
                for name in ("", namespace):
                    notes["unfinished"].pop(name, None)
                self._note(notes | {"finished": secrets.token_hex(8)})

    def stored_chunks(self, namespace: str) -> Iterator[tuple[ChunkRecord, str]]:
        """Yield every chunk as it was put, with its fingerprint, by uuid."""
        fields = ["shown", "vector", "sparse", "sentence_vectors", "fingerprint", "metadata"]
        for hit in self._scan(self._name, {"namespace": namespace}, "uuid", fields):
            with schema_checked("_search"):
                source = hit["_source"]
                chunk = _chunk_record(hit["_id"], source), str(source["fingerprint"])
            yield chunk

    def stored_facts(self, namespace: str) -> Iterator[FactRecord]:
        """Yield every fact, by id."""
        fields = ["id", "namespace", "text", "acl", "doc_id", "evidence_uuid", "rest"]
        for hit in self._scan(facts_alias(self._name), {"namespace": namespace}, "id", fields):
            with schema_checked("_search"):
                source = hit["_source"]
                payload = source.pop("rest")
                fact = FactRecord(**source | payload | {"acl": tuple(sorted(source["acl"]))})
            yield fact

    def replace_vectors(
        self, namespace: str, model: str, dimension: int, rows: Iterable[VectorRow]
    ) -> None:
        """Raise `Misconfigured`: an index here has one vector space."""
        raise Misconfigured(
            f"index {self._name!r} has one encoder: load into another DOCSTOKG_INDEX_NAME with "
            f"{model!r}, and give that name to what asks"
        )

    def close(self) -> None:
        """Release the lease and close the connections."""
        for lease in self._leases.values():
            lease.release()
        self._server.close()

    def _aliases(self) -> tuple[tuple[str, str], tuple[str, str]]:
        return ("chunks", self._name), ("facts", facts_alias(self._name))

    def _ensured(self, kind: str, alias: str, first: Json) -> Json:
        notes = index_notes(self._server, alias, Deadline.after(LOAD_TIMEOUT_S))
        if notes is not None:
            return notes
        answer = self._create(index_name(self._name, kind, 1), kind, first, alias)
        notes = index_notes(self._server, alias, Deadline.after(LOAD_TIMEOUT_S))
        if notes is None:
            error: Json = answer.get("error", {})
            raise WrongAnswer(f"the index {alias!r} could not be made ({error_text(error)})")
        return notes

    def _await_shards(self) -> None:
        await_shards(self._server, *(alias for _, alias in self._aliases()))

    def _create(self, index: str, kind: str, notes: Json, alias: str) -> Json:
        chosen = template()[kind]
        mappings = {**chosen["mappings"], "_meta": notes}
        if kind == "chunks" and (dimension := notes.get("dimension")):
            vector = {**template()["vector"], "dimension": dimension}
            mappings["properties"] = {**mappings["properties"], "vector": vector}
        settings = index_settings(kind, self._server.shards)
        body = {"settings": settings, "mappings": mappings, "aliases": {alias: {}}}
        return self._call("PUT", f"/{index}", body, answered=400)

    def _note(self, notes: Json) -> None:
        self._call("PUT", f"/{self._name}/_mapping", {"_meta": notes})

    def _refresh(self) -> None:
        for _, alias in self._aliases():
            self._call("POST", f"/{alias}/_refresh")
        self._stale = False

    def _ids(self, alias: str, terms: Mapping[str, object], key: str) -> list[str]:
        return [hit["_id"] for hit in self._scan(alias, terms, key, False)]

    def _scan(
        self, alias: str, terms: Mapping[str, object], key: str, source: list[str] | Literal[False]
    ) -> Iterator[Json]:
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
        for answer in pages(self._call, f"/{alias}/_search", body):
            with schema_checked("_search"):
                hits = answer["hits"]["hits"]
                if answer["timed_out"] or answer["_shards"]["failed"]:
                    raise Unavailable(f"only a part of index {alias!r} could be read")
            yield from hits

    def _remove(self, alias: str, ids: Sequence[str]) -> int:
        removed = self._bulk(alias, ((name, None) for name in ids))
        if ids:
            self._refresh()
        return removed

    def _bulk(self, alias: str, documents: Iterable[tuple[str, str | None]]) -> int:
        for lease in self._leases.values():
            lease.check()
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
            with contextlib.suppress(DocsToKGError):  # report the first error
                if created:
                    self._send(alias, [(name, None) for name in created], [])
            raise

    def _send(self, alias: str, batch: Sequence[tuple[str, str | None]], created: list[str]) -> int:  # noqa: C901 - an outcome each: put off, refused, done
        done = 0
        pending = dict(batch)
        busy: Json = {}
        for attempt in range(BULK_TRIES):
            if attempt:
                time.sleep(0.2 * 2**attempt)
            lines = []
            for name, document in pending.items():
                action = "delete" if document is None else "index"
                lines.append(json.dumps({action: {"_id": name}}))
                lines += [] if document is None else [document]
            try:
                text = "\n".join(lines) + "\n"
                answer = self._call("POST", f"/{alias}/_bulk", text, {"filter_path": BULK_ANSWER})
            except QuotaExceeded:  # the whole request: the server is short of memory
                if attempt == BULK_TRIES - 1:
                    raise
                continue
            busy = {}
            refusals: list[DocsToKGError] = []
            with schema_checked("_bulk"):
                for item in answer["items"]:
                    (outcome,) = item.values()
                    name, status = outcome["_id"], outcome["status"]
                    if status in (429, 503) and not _blocked(outcome):
                        busy[name] = outcome.get("error", {})
                        continue
                    document = pending.pop(name)
                    if "error" in outcome:
                        refusals.append(_refusal(alias, name, status, outcome["error"]))
                        continue
                    if outcome["result"] == "created":
                        created.append(name)
                    done += document is not None or outcome["result"] == "deleted"
            if refusals:  # all created documents of the batch are known now
                raise refusals[0]
            if not pending:
                return done
        name = next(iter(busy))
        error: Json = busy[name]
        raise QuotaExceeded(
            f"index {alias!r} put off {len(pending)} documents {BULK_TRIES} times, {name!r} for "
            f"{error_text(error)}"
        )


_SHOWN = ChunkRecord.model_fields.keys() - {"uuid", "vector", "sparse", "sentence_vectors"}
_SEARCHED = (
    *("namespace", "chunk_id", "doc_id", "run_id", "document_name", "section", "metadata"),
    *("title", "headings", "text", "acl", "topics"),
)


def _chunk_document(chunk: ChunkRecord, fingerprint: str, generation: str = "") -> str:
    sparse = {feature_name(token): weight for token, weight in chunk.sparse.items() if weight > 0}
    fields: Json = chunk.model_dump(mode="json", include={*_SHOWN})
    fields["facets"] = list(facets(fields, chunk.topics, chunk.metadata))
    vectors: Json = {}
    if chunk.vector is not None and np.any(unpack(chunk.vector)):  # zero vectors have no direction
        compact = base64.b64encode(quantise(chunk.vector)).decode("ascii")
        vectors = {"vector": numbers(chunk.vector), "compact": compact}
    searched = {name: fields[name] for name in _SEARCHED}
    if code := chunk.language:
        fields["facets"].append(facet(LANGUAGE, code))
        searched |= {key: indexed(fields[key], code) for key in ("title", "text")}
        searched["headings"] = [indexed(heading, code) for heading in chunk.headings]
    content = {**fields, "compact": vectors.get("compact"), "generation": generation}
    searched |= {
        **vectors,
        "uuid": chunk.uuid,
        "facets": fields["facets"],
        "options": " ".join(option_words("\n".join((*chunk.headings, chunk.text)))),
        "sparse": sparse,
        "tokens": list(sparse),
        "fingerprint": fingerprint,
        "shown": json.dumps(content, allow_nan=False),
    }
    if chunk.sentence_vectors:
        searched["sentence_vectors"] = base64.b64encode(chunk.sentence_vectors).decode("ascii")
    return json.dumps(searched, allow_nan=False)


def _chunk_record(uuid: str, source: Json) -> ChunkRecord:
    content = json.loads(source["shown"])
    del content["compact"], content["facets"]
    content.pop("generation", None)  # of a load, not of the chunk
    content["metadata"] = source["metadata"]
    vector = source.get("vector")
    return ChunkRecord(
        uuid=uuid,
        vector=None if vector is None else np.array(vector, dtype="<f4").tobytes(),
        sparse={token_of(name): weight for name, weight in source["sparse"].items()},
        sentence_vectors=base64.b64decode(source.get("sentence_vectors", "")),
        **content,
    )


def _fact_document(fact: FactRecord) -> str:
    names = {"source", "type", "target"}
    document = fact.model_dump(exclude=names) | {"rest": fact.model_dump(include=names)}
    return json.dumps(document, allow_nan=False)


def _blocked(outcome: Json) -> bool:
    return bool(outcome.get("error", {}).get("type") == "cluster_block_exception")


def _refusal(alias: str, name: str, status: int, error: Json) -> DocsToKGError:
    reason = error_text(error)
    if error.get("type") == "cluster_block_exception":
        return Unavailable(f"index {alias!r} takes no writes now ({reason})")
    return WrongAnswer(f"index {alias!r} refused {name!r} with {status}, {reason}")

"""The knowledge graph in Neo4j, for who outgrows the embedded graph."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from neo4j import (
    READ_ACCESS,
    WRITE_ACCESS,
    AsyncDriver,
    AsyncGraphDatabase,
    NotificationMinimumSeverity,
    Query,
    Record,
)
from neo4j import exceptions as vendor

from docstokg.adapters import cypher
from docstokg.adapters.cypher import Template
from docstokg.adapters.plan_guard import Verdict, judge, refused
from docstokg.adapters.sqlite_graph_schema import chunk_key, entity_key, prefix_of, relation_key
from docstokg.contracts.graph import (
    AliasMatch,
    GraphSlice,
    SliceChunk,
    SliceEntity,
    SliceMention,
    SliceRelation,
    SliceRequest,
)
from docstokg.contracts.records import (
    ChunkNode,
    EntityRecord,
    GraphInfo,
    MentionRecord,
    RelationRecord,
    Scope,
)
from docstokg.domain.circuit import Circuit
from docstokg.domain.folding import alias_keys
from docstokg.domain.visibility import required
from docstokg.errors import (
    CircuitOpen,
    DocsToKGError,
    Misconfigured,
    PlanRejected,
    Timeout,
    Unavailable,
    WrongAnswer,
)
from docstokg.observability import Telemetry

SCHEMA_VERSION = 1
STORE = "docstokg"
COUNT_LIMIT = 1000
MAX_ALIASES = 500
MAX_RELATIONS = 5000
BATCH = 500
PAGE = 5000
LOAD_TIMEOUT_S = 120.0
WARM_UP_S = 20.0
WARM_RUNS = 6
QUICK_S = 0.1
WARM_NAMES = tuple(f"name {number}" for number in range(40))  # as many as a long question has
PLAN_S = 60.0
CHECK_S = 180.0
Returned = TypeVar("Returned")
logging.getLogger("neo4j").addHandler(logging.NullHandler())  # what it tells is raised as well
Row = Sequence[Any]

# The first match wins; codes are compared, never messages.
_BY_CODE: tuple[tuple[str, type[DocsToKGError], str], ...] = (
    ("Neo.ClientError.Transaction.TransactionTimedOut", Timeout, "ended the query: out of time"),
    ("Neo.TransientError.", Unavailable, "cannot serve this now"),
    ("Neo.ClientError.Security.", Misconfigured, "refused the credentials"),
    ("Neo.ClientError.Statement.AccessMode", Misconfigured, "allows reading only"),
    ("Neo.ClientError.General.ForbiddenOnReadOnlyDatabase", Misconfigured, "is read only"),
    ("Neo.ClientError.General.WriteOnReadOnlyAccessDatabase", Misconfigured, "is read only"),
    ("Neo.ClientError.Cluster.NotALeader", Unavailable, "is not the leader"),
    ("Neo.ClientError.Database.", Misconfigured, "does not know this database"),
    ("Neo.DatabaseError.General.", Unavailable, "failed inside"),
    ("", WrongAnswer, "refused the query"),
)


class Neo4jGraph:
    """The reading side: one parameterised, capped, admitted query per call."""

    def __init__(
        self,
        *,
        url: str,
        user: str,
        password: str | None,
        database: str = "neo4j",
        telemetry: Telemetry | None = None,
        timeout_ms: int = 1500,
        circuit: Circuit | None = None,
    ) -> None:
        self._telemetry = telemetry or Telemetry()
        self._server = _Server(url, user, password, database)
        self._cap_s = timeout_ms / 1000
        self._circuit = circuit or Circuit()
        self._lock = threading.Lock()
        self._admitted = committed_digests()
        self._verdicts: dict[str, Verdict] = {}
        self._checking = False
        self._checked = threading.Event()
        self._warm = False
        self._warm_for: str | None = None  # the finished load that was seen then

    def prepare(self) -> None:
        """Begin to warm up, without waiting for it."""
        self._check_behind()

    def warm(self, timeout_s: float = WARM_UP_S) -> tuple[Verdict, ...]:
        """Look at every plan and run each query until it is quick, when the process starts.

        A graph without a schema has no plans yet: nothing to look at, nothing found. What is not
        done after `timeout_s` goes on in the background and `Timeout` is raised; a
        graph that is down is `Unavailable`: then the committed list admits, and the plans are
        looked at once it answers.
        """
        until = time.monotonic() + timeout_s
        if not self._warm or self._finished(timeout_s) != self._warm_for:
            self._check_behind()
        if not self._checked.wait(max(0.0, until - time.monotonic())):
            raise Timeout(f"the graph's plans are not all made after {timeout_s:.0f} s")
        if not self._warm:
            raise Unavailable("the graph's plans could not be looked at")
        found = (self._verdicts.get(template.digest) for template in cypher.READS)
        return tuple(verdict for verdict in found if verdict is not None)

    def slice(self, request: SliceRequest, scope: Scope, timeout_s: float) -> GraphSlice:
        """Aliases, starts, their neighbourhood and all edges in it, in one query."""
        parameters = _caps(request, max(1, request.max_nodes // 2)) | _scope(scope)
        parameters["alias_keys"] = [_in(scope, key) for key in dict.fromkeys(request.alias_keys)]
        parameters["ids"] = _folded(scope, request.entity_ids)
        parameters["max_aliases"] = MAX_ALIASES
        parameters["namespace"] = scope.namespace
        return self._sliced(cypher.SLICE, parameters, timeout_s)

    def widen(
        self, frontier: Sequence[str], request: SliceRequest, scope: Scope, timeout_s: float
    ) -> GraphSlice:
        """One more hop around `frontier`, in one query."""
        parameters = _caps(request, request.max_nodes) | _scope(scope)
        parameters["ids"] = _folded(scope, frontier)
        parameters["namespace"] = scope.namespace
        return self._sliced(cypher.WIDEN, parameters, timeout_s)

    def entities(
        self, ids: Sequence[str], scope: Scope, timeout_s: float
    ) -> tuple[SliceEntity, ...]:
        """Read visible entities by id (any case), sorted by id."""
        if not ids:
            return ()
        return tuple(
            SliceEntity(
                id=row["id"],
                name=row["name"],
                type=row["type"],
                mentions=min(COUNT_LIMIT, row["mentions"]),
                obsolete=row["obsolete"],
                replaced_by=row["replaced_by"],
            )
            for row in self._by_id(cypher.ENTITIES, ids, scope, timeout_s)
        )

    def names(
        self, ids: Sequence[str], scope: Scope, timeout_s: float
    ) -> dict[str, tuple[str, ...]]:
        """Map each visible id to its preferred name followed by its synonyms."""
        if not ids:
            return {}
        return {
            row["id"]: tuple(dict.fromkeys([row["name"], *row["synonyms"]]))
            for row in self._by_id(cypher.ENTITIES, ids, scope, timeout_s)
        }

    def relations_of(
        self, ids: Sequence[str], scope: Scope, timeout_s: float
    ) -> tuple[SliceRelation, ...]:
        """Read the visible relations that leave the given entities."""
        if not ids:
            return ()
        found = self._by_id(
            cypher.RELATIONS_OF, ids, scope, timeout_s, {"max_relations": MAX_RELATIONS}
        )
        return _sorted(
            SliceRelation(
                source=row["source"],
                type=row["type"],
                target=row["target"],
                weight=row["weight"],
                evidence_uuid=row["evidence_uuid"] if row["evidence_chunk_id"] else None,
                evidence_chunk_id=row["evidence_chunk_id"],
                evidence_start=row["evidence_start"],
                evidence_end=row["evidence_end"],
            )
            for row in found
        )

    def info(self, timeout_s: float) -> GraphInfo:
        """Say what the graph holds, as counted by the last finished load."""
        rows = self._ask(cypher.INFO, {"name": STORE}, timeout_s)
        if not rows or rows[0]["chunks"] is None:
            return GraphInfo()
        row = rows[0]
        return GraphInfo(
            chunks=row["chunks"],
            entities=row["entities"],
            relations=row["relations"],
            mentions=row["mentions"],
            relation_types=tuple(row["relation_types"]),
            namespaces=tuple(row["namespaces"]),
        )

    def close(self) -> None:
        """Give the connections back and end the background loop."""
        self._server.close()

    def _by_id(
        self,
        template: Template,
        ids: Sequence[str],
        scope: Scope,
        timeout_s: float,
        more: Mapping[str, object] | None = None,
    ) -> list[Record]:
        parameters = {
            "ids": _folded(scope, ids),
            "all": scope.groups is None,
            "groups": list(scope.groups or ()),
            **(more or {}),
        }
        return self._ask(template, parameters, timeout_s)

    def _sliced(
        self, template: Template, parameters: Mapping[str, object], timeout_s: float
    ) -> GraphSlice:
        rows = self._ask(template, parameters, min(timeout_s, self._cap_s))
        try:
            (row,) = rows
            return _slice(row)
        except (KeyError, TypeError, ValueError, IndexError) as exc:
            raise WrongAnswer(f"Neo4j answered {template.name} in an unknown shape") from exc

    def _ask(
        self, template: Template, parameters: Mapping[str, object], timeout_s: float
    ) -> list[Record]:
        """Run one admitted template inside its time, behind the circuit breaker."""
        self._require_admitted(template)
        if timeout_s <= 0:
            raise Timeout("no time left to ask Neo4j")
        now = time.monotonic()
        with self._lock:
            if not self._circuit.allows(now):
                raise CircuitOpen("Neo4j failed repeatedly; it is not called for a while")
            self._circuit = self._circuit.called(now)
        asked = template.checked(parameters)
        try:
            with self._telemetry.span(f"graph.{template.name}"):
                rows = self._server.read(template.text, asked, timeout_s)
        except (Unavailable, Timeout, Misconfigured) as exc:
            if isinstance(exc, Timeout):
                self._telemetry.count("cypher_timeout_total", template=template.name)
                self._check_behind()  # perhaps it was the planning that took so long
            with self._lock:
                was = self._circuit.opened_at
                self._circuit = self._circuit.failed(time.monotonic())
                opened = was is None and self._circuit.opened_at is not None
            if opened:
                self._telemetry.count("circuit_open_total", dependency="graph")
            raise
        except WrongAnswer:
            with self._lock:  # it is there and answers
                self._circuit = self._circuit.succeeded()
            raise
        with self._lock:
            self._circuit = self._circuit.succeeded()
        if not self._warm:
            self._check_behind()
        return rows

    def _require_admitted(self, template: Template) -> None:
        verdict = self._verdicts.get(template.digest)
        if verdict is None and template.digest not in self._admitted:
            verdict = self._server.run(_explained(self._server, template), self._cap_s)
            self._note(verdict)
        if verdict is not None and verdict.reasons:
            raise PlanRejected(f"the plan of {template.name} was refused: {verdict.reasons[0]}")

    def _check_behind(self) -> None:
        """Look at every plan in the background, unless that is being done."""
        with self._lock:
            if self._checking:
                return
            self._checking = True
        self._checked.clear()
        self._server.begin(self._check_all())

    def _finished(self, timeout_s: float) -> str | None:
        """Name the last finished load."""
        asked = cypher.INFO.checked({"name": STORE})
        rows = self._server.read(cypher.INFO.text, asked, timeout_s)
        return rows[0]["finished"] if rows else None

    async def _check_all(self) -> None:
        """EXPLAIN every template and run it until it is quick, with no short limit.

        The first runs of a text cost the server up to seconds of planning and compiling, whatever
        EXPLAIN did before. Inside a request's limit they would be cancelled each time and never
        become fast.
        """
        warm = False
        try:
            async with asyncio.timeout(CHECK_S):
                store = await self._server.query(
                    cypher.INFO.text, cypher.INFO.checked({"name": STORE}), WARM_UP_S, READ_ACCESS
                )
                if store:  # without a schema every plan is a bad one, and nothing is there
                    for template in cypher.READS:
                        verdict = await _explained(self._server, template)
                        self._note(verdict)
                        if not verdict.reasons:
                            await self._run_until_quick(template, store[0])
                self._warm_for = store[0]["finished"] if store else None
            warm = True
        except (vendor.Neo4jError, vendor.DriverError, OSError) as exc:
            self._telemetry.log(
                "WARNING",
                "graph_not_checked",
                error=getattr(exc, "code", None) or type(exc).__name__,
            )
        finally:
            with self._lock:
                self._warm = warm
                self._checking = False
            self._checked.set()

    async def _run_until_quick(self, template: Template, store: Record) -> None:
        """Run a template around chunks that are there: what is never reached is never compiled."""
        given = {**template.examples, "pool": store["sample"] or ["u"]}
        if namespace := store["sample_namespace"]:
            names = [f"{namespace}/{name}" for name in WARM_NAMES]
            given |= {"namespace": namespace, "ids": names, "alias_keys": names}
        asked = template.checked({name: given[name] for name in template.examples})
        for _ in range(WARM_RUNS):
            begun = time.monotonic()
            await self._server.query(template.text, asked, WARM_UP_S, READ_ACCESS)
            if time.monotonic() - begun <= QUICK_S:
                return

    def _note(self, verdict: Verdict) -> None:
        self._verdicts[verdict.digest] = verdict
        if verdict.reasons:
            self._telemetry.count("cypher_explain_reject_total", template=verdict.template)
            self._telemetry.log(
                "WARNING",
                "audit",
                action="plan_rejected",
                template=verdict.template,
                reasons=list(verdict.reasons),
            )


class Neo4jGraphWriter:
    """The loading side; every batch is one transaction, and repeating it changes nothing."""

    def __init__(
        self,
        *,
        url: str,
        user: str,
        password: str | None,
        database: str = "neo4j",
        telemetry: Telemetry | None = None,
    ) -> None:
        self._telemetry = telemetry or Telemetry()
        self._server = _Server(url, user, password, database)
        self._ready = False

    def put_chunks(self, nodes: Sequence[ChunkNode]) -> None:
        """Write chunk nodes with their documents and topics, replacing by uuid."""
        rows = []
        for node in nodes:
            topics = sorted(set(node.topics))
            rows.append(
                {
                    "uuid": node.uuid,
                    "key": chunk_key(node.uuid),
                    "chunk_id": node.chunk_id,
                    "namespace": node.namespace,
                    "doc_id": node.doc_id,
                    "document": f"{node.namespace}/{node.doc_id}",
                    "title": node.title,
                    "acl": sorted(set(node.acl)),
                    "open": not node.acl,
                    "topics": topics,
                    "topic_keys": [f"{node.namespace}/{topic}" for topic in topics],
                    "facets": list(node.facets),
                }
            )
        self._put(cypher.PUT_CHUNKS, rows)

    def put_entities(self, entities: Sequence[EntityRecord]) -> None:
        """Write entities with their aliases, replacing by id; counts of mentions stay."""
        rows = [
            {
                "key": entity_key(entity.namespace, entity.id),
                "id": entity.id,
                "namespace": entity.namespace,
                "folded": f"{entity.namespace}/{entity.id.casefold()}",
                "prefix": prefix_of(entity.id),
                "name": entity.name,
                "type": entity.type,
                "type_key": (entity.type or "").casefold(),
                "synonyms": list(entity.synonyms),
                "definition": entity.definition,
                "obsolete": entity.obsolete,
                "replaced_by": entity.replaced_by,
                "listed": entity.listed,
                "vector": entity.vector,
                "aliases": [
                    {"key": f"{entity.namespace}/{key}", "name": key, "preferred": preferred}
                    for key, preferred in alias_keys(entity.id, entity.name, entity.synonyms)
                ],
            }
            for entity in entities
        ]
        self._put(cypher.PUT_ENTITIES, rows)

    def put_relations(self, relations: Sequence[RelationRecord]) -> None:
        """Write relations, replacing by (source, type, target, evidence); bare ends are made.

        A bare end counts as listed when the relation needs no chunk to be believed.
        """
        ends: dict[tuple[str, str], bool] = {}
        rows = []
        for item in relations:
            for end in (item.source, item.target):
                pair = (item.namespace, end)
                ends[pair] = ends.get(pair, False) or item.evidence_uuid is None
            rows.append(
                {
                    "key": relation_key(
                        item.namespace, item.source, item.type, item.target, item.evidence_uuid
                    ),
                    "source": entity_key(item.namespace, item.source),
                    "target": entity_key(item.namespace, item.target),
                    "namespace": item.namespace,
                    "type": item.type,
                    "type_key": item.type.casefold(),
                    "weight": float(item.weight),
                    "evidence_uuid": item.evidence_uuid,
                    "start": item.evidence_start,
                    "stop": item.evidence_end,
                    "properties": json.dumps(item.properties, sort_keys=True, ensure_ascii=False),
                }
            )
        self._put(cypher.PUT_BARE, [_bare(*pair, listed) for pair, listed in ends.items()])
        self._put(cypher.PUT_RELATIONS, rows)

    def put_mentions(self, namespace: str, mentions: Mapping[str, Sequence[MentionRecord]]) -> None:
        """Replace all mentions of each given chunk uuid; of several places the first is kept."""
        bare: dict[str, None] = {}
        rows = []
        for uuid, records in mentions.items():
            first: dict[str, MentionRecord] = {}
            for record in sorted(records, key=_place):
                first.setdefault(record.entity, record)
            bare |= dict.fromkeys(first)
            rows.append(
                {
                    "uuid": uuid,
                    "degree": len(first),
                    "mentions": [
                        {
                            "key": entity_key(namespace, entity),
                            "start": record.start,
                            "stop": record.end,
                        }
                        for entity, record in first.items()
                    ],
                }
            )
        self._put(cypher.PUT_BARE, [_bare(namespace, entity, listed=False) for entity in bare])
        self._put(cypher.PUT_MENTIONS, rows)

    def aliases(self, namespace: str) -> Iterable[tuple[str, str, bool]]:
        """Yield (folded key, entity id, is the preferred name), sorted.

        An obsolete term's names lead to the term that replaces it.
        """
        best: dict[tuple[str, str], bool] = {}
        for row in self._read(cypher.ALL_ALIASES, {"namespace": namespace}):
            pair = (row["key"], row["id"])
            best[pair] = best.get(pair, False) or row["preferred"]
        return [(key, entity, preferred) for (key, entity), preferred in sorted(best.items())]

    def chunk_uuids(self, namespace: str) -> Iterable[str]:
        """Yield every chunk uuid of a namespace, sorted."""
        after = ""
        while True:
            rows = self._read(
                cypher.CHUNK_UUIDS, {"namespace": namespace, "after": after, "batch": PAGE}
            )
            yield from (row["uuid"] for row in rows)
            if len(rows) < PAGE:
                return
            after = rows[-1]["uuid"]

    def delete(self, namespace: str, uuids: Sequence[str] | None) -> int:
        """Remove chunks with their mentions and stated relations, then what nothing supports."""
        gone = 0
        wanted = list(self.chunk_uuids(namespace)) if uuids is None else list(uuids)
        for start in range(0, len(wanted), BATCH):
            some = {"namespace": namespace, "uuids": wanted[start : start + BATCH]}
            gone += self._write(cypher.DELETE_CHUNKS, some)[0]["done"]
        if uuids is None:
            self._repeat(cypher.DELETE_ENTITIES, namespace=namespace)
        self._tidy()
        return gone

    def close_load(self) -> None:
        """Prove relations whose chunk came later, count anew, forget what nothing supports."""
        self._write(cypher.PROVE_RELATIONS, {})
        for row in self._read(cypher.NAMESPACES, {}):
            self._write(cypher.LINK_REPLACED, {"namespace": row["namespace"]})
        self._tidy()
        self._write(cypher.NOTE_COUNTS, {"name": STORE, "schema": SCHEMA_VERSION})

    def digest_rows(self, namespace: str) -> Iterator[str]:
        """Yield one canonical line per node and edge, sorted, without run ids and times."""
        lines = []
        for template in cypher.DIGESTS:
            for found in self._read(template, {"namespace": namespace}):
                row = [item.hex() if isinstance(item, bytes) else item for item in found["row"]]
                lines.append(f"{template.name} {json.dumps(row, ensure_ascii=False)}")
        yield from sorted(lines)

    def close(self) -> None:
        """Give the connections back and end the background loop."""
        self._server.close()

    def _tidy(self) -> None:
        self._repeat(cypher.DROP_UNSUPPORTED)
        self._repeat(cypher.COUNT_MENTIONS)
        for template in (
            cypher.DROP_NAMELESS,
            cypher.DROP_EMPTY_DOCUMENTS,
            cypher.DROP_EMPTY_TOPICS,
        ):
            self._repeat(template)

    def _repeat(self, template: Template, **parameters: object) -> None:
        while self._write(template, {**parameters, "batch": PAGE})[0]["done"]:
            pass

    def _put(self, template: Template, rows: Sequence[Mapping[str, object]]) -> None:
        """Write one batch of the caller as one transaction."""
        if rows:
            self._write(template, {"rows": list(rows)})

    def _write(self, template: Template, parameters: Mapping[str, object]) -> list[Record]:
        self._prepare()
        asked = template.checked(parameters)
        return self._server.write(template.text, asked, LOAD_TIMEOUT_S)

    def _read(self, template: Template, parameters: Mapping[str, object]) -> list[Record]:
        self._prepare()
        asked = template.checked(parameters)
        return self._server.read(template.text, asked, LOAD_TIMEOUT_S)

    def _prepare(self) -> None:
        """Make the schema when the database does not have it; every statement may be repeated."""
        if self._ready:
            return
        asked = cypher.INFO.checked({"name": STORE})
        known = self._server.read(cypher.INFO.text, asked, LOAD_TIMEOUT_S)
        version = known[0]["schema"] if known else None
        if version not in (None, SCHEMA_VERSION):
            raise Misconfigured(
                f"the database holds a graph of layout {version}, this version writes layout "
                f"{SCHEMA_VERSION}: load into another database"
            )
        if version is None:
            for statement in schema_statements():
                self._server.write(statement, {}, LOAD_TIMEOUT_S)
            self._server.write("CALL db.awaitIndexes(60)", {}, LOAD_TIMEOUT_S)
            noted = cypher.NOTE_SCHEMA.checked({"name": STORE, "schema": SCHEMA_VERSION})
            self._server.write(cypher.NOTE_SCHEMA.text, noted, LOAD_TIMEOUT_S)
        self._ready = True


def schema_statements() -> tuple[str, ...]:
    """Read the statements of the schema file."""
    text = resources.files(__package__).joinpath(f"neo4j_schema.v{SCHEMA_VERSION}.cypher")
    lines = [line for line in text.read_text("utf-8").splitlines() if not line.startswith("//")]
    return tuple(part.strip() for part in "\n".join(lines).split(";") if part.strip())


def committed_digests() -> frozenset[str]:
    """Read the hashes of the texts that were EXPLAINed and admitted when they were committed."""
    text = resources.files(__package__).joinpath("neo4j_admitted.json")
    return frozenset(json.loads(text.read_text("utf-8")).values())


def _bare(namespace: str, entity: str, listed: bool) -> dict[str, object]:
    return {
        "key": entity_key(namespace, entity),
        "id": entity,
        "namespace": namespace,
        "folded": f"{namespace}/{entity.casefold()}",
        "prefix": prefix_of(entity),
        "listed": listed,
        "aliases": [{"key": f"{namespace}/{key}", "name": key} for key, _ in alias_keys(entity)],
    }


def _place(record: MentionRecord) -> tuple[bool, int, int]:
    return (record.start is None, record.start or 0, -(record.end or 0))


def _in(scope: Scope, key: str) -> str:
    return f"{scope.namespace}/{key}"


def _folded(scope: Scope, ids: Iterable[str]) -> list[str]:
    return [_in(scope, name) for name in dict.fromkeys(name.casefold() for name in ids)]


def _scope(scope: Scope) -> dict[str, object]:
    return {
        "all": scope.groups is None,
        "groups": list(scope.groups or ()),
        "by_doc": scope.doc_ids is not None,
        "doc_ids": list(scope.doc_ids or ()),
        "facets": [list(group) for group in required(scope.filter)],
    }


def _caps(request: SliceRequest, max_starts: int) -> dict[str, object]:
    return {
        "pool": list(dict.fromkeys(request.chunk_uuids)),
        "by_kind": request.entity_types is not None,
        "kinds": [kind.casefold() for kind in request.entity_types or ()],
        "by_type": request.relations is not None,
        "relations": [kind.casefold() for kind in request.relations or ()],
        "max_starts": max_starts,
        "max_nodes": request.max_nodes,
        "chunks_per_entity": request.chunks_per_entity,
        "neighbours_per_entity": request.neighbours_per_entity,
        "max_relations": MAX_RELATIONS,
    }


def _slice(row: Record) -> GraphSlice:
    names = {item[0]: item[1] for item in row["entity_rows"]}
    mentions = [
        SliceMention(uuid, names[key], start, stop)
        for uuid, _, _, edges in row["chunk_rows"]
        for key, start, stop in edges
        if key in names
    ]
    matches = {AliasMatch(k, e, p) for k, e, p in row["alias_rows"]}
    entities = [
        SliceEntity(name, label, kind, min(COUNT_LIMIT, count), obsolete, replaced)
        for _, name, label, kind, count, obsolete, replaced in row["entity_rows"]
    ]
    relations = (
        SliceRelation(
            names[source],
            kind,
            names[target],
            weight,
            evidence if chunk_id else None,
            chunk_id,
            start,
            stop,
        )
        for source, kind, target, weight, evidence, chunk_id, start, stop in row["relation_rows"]
        if target in names
    )
    return GraphSlice(
        aliases=tuple(sorted(matches, key=lambda m: (m.key, not m.preferred, m.entity_id))),
        entities=tuple(sorted(entities, key=attrgetter("id"))),
        chunks=tuple(
            SliceChunk(uuid, chunk_id, doc_id)
            for uuid, chunk_id, doc_id, _ in sorted(row["chunk_rows"])
        ),
        mentions=tuple(sorted(mentions, key=itemgetter(0, 1))),
        relations=_sorted(relations),
        truncated=row["truncated"],
    )


def _sorted(relations: Iterable[SliceRelation]) -> tuple[SliceRelation, ...]:
    return tuple(
        sorted(
            relations,
            key=lambda item: (item.source, item.type, item.target, item.evidence_uuid or ""),
        )
    )


async def _explained(server: "_Server", template: Template) -> Verdict:
    """Ask for the plan with the example parameters, and judge it."""
    try:
        plan, kind = await server.explain(template.text, template.checked(template.examples))
    except vendor.ClientError as exc:
        if not (exc.code or "").startswith("Neo.ClientError.Statement."):
            raise  # says nothing of the text: wrong password, unknown database
        return refused(template, f"does not compile: {exc.code}")
    return judge(template, plan, kind)


# --- the wire ---------------------------------------------------------------------------------


class _Server:
    """One Neo4j address: the async driver on one background loop.

    Only `asyncio.timeout` around the whole call was seen to bound a server that hangs after it
    accepted a query; the query's own limit makes the server stop as well.
    """

    def __init__(self, url: str, user: str, password: str | None, database: str) -> None:
        self._address = (url, user, password or "")
        self._database = database
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._driver: AsyncDriver | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def read(self, text: str, parameters: Mapping[str, object], timeout_s: float) -> list[Record]:
        """Run one reading query; the second try is for a pooled connection that died unseen."""
        until = time.monotonic() + timeout_s
        try:
            return self.run(self.query(text, parameters, timeout_s, READ_ACCESS), timeout_s)
        except Unavailable as exc:
            left = until - time.monotonic()
            if not isinstance(exc.__cause__, vendor.SessionExpired) or left <= 0:
                raise
        return self.run(self.query(text, parameters, left, READ_ACCESS), left)

    def write(self, text: str, parameters: Mapping[str, object], timeout_s: float) -> list[Record]:
        """Run one writing query as one transaction."""
        return self.run(self.query(text, parameters, timeout_s, WRITE_ACCESS), timeout_s)

    def run(self, work: Coroutine[Any, Any, Returned], timeout_s: float) -> Returned:
        """Do `work` on the loop inside its time, and translate what goes wrong."""

        async def bounded() -> Returned:
            async with asyncio.timeout(timeout_s):
                return await work

        try:
            asked = asyncio.run_coroutine_threadsafe(bounded(), self._running())
        except BaseException:
            work.close()
            raise
        try:
            return asked.result()
        except TimeoutError:
            raise Timeout(f"Neo4j did not answer in {timeout_s:.3f} s") from None
        except vendor.Neo4jError as exc:
            raise _translated(exc) from exc
        except (vendor.DriverError, OSError) as exc:
            raise Unavailable(
                f"Neo4j could not be reached, or broke off: {type(exc).__name__}"
            ) from exc

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do `work` on the loop without waiting for it."""
        loop = self._running()

        def spawn() -> None:
            task = loop.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        loop.call_soon_threadsafe(spawn)

    async def query(
        self, text: str, parameters: Mapping[str, object], timeout_s: float, access: str
    ) -> list[Record]:
        session = self._opened().session(
            database=self._database, default_access_mode=access, fetch_size=-1
        )
        async with session:
            result = await session.run(Query(text, timeout=timeout_s), dict(parameters))
            return [record async for record in result]

    async def explain(
        self, text: str, parameters: Mapping[str, object]
    ) -> tuple[dict[str, Any] | None, str | None]:
        """Give the plan of a query and its kind (r, w, rw, s), without running it."""
        session = self._opened().session(database=self._database, default_access_mode=READ_ACCESS)
        async with session:
            result = await session.run(Query("EXPLAIN " + text, timeout=PLAN_S), dict(parameters))
            summary = await result.consume()
            return summary.plan, summary.query_type

    def _opened(self) -> AsyncDriver:
        """Make the driver on the loop; it connects when it is first used."""
        if self._driver is None:
            url, user, password = self._address
            self._driver = AsyncGraphDatabase.driver(
                url,
                auth=(user, password),
                max_connection_pool_size=8,
                connection_timeout=1.0,
                connection_acquisition_timeout=1.5,
                max_transaction_retry_time=0,
                max_connection_lifetime=300,
                liveness_check_timeout=10,
                telemetry_disabled=True,
                notifications_min_severity=NotificationMinimumSeverity.OFF,
            )
        return self._driver

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="neo4j", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """Close the driver and end the loop; a later call would open both anew."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._shut(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    async def _shut(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        driver, self._driver = self._driver, None
        if driver is not None:
            await driver.close()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


def _translated(exc: vendor.Neo4jError) -> DocsToKGError:
    code = exc.code or ""
    for beginning, ours, told in _BY_CODE:
        if code.startswith(beginning):
            return ours(f"Neo4j {told} ({code})")
    return WrongAnswer(f"Neo4j refused the query ({code})")


__all__: Sequence[str] = ("Neo4jGraph", "Neo4jGraphWriter")

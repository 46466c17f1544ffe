"""Neo4j graph reader."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from operator import attrgetter
from typing import Unpack

from neo4j import READ_ACCESS, Record
from neo4j import exceptions as vendor

from docstokg.adapters.breaker import Breaker, SharedCircuit
from docstokg.adapters.neo4j import cypher
from docstokg.adapters.neo4j.cypher import STORE, Template
from docstokg.adapters.neo4j.plan_guard import PlanVerdict, judge, refused
from docstokg.adapters.neo4j.server import Connection, Server
from docstokg.contracts.graph import (
    DOCUMENT,
    TOPIC,
    AliasMatch,
    GraphSlice,
    SliceChunk,
    SliceEntity,
    SliceMention,
    SliceRelation,
    SliceRequest,
    ordered,
)
from docstokg.contracts.records import GraphInfo, Scope
from docstokg.domain.across_namespaces import across, entities, mappings, slices
from docstokg.domain.circuit import Circuit
from docstokg.domain.deadline import Deadline
from docstokg.domain.graph.neighbourhood import COUNT_LIMIT, MAX_ALIASES, MAX_RELATIONS
from docstokg.domain.identity import entity_key, namespaced
from docstokg.domain.visibility import required
from docstokg.errors import PlanRejected, Timeout, Unavailable, WrongAnswer
from docstokg.observability import Telemetry

# Maximum time of a request's query, whatever its deadline.
CYPHER_TIMEOUT_MS = 1500
WARM_UP_S = 20.0
WARM_RUNS = 6
QUICK_S = 0.1
WARM_NAMES = tuple(f"name {number}" for number in range(40))  # as many as in a long question
CHECK_S = 180.0
PROBE_S = 2.0
PROBE_WARM_S = 30.0


class Neo4jGraph:
    """A `KnowledgeGraph`; one limited, admitted query per call."""

    def __init__(
        self,
        *,
        telemetry: Telemetry | None = None,
        timeout_ms: int = CYPHER_TIMEOUT_MS,
        circuit: Circuit | None = None,
        shared: SharedCircuit | None = None,
        **connection: Unpack[Connection],
    ) -> None:
        self._telemetry = telemetry or Telemetry()
        self._server = Server(**connection)
        self._cap_s = timeout_ms / 1000
        self._shared = shared
        self._breaker = Breaker(
            "graph", circuit=circuit, probe=self._probe, shared=shared, telemetry=self._telemetry
        )
        self._lock = threading.Lock()
        self._admitted = committed_digests()
        self._verdicts: dict[str, PlanVerdict] = {}
        self._checking = False
        self._end_check: Callable[[], bool] | None = None
        self._checked = threading.Event()
        self._warm = False
        self._warm_for: str | None = None  # id of the last load at that time

    def prepare(self) -> None:
        """Start the warm-up and read the shared circuit, without waiting."""
        if self._shared:
            self._shared.is_open()
        self._check_behind()

    def warm(self, deadline: Deadline | None = None) -> tuple[PlanVerdict, ...]:
        """Return the verdict on each plan, after running each query until it is fast.

        Empty without a schema. `deadline`: by default in 20 s. Raise `Timeout`, while the check
        continues, and `Unavailable` if the graph is down.
        """
        deadline = deadline or Deadline.after(WARM_UP_S)
        if not self._warm or self._finished(deadline) != self._warm_for:
            self._check_behind()
        if not self._checked.wait(deadline.remaining()):
            raise Timeout("the graph's plans are not all made in time")
        if not self._warm:
            raise Unavailable("the graph's plans could not be looked at")
        verdicts = (self._verdicts.get(template.digest) for template in cypher.READS)
        return tuple(verdict for verdict in verdicts if verdict)

    @across(slices)
    def slice(self, request: SliceRequest, scope: Scope, deadline: Deadline) -> GraphSlice:
        """Return aliases, opened nodes, one hop around them and all edges between.

        Raise `Timeout`, `PlanRejected`, `CircuitOpen` or `WrongAnswer`.
        """
        groups = dict.fromkeys(request.groups)
        parameters: dict[str, object] = {
            "alias_keys": [
                namespaced(scope.namespace, k) for k in dict.fromkeys(request.alias_keys)
            ],
            "max_aliases": MAX_ALIASES,
            "pool": list(dict.fromkeys(request.chunk_uuids)),
            "preferred": {uuid: i for i, uuid in enumerate(request.preferred_uuids)},
            "about_per_entity": request.about_per_entity,
            "chunks_per_group": request.chunks_per_group,
        }
        for name, kind in (("documents", DOCUMENT), ("topics", TOPIC)):
            chosen = [group.removeprefix(kind) for group in groups if group.startswith(kind)]
            parameters[name] = [namespaced(scope.namespace, group) for group in chosen]
        parameters |= _common(request.entity_ids, request, scope)
        return self._sliced(cypher.SLICE, parameters, request, scope, deadline)

    @across(slices)
    def widen(
        self, frontier: Sequence[str], request: SliceRequest, scope: Scope, deadline: Deadline
    ) -> GraphSlice:
        """Return chunks and related entities of entity ids `frontier`; raise errors as `slice`."""
        parameters = _common(frontier, request, scope)
        return self._sliced(cypher.WIDEN, parameters, request, scope, deadline)

    @across(entities)
    def entities(
        self, ids: Sequence[str], scope: Scope, deadline: Deadline
    ) -> tuple[SliceEntity, ...]:
        """Return visible entities by id, ignoring case, sorted by id; raise errors as `slice`."""
        return tuple(
            SliceEntity(
                row["id"],
                row["name"],
                row["type"],
                min(COUNT_LIMIT, row["mentions"]),
                row["obsolete"],
                row["replaced_by"],
            )
            for row in self._by_id(cypher.ENTITIES, ids, scope, deadline)
        )

    @across(mappings)
    def names(
        self, ids: Sequence[str], scope: Scope, deadline: Deadline
    ) -> dict[str, tuple[str, ...]]:
        """Map stored ids of visible entities (`ids`: any case) to preferred name, then synonyms.

        Raise errors as `slice`.
        """
        return {
            row["id"]: tuple(dict.fromkeys([row["name"], *row["synonyms"]]))
            for row in self._by_id(cypher.ENTITIES, ids, scope, deadline)
        }

    @across(mappings)
    def vectors(self, ids: Sequence[str], scope: Scope, deadline: Deadline) -> dict[str, bytes]:
        """Map stored ids of visible entities (`ids`: any case) to their name's vector, if any.

        Raise errors as `slice`.
        """
        rows = self._by_id(cypher.VECTORS, ids, scope, deadline)
        return {row["id"]: bytes(row["vector"]) for row in rows}

    def info(self, deadline: Deadline) -> GraphInfo:
        """Return counts of the last finished load, zeros before one; raise errors as `slice`."""
        rows = self._run_query(cypher.INFO, {"name": STORE}, deadline)
        if not rows or rows[0]["chunks"] is None:
            return GraphInfo()
        return GraphInfo(**{name: rows[0][name] for name in GraphInfo.model_fields})

    def close(self) -> None:
        """Close connections."""
        self._breaker.close()
        self._server.close()

    def _by_id(
        self, template: Template, ids: Sequence[str], scope: Scope, deadline: Deadline
    ) -> list[Record]:
        if not ids:
            return []
        return self._run_query(template, _groups(scope) | {"ids": _folded(scope, ids)}, deadline)

    def _sliced(
        self,
        template: Template,
        parameters: Mapping[str, object],
        request: SliceRequest,
        scope: Scope,
        deadline: Deadline,
    ) -> GraphSlice:
        rows = self._run_query(template, parameters, deadline.limit(self._cap_s))
        ids_of_keys = {entity_key(scope.namespace, name): name for name in request.known_ids}
        try:
            (row,) = rows
            return _slice(row, ids_of_keys)
        except (KeyError, TypeError, ValueError, IndexError) as exc:
            raise WrongAnswer(f"Neo4j answered {template.name} in an unknown shape") from exc

    def _run_query(
        self, template: Template, parameters: Mapping[str, object], deadline: Deadline
    ) -> list[Record]:
        self._require_admitted(template)
        if deadline.is_over():
            raise Timeout("no time left to ask Neo4j")
        parameter_map = template.checked(parameters)

        def request() -> list[Record]:
            with self._telemetry.span(f"graph.{template.name}"):
                return self._server.read(template.text, parameter_map, deadline)

        try:
            # Health checks call the graph itself, ignoring other processes' circuits.
            rows = self._breaker.call(request, deadline, alone=template is cypher.INFO)
        except Timeout:
            self._telemetry.count("cypher_timeout_total", template=template.name)
            self._check_behind()  # the planning may have taken so long
            raise
        if not self._warm:
            self._check_behind()
        return rows

    def _probe(self) -> None:
        # The first queries after a restart exceed a request's limit. As trials they would keep the
        # circuit open.
        self._finished(Deadline.after(PROBE_S))
        # An earlier check may hang on a connection from before the restart.
        if self._end_check:
            self._end_check()
            self._checked.wait(PROBE_S)
        self._check_behind()
        if self._checked.wait(PROBE_WARM_S) and not self._warm:
            raise Unavailable("Neo4j is there, but its queries could not be run")

    def _require_admitted(self, template: Template) -> None:
        verdict = self._verdicts.get(template.digest)
        if verdict is None and template.digest not in self._admitted:
            verdict = self._server.run(
                _explained(self._server, template), Deadline.after(self._cap_s)
            )
            self._note(verdict)
        if verdict and verdict.reasons:
            raise PlanRejected(f"the plan of {template.name} was refused: {verdict.reasons[0]}")

    def _check_behind(self) -> None:
        with self._lock:
            if self._checking:
                return
            self._checking = True
        self._checked.clear()
        self._end_check = self._server.begin(self._check_all())

    def _finished(self, deadline: Deadline) -> str | None:
        parameters = cypher.INFO.checked({"name": STORE})
        rows = self._server.read(cypher.INFO.text, parameters, deadline)
        return rows[0]["finished"] if rows else None

    async def _check_all(self) -> None:
        warm = False
        try:
            async with asyncio.timeout(CHECK_S):
                store = await self._server.query(
                    cypher.INFO.text,
                    cypher.INFO.checked({"name": STORE}),
                    Deadline.after(WARM_UP_S),
                    READ_ACCESS,
                )
                if store:  # without a schema all plans are bad, and there is no data
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
        examples = {**template.examples, "pool": store["sample"] or ["u"]}
        if namespace := store["sample_namespace"]:
            names = [namespaced(namespace, name) for name in WARM_NAMES]
            examples |= {"namespace": namespace, "ids": names, "alias_keys": names}
        parameters = template.checked({name: examples[name] for name in template.examples})
        for _ in range(WARM_RUNS):
            begun = time.monotonic()
            await self._server.query(
                template.text, parameters, Deadline.after(WARM_UP_S), READ_ACCESS
            )
            if time.monotonic() - begun <= QUICK_S:
                return

    def _note(self, verdict: PlanVerdict) -> None:
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


def committed_digests() -> frozenset[str]:
    """Return the hashes of the admitted texts."""
    text = resources.files(__package__).joinpath("admitted.json")
    return frozenset(json.loads(text.read_text("utf-8")).values())


def _folded(scope: Scope, ids: Iterable[str]) -> list[str]:
    folded = dict.fromkeys(name.casefold() for name in ids)
    return [namespaced(scope.namespace, name) for name in folded]


def _groups(scope: Scope) -> dict[str, object]:
    return {"all": scope.groups is None, "groups": list(scope.groups or ())}


def _common(ids: Iterable[str], request: SliceRequest, scope: Scope) -> dict[str, object]:
    caps = ("direction", "max_nodes", "chunks_per_entity", "neighbours_per_entity")
    return {
        **_groups(scope),
        "ids": _folded(scope, ids),
        "by_doc": scope.doc_ids is not None,
        "doc_ids": list(scope.doc_ids or ()),
        "facets": [list(group) for group in required(scope.filter)],
        "namespace": scope.namespace,
        "known": [entity_key(scope.namespace, name) for name in request.known_ids],
        "by_kind": request.entity_types is not None,
        "kinds": [kind.casefold() for kind in request.entity_types or ()],
        "by_type": request.relations is not None,
        "relations": [kind.casefold() for kind in request.relations or ()],
        "max_relations": MAX_RELATIONS,
        **{name: getattr(request, name) for name in caps},
    }


def _slice(row: Record, ids_of_keys: Mapping[int, str]) -> GraphSlice:
    names = {**ids_of_keys, **{item[0]: item[1] for item in row["entity_rows"]}}
    mentions = [
        SliceMention(uuid, names[key], start, stop, about)
        for uuid, _, _, edges in row["chunk_rows"]
        for key, start, stop, about in edges
    ]
    matches = {AliasMatch(*alias) for alias in row["alias_rows"]}
    entities = [
        SliceEntity(
            name, label, kind, min(COUNT_LIMIT, count), obsolete, replaced, min(COUNT_LIMIT, heads)
        )
        for _, name, label, kind, count, obsolete, replaced, heads in row["entity_rows"]
    ]
    relations = (
        SliceRelation(
            names[source], kind, names[target], weight, chunk_id and evidence, chunk_id, *at
        )
        for source, kind, target, weight, evidence, chunk_id, *at in row["relation_rows"]
    )
    return GraphSlice(
        aliases=tuple(sorted(matches, key=lambda m: (m.key, not m.preferred, m.entity_id))),
        entities=tuple(sorted(entities, key=attrgetter("id"))),
        chunks=tuple(SliceChunk(*chunk[:3]) for chunk in sorted(row["chunk_rows"])),
        mentions=tuple(sorted(mentions)),  # by uuid and entity: no two share both
        relations=ordered(relations),
        members=tuple(
            sorted((group, uuid) for group, uuids in row["member_rows"] for uuid in uuids)
        ),
    )


async def _explained(server: Server, template: Template) -> PlanVerdict:
    try:
        plan, kind = await server.explain(template.text, template.checked(template.examples))
    except vendor.ClientError as exc:
        if not (exc.code or "").startswith("Neo.ClientError.Statement."):
            raise  # not about the text: wrong password, unknown database
        return refused(template, f"does not compile: {exc.code}")
    return judge(template, plan, kind)

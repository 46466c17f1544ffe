"""Neo4j traces."""

import threading
from collections.abc import Mapping, Sequence
from typing import Unpack

from neo4j import Record

from docstokg.adapters.neo4j import cypher_traces as cypher
from docstokg.adapters.neo4j.cypher import Template
from docstokg.adapters.neo4j.server import Connection, Server
from docstokg.contracts.state import TraceMessage
from docstokg.domain.deadline import Deadline
from docstokg.domain.identity import namespaced
from docstokg.errors import Timeout
from docstokg.observability import Telemetry


class Neo4jTraces:
    """A `TraceStore`."""

    def __init__(
        self, *, telemetry: Telemetry | None = None, **connection: Unpack[Connection]
    ) -> None:
        self._telemetry = telemetry or Telemetry()
        self._server = Server(**connection)
        self._lock = threading.Lock()
        self._ready = False

    def write(self, messages: Sequence[TraceMessage], deadline: Deadline) -> None:
        """Write all messages or none; omit unknown chunks and entities; idempotent."""
        self._run(cypher.PUT_TRACES, {"rows": [_row(message) for message in messages]}, deadline)

    def read(self, request_id: str, deadline: Deadline) -> TraceMessage | None:
        """Return the trace of a request, None if it is unknown."""
        template = cypher.READ_TRACE
        rows = self._server.read(template.text, template.checked({"id": request_id}), deadline)
        return TraceMessage(request_id=request_id, **rows[0].data()) if rows else None

    def remove_before(self, epoch_ms: int, deadline: Deadline) -> int:
        """Remove older queries with answers and empty sessions; return the number of queries."""
        (counted,) = self._run(cypher.COUNT_TRACES, {"before": epoch_ms}, deadline)
        self._run(cypher.DROP_TRACES, {"before": epoch_ms}, deadline)
        return int(counted["expired"])

    def close(self) -> None:
        """Close connections."""
        self._server.close()

    def _run(
        self, template: Template, parameters: Mapping[str, object], deadline: Deadline
    ) -> list[Record]:
        with self._lock:
            for statement in () if self._ready else cypher.TRACE_SCHEMA:
                self._server.write(statement, {}, deadline)
            self._ready = True
        if deadline.is_over():
            raise Timeout("no time was left for the traces")
        with self._telemetry.span(f"graph.{template.name}"):
            return self._server.write(template.text, template.checked(parameters), deadline)


def _row(message: TraceMessage) -> dict[str, object]:
    by_rank = {hit["rank"]: hit["uuid"] for hit in message.retrieved}
    return {
        "id": message.request_id,
        "session": message.session,
        "hash": message.query_hash,
        "namespace": message.namespace,
        "at": message.created_ms,
        "retrieved": [dict(hit) for hit in message.retrieved],
        "focused": [
            {"folded": namespaced(message.namespace, f["entity"].casefold()), "score": f["score"]}
            for f in message.focused_on
        ],
        "cited": [
            {"uuid": by_rank[rank], "rank": rank}
            for rank in message.supported_by
            if rank in by_rank
        ],
    }

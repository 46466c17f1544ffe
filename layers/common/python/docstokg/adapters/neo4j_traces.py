"""Retrieval traces in the graph: who found what, without a word of what was asked.

These are the only texts the deployed service writes with; they run with a credential of their
own in the background, so they are kept apart from the guarded reading templates in cypher.py.
"""

import threading
from collections.abc import Sequence

import neo4j
from neo4j import exceptions as vendor

from docstokg.contracts.state import TraceMessage
from docstokg.domain.identity import namespaced
from docstokg.errors import Misconfigured, Timeout, Unavailable, WrongAnswer

SCHEMA = (
    "CREATE CONSTRAINT query_id IF NOT EXISTS FOR (q:Query) REQUIRE q.id IS UNIQUE",
    "CREATE CONSTRAINT session_id IF NOT EXISTS FOR (s:Session) REQUIRE s.id IS UNIQUE",
    "CREATE INDEX query_at IF NOT EXISTS FOR (q:Query) ON (q.at)",
)
# MERGE on the request id: a message delivered twice changes nothing.
WRITE = """
UNWIND $rows AS row
MERGE (s:Session {id: row.session})
MERGE (q:Query {id: row.id})
  SET q.hash = row.hash, q.namespace = row.namespace, q.at = row.at
MERGE (s)-[:ASKED]->(q)
FOREACH (_ IN CASE WHEN row.cited = [] THEN [] ELSE [1] END |
  MERGE (q)-[:ANSWERED_BY]->(:Answer {id: row.id}))
WITH q, row
CALL (q, row) {
  UNWIND row.retrieved AS hit
  MATCH (c:Chunk {uuid: hit.uuid})
  MERGE (q)-[r:RETRIEVED]->(c) SET r.rank = hit.rank, r.score = hit.score
}
CALL (q, row) {
  UNWIND row.focused AS focus
  MATCH (e:Entity {folded: focus.folded})
  MERGE (q)-[f:FOCUSED_ON]->(e) SET f.score = focus.score
}
CALL (q, row) {
  UNWIND row.cited AS hit
  MATCH (q)-[:ANSWERED_BY]->(a:Answer), (c:Chunk {uuid: hit.uuid})
  MERGE (a)-[s:SUPPORTED_BY]->(c) SET s.rank = hit.rank
}
"""
REMOVE = """
MATCH (q:Query) WHERE q.at < $before
CALL (q) {
  OPTIONAL MATCH (q)-[:ANSWERED_BY]->(a:Answer)
  OPTIONAL MATCH (s:Session)-[:ASKED]->(q)
  DETACH DELETE q, a
  WITH s WHERE s IS NOT NULL AND NOT EXISTS { (s)-[:ASKED]->(:Query) }
  DELETE s
} IN TRANSACTIONS OF 500 ROWS
"""
COUNT = "MATCH (q:Query) WHERE q.at < $before RETURN count(q) AS expired"


class Neo4jTraces:
    """The TraceStore port on Neo4j."""

    def __init__(self, url: str, user: str, password: str | None, database: str) -> None:
        self._address = (url, user, password or "")
        self._database = database
        self._lock = threading.Lock()
        self._driver: neo4j.Driver | None = None

    def write(self, messages: Sequence[TraceMessage], timeout_s: float) -> None:
        """Write all messages or none; again changes nothing."""
        self._run(WRITE, {"rows": [_row(message) for message in messages]}, timeout_s)

    def remove_before(self, epoch_ms: int, timeout_s: float) -> int:
        """Remove queries asked before, with their answers and emptied sessions; count them."""
        (found,) = self._run(COUNT, {"before": epoch_ms}, timeout_s)
        self._run(REMOVE, {"before": epoch_ms}, timeout_s)
        return int(found["expired"])

    def close(self) -> None:
        """Give the connections back."""
        if self._driver is not None:
            self._driver.close()

    def _run(
        self, text: str, parameters: dict[str, object], timeout_s: float
    ) -> list[neo4j.Record]:
        try:
            with self._opened().session(database=self._database) as session:
                query = neo4j.Query(text, timeout=timeout_s)
                return list(session.run(query, parameters))
        except (vendor.ServiceUnavailable, vendor.SessionExpired, OSError) as exc:
            raise Unavailable("the graph cannot be reached") from exc
        except vendor.AuthError as exc:
            raise Misconfigured("the graph refuses the trace writer's credential") from exc
        except vendor.Neo4jError as exc:
            if "TransactionTimedOut" in (exc.code or ""):
                raise Timeout("the graph did not answer in time") from exc
            if exc.is_retryable():
                raise Unavailable(f"the graph failed for now ({exc.code})") from exc
            raise WrongAnswer(f"the graph refused the trace ({exc.code})") from exc
        except vendor.DriverError as exc:
            raise Unavailable("the graph broke off") from exc

    def _opened(self) -> neo4j.Driver:
        with self._lock:
            if self._driver is None:
                url, user, password = self._address
                driver = neo4j.GraphDatabase.driver(
                    url,
                    auth=(user, password),
                    max_connection_pool_size=2,
                    connection_timeout=2,
                    connection_acquisition_timeout=3,
                    max_connection_lifetime=300,
                    telemetry_disabled=True,
                    notifications_min_severity="OFF",
                )
                with driver.session(database=self._database) as session:
                    for statement in SCHEMA:
                        session.run(statement).consume()
                self._driver = driver
            return self._driver


def _row(message: TraceMessage) -> dict[str, object]:
    by_rank = {hit["rank"]: hit["uuid"] for hit in message.retrieved}
    return {
        "id": message.request_id,
        "session": message.session,
        "hash": message.query_hash,
        "namespace": message.namespace,
        "at": message.created_ms,
        "retrieved": [
            {"uuid": hit["uuid"], "rank": hit["rank"], "score": hit["score"]}
            for hit in message.retrieved
        ],
        "focused": [
            {
                "folded": namespaced(message.namespace, focus["entity"].casefold()),
                "score": focus["score"],
            }
            for focus in message.focused_on
        ],
        "cited": [
            {"uuid": by_rank[rank], "rank": rank}
            for rank in message.supported_by
            if rank in by_rank
        ],
    }

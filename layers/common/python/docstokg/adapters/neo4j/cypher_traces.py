"""Trace queries."""

from docstokg.adapters.neo4j.cypher import Template

TRACE_SCHEMA = (
    "CREATE CONSTRAINT query_id IF NOT EXISTS FOR (q:Query) REQUIRE q.id IS UNIQUE",
    "CREATE CONSTRAINT session_id IF NOT EXISTS FOR (s:Session) REQUIRE s.id IS UNIQUE",
    "CREATE INDEX query_at IF NOT EXISTS FOR (q:Query) ON (q.at)",
)

# MERGE on the request id: a message delivered twice changes nothing.
PUT_TRACES = Template(
    "put_traces",
    """UNWIND $p.rows AS row
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
}""",
    {"rows": []},
)

READ_TRACE = Template(
    "read_trace",
    """MATCH (s:Session)-[:ASKED]->(q:Query {id: $p.id})
RETURN s.id AS session, q.hash AS query_hash, q.namespace AS namespace, q.at AS created_ms,
  COLLECT { MATCH (q)-[r:RETRIEVED]->(c:Chunk)
    RETURN {uuid: c.uuid, rank: r.rank, score: r.score} ORDER BY r.rank } AS retrieved,
  COLLECT { MATCH (q)-[f:FOCUSED_ON]->(e:Entity)
    RETURN {entity: e.id, score: f.score} ORDER BY f.score DESC, e.id } AS focused_on,
  COLLECT { MATCH (q)-[:ANSWERED_BY]->(:Answer)-[b:SUPPORTED_BY]->(:Chunk)
    RETURN b.rank ORDER BY b.rank } AS supported_by""",
    {"id": "r"},
)

DROP_TRACES = Template(
    "drop_traces",
    """MATCH (q:Query) WHERE q.at < $p.before
CALL (q) {
  OPTIONAL MATCH (q)-[:ANSWERED_BY]->(a:Answer)
  OPTIONAL MATCH (s:Session)-[:ASKED]->(q)
  DETACH DELETE q, a
  WITH s WHERE s IS NOT NULL AND NOT EXISTS { (s)-[:ASKED]->(:Query) }
  DELETE s
} IN TRANSACTIONS OF 500 ROWS""",
    {"before": 0},
)

COUNT_TRACES = Template(
    "count_traces",
    "MATCH (q:Query) WHERE q.at < $p.before RETURN count(q) AS expired",
    {"before": 0},
)

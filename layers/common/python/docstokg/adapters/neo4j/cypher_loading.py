"""Idempotent Cypher templates for loads; namespace "": all."""

from docstokg.adapters.neo4j.cypher import Template
from docstokg.domain.identity import REDIRECT_DEPTH

PUT_CHUNKS = Template(
    "put_chunks",
    """UNWIND $p.rows AS row
MERGE (c:Chunk {uuid: row.uuid})
SET c.key = row.key, c.chunk_id = row.chunk_id, c.namespace = row.namespace,
  c.doc_id = row.doc_id, c.title = row.title, c.section = row.section,
  c.acl = row.acl, c.open = row.open,
  c.topics = row.topics, c.facets = row.facets, c.degree = coalesce(c.degree, 0), c.names = null
MERGE (d:Document {key: row.document})
SET d.namespace = row.namespace, d.doc_id = row.doc_id
MERGE (d)-[:HAS_CHUNK]->(c)
WITH c, d, row
CALL (c, d) {
  MATCH (other:Document)-[old:HAS_CHUNK]->(c) WHERE other <> d
  DELETE old
}
CALL (c, row) {
  MATCH (c)-[old:HAS_TOPIC]->(t:Topic) WHERE NOT t.key IN row.topic_keys
  DELETE old
}
CALL (c) {
  MATCH (c)-[:MENTIONS]->(e:Entity) SET e.dirty = true
}
CALL (c, row) {
  UNWIND range(0, size(row.topics) - 1) AS i
  MERGE (t:Topic {key: row.topic_keys[i]})
  SET t.name = row.topics[i], t.namespace = row.namespace
  MERGE (c)-[:HAS_TOPIC]->(t)
}""",
    {"rows": []},
)

PUT_NAMES = Template(
    "put_names",
    """UNWIND $p.rows AS row
MATCH (c:Chunk {uuid: row.uuid})
SET c.names = row.names""",
    {"rows": []},
)

PUT_ENTITIES = Template(
    "put_entities",
    """UNWIND $p.rows AS row
MERGE (e:Entity {key: row.key})
ON CREATE SET e.open_mentions = 0, e.closed_mentions = 0
SET e.id = row.id, e.namespace = row.namespace, e.folded = row.folded, e.prefix = row.prefix,
  e.name = row.name, e.type = row.type, e.type_key = row.type_key, e.synonyms = row.synonyms,
  e.definition = row.definition, e.obsolete = row.obsolete, e.replaced_by = row.replaced_by,
  e.listed = row.listed, e.bare = false, e.vector = row.vector,
  e.dirty = CASE WHEN row.listed THEN e.dirty ELSE true END
WITH e, row
CALL (e) {
  MATCH (:Alias)-[old:NAMES]->(e) DELETE old
}
CALL (e, row) {
  UNWIND row.aliases AS alias
  MERGE (a:Alias {key: alias.key})
  SET a.name = alias.name, a.namespace = row.namespace
  MERGE (a)-[n:NAMES]->(e)
  SET n.preferred = alias.preferred
}""",
    {"rows": []},
)

PUT_BARE = Template(
    "put_bare",
    """UNWIND $p.rows AS row
MERGE (e:Entity {key: row.key})
ON CREATE SET e.id = row.id, e.namespace = row.namespace, e.folded = row.folded,
  e.prefix = row.prefix, e.name = row.id, e.type_key = '', e.synonyms = [], e.obsolete = false,
  e.listed = row.listed, e.bare = true, e.open_mentions = 0, e.closed_mentions = 0,
  e.dirty = true
ON MATCH SET e.listed = e.listed OR (e.bare AND row.listed)
WITH e, row WHERE e.bare
UNWIND row.aliases AS alias
MERGE (a:Alias {key: alias.key})
SET a.name = alias.name, a.namespace = row.namespace
MERGE (a)-[n:NAMES]->(e)
ON CREATE SET n.preferred = false""",
    {"rows": []},
)

PUT_RELATIONS = Template(
    "put_relations",
    """UNWIND $p.rows AS row
MATCH (s:Entity {key: row.source})
MATCH (t:Entity {key: row.target})
OPTIONAL MATCH (c:Chunk {uuid: row.evidence_uuid})
MERGE (s)-[r:RELATED_TO {key: row.key}]->(t)
SET r.type = row.type, r.type_key = row.type_key, r.namespace = row.namespace,
  r.weight = row.weight, r.evidence_uuid = row.evidence_uuid,
  r.evidence_chunk_id = c.chunk_id, r.evidence_start = row.start, r.evidence_end = row.stop,
  r.properties = row.properties, r.unproven = row.evidence_uuid IS NOT NULL AND c IS NULL""",
    {"rows": []},
)

PUT_MENTIONS = Template(
    "put_mentions",
    """UNWIND $p.rows AS row
MATCH (c:Chunk {uuid: row.uuid})
SET c.degree = row.degree
WITH c, row
CALL (c) {
  MATCH (c)-[old:MENTIONS]->(e:Entity) SET e.dirty = true DELETE old
}
WITH c, row
UNWIND row.mentions AS mention
MATCH (e:Entity {key: mention.key})
SET e.dirty = true
CREATE (c)-[:MENTIONS {start: mention.start, stop: mention.stop, about: mention.about,
  entity: mention.key, degree: row.degree, chunk: c.key,
  heads: CASE WHEN mention.about THEN mention.key END}]->(e)""",
    {"rows": []},
)

# Existing graphs may have sections instead of chunks. Missing properties are added, existing ones
# kept; sections that are already chunks are skipped.
SECTIONS = Template(
    "sections",
    """MATCH (s:Section) WHERE NOT s:Chunk AND elementId(s) > $p.after
WITH s ORDER BY elementId(s) LIMIT $p.batch
RETURN elementId(s) AS element, coalesce(s.namespace, 'default') AS namespace,
  toString(coalesce(s.chunk_id, s.section_id, s.id, elementId(s))) AS chunk_id,
  s.uuid AS uuid, toString(coalesce(s.doc_id, s.document_id,
    head([(d:Document)-->(s) | coalesce(d.doc_id, d.id)]), '')) AS doc_id""",
    {"after": "", "batch": 1000},
)

SECTIONS_TO_CHUNKS = Template(
    "sections_to_chunks",
    """UNWIND $p.rows AS row
MATCH (s:Section) WHERE elementId(s) = row.element
AND NOT EXISTS { MATCH (other:Chunk {uuid: row.uuid}) WHERE other <> s }
SET s:Chunk, s.uuid = row.uuid, s.key = row.key, s.chunk_id = row.chunk_id,
  s.namespace = row.namespace, s.doc_id = row.doc_id, s.title = coalesce(s.title, ''),
  s.acl = coalesce(s.acl, []), s.open = size(coalesce(s.acl, [])) = 0,
  s.topics = coalesce(s.topics, []), s.facets = coalesce(s.facets, row.facets),
  s.degree = COUNT { (s)-[:MENTIONS]->() }
MERGE (d:Document {key: row.document})
ON CREATE SET d.namespace = row.namespace, d.doc_id = row.doc_id
MERGE (d)-[:HAS_CHUNK]->(s)
WITH s
CALL (s) {
  MATCH (s)-[:MENTIONS]->(e:Entity) SET e.dirty = true
}
RETURN count(s) AS done""",
    {"rows": []},
)

RANK_MENTIONS = Template(
    "rank_mentions",
    """MATCH (c:Chunk)-[m:MENTIONS]->(e:Entity) WHERE m.chunk IS NULL OR m.about IS NULL
WITH c, m, e LIMIT $p.batch
SET m.entity = e.key, m.degree = c.degree, m.chunk = c.key, m.about = coalesce(m.about, false)
RETURN count(*) AS done""",
    {"batch": 1000},
)

PROVE_RELATIONS = Template(
    "prove_relations",
    """MATCH ()-[r:RELATED_TO {unproven: true}]->() WHERE $p.namespace IN ['', r.namespace]
MATCH (c:Chunk {uuid: r.evidence_uuid})
SET r.evidence_chunk_id = c.chunk_id, r.unproven = false""",
    {"namespace": "default"},
)

LINK_REPLACED = Template(
    "link_replaced",
    """MATCH (e:Entity {namespace: $p.namespace, obsolete: true})
CALL (e) {
  MATCH (e)-[old:REPLACED_BY]->(:Entity) DELETE old
}
WITH e WHERE e.replaced_by IS NOT NULL
MATCH (n:Entity {folded: $p.namespace + '/' + toLower(e.replaced_by)}) WHERE n <> e
MERGE (e)-[:REPLACED_BY]->(n)""",
    {"namespace": "default"},
)

NAMESPACES = Template(
    "namespaces", "MATCH (e:Entity {obsolete: true}) RETURN DISTINCT e.namespace AS namespace", {}
)

DROP_UNSUPPORTED = Template(
    "drop_unsupported",
    """MATCH (e:Entity {dirty: true})
WHERE $p.namespace IN ['', e.namespace] AND NOT e.listed
  AND NOT EXISTS { (e)<-[:MENTIONS]-(:Chunk) }
  AND NOT EXISTS { (e)-[:RELATED_TO]-(:Entity) }
WITH e LIMIT $p.batch
DETACH DELETE e
RETURN count(*) AS done""",
    {"namespace": "default", "batch": 1000},
)

COUNT_MENTIONS = Template(
    "count_mentions",
    """MATCH (e:Entity {dirty: true}) WHERE $p.namespace IN ['', e.namespace]
WITH e LIMIT $p.batch
SET e.open_mentions = COUNT { (e)<-[:MENTIONS]-(:Chunk {open: true}) },
  e.closed_mentions = COUNT { (e)<-[:MENTIONS]-(:Chunk {open: false}) },
  e.open_heads = COUNT { (e)<-[:MENTIONS {about: true}]-(:Chunk {open: true}) },
  e.closed_heads = COUNT { (e)<-[:MENTIONS {about: true}]-(:Chunk {open: false}) }
REMOVE e.dirty
RETURN count(*) AS done""",
    {"namespace": "default", "batch": 1000},
)

DROP_UNUSED = tuple(
    Template(
        f"drop_unused_{label}",
        f"""MATCH (n:{label}) WHERE $p.namespace IN ['', n.namespace] AND NOT EXISTS {{ {uses} }}
WITH n LIMIT $p.batch DETACH DELETE n RETURN count(*) AS done""",
        {"namespace": "default", "batch": 1000},
    )
    for label, uses in (
        ("Alias", "(n)-[:NAMES]->(:Entity)"),
        ("Document", "(n)-[:HAS_CHUNK]->(:Chunk)"),
        ("Topic", "(n)<-[:HAS_TOPIC]-()"),
    )
)

NOTE_SCHEMA = Template(
    "note_schema",
    "MERGE (s:Store {name: $p.name}) SET s.schema = $p.schema",
    {"name": "docstokg", "schema": 1},
)

NOTE_COUNTS = Template(
    "note_counts",
    """MERGE (s:Store {name: $p.name})
SET s.schema = $p.schema,
  s.chunks = COUNT { (:Chunk) }, s.entities = COUNT { (:Entity) },
  s.relations = COUNT { ()-[:RELATED_TO]->() }, s.mentions = COUNT { ()-[:MENTIONS]->() },
  s.namespaces = COLLECT {
    MATCH (c:Chunk) WITH DISTINCT c.namespace AS n RETURN n ORDER BY n
  },
  s.finished = randomUUID()
WITH s
CALL (s) {
  OPTIONAL MATCH (c:Chunk {namespace: s.namespaces[0]}) WHERE c.degree > 0
  WITH c LIMIT 20
  RETURN collect(c.uuid) AS sample
}
SET s.sample = sample, s.sample_namespace = s.namespaces[0]""",
    {"name": "docstokg", "schema": 1},
)

DELETE_CHUNKS = Template(
    "delete_chunks",
    """UNWIND $p.uuids AS uuid
MATCH (c:Chunk {uuid: uuid}) WHERE c.namespace = $p.namespace
CALL (c) {
  MATCH (c)-[:MENTIONS]->(e:Entity) SET e.dirty = true
}
CALL (c) {
  MATCH (s:Entity)-[r:RELATED_TO {evidence_uuid: c.uuid}]->(t:Entity)
  SET s.dirty = true, t.dirty = true
  DELETE r
}
DETACH DELETE c
RETURN count(*) AS done""",
    {"namespace": "default", "uuids": ["u"]},
)

DELETE_ENTITIES = Template(
    "delete_entities",
    """MATCH (e:Entity {namespace: $p.namespace})
WITH e LIMIT $p.batch DETACH DELETE e RETURN count(*) AS done""",
    {"namespace": "default", "batch": 1000},
)

STATED = Template(
    "stated",
    """UNWIND $p.uuids AS uuid
MATCH (s:Entity)-[r:RELATED_TO {evidence_uuid: uuid}]->(t:Entity)
WHERE r.namespace = $p.namespace
RETURN uuid, collect(s.id) + collect(t.id) AS ends""",
    {"namespace": "default", "uuids": ["u"]},
)

MOST_MENTIONED = Template(
    "most_mentioned",
    """MATCH (e:Entity {namespace: $p.namespace})
WITH e, e.open_mentions + e.closed_mentions AS mentions WHERE mentions > 0
RETURN e.id AS id, e.name AS name, e.type AS type, mentions,
  coalesce(e.open_heads + e.closed_heads, 0) AS heads ORDER BY mentions DESC, id LIMIT $p.limit""",
    {"namespace": "default", "limit": 20},
)

RECOGNISER = Template(
    "recogniser",
    "MATCH (s:Store {name: $p.name}) RETURN s.recogniser AS recogniser",
    {"name": "docstokg/default"},
)

NOTE_RECOGNISER = Template(
    "note_recogniser",
    "MERGE (s:Store {name: $p.name}) SET s.recogniser = $p.recogniser",
    {"name": "docstokg/default", "recogniser": ""},
)

ALL_ALIASES = Template(
    "all_aliases",
    f"""MATCH (e:Entity {{namespace: $p.namespace}})
CALL (e) {{
  OPTIONAL MATCH path = (e)-[:REPLACED_BY*1..{REDIRECT_DEPTH}]->(n:Entity)
  WHERE all(x IN nodes(path)[..-1] WHERE x.obsolete)
  RETURN n ORDER BY length(path) DESC, n.key LIMIT 1
}}
MATCH (a:Alias)-[named:NAMES]->(e)
RETURN a.name AS key, coalesce(n.id, e.id) AS id, named.preferred AND n IS NULL AS preferred""",
    {"namespace": "default"},
)

_FIRST_PAGE = {"namespace": "default", "after": "", "batch": 1000}

NODES = Template(
    "nodes",
    """MATCH (c:Chunk {namespace: $p.namespace}) WHERE c.uuid > $p.after
RETURN c.uuid AS uuid, c.chunk_id AS chunk_id, c.doc_id AS doc_id, c.title AS title,
  coalesce(c.section, '') AS section, c.acl AS acl, c.topics AS topics, c.facets AS facets
ORDER BY uuid LIMIT $p.batch""",
    _FIRST_PAGE,
)

NAMES = Template(
    "names",
    """MATCH (c:Chunk {namespace: $p.namespace}) WHERE c.uuid > $p.after
RETURN c.uuid AS uuid, coalesce(c.names, '') AS names ORDER BY uuid LIMIT $p.batch""",
    _FIRST_PAGE,
)

ENTITIES = Template(
    "entities",
    """MATCH (e:Entity {namespace: $p.namespace}) WHERE NOT e.bare AND e.id > $p.after
RETURN e.id AS id, e.name AS name, e.type AS type, e.synonyms AS synonyms,
  e.definition AS definition, e.obsolete AS obsolete, e.replaced_by AS replaced_by,
  e.listed AS listed, e.vector AS vector
ORDER BY id LIMIT $p.batch""",
    _FIRST_PAGE,
)

MENTIONS = Template(
    "mentions",
    """MATCH (c:Chunk {namespace: $p.namespace}) WHERE c.uuid > $p.after
WITH c ORDER BY c.uuid LIMIT $p.batch
RETURN c.uuid AS uuid,
  [(c)-[m:MENTIONS]->(e:Entity) | [e.id, m.start, m.stop, m.about]] AS rows
ORDER BY uuid""",
    _FIRST_PAGE,
)

RELATIONS = Template(
    "relations",
    """MATCH (s:Entity {namespace: $p.namespace})-[r:RELATED_TO]->(t:Entity)
RETURN s.id AS source, r.type AS type, t.id AS target, r.weight AS weight,
  r.evidence_uuid AS evidence_uuid, r.evidence_start AS evidence_start,
  r.evidence_end AS evidence_end, r.properties AS properties""",
    {"namespace": "default"},
)

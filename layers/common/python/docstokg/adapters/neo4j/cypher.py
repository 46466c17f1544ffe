"""Cypher templates for requests."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from docstokg.domain.graph.neighbourhood import (
    COUNT_LIMIT,
    LEAST_MENTIONS,
    MAX_ALIASES,
    MAX_HEADED,
    MAX_RELATIONS,
    NEIGHBOUR_SHARE,
    OPENED_SHARE,
    SMOOTHING,
    UNIT,
)
from docstokg.domain.identity import REDIRECT_DEPTH

LABELS = frozenset({"Chunk", "Entity", "Topic", "Document", "Alias", "Store"})
TYPES = frozenset({"MENTIONS", "HAS_TOPIC", "RELATED_TO", "HAS_CHUNK", "NAMES", "REPLACED_BY"})
# Name of the single node with the database's properties.
STORE = "docstokg"

# 2: mentions are indexed by rank, so that hubs are sampled; 3: mentions have `heads`, the entity's
# key, only if the chunk is about it (a partial index).
SCHEMA_VERSION = 3


@dataclass(frozen=True, slots=True)
class Template:
    """A query: its name in metrics and audit events, text, and an example of each parameter.

    EXPLAIN uses the examples; calls have these names and types, in the map `$p`.
    """

    name: str
    text: str
    examples: Mapping[str, object]
    # SHA-256 of the text, under which a checked text is admitted.
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha256(self.text.encode("utf-8")).hexdigest()
        object.__setattr__(self, "digest", digest)

    def checked(self, parameters: Mapping[str, object]) -> dict[str, object]:
        """Return `{"p": parameters}`; raise TypeError if a name or type does not match."""
        if parameters.keys() != self.examples.keys():
            raise TypeError(f"{self.name} takes {sorted(self.examples)}, not {sorted(parameters)}")
        for name, value in parameters.items():
            if not isinstance(value, type(self.examples[name])):
                raise TypeError(f"{self.name}.{name} is a {type(value).__name__}")
        return {"p": dict(parameters)}


# Planning a text of this length takes up to seconds, and would be repeated inside a request after
# changes of the graph's counts. The hints fix the important choices.
_SKIP_REPLAN = "CYPHER replan=skip\n"

# Visibility conditions on a chunk `c`, an entity `e` or a relation `r`. Constants only: request
# data is never put into a text.
_SEEN = "($p.all OR c.open OR any(g IN c.acl WHERE g IN $p.groups))"
_ALLOWED = (
    f"{_SEEN} AND (NOT $p.by_doc OR c.doc_id IN $p.doc_ids)"
    " AND all(wanted IN $p.facets WHERE any(f IN c.facets WHERE f IN wanted))"
)
_VISIBLE = (
    "(e.listed OR e.open_mentions > 0 OR (e.closed_mentions > 0 AND ($p.all OR"
    f" EXISTS {{ MATCH (c:Chunk)-[:MENTIONS]->(e) WHERE {_SEEN} }})))"
)
_SHOWN = (
    "($p.all OR r.evidence_uuid IS NULL OR"
    f" EXISTS {{ MATCH (c:Chunk {{uuid: r.evidence_uuid}})"
    f" USING INDEX SEEK c:Chunk(uuid) WHERE {_SEEN} }})"
)
_STATED = f"(NOT $p.by_type OR r.type_key IN $p.relations) AND {_SHOWN}"
_TYPED = "(NOT $p.by_kind OR e.prefix IN $p.kinds OR e.type_key IN $p.kinds)"
_COUNT = (
    "CASE WHEN $p.all OR e.closed_mentions = 0 THEN e.open_mentions + e.closed_mentions"
    f" ELSE COUNT {{ MATCH (c:Chunk)-[:MENTIONS]->(e) WHERE {_SEEN}"
    f" RETURN c LIMIT {COUNT_LIMIT} }} END"
)

_HEADS = "coalesce(e.open_heads, 0) + coalesce(e.closed_heads, 0)"
_HEAD_COUNT = (
    f"CASE WHEN $p.all OR coalesce(e.closed_heads, 0) = 0 THEN {_HEADS}"
    f" ELSE COUNT {{ MATCH (c:Chunk)-[:MENTIONS {{about: true}}]->(e) WHERE {_SEEN}"
    f" RETURN c LIMIT {COUNT_LIMIT} }} END"
)

_SCOPE: dict[str, object] = {
    "all": True,
    "groups": ["g"],
    "by_doc": False,
    "doc_ids": ["d"],
    "facets": [["doc_id=1"]],
}
_CAPS: dict[str, object] = {
    "namespace": "default",
    "known": [1],
    "by_kind": False,
    "kinds": ["hp"],
    "by_type": False,
    "relations": ["is_a"],
    "direction": "both",
    "max_nodes": 600,
    "chunks_per_entity": 10,
    "neighbours_per_entity": 20,
    "max_relations": MAX_RELATIONS,
}

# An obsolete term is followed to its visible replacement.
_CURRENT = f"""CALL (old) {{
  OPTIONAL MATCH path = (old)-[:REPLACED_BY*1..{REDIRECT_DEPTH}]->(e:Entity)
  WHERE all(n IN nodes(path)[..-1] WHERE n.obsolete) AND {_VISIBLE}
  RETURN e AS newer ORDER BY length(path) DESC, newer.key LIMIT 1
}}
WITH *, coalesce(newer, old) AS now"""

_BY_ID = f"""CALL () {{
  UNWIND range(0, size($p.ids) - 1) AS i
  MATCH (e:Entity {{folded: $p.ids[i]}}) USING INDEX SEEK e:Entity(folded)
  WHERE {_VISIBLE}
  WITH e AS old, i ORDER BY i, old.id
  {_CURRENT}
  WITH now, min(i) AS i, min(old.id) AS first ORDER BY i, first
  RETURN collect(now) AS given
}}"""

_ALIASES = f"""CALL () {{
  UNWIND $p.alias_keys AS key
  MATCH (a:Alias {{key: key}})-[n:NAMES]->(e:Entity) USING INDEX SEEK a:Alias(key)
  WHERE {_VISIBLE}
  WITH a.name AS alias, n.preferred AS preferred, e AS old
  ORDER BY alias, preferred DESC, old.id LIMIT $p.max_aliases
  {_CURRENT}
  RETURN collect([alias, now, preferred]) AS aliases
}}"""

_POOL = f"""CALL () {{
  UNWIND range(0, size($p.pool) - 1) AS i
  MATCH (c:Chunk {{uuid: $p.pool[i]}}) USING INDEX SEEK c:Chunk(uuid)
  WHERE c.namespace = $p.namespace AND {_ALLOWED}
  WITH c, i ORDER BY i
  RETURN collect(c) AS pool
}}"""

# The first chunks of an entity `e`. The index returns mentions in this order, so that only the
# first of a hub's thousands are read; `m.entity` in ORDER BY makes the planner use it.
_FOCUSED = f"""MATCH (c:Chunk)-[m:MENTIONS]->(e) USING INDEX SEEK m:MENTIONS(entity, degree, chunk)
    WHERE m.entity = e.key AND m.degree >= 0 AND m.chunk IS NOT NULL AND {_ALLOWED}
    WITH c, m ORDER BY m.entity, m.degree, m.chunk LIMIT $p.chunks_per_entity"""

# The chunks about it, preferred ones first. `m.heads` is the entity's key if `m.about`.
_ABOUT = f"""MATCH (c:Chunk)-[m:MENTIONS]->(e) USING INDEX SEEK m:MENTIONS(heads, degree, chunk)
    WHERE m.heads = e.key AND m.degree >= 0 AND m.chunk IS NOT NULL AND {_ALLOWED}
    WITH c, m ORDER BY m.heads, m.degree, m.chunk LIMIT {MAX_HEADED}
    WITH c, m, coalesce($p.preferred[c.uuid], size(keys($p.preferred))) AS place
    ORDER BY place, m.degree, m.chunk LIMIT $p.about_per_entity"""

# The chunks of documents and topics, preferred ones first.
_CHOSEN = f"""WITH c ORDER BY c.key LIMIT {MAX_HEADED}
      WITH c, coalesce($p.preferred[c.uuid], size(keys($p.preferred))) AS place
      ORDER BY place, c.key LIMIT $p.chunks_per_group
      RETURN collect(c) AS own"""

_MEMBERS = f"""CALL () {{
  CALL () {{
    UNWIND range(0, size($p.documents) - 1) AS i
    MATCH (d:Document {{key: $p.documents[i]}}) USING INDEX SEEK d:Document(key)
    CALL (d) {{
      MATCH (d)-[:HAS_CHUNK]->(c:Chunk) WHERE {_ALLOWED}
      {_CHOSEN}
    }}
    RETURN 0 AS kind, i, 'doc:' + d.doc_id AS name, own
  UNION ALL
    UNWIND range(0, size($p.topics) - 1) AS i
    MATCH (t:Topic {{key: $p.topics[i]}}) USING INDEX SEEK t:Topic(key)
    CALL (t) {{
      MATCH (t)<-[:HAS_TOPIC]-(c:Chunk) WHERE {_ALLOWED}
      {_CHOSEN}
    }}
    RETURN 1 AS kind, i, 'topic:' + t.name AS name, own
  }}
  WITH kind, i, name, own ORDER BY kind, i
  RETURN collect([name, own]) AS members
}}
WITH *, reduce(all = [], row IN members | all + [c IN row[1] WHERE NOT c IN all]) AS chosen
WITH *, chosen + [c IN pool WHERE NOT c IN chosen] AS given_chunks"""

# Opened chunks: given ones, then those of each named entity, half of the nodes
# (domain.neighbourhood.choose_chunks).
_OPENED = f"""CALL (named) {{
  UNWIND range(0, size(named) - 1) AS i
  WITH named[i] AS e, i
  CALL (e) {{
    {_ABOUT}
    RETURN collect(c) AS headed
  }}
  CALL (e) {{
    {_FOCUSED}
    RETURN collect(c) AS focused
  }}
  WITH i, headed + focused AS found
  UNWIND range(0, size(found) - 1) AS j
  WITH found[j] AS c, min(i * 10000 + j) AS place ORDER BY place
  RETURN collect(c) AS near
}}
WITH *, given_chunks + [c IN near WHERE NOT c IN given_chunks] AS every
WITH *, every[..($p.max_nodes / {OPENED_SHARE})] AS opened"""

# Related entities, once per linked start, by sum of 1 / (10 + place of the start).
_LINKED = f"""CALL (starts) {{
  UNWIND range(0, size(starts) - 1) AS i
  WITH starts[i] AS s, i
  CALL (s) {{
    CALL (s) {{
      MATCH (s)-[r:RELATED_TO]->(e:Entity) WHERE $p.direction <> 'in' AND {_STATED}
      RETURN e ORDER BY r.weight DESC, e.key LIMIT $p.neighbours_per_entity
    UNION ALL
      MATCH (s)<-[r:RELATED_TO]-(e:Entity) WHERE $p.direction <> 'out' AND {_STATED}
      RETURN e ORDER BY r.weight DESC, e.key LIMIT $p.neighbours_per_entity
    }}
    RETURN DISTINCT e
  }}
  WITH e, sum({UNIT} / ({SMOOTHING} + i)) AS weight WHERE {_TYPED}
  WITH e ORDER BY weight DESC, e.key
  RETURN collect(e) AS neighbours
}}
WITH *, [e IN neighbours WHERE NOT e IN starts AND NOT e.key IN $p.known] AS linked"""

# Entities of the opened chunks, by the same sum over the root of their chunk count, and the
# selection of entities: two thirds of the nodes (domain.neighbourhood.choose_entities). The label
# comes last; otherwise few entities with many mentions are read completely.
_MENTIONED = f"""CALL (opened, starts) {{
  UNWIND range(0, size(opened) - 1) AS i
  WITH opened[i] AS c, i, starts
  MATCH (c)-[:MENTIONS]->(e)
  WHERE (e.open_mentions + e.closed_mentions >= {LEAST_MENTIONS} OR {_HEADS} > 0) AND {_TYPED}
    AND NOT e.key IN $p.known AND NOT e IN starts
  WITH e, sum({UNIT} / ({SMOOTHING} + i)) AS weight WHERE e:Entity
  WITH e, weight / sqrt(e.open_mentions + e.closed_mentions) AS weight ORDER BY weight DESC, e.key
  RETURN collect(e) AS mentioned
}}
WITH *, linked[..($p.max_nodes / {NEIGHBOUR_SHARE})] AS near_entities
WITH *, starts + near_entities + [e IN mentioned WHERE NOT e IN near_entities] AS reached
WITH *, reached[..($p.max_nodes * 2 / 3)] AS kept"""

# The chunks about selected entities, in their order, while there is room.
_HEADED = f"""CALL (kept, starts) {{
  UNWIND range(0, size(kept) - 1) AS i
  WITH kept[i] AS e, i, starts WHERE {_HEADS} > 0 AND NOT e IN starts
  CALL (e) {{
    {_ABOUT}
    RETURN collect(c) AS headed
  }}
  UNWIND range(0, size(headed) - 1) AS j
  WITH headed[j] AS c, min(i * 10000 + j) AS place ORDER BY place
  RETURN collect(c) AS about
}}
WITH *, opened + [c IN about WHERE NOT c IN opened] AS found
WITH *, found[..($p.max_nodes - size(kept))] AS chunks"""

# The chunks and neighbours of a walk's layer (domain.neighbourhood.choose_near).
_NEAR = f"""CALL (starts) {{
  UNWIND range(0, size(starts) - 1) AS i
  WITH starts[i] AS e, i
  CALL (e) {{
    {_FOCUSED}
    RETURN c
  }}
  WITH c, sum({UNIT} / ({SMOOTHING} + i)) AS weight
  WITH c ORDER BY weight DESC, c.key
  RETURN collect(c) AS near
}}
{_LINKED}
WITH *, CASE WHEN $p.max_nodes > size(starts) THEN $p.max_nodes - size(starts) ELSE 0 END AS room
WITH *, room - reduce(least = room, n IN [size(linked), $p.max_nodes / {NEIGHBOUR_SHARE}] |
  CASE WHEN n < least THEN n ELSE least END) AS places_left
WITH *, near[..places_left] AS chunks
WITH *, linked[..(room - size(chunks))] AS extra
WITH *, starts + extra AS kept"""

# All edges among selected nodes, and to known ones. Filtering edges here instead of in the adapter
# halves the time: the driver takes 1.4 us per value. The key of the other end is named before the
# comparison (`met`), so that the planner follows the relations of a bound entity. Compared in
# MATCH, it can scan the whole index of keys, which the guard refuses.
_EDGES = f"""CALL (kept) {{
  UNWIND kept AS e
  WITH e WHERE {_VISIBLE}
  RETURN collect(e) AS entities, collect([e.key, e.id, e.name, e.type, {_COUNT},
    e.obsolete, e.replaced_by, {_HEAD_COUNT}]) AS entity_rows
}}
WITH *, [e IN entities | e.key] AS own
WITH *, [key IN $p.known WHERE NOT key IN own] AS old
WITH *, own + old AS ends
CALL (chunks, ends) {{
  UNWIND chunks AS c
  RETURN collect([c.uuid, c.chunk_id, c.doc_id,
    [(c)-[m:MENTIONS]->(e:Entity) WHERE m.entity IN ends | [m.entity, m.start, m.stop,
      coalesce(m.about, false)]]]) AS chunk_rows
}}
CALL (entities, ends, old) {{
  CALL (entities, ends, old) {{
    UNWIND entities AS s
    MATCH (s)-[r:RELATED_TO]->(t) WITH s, r, t, t.key AS met
    WHERE met IN ends AND t:Entity AND {_STATED}
    RETURN s, r, t LIMIT $p.max_relations
  UNION ALL
    UNWIND CASE WHEN size(old) > 0 THEN entities ELSE [] END AS t
    MATCH (s)-[r:RELATED_TO]->(t) WITH s, r, t, s.key AS met
    WHERE met IN old AND s:Entity AND {_STATED}
    RETURN s, r, t LIMIT $p.max_relations
  }}
  RETURN collect([s.key, r.type, t.key, r.weight, r.evidence_uuid, r.evidence_chunk_id,
    r.evidence_start, r.evidence_end]) AS relation_rows
}}"""

_END = "RETURN entity_rows, chunk_rows, relation_rows"

SLICE = Template(
    "slice",
    f"""{_SKIP_REPLAN}{_ALIASES}
{_BY_ID}
{_POOL}
{_MEMBERS}
WITH *, [row IN aliases | row[1]] + given AS doubled
WITH *, [i IN range(0, size(doubled) - 1) WHERE NOT doubled[i] IN doubled[..i] | doubled[i]]
  AS named
{_OPENED}
WITH *, named AS starts
{_LINKED}
{_MENTIONED}
{_HEADED}
{_EDGES}
{_END}, [row IN aliases | [row[0], row[1].id, row[2]]] AS alias_rows,
  [row IN members | [row[0], [c IN row[1] | c.uuid]]] AS member_rows""",
    {
        **_SCOPE,
        **_CAPS,
        "pool": ["u"],
        "preferred": {"u": 0},
        "about_per_entity": 10,
        "documents": ["default/a"],
        "topics": ["default/a"],
        "chunks_per_group": 20,
        "alias_keys": ["default/a"],
        "ids": ["default/a"],
        "max_aliases": MAX_ALIASES,
    },
)

WIDEN = Template(
    "widen",
    f"""{_SKIP_REPLAN}{_BY_ID}
WITH *, given[..$p.max_nodes] AS starts
{_NEAR}
{_EDGES}
{_END}, [] AS alias_rows, [] AS member_rows""",
    {**_SCOPE, **_CAPS, "ids": ["default/a"]},
)

ENTITIES = Template(
    "entities",
    f"""{_SKIP_REPLAN}UNWIND $p.ids AS wanted
MATCH (e:Entity {{folded: wanted}}) USING INDEX SEEK e:Entity(folded)
WHERE {_VISIBLE}
WITH DISTINCT e
RETURN e.key AS key, e.id AS id, e.name AS name, e.type AS type, {_COUNT} AS mentions,
  e.obsolete AS obsolete, e.replaced_by AS replaced_by, e.synonyms AS synonyms ORDER BY id""",
    {"all": True, "groups": ["g"], "ids": ["default/a"]},
)

VECTORS = Template(
    "vectors",
    f"""{_SKIP_REPLAN}UNWIND $p.ids AS wanted
MATCH (e:Entity {{folded: wanted}}) USING INDEX SEEK e:Entity(folded)
WHERE {_VISIBLE} AND e.vector IS NOT NULL
RETURN DISTINCT e.id AS id, e.vector AS vector ORDER BY id""",
    {"all": True, "groups": ["g"], "ids": ["default/a"]},
)

INFO = Template(
    "info",
    f"""{_SKIP_REPLAN}MATCH (s:Store {{name: $p.name}}) USING INDEX SEEK s:Store(name)
RETURN s.schema AS schema, s.chunks AS chunks, s.entities AS entities,
  s.relations AS relations, s.mentions AS mentions,
  s.namespaces AS namespaces, s.finished AS finished, s.sample AS sample,
  s.sample_namespace AS sample_namespace""",
    {"name": "docstokg"},
)

# Templates that a request may run; each must pass the plan guard.
READS: tuple[Template, ...] = (SLICE, WIDEN, ENTITIES, VECTORS, INFO)

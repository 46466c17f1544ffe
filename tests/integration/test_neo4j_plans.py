"""The plan guard on the real planner's plans of good and bad queries."""

import itertools
import json
from collections.abc import Iterator

import pytest

from docstokg.adapters.neo4j import cypher
from docstokg.adapters.neo4j.cypher import Template
from docstokg.adapters.neo4j.graph import Neo4jGraph, committed_digests
from docstokg.adapters.neo4j.plan_guard import PlanVerdict, judge, operators
from docstokg.contracts.graph import SliceRequest
from docstokg.contracts.records import EntityRecord, RelationRecord, Scope
from docstokg.domain.deadline import Deadline
from docstokg.errors import PlanRejected, WrongAnswer
from docstokg.observability import Telemetry
from tests.contract.real import neo4j_sides, neo4j_store
from tests.integration.admit_plans import admitted
from tests.jvm.servers import Engine
from tests.services import SERVICES, own_home, server, start_own

pytestmark = [*SERVICES]
EXAMPLES: dict[str, object] = {"x": "a", "k": 1, "y": 2}

BAD = {
    "everything": ("MATCH (n) RETURN n LIMIT 5", "reads everything"),
    "no label": ("MATCH (n {id: $p.x}) RETURN n", "reads everything"),
    "a whole label": ("MATCH (e:Entity) WHERE e.definition CONTAINS $p.x RETURN e", "whole label"),
    "a foreign label": ("MATCH (s:Secret) RETURN s LIMIT 5", "whole label"),
    "a whole index": ("MATCH (e:Entity) WHERE e.folded IS NOT NULL RETURN e.folded", "whole label"),
    "a whole type": ("MATCH ()-[r:MENTIONS]->() RETURN r LIMIT 5", "whole label"),
    "every relationship": ("MATCH ()-[r]->() RETURN r LIMIT 5", "reads everything"),
    "unbounded": ("MATCH (a:Entity {key: $p.k})-[:RELATED_TO*]-(b) RETURN b LIMIT 5", "unbounded"),
    "unbounded from 2": (
        "MATCH (a:Entity {key: $p.k})-[:RELATED_TO*2..]-(b) RETURN b LIMIT 5",
        "unbounded",
    ),
    "too deep": ("MATCH (a:Entity {key: $p.k})-[:RELATED_TO*1..9]-(b) RETURN b LIMIT 5", "9 hops"),
    "any type": ("MATCH (a:Entity {key: $p.k})--(b) RETURN b LIMIT 5", "any type"),
    "a foreign type": ("MATCH (a:Entity {key: $p.k})-[:OWNS]->(b) RETURN b", "OWNS"),
    "a repeated pattern": (
        "MATCH (a:Entity {key: $p.k})(()-[:RELATED_TO]->())+(b) RETURN b.id LIMIT 5",
        "unbounded",
    ),
    "an unbounded shortest path": (
        "MATCH p = SHORTEST 1 (a:Entity {key: $p.k})-[:RELATED_TO]-+(b:Entity {key: $p.y}) "
        "RETURN length(p)",
        "unbounded",
    ),
    "a product": ("MATCH (a:Entity), (b:Chunk) RETURN a, b LIMIT 5", "whole label"),
    "a product of lists": (
        "UNWIND range(1, 100) AS a UNWIND range(1, 100) AS b UNWIND range(1, 100) AS c "
        "UNWIND range(1, 100) AS d UNWIND range(1, 100) AS e UNWIND range(1, 100) AS f "
        "UNWIND range(1, 100) AS g RETURN count(*)",
        "estimated",
    ),
    "a file": ("LOAD CSV FROM 'file:///etc/passwd' AS line RETURN line", "LOAD CSV"),
    "a procedure": ("CALL db.labels() YIELD label RETURN label", "procedure"),
    "create": ("CREATE (x:Entity {key: $p.k})", "no pure read"),
    "merge": ("MERGE (x:Entity {key: $p.k}) RETURN x", "no pure read"),
    "set": ("MATCH (e:Entity {key: $p.k}) SET e.name = $p.x RETURN e", "writes"),
    "delete": ("MATCH (e:Entity {key: $p.k}) DETACH DELETE e", "writes"),
    "write in a sub-query": (
        "MATCH (e:Entity {key: $p.k}) CALL (e) { SET e.name = $p.x } RETURN e.name",
        "writes",
    ),
    "a schema change": ("CREATE INDEX evil IF NOT EXISTS FOR (x:Evil) ON (x.y)", "no pure read"),
    "settings": ("SHOW SETTINGS YIELD name RETURN name", ""),
    "ending another's query": ("TERMINATE TRANSACTION 'neo4j-transaction-1'", ""),
    "nonsense": ("MATCH (a RETURN a", "does not compile"),
}


@pytest.fixture(scope="module")
def graph() -> Iterator[Neo4jGraph]:
    with neo4j_store() as (graph, writer):
        ids = [f"HP:{i:04d}" for i in range(300)]
        writer.put_entities([EntityRecord(id=name, namespace="n", name=name) for name in ids])
        writer.put_relations(
            [
                RelationRecord(namespace="n", source=a, type="is_a", target=b)
                for a, b in itertools.pairwise(ids)
            ]
        )
        writer.close_load()
        yield graph


def verdict_of(graph: Neo4jGraph, template: Template) -> PlanVerdict:
    from docstokg.adapters.neo4j.graph import _explained

    return graph._server.run(_explained(graph._server, template), Deadline.after(30.0))


@pytest.mark.parametrize("name", sorted(BAD))
def test_a_bad_query_is_refused(graph: Neo4jGraph, name: str) -> None:
    text, expected = BAD[name]
    verdict = verdict_of(graph, Template(name, text, EXAMPLES))
    assert verdict.reasons
    assert any(expected in reason for reason in verdict.reasons), verdict.reasons


@pytest.mark.parametrize("template", cypher.READS, ids=lambda template: template.name)
def test_every_query_of_ours_is_admitted(graph: Neo4jGraph, template: Template) -> None:
    assert verdict_of(graph, template).reasons == ()


DENSE = """
CALL () { UNWIND range(1, 2) AS i
  CREATE (e:Entity {key: i, id: 'e', folded: 'n/e', open_mentions: 1000, closed_mentions: 0})
  RETURN collect(e) AS es }
CALL (es) { UNWIND range(1, 40) AS i WITH es[0] AS a, es[1] AS b
  CREATE (a)-[:RELATED_TO {type: 'is_a'}]->(b), (b)-[:RELATED_TO {type: 'is_a'}]->(a) }
CALL (es) { UNWIND range(1, 50) AS i CREATE (c:Chunk {uuid: toString(i), namespace: 'n'})
  WITH c, i, es UNWIND range(1, 20) AS j WITH c, i, es[j % 2] AS e
  CREATE (c)-[:MENTIONS {entity: e.key, degree: 20, chunk: i}]->(e) }
"""


def test_no_count_of_entities_leads_to_a_scan() -> None:
    # Indexes that were sampled while they were empty, then few entities with many edges: for
    # either the planner has read every key or label instead of following what it holds.
    with own_home(Engine.NEO4J) as home:
        graph, writer = neo4j_sides(start_own(Engine.NEO4J, home))
        try:
            writer.close_load()
            chain = (
                "UNWIND range(1, 300) AS i CREATE (:Entity {key: i, folded: 'x' + i}) WITH i "
                "MATCH (a:Entity {key: i}), (b:Entity {key: i - 1}) CREATE (a)-[:RELATED_TO]->(b)"
            )
            steps = (
                (chain,),
                ("MATCH (e:Entity) DETACH DELETE e", DENSE, "CALL db.resampleOutdatedIndexes()"),
            )
            for step in steps:
                for text in (*step, "CALL db.clearQueryCaches()"):
                    writer._server.write(text, {}, Deadline.after(60))
                refused = [v for t in cypher.READS if (v := verdict_of(graph, t)).reasons]
                assert refused == []
        finally:
            graph.close()
            writer.close()


def test_the_committed_list_equals_the_explained_plans() -> None:
    assert set(admitted().values()) == committed_digests(), (
        "a query text changed: run python -m tests.integration.admit_plans"
    )


def test_a_bounded_expand_is_fine(graph: Neo4jGraph) -> None:
    # Without the hint the planner may scan a small index whole, as it does for few entities.
    start = "MATCH (a:Entity {key: $p.k})-[:RELATED_TO*1..3]-(b) USING INDEX SEEK a:Entity(key)"
    text = f"{start} RETURN b LIMIT 5"
    assert verdict_of(graph, Template("deep", text, EXAMPLES)).reasons == ()


def test_a_plan_without_operators_is_refused() -> None:
    assert judge(cypher.INFO, None, "r").reasons == ("the server gave no plan",)
    plan = {"operatorType": "ProduceResults@neo4j", "children": [{"operatorType": "Argument"}]}
    assert [step["operatorType"] for step in operators(plan)] == [
        "ProduceResults@neo4j",
        "Argument",
    ]


def test_a_refused_template_never_runs_and_is_audited(
    graph: Neo4jGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = server(Engine.NEO4J)
    counted: list[tuple[str, str]] = []
    lines: list[str] = []

    class Sink:
        def record(self, name: str, value: float, labels: dict[str, str]) -> None:
            counted.append((name, labels.get("template", "")))

    evil = Template("slice", "MATCH (n) RETURN n", cypher.SLICE.examples)
    monkeypatch.setattr(cypher, "SLICE", evil)
    telemetry = Telemetry(Sink(), lines.append)
    other = Neo4jGraph(
        url=at.url, user=at.user, password=at.password, telemetry=telemetry, timeout_ms=30_000
    )
    try:
        for _ in range(2):
            with pytest.raises(PlanRejected, match="slice"):
                other.slice(
                    SliceRequest(alias_keys=("x",)), Scope(namespace="n"), Deadline.after(30.0)
                )
        assert counted == [("cypher_explain_reject_total", "slice")]
        assert [json.loads(line)["action"] for line in lines] == ["plan_rejected"]
    finally:
        other.close()


def test_questions_keep_the_usual_limit_after_warming_up(graph: Neo4jGraph) -> None:
    at = server(Engine.NEO4J)
    fresh = Neo4jGraph(url=at.url, user=at.user, password=at.password)
    try:
        assert {verdict.template for verdict in fresh.warm(Deadline.after(120))} == {
            t.name for t in cypher.READS
        }
        request = SliceRequest(alias_keys=("hp 0003", "hp 0004"), chunk_uuids=("u",) * 20)
        assert fresh.slice(request, Scope(namespace="n"), Deadline.after(30.0)).entities, (
            "no Timeout after 1.5 s"
        )
    finally:
        fresh.close()


def test_parameters_are_typed() -> None:
    with pytest.raises(TypeError, match="takes"):
        cypher.INFO.checked({"name": "x", "more": 1})
    with pytest.raises(TypeError, match="is a list"):
        cypher.INFO.checked({"name": ["x"]})


def test_reading_access_refuses_a_write(graph: Neo4jGraph) -> None:
    from docstokg.errors import Misconfigured

    with pytest.raises((Misconfigured, WrongAnswer)):
        graph._server.read("CREATE (x:Entity {key: 1})", {}, Deadline.after(30.0))

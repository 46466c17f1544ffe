"""neo4j-graphrag: its hybrid retriever over Neo4j, with and without a graph query."""

import re
from collections.abc import Iterator
from typing import Any

import neo4j
from common import Ask, Task, embed, main
from neo4j_graphrag.retrievers import HybridCypherRetriever, HybridRetriever
from neo4j_graphrag.types import RetrieverResultItem

BATCH = 500
# The hits keep their order; after them come passages that share the rarest entities with them.
NEIGHBOURS = """
WITH collect({p: node, s: score}) AS hits
CALL (hits) {
  UNWIND hits AS h RETURN h.p AS p, 1 + h.s AS s
  UNION ALL
  UNWIND hits AS h
  WITH h.p AS hit, h.s AS score, [x IN hits | x.p] AS seen
  MATCH (hit)-[:MENTIONS]->(e:Entity)<-[:MENTIONS]-(p:Passage) WHERE NOT p IN seen AND e.df <= 50
  WITH p, sum(score / e.df) AS s ORDER BY s DESC LIMIT 10
  RETURN p, s / (1 + s) AS s
}
RETURN p.id AS id, p.text AS text, s AS score ORDER BY score DESC LIMIT 10
"""


def build(task: Task) -> Iterator[tuple[str, Ask]]:
    """Load, and yield the retriever and, if there are triples, one with a graph query."""
    driver = neo4j.GraphDatabase.driver(task.graph_url, auth=(task.graph_user, task.graph_password))
    _load(driver, task)
    options = {"return_properties": ["id", "text"], "result_formatter": _item}
    hybrid = HybridRetriever(driver, "passage_vec", "passage_txt", **options)
    for depth in (10, 50):
        yield f"neo4j-graphrag HybridRetriever, {depth}", asker(hybrid, depth)
    if task.triples:
        graph = HybridCypherRetriever(
            driver, "passage_vec", "passage_txt", NEIGHBOURS, result_formatter=_item
        )
        yield "neo4j-graphrag HybridCypherRetriever, 3, then shared entities", asker(graph, 3)


def asker(retriever: Any, depth: int) -> Ask:
    """Return a function that asks a retriever; questions are escaped, as the library does not."""

    def ask_retriever(question: str) -> list[str]:
        safe = re.sub(r'([+\-&|!(){}\[\]^"~*?:\\/])', r"\\\1", question)
        result = retriever.search(query_text=safe, query_vector=embed(question), top_k=depth)
        return [item.metadata["id"] for item in result.items]

    return ask_retriever


def _item(record: Any) -> RetrieverResultItem:
    node = record["node"] if "node" in record.keys() else record  # noqa: SIM118 - not a dict
    return RetrieverResultItem(content=node["text"], metadata={"id": node["id"]})


def _folded(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", name.lower()).strip()


def _load(driver: neo4j.Driver, task: Task) -> None:
    """Replace the content of the database by one set."""

    def run(text: str, rows: list[Any] | None = None) -> None:
        for start in range(0, len(rows or [0]), BATCH):
            driver.execute_query(text, {"rows": (rows or [])[start : start + BATCH]})

    for name in ("passage_vec", "passage_txt"):
        run(f"DROP INDEX {name} IF EXISTS")
    while driver.execute_query(
        "MATCH (n) WITH n LIMIT 5000 DETACH DELETE n RETURN count(*) AS n"
    ).records[0]["n"]:
        pass
    run("CREATE CONSTRAINT passage_id IF NOT EXISTS FOR (p:Passage) REQUIRE p.id IS UNIQUE")
    run("CREATE CONSTRAINT entity_id IF NOT EXISTS FOR (e:Entity) REQUIRE e.id IS UNIQUE")
    passages = [
        [doc, text, vector.tolist()]
        for doc, text, vector in zip(task.ids, task.texts, task.vectors, strict=True)
    ]
    run(
        "UNWIND $rows AS r CREATE (p:Passage {id: r[0], text: r[1]}) "
        "WITH p, r CALL db.create.setNodeVectorProperty(p, 'embedding', r[2])",
        passages,
    )
    mentions = {
        (str(row["doc_id"]), _folded(str(row[side])))
        for row in task.triples
        for side in ("subject", "object")
    }
    named = {entity for _, entity in mentions if entity}
    mentions |= {
        (str(row["doc_id"]), entity)
        for row in task.passages
        if (entity := _folded(str(row.get("title") or ""))) in named
    }
    if named:
        run("UNWIND $rows AS r CREATE (:Entity {id: r})", sorted(named))
        run(
            "UNWIND $rows AS r MATCH (p:Passage {id: r[0]}), (e:Entity {id: r[1]}) "
            "CREATE (p)-[:MENTIONS]->(e)",
            sorted([doc, entity] for doc, entity in mentions if entity),
        )
        run("MATCH (e:Entity) SET e.df = COUNT { (e)<-[:MENTIONS]-() }")
    run(
        "CREATE VECTOR INDEX passage_vec FOR (p:Passage) ON p.embedding OPTIONS {indexConfig: "
        "{`vector.dimensions`: 384, `vector.similarity_function`: 'cosine'}}"
    )
    run("CREATE FULLTEXT INDEX passage_txt FOR (p:Passage) ON EACH [p.text]")
    run("CALL db.awaitIndexes(300)")


if __name__ == "__main__":
    main(build, "neo4j-graphrag", "neo4j")

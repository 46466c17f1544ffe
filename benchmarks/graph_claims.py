"""Check graph evidence against the store, and analyse missed gold documents.

    python -m benchmarks.graph_claims evidence FOLDER=STORE[:NAMESPACE] ... [--questions N]
    python -m benchmarks.graph_claims missed FOLDER=STORE[:NAMESPACE] ... [--questions N]

`evidence`: checks every edge of every `kg_evidence` in the store (a stored relation, or a chunk
whose text contains both names); counts questions with direct and path evidence, and gold passages
found by the graph. `missed`: gold documents below rank ten, by the stage that lost them.
"""

import argparse
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unicodedata import combining, normalize

from benchmarks.loaded_sets import WRITTEN, LoadedSet
from docstokg.contracts.routes import RouteName
from docstokg.domain.text.folding import variant
from docstokg.domain.text.words import fold
from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.cli.question import submit
from docstokg_local.cli.stores import settings_of
from docstokg_local.engine.workflow import LocalWorkflow


def main() -> None:
    """Run one of the two measurements."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("what", choices=("evidence", "missed"))
    options.add_argument("sets", nargs="*", metavar=WRITTEN)
    options.add_argument("--questions", type=int, default=100)
    chosen = options.parse_args()
    measure = evidence if chosen.what == "evidence" else missed
    for one in map(LoadedSet.read, chosen.sets):
        (file,) = [*one.folder.glob("questions.jsonl"), *one.folder.glob("answers.jsonl")]
        measure(one, rows_of(file)[: chosen.questions])


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def answers(one: LoadedSet, bodies: Iterable[dict[str, Any]], route: RouteName) -> Iterator[Any]:
    """Send each body to a set's store."""
    url = f"sqlite:///{one.store.resolve()}"
    wiring = Wiring(settings_of(url, url), Telemetry(level="ERROR"))
    workflow = LocalWorkflow(wiring)
    for body in bodies:
        yield submit(workflow, {**body, "namespace": one.namespace}, route).body
    wiring.close()


def evidence(one: LoadedSet, questions: list[dict[str, Any]]) -> None:
    """Check the statements of `kg_evidence` and count them."""
    store = sqlite3.connect(one.store)
    seen: Counter[str] = Counter()
    bodies = [{"query": row["question"], "top_k": 10} for row in questions]
    for row, answer in zip(questions, answers(one, bodies, "search"), strict=True):
        told = [c for c in answer["citations"] if c["kg_evidence"] is not None]
        kinds = {c["kg_evidence"]["match_type"] for c in told}
        seen.update({"questions": 1, "with evidence": bool(told)})
        seen.update({"with a path": "related_via" in kinds, "evidence": len(told)})
        seen["names an entity"] += bool(told) or names_one(store, one.namespace, row["question"])
        for citation in told:
            stated = citation["kg_evidence"]
            seen[stated["match_type"]] += 1
            wrong = [edge for edge in stated["path"] if not holds(store, one.namespace, edge)]
            direct = stated["match_type"] == "direct_mention"
            mentioned = holds_mention(store, stated["entity_id"], citation["uuid"])
            if wrong or not (mentioned and (direct or stated["path"])):
                seen["not so"] += 1
                print("not so:", row["question"], wrong or stated)
        brought = [c for c in answer["citations"] if c["source"] == "kg_expansion"]
        gold = [c for c in brought if c["doc_id"] in row.get("gold", ())]
        seen.update(
            {"gold brought": len(gold), "of these with evidence": sum(c in told for c in gold)}
        )
    print(one.namespace, dict(seen))


def holds_mention(store: sqlite3.Connection, entity: str, uuid: str) -> bool:
    """Return whether the store contains a mention of the entity in the chunk."""
    sql = """select 1 from graph_mentions m join graph_entities e using (entity)
             join graph_chunks c using (chunk) where e.id = ? and c.uuid = ?"""
    return store.execute(sql, (entity, uuid)).fetchone() is not None


def holds(store: sqlite3.Connection, namespace: str, edge: dict[str, Any]) -> bool:
    """Return whether an edge is stored, or its text contains both names."""
    at = edge["evidence"]
    if edge["type"] != "CO_MENTIONED":
        sql = """select c.uuid from graph_relations r join graph_entities s on s.entity = r.source
                 join graph_entities t on t.entity = r.target
                 left join graph_chunks c on c.chunk = r.evidence
                 where r.namespace = ? and s.id = ? and r.type = ? and t.id = ?"""
        found = store.execute(sql, (namespace, edge["src"], edge["type"], edge["dst"])).fetchall()
        return (at["uuid"] if at else None,) in found
    sql = """select title || char(10) || headings || char(10) || coalesce(rest->>'section', '')
             || char(10) || text from index_chunks join index_rows using (id) where uuid = ?"""
    ((text,),) = store.execute(sql, (at["uuid"],)).fetchall()
    return all(
        holds_mention(store, entity, at["uuid"]) and is_written(store, namespace, entity, text)
        for entity in (edge["src"], edge["dst"])
    )


def is_written(store: sqlite3.Connection, namespace: str, entity: str, text: str) -> bool:
    """Return whether a text contains a name of an entity."""
    sql = "select name, synonyms from graph_entities where namespace = ? and id = ?"
    name, synonyms = store.execute(sql, (namespace, entity)).fetchone()
    names, there = [plain(one) for one in (name, *json.loads(synonyms))], plain(text)
    joined = {one.replace(" ", "") for one in names if any(c.isdigit() for c in one)}
    return any(one in there for one in names) or not joined.isdisjoint(there.split())


def plain(text: str) -> str:
    """Return a text folded like looked-up names: without plurals and accents."""
    return variant("".join(c for c in normalize("NFKD", text) if not combining(c)))


def names_one(store: sqlite3.Connection, namespace: str, question: str) -> bool:
    """Return whether a question contains a name of the graph as whole words."""
    words = fold(question).split()
    keys = [" ".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, i + 7)]
    marks = ",".join("?" * len(keys))
    sql = f"select 1 from graph_aliases where namespace = ? and key in ({marks})"
    return store.execute(sql, (namespace, *keys)).fetchone() is not None


def missed(one: LoadedSet, questions: list[dict[str, Any]]) -> None:
    """Print the stages at which gold documents were lost."""
    bodies = [{"query": row["question"], "top_k": 10} for row in questions]
    found = answers(one, bodies, "search")
    lost = [
        {**body, "expect": {"doc_id": gold}}
        for row, body, answer in zip(questions, bodies, found, strict=True)
        for gold in row["gold"]
        if gold not in list(dict.fromkeys(c["doc_id"] for c in answer["citations"]))[:10]
    ]
    stages = Counter(
        (told["lost_at"] or f"place {told['rank']}", ", ".join(told["would_have_helped"])[:40])
        for told in answers(one, lost, "explain")
    )
    print(one.namespace, len(lost), "missed")
    for (stage, helps), count in stages.most_common():
        print(f"{count:5} {stage}: {helps}")


if __name__ == "__main__":
    main()

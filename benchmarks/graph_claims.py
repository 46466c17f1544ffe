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
    for loaded_set in map(LoadedSet.read, chosen.sets):
        (file,) = [
            *loaded_set.folder.glob("questions.jsonl"),
            *loaded_set.folder.glob("answers.jsonl"),
        ]
        measure(loaded_set, rows_of(file)[: chosen.questions])


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def answers(
    loaded_set: LoadedSet, bodies: Iterable[dict[str, Any]], route: RouteName
) -> Iterator[Any]:
    """Send each body to a set's store."""
    url = f"sqlite:///{loaded_set.store.resolve()}"
    wiring = Wiring(settings_of(url, url), Telemetry(level="ERROR"))
    workflow = LocalWorkflow(wiring)
    for body in bodies:
        yield submit(workflow, {**body, "namespace": loaded_set.namespace}, route).body
    wiring.close()


def evidence(loaded_set: LoadedSet, questions: list[dict[str, Any]]) -> None:
    """Check the statements of `kg_evidence` and count them."""
    store = sqlite3.connect(loaded_set.store)
    seen: Counter[str] = Counter()
    bodies = [{"query": row["question"], "top_k": 10} for row in questions]
    for row, answer in zip(questions, answers(loaded_set, bodies, "search"), strict=True):
        cited = [c for c in answer["citations"] if c["kg_evidence"] is not None]
        kinds = {c["kg_evidence"]["match_type"] for c in cited}
        seen.update({"questions": 1, "with evidence": bool(cited)})
        seen.update({"with a path": "related_via" in kinds, "evidence": len(cited)})
        seen["names an entity"] += bool(cited) or names_one(
            store, loaded_set.namespace, row["question"]
        )
        for citation in cited:
            evidence_of = citation["kg_evidence"]
            seen[evidence_of["match_type"]] += 1
            wrong = [
                edge for edge in evidence_of["path"] if not holds(store, loaded_set.namespace, edge)
            ]
            direct = evidence_of["match_type"] == "direct_mention"
            mentioned = holds_mention(store, evidence_of["entity_id"], citation["uuid"])
            if wrong or not (mentioned and (direct or evidence_of["path"])):
                seen["not so"] += 1
                print("not so:", row["question"], wrong or evidence_of)
        expanded = [c for c in answer["citations"] if c["source"] == "kg_expansion"]
        gold = [c for c in expanded if c["doc_id"] in row.get("gold", ())]
        seen.update(
            {"gold brought": len(gold), "of these with evidence": sum(c in cited for c in gold)}
        )
    print(loaded_set.namespace, dict(seen))


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
        rows = store.execute(sql, (namespace, edge["src"], edge["type"], edge["dst"])).fetchall()
        return (at["uuid"] if at else None,) in rows
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
    names, plain_text = [plain(name) for name in (name, *json.loads(synonyms))], plain(text)
    joined = {name.replace(" ", "") for name in names if any(c.isdigit() for c in name)}
    return any(name in plain_text for name in names) or not joined.isdisjoint(plain_text.split())


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


def missed(loaded_set: LoadedSet, questions: list[dict[str, Any]]) -> None:
    """Print the stages at which gold documents were lost."""
    bodies = [{"query": row["question"], "top_k": 10} for row in questions]
    replies = answers(loaded_set, bodies, "search")
    lost = [
        {**body, "expect": {"doc_id": gold}}
        for row, body, answer in zip(questions, bodies, replies, strict=True)
        for gold in row["gold"]
        if gold not in list(dict.fromkeys(c["doc_id"] for c in answer["citations"]))[:10]
    ]
    stages = Counter(
        (
            explanation["lost_at"] or f"place {explanation['rank']}",
            ", ".join(explanation["would_have_helped"])[:40],
        )
        for explanation in answers(loaded_set, lost, "explain")
    )
    print(loaded_set.namespace, len(lost), "missed")
    for (stage, helps), count in stages.most_common():
        print(f"{count:5} {stage}: {helps}")


if __name__ == "__main__":
    main()

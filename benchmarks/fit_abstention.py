"""Fit the abstention threshold: rejected answerable against answered unanswerable questions.

    python -m benchmarks.fit_abstention STORE_FOLDER [--write]

STORE_FOLDER contains SET.sqlite for each development set. Answerable questions are asked of their
own corpus. Unanswerable ones are questions of another set, and near misses, where every chunk with
the answer is removed (those of gold documents; for sets with gold statements, those with 60 % of
the words of one). A question's value is the input of the decision: the best cosine, or share of the
question's words, among the five passages that a model receives.
0.3 of the table in `relevance_table.json` becomes the highest value at which every set
refuses at most 3 % of its own questions; above, it rises through quantiles of own questions.
"""

import argparse
import json
import os
import random
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from docstokg.contracts.records import Scope
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.domain.deadline import Deadline
from docstokg.domain.text import snippets
from docstokg.domain.vectors import matrix, unpack
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.evaluation.answers import HELD, word_share

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TABLE = Path("layers/common/python/docstokg/domain/answer/relevance_table.json")
QUESTIONS = 100
GIVEN = 5
LOOKED_AT = 40
REFUSED = 0.03
KINDS = ("cosine", "coverage")
Row = dict[str, Any]
Values = list[tuple[float, float]]


def questions(name: str) -> list[Row]:
    """Take a fixed sample of a set's questions; of those with types, the fact questions."""
    files = [DATA / name / "questions.jsonl", DATA / name / "answers.jsonl"]
    file = next(path for path in files if path.exists())
    rows = [json.loads(line) for line in file.read_text("utf-8").strip().split("\n")]
    rows = [row for row in rows if row.get("type") in (None, "Fact Retrieval")]
    return random.Random(7).sample(rows, min(QUESTIONS, len(rows)))


def values(wiring: Wiring, namespace: str, rows: Sequence[Row], near: bool) -> Values:
    """Return (best cosine, best share of words) of the passages for each question."""
    index, embedder = wiring.search_index(), wiring.embedder()
    assert embedder is not None
    scope = Scope(namespace=namespace)
    pairs = []
    for row in rows:
        vector = embedder.embed([row["question"]], None)[0]
        queries = [
            ChannelQuery(channel="dense", size=LOOKED_AT, vector=vector),
            ChannelQuery(channel="bm25", size=LOOKED_AT, text=row["question"]),
        ]
        results = index.search(queries, scope, Deadline.after(60))
        uuids = {hit.uuid for result in results for hit in result.hits}
        chunks = index.get(sorted(uuids), scope, Deadline.after(60)).chunks
        stems = snippets.question_stems(row["question"])
        lists = [
            [chunks[hit.uuid] for hit in result.hits if not near or not _answers(row, chunks, hit)]
            for result in results
        ]
        dense = matrix([c.vector for c in lists[0][:GIVEN] if c.vector is not None])
        best = float((dense @ np.asarray(unpack(vector))).max()) if len(dense) else 0.0
        shares = [snippets.coverage(stems, f"{c.title} {c.text}") for c in lists[1][:GIVEN]]
        pairs.append((best, max(shares, default=0.0)))
    return pairs


def _answers(row: Row, chunks: Mapping[str, Any], hit: Any) -> bool:
    chunk = chunks[hit.uuid]
    if row.get("gold"):
        return chunk.doc_id in row["gold"]
    return any(word_share([chunk.text], evidence) >= HELD for evidence in row["evidence"])


def table(similarities: np.ndarray, threshold: float) -> list[list[float]]:
    """Return the table: 0 at 0, 0.3 at the threshold, then quantiles of answerable questions."""
    points = [[0.0, 0.0], [round(threshold, 3), 0.3]]
    for quantile, score in ((0.25, 0.6), (0.5, 0.75), (0.75, 0.9), (0.95, 1.0)):
        value = round(float(np.quantile(similarities, quantile)), 3)
        if value > points[-1][0]:
            points.append([value, score])
    if points[-1][1] < 1.0:
        points.append([1.0, 1.0])
    return points


def main() -> None:
    """Measure, print the curves, and with --write save the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("stores", type=Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    names = sorted(p.stem for p in arguments.stores.glob("*.sqlite") if (DATA / p.stem).is_dir())
    questions_by_set = {name: questions(name) for name in names}
    piles: dict[str, Values] = {}
    for corpus in names:
        path = (arguments.stores / f"{corpus}.sqlite").resolve()
        url = f"sqlite:///{path}"
        with sqlite3.connect(path) as db:
            namespace = db.execute("SELECT name FROM index_namespaces").fetchone()[0]
        environment = {**os.environ, "DOCSTOKG_INDEX_URL": url, "DOCSTOKG_GRAPH_URL": url}
        wiring = Wiring(Settings.from_environment(environment))
        for name in names:
            kind = "own" if name == corpus else "foreign"
            piles[f"{kind} {name} -> {corpus}"] = values(
                wiring, namespace, questions_by_set[name], False
            )
        piles[f"near {corpus} -> {corpus}"] = values(
            wiring, namespace, questions_by_set[corpus], True
        )
    tables = {}
    for column, kind in enumerate(KINDS):
        pile = {name: np.array([v[column] for v in rows]) for name, rows in piles.items()}
        piles_of_kind = [rows for name, rows in pile.items() if name.startswith("own")]
        threshold = min(float(np.quantile(rows, REFUSED)) for rows in piles_of_kind)
        tables[kind] = table(np.concatenate(piles_of_kind), threshold)
        print(f"\n{kind}: 0.3 at {threshold:.3f}: {tables[kind]}")
        steps = [threshold, *np.round(np.linspace(0.2, 0.65, 10), 3)]
        print(f"{'share at or above':45s}" + "".join(f"{step:7.3f}" for step in steps))
        for name, rows in pile.items():
            cells = "".join(f"{(rows >= step).mean():7.2f}" for step in steps)
            print(f"{name:45s}{cells}", flush=True)
    if arguments.write:
        TABLE.write_text(json.dumps(tables) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

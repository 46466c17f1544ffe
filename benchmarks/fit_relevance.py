"""Fit the relevance table: which cosine or share of words tells what a corpus can answer.

For every pair of loaded development sets, the questions of the one are put to the corpus of the
other. A question's value is the best one among its first 20 chunks, since abstention asks whether
any citation reaches 0.3. The threshold is the one with the best balanced accuracy over all sets
together; it becomes 0.3. Above it the table rises through quantiles of own questions' values.

    python benchmarks/fit_relevance.py STORE_FOLDER [--write]

STORE_FOLDER holds SET.sqlite for each set (`docstokg load ../shared/data/SET --index ...`).
"""

import argparse
import json
import random
from pathlib import Path

import numpy as np

from docstokg.contracts.records import Scope
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.domain import snippets
from docstokg.domain.vectors import matrix, unpack
from docstokg.settings import Settings
from docstokg.wiring import Wiring

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TABLE = Path("layers/common/python/docstokg/domain/relevance_table.json")
QUESTIONS = 100
SCOPE = Scope(namespace="default")


def questions(name: str) -> list[str]:
    """Take a fixed sample of a set's questions."""
    lines = (DATA / name / "questions.jsonl").read_text(encoding="utf-8").strip().split("\n")
    texts = [json.loads(line)["question"] for line in lines]
    return random.Random(7).sample(texts, min(QUESTIONS, len(texts)))


def values(wiring: Wiring, texts: list[str]) -> list[tuple[float, float]]:
    """Give (best cosine among the dense first 20, best share of words among BM25's) each."""
    index, embedder = wiring.search_index(), wiring.embedder()
    assert embedder is not None
    found = []
    for text in texts:
        vector = embedder.embed([text], None)[0]
        dense, words = index.search(
            [
                ChannelQuery(channel="dense", size=20, vector=vector),
                ChannelQuery(channel="bm25", size=20, text=text),
            ],
            SCOPE,
            30,
        )
        rows = matrix([hit.vector for hit in dense.hits if hit.vector is not None])
        cosine = float((rows @ np.asarray(unpack(vector))).max()) if len(rows) else 0.0
        stems = snippets.question_stems(text)
        chunks = index.get([hit.uuid for hit in words.hits], SCOPE, 30).chunks.values()
        share = max((snippets.coverage(stems, f"{c.title} {c.text}") for c in chunks), default=0)
        found.append((cosine, share))
    return found


def best_threshold(own: np.ndarray, foreign: np.ndarray) -> tuple[float, float]:
    """Give the threshold with the best balanced accuracy, and that accuracy."""
    candidates = np.unique(np.concatenate([own, foreign]))
    scored = [
        (((own >= value).mean() + (foreign < value).mean()) / 2, float(value))
        for value in candidates
    ]
    accuracy, threshold = max(scored)
    return threshold, float(accuracy)


def table(own: np.ndarray, threshold: float) -> list[list[float]]:
    """Rise from 0 at nothing over 0.3 at the threshold through quantiles of own questions."""
    points = [[0.0, 0.0], [round(threshold, 3), 0.3]]
    for quantile, score in ((0.25, 0.6), (0.5, 0.75), (0.75, 0.9), (0.95, 1.0)):
        value = round(float(np.quantile(own, quantile)), 3)
        if value > points[-1][0]:
            points.append([value, score])
    if points[-1][1] < 1.0:
        points.append([1.0, 1.0])
    return points


def main() -> None:
    """Measure, print, and with --write commit the table to its file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("stores", type=Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    names = sorted(
        path.stem for path in arguments.stores.glob("*.sqlite") if (DATA / path.stem).is_dir()
    )
    own: list[tuple[float, float]] = []
    foreign: list[tuple[float, float]] = []
    for corpus in names:
        url = f"sqlite:///{(arguments.stores / corpus).resolve()}.sqlite"
        wiring = Wiring(
            Settings.from_environment(
                {"DOCSTOKG_INDEX_URL": url, "DOCSTOKG_GRAPH_URL": url, **_environment()}
            )
        )
        for asked in names:
            measured = values(wiring, questions(asked))
            (own if asked == corpus else foreign).extend(measured)
            cosines, shares = (np.array(column) for column in zip(*measured, strict=True))
            print(
                f"{asked:15s} put to {corpus:15s} cosine p10 {np.quantile(cosines, 0.1):.3f} "
                f"p50 {np.median(cosines):.3f}  words p10 {np.quantile(shares, 0.1):.2f} "
                f"p50 {np.median(shares):.2f}",
                flush=True,
            )
    made = {}
    for column, kind in enumerate(("cosine", "coverage")):
        mine = np.array([value[column] for value in own])
        other = np.array([value[column] for value in foreign])
        threshold, accuracy = best_threshold(mine, other)
        made[kind] = table(mine, threshold)
        print(f"{kind}: 0.3 at {threshold:.3f}, balanced accuracy {accuracy:.3f}: {made[kind]}")
    if arguments.write:
        TABLE.write_text(json.dumps(made) + "\n", encoding="utf-8")


def _environment() -> dict[str, str]:
    import os

    return {k: v for k, v in os.environ.items() if k == "DOCSTOKG_CACHE_DIR"}


if __name__ == "__main__":
    main()

"""When the built-in model says nothing: questions that can be answered, and near misses.

    python -m benchmarks.near_misses STORE_FOLDER [--data FOLDER] [--questions 100] [--sets A B]
        [--fit]

STORE_FOLDER holds SET.sqlite for each development set. Every question goes through the pipeline
once, which gives fifteen passages instead of five. Near misses are the same questions with every
passage taken away that holds the answer (of a gold document; where a set names statements
instead, those that hold 60 % of the words of one); in both cases the model is given the first
five of what is left, and one behind them that answers better. Prints the share that is answered,
and the curve over `certainty`, of which
LEAST_CERTAIN is what an answer needs. Foreign: musique's questions put to medical_guidelines.

`--fit` prints where the coefficients of `certainty` and LEAST_CERTAIN come from: a logistic
regression of own questions against near misses over its four signs, each coefficient in parts of
that of worth, on all sets and with each left out; and, for the coefficients committed, the highest
value at which each set refuses at most 5 % of its own questions. What is committed is rounded.
"""

import argparse
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.fit_abstention import DATA
from benchmarks.train_verdicts import logistic
from docstokg.contracts.state import Block, Grounded
from docstokg.domain.answer import extractive, notices
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_functions.ground import handler, passages
from docstokg_local.cli.asking import ask
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.evaluation.answers import HELD, held
from docstokg_local.evaluation.retrieval import read_lines

FOUND, GIVEN = 15, 5
REFUSED = 0.05
STEPS = (0.8, 0.9, 1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 1.7)
Row = dict[str, Any]
Found = tuple[Block, str]


def main() -> None:
    """Ask, take away, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("stores", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--sets", nargs="+", default=["medical_guidelines", "musique100"])
    parser.add_argument("--fit", action="store_true", help="print the regression too")
    options = parser.parse_args()
    signs: dict[str, list[Case]] = {}
    print("| questions | answered | " + " | ".join(f"{step}" for step in STEPS) + " |")
    print("|---" * (len(STEPS) + 2) + "|")
    for corpus in options.sets:
        own = asked(
            options.stores / f"{corpus}.sqlite", questions(options.data / corpus, options.questions)
        )
        show(f"own {corpus}", [(row, found) for row, found in own])
        near = [(row, [one for one in found if not holds(row, one)]) for row, found in own]
        show(f"near {corpus}", near)
        signs[corpus] = [*cases(own, answerable=True), *cases(near, answerable=False)]
    foreign = questions(options.data / "musique100", options.questions)
    show(
        "musique100 put to medical_guidelines",
        asked(options.stores / "medical_guidelines.sqlite", foreign),
    )
    if options.fit:
        print(fitted(signs))


def questions(folder: Path, count: int) -> list[Row]:
    """Take the first questions of a set."""
    files = (folder / "questions.jsonl", folder / "answers.jsonl")
    return list(read_lines([next(path for path in files if path.exists())], dict))[:count]


def asked(path: Path, rows: Sequence[Row]) -> list[tuple[Row, list[Found]]]:
    """Let the pipeline find fifteen passages, each with its document, for every question."""
    url = f"sqlite:///{path.resolve()}"
    with sqlite3.connect(path) as db:
        namespace = db.execute("SELECT name FROM index_namespaces").fetchone()[0]
    environment = {**os.environ, "DOCSTOKG_INDEX_URL": url, "DOCSTOKG_GRAPH_URL": url}
    kept: list[Grounded] = []
    ground, context = handler.ground, passages.context

    def keeping(*args: Any, **more: Any) -> Grounded:
        kept.append(ground(*args, **more))
        return kept[-1]

    vars(handler)["ground"] = keeping
    vars(passages)["context"] = lambda plan, citations, chunks: tuple(
        range(min(FOUND, len(citations)))
    )
    workflow = LocalWorkflow(
        Wiring(Settings.from_environment(environment), Telemetry(level="ERROR"))
    )
    found = []
    for row in rows:
        kept.clear()
        request = {
            "query": row["question"],
            "namespace": namespace,
            "synthesis": {"enabled": True, "model": extractive.MODEL},
            "budget": {"max_tokens_gen": 512, "timeout_s": 25},
        }
        ask(workflow, request)
        documents = {citation.rank: citation.doc_id for citation in kept[0].citations}
        found.append((row, [(block, documents[block.rank]) for block in kept[0].blocks]))
    vars(handler)["ground"], vars(passages)["context"] = ground, context
    return found


def holds(row: Mapping[str, Any], found: Found) -> bool:
    """Tell whether a passage holds the answer, or a part of it."""
    block, document = found
    if row.get("gold"):
        return document in row["gold"]
    return any(held([block.text], one) >= HELD for one in row["evidence"])


def show(name: str, rows: Sequence[tuple[Row, Sequence[Found]]]) -> None:
    """Print the share answered, and the share that `certainty` alone would let pass."""
    said, certain = [], []
    for row, found in rows:
        query = row["question"]
        blocks = passages.with_telling(query, [block for block, _ in found], GIVEN)
        best = extractive.quotations(query, blocks)[:1]
        certain.append(extractive.certainty(query, best[0], blocks) if best else 0.0)
        said.append(not notices.is_abstention(extractive.answer(query, blocks, 512)))
    shares = [np.mean(np.array(certain) >= step) for step in STEPS]
    cells = " | ".join(f"{share:.2f}" for share in shares)
    print(f"| {len(rows)} {name} | {np.mean(said):.2f} | {cells} |", flush=True)


class Case(NamedTuple):
    """What speaks for the best quotation of a question; its answer is there or taken away."""

    signs: extractive.Signs
    certainty: float
    answerable: bool


def cases(rows: Sequence[tuple[Row, Sequence[Found]]], *, answerable: bool) -> list[Case]:
    """Give the signs of every question that gets as far as being weighed by them."""
    made = []
    for row, found in rows:
        query = row["question"]
        blocks = passages.with_telling(query, [block for block, _ in found], GIVEN)
        for best in extractive.quotations(query, blocks)[:1]:
            if (signs := extractive.signs_of(query, best, blocks)) is not None:
                certain = extractive.certainty(query, best, blocks)
                made.append(Case(signs, certain, answerable))
    return made


def fitted(of_sets: Mapping[str, Sequence[Case]]) -> str:
    """Fit on all sets and without each, and find what each set's own questions let be asked."""
    names = extractive.Signs._fields
    lines = ["", f"| fitted | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for left_out in (None, *of_sets):
        own = [case for name, rows in of_sets.items() if name != left_out for case in rows]
        answerable = np.array([case.answerable for case in own], dtype=float)
        # Both piles of a set are of like size: no weights.
        scorer = logistic(
            [case.signs._asdict() for case in own], names, answerable, np.ones(len(own))
        )
        raw = [weight / deviation for _, deviation, weight in scorer.features.values()]
        cells = " | ".join(f"{one / raw[0]:.2f}" for one in raw)
        lines.append(f"| {f'without {left_out}' if left_out else 'all'} | {cells} |")
    lines += ["", "| set | highest value that refuses at most 5 % of its own |", "|---|---|"]
    for name, rows in of_sets.items():
        own_certainties = [case.certainty for case in rows if case.answerable]
        lines.append(f"| {name} | {np.quantile(own_certainties, REFUSED, method='lower'):.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

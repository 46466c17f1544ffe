"""Measure query expansion: other names of the question's entities in the word channels.

    python -m benchmarks.other_names STORE QUESTIONS [--limit 300]

STORE is a SQLite file with the documents of QUESTIONS, a file of JSON lines {id, question, gold},
or an entity list `entities.jsonl`: then "What is X?" is asked of every synonym X of an entity whose
name is the title of a document. Every question is asked as a user asks it, with the graph, once
with and once without the names that retrieval reads. Prints nDCG@10 and the share of questions
whose first document is right, with standard errors; the error of a difference is that of paired
questions.

`other_names_questions.jsonl` belongs to a store written by `docstokg demo --index sqlite:///STORE`,
into which `own_company` and `own_company_names` were loaded.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docstokg.contracts.records import Scope
from docstokg.contracts.request import DEFAULT_NAMESPACE
from docstokg.contracts.retrieval import ChannelQuery, ChannelResult
from docstokg.domain.deadline import Deadline
from docstokg.domain.text.words import fold
from docstokg.observability import Telemetry
from docstokg.ports import SearchIndex
from docstokg.wiring import Wiring
from docstokg_local.cli.stores import settings_of
from docstokg_local.evaluation.retrieval import (
    TOP_K,
    Question,
    ask_all,
    documents,
    metrics,
    read_lines,
)

TIME_S = 60.0


class IndexWithoutNames:
    """A search index that finds no names of entities while `hidden` is True."""

    def __init__(self, index: SearchIndex) -> None:
        self._index = index
        self.hidden = False
        self.expanded = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def search(
        self, queries: Sequence[ChannelQuery], scope: Scope, deadline: Deadline
    ) -> tuple[ChannelResult, ...]:
        """Search the queries; count those for other names."""
        of_names = any(query.names for query in queries)
        self.expanded += not of_names and not self.hidden
        results = self._index.search(queries, scope, deadline)
        return tuple(
            result.model_copy(update={"facts": ()}) if query.names and self.hidden else result
            for query, result in zip(queries, results, strict=True)
        )


def main() -> None:
    """Ask all questions without and with other names, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--limit", type=int, default=300, help="evenly spaced questions")
    options = parser.parse_args()
    url = f"sqlite:///{options.store.resolve()}"
    wiring = Wiring(settings_of(url, url), Telemetry(level="ERROR"))
    every = questions_of(wiring, options.questions)
    count = min(options.limit, len(every))
    questions = [every[place * len(every) // count] for place in range(count)]
    index = IndexWithoutNames(wiring.search_index())
    wiring.override("search_index", index)
    index.hidden = True
    plain = measured(wiring, questions)
    index.hidden = False
    scores = measured(wiring, questions)
    print(f"{options.questions}: {len(questions)} questions, {index.expanded} of them expanded")
    for number, name in enumerate(("nDCG@10", "first right")):
        changes = [
            after[number] - before[number] for before, after in zip(plain, scores, strict=True)
        ]
        up, down = (sum(sign * change > 0 for change in changes) for sign in (1, -1))
        print(f"{name} without {mean_text([scores[number] for scores in plain])}")
        print(f"  change {mean_text(changes, '+')}; {up} questions better, {down} worse")
    wiring.close()


def questions_of(wiring: Wiring, path: Path) -> list[Question]:
    """Read questions, or make them from the synonyms of an entity list."""
    if not path.name.startswith("entities"):
        return list(read_lines([path], Question.model_validate))
    titled: dict[str, set[str]] = {}
    for node in wiring.graph_writer().stored_nodes(DEFAULT_NAMESPACE):
        titled.setdefault(fold(node.title), set()).add(node.doc_id)
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [
        Question(id=f"{row['id']} {name}", question=f"What is {name}?", gold=tuple(sorted(gold)))
        for row in rows
        if (gold := titled.get(fold(row["name"])))
        for name in row.get("synonyms", ())
    ]


def measured(wiring: Wiring, questions: Sequence[Question]) -> list[tuple[float, float]]:
    """Return each question's nDCG@10, and whether its first document is right; 0 for errors."""
    scores = {question.id: (0.0, 0.0) for question in questions}

    def take(question: Question, body: dict[str, Any]) -> None:
        doc_ids = documents(body)
        first = float(doc_ids[:1] != [] and doc_ids[0] in question.gold)
        scores[question.id] = (metrics(doc_ids, set(question.gold))["ndcg@10"], first)

    fields = {"top_k": TOP_K, "budget": {"timeout_s": TIME_S}}
    requests = [(question, {"query": question.question, **fields}) for question in questions]
    report = ask_all(wiring, "questions", requests, take)
    if report["errors"] or report["degraded"]:
        print(f"{report['errors']} errors, {report['degraded']} degraded")
    return list(scores.values())


def mean_text(values: Sequence[float], sign: str = "") -> str:
    """Return a mean and its standard error."""
    error = statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.fmean(values):{sign}.4f} (standard error {error:.4f})"


if __name__ == "__main__":
    main()

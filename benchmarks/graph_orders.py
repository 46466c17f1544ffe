"""Compare the citations with and without the graph, question by question.

usage: python -m benchmarks.graph_orders [--top-k N] FOLDER=STORE.sqlite[:NAMESPACE] ...

Asks each question of `questions.jsonl` with the graph and without it. Printed per set: MRR, the
share of questions with all gold documents among the first ten citations (of those with several
gold documents: beside it), the mean paired differences with their standard errors, and the share
of questions whose first ten citations the graph changed or reordered. A question without `gold`
has `accept`: alternatives of texts (joined by "+") of which a right passage contains one.
"""

import argparse
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.loaded_sets import WRITTEN, LoadedSet
from benchmarks.peers.common import rows
from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.cli.question import submit
from docstokg_local.cli.stores import settings_of
from docstokg_local.engine.workflow import LocalWorkflow

FIRST = 10
TRIES = 20
MEASURES = ("mrr", "ndcg", "all@10")


@dataclass(frozen=True)
class Outcome:
    """Measures of one question and its first ten citations."""

    measures: Mapping[str, float]
    several: bool
    citations: tuple[str, ...]
    documents: int


def main() -> None:
    """Run it."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("sets", nargs="+", type=LoadedSet.read, metavar=WRITTEN)
    options.add_argument("--top-k", type=int, default=FIRST)
    chosen = options.parse_args()
    columns = "set | n | graph | MRR | nDCG@10 | all@10 | several: n, all@10 | documents | changed"
    print(f"| {columns} |\n|{'---|' * 9}")
    for folder, store, namespace in chosen.sets:
        compare(folder, store, {"namespace": namespace, "top_k": chosen.top_k})


def compare(folder: Path, store: Path, fields: Mapping[str, Any]) -> None:
    """Ask a set's questions both ways and print its rows."""
    url = f"sqlite:///{store.resolve()}"
    wiring = Wiring(settings_of(url, url), Telemetry(level="ERROR"))
    workflow = LocalWorkflow(wiring)
    questions = rows(folder / "questions.jsonl")
    outcomes: dict[bool, list[Outcome]] = {}
    for enabled in (False, True):
        request = {**fields, "kg_expansion": {"enabled": enabled}}
        outcomes[enabled] = [outcome_of(workflow, question, request) for question in questions]
    wiring.close()
    pairs = list(zip(outcomes[True], outcomes[False], strict=True))
    changed = statistics.mean(with_it.citations != off.citations for with_it, off in pairs)
    for label, enabled, share in (("off", False, ""), ("on", True, f"{changed:.2f}")):
        row = (folder.name, str(len(questions)), label, cells(outcomes[enabled]), share)
        print(f"| {' | '.join(row)} |")
    differences = [
        error_of([on.measures[name] - off.measures[name] for on, off in pairs]) for name in MEASURES
    ]
    print(f"| {folder.name} | | difference (error) | {' | '.join(differences)} | | | |", flush=True)


def outcome_of(
    workflow: LocalWorkflow, question: Mapping[str, Any], request: Mapping[str, Any]
) -> Outcome:
    """Ask one question, again if a busy machine degraded its answer."""
    accepted = question.get("accept", ())
    body = {"query": question["question"], **request}
    if accepted:
        body["verbosity"] = "full"
    for _ in range(TRIES):
        reply = submit(workflow, body)
        if reply.status == 200 and not reply.body["diagnostics"]["degraded"]:
            break
    else:
        raise SystemExit(f"{question['question']!r} was degraded {TRIES} times: {reply.body}")
    citations = reply.body["citations"]
    if accepted:
        labels = [
            "right" if contains(citation["full_text"], accepted) else citation["uuid"]
            for citation in citations
        ]
        gold = {"right"}
    else:
        labels, gold = [citation["doc_id"] for citation in citations], set(question["gold"])
    return Outcome(
        measures_of(labels, gold),
        len(gold) > 1,
        tuple(citation["uuid"] for citation in citations[:FIRST]),
        len({citation["doc_id"] for citation in citations[:FIRST]}),
    )


def contains(text: str, accepted: Iterable[str]) -> bool:
    """Return whether a text contains all parts of one of the accepted texts, in any case."""
    folded = text.casefold()
    return any(
        all(part in folded for part in alternative.casefold().split("+"))
        for alternative in accepted
    )


def measures_of(labels: Sequence[str], gold: set[str]) -> dict[str, float]:
    """Return the measures of ranked citations, labelled by document."""
    documents = list(dict.fromkeys(labels))[:FIRST]
    gain = sum(1 / math.log2(i + 2) for i, label in enumerate(documents) if label in gold)
    best = sum(1 / math.log2(i + 2) for i in range(min(FIRST, len(gold))))
    first = next((1 / (i + 1) for i, label in enumerate(labels) if label in gold), 0.0)
    return {"mrr": first, "ndcg": gain / best, "all@10": float(gold <= {*labels[:FIRST]})}


def cells(outcomes: Sequence[Outcome]) -> str:
    """Return the means of a run as cells."""
    means = [statistics.mean(outcome.measures[name] for outcome in outcomes) for name in MEASURES]
    several = [outcome.measures["all@10"] for outcome in outcomes if outcome.several]
    together = f"{len(several)}, {statistics.mean(several):.3f}" if several else ""
    documents = statistics.mean(outcome.documents for outcome in outcomes)
    return " | ".join([*(f"{mean:.4f}" for mean in means), together, f"{documents:.1f}"])


def error_of(differences: Sequence[float]) -> str:
    """Return mean and standard error of paired differences."""
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    return f"{statistics.mean(differences):+.4f} ({error:.4f})"


if __name__ == "__main__":
    main()

"""Of how many questions the graph changes the first ten documents, and how many win or lose by it.

    python -m benchmarks.first_ten FOLDER --index URL [--namespace NS] [--limit N]

Each question of FOLDER (as `docstokg eval` reads them) is asked with the graph and without it. Won
and lost are by nDCG@10. Two bounds of its mean stand beside it: the better of the two answers of
each question (what a rule could reach at most that only decides whether the walk may order), and
the first ten found without the graph in the best order (what any order of them could reach).
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.cli.asking import ask
from docstokg_local.cli.stores import settings_of
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.evaluation.retrieval import TOP_K, documents, metrics, read_questions

FIRST = 10


def main() -> None:
    """Print one line of counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--index", required=True)
    parser.add_argument("--namespace")
    parser.add_argument("--limit", type=int)
    options = parser.parse_args()
    settings = settings_of(options.index, options.index)
    workflow = LocalWorkflow(Wiring(settings, Telemetry(level="ERROR")))
    changed = 0
    scores: list[tuple[float, float, float]] = []
    for question in read_questions(options.folder, options.limit):
        request = {
            "query": question.question,
            "namespace": options.namespace or options.folder.name,
            "top_k": TOP_K,
        }
        found = [
            ask(workflow, request | {"kg_expansion": {"enabled": enabled}})
            for enabled in (True, False)
        ]
        if any(outcome.status != 200 for outcome in found):
            raise SystemExit(f"{question.question}: {[outcome.body for outcome in found]}")
        on, off = (documents(outcome.body)[:FIRST] for outcome in found)
        gold = set(question.gold)
        best = sorted(off, key=lambda document: document not in gold)
        with_graph, without, ordered = (
            metrics(ranking, gold)["ndcg@10"] for ranking in (on, off, best)
        )
        scores.append((with_graph, without, ordered))
        changed += on != off
    print(f"{options.folder.name}: {len(scores)} questions, first ten changed in {changed}")
    print(summary(scores))


def summary(scores: Sequence[tuple[float, float, float]]) -> str:
    """Tell wins, losses, means and bounds of nDCG@10: with the graph, without, in the best order.

    Raises statistics.StatisticsError where no question was asked.
    """
    won = sum(on > off for on, off, _ in scores)
    lost = sum(on < off for on, off, _ in scores)
    without = fmean(off for _, off, _ in scores)
    bounds = {
        "with the graph": fmean(on for on, _, _ in scores),
        "the better of both, question by question": fmean(max(on, off) for on, off, _ in scores),
        "the first ten without it in the best order": fmean(best for *_, best in scores),
    }
    lines = [f"won {won}, lost {lost}; nDCG@10 without the graph {without:.4f}"]
    lines += [f"{name} {mean:.4f} ({mean - without:+.4f})" for name, mean in bounds.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()

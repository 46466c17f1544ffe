"""Of how many questions the graph changes the first ten documents, and how many win or lose by it.

    python -m benchmarks.first_ten FOLDER --index URL [--namespace NS] [--limit N]

Each question of FOLDER (as `docstokg eval` reads them) is asked with the graph and without it. Won
and lost are by nDCG@10.
"""

import argparse
from pathlib import Path

from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.asking import ask
from docstokg_local.evaluation import TOP_K, documents, metrics, read_questions
from docstokg_local.stores import settings_of
from docstokg_local.workflow import LocalWorkflow

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
    asked = changed = won = lost = 0
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
        gains = [metrics(ranking, set(question.gold))["ndcg@10"] for ranking in (on, off)]
        asked += 1
        changed += on != off
        won += gains[0] > gains[1]
        lost += gains[0] < gains[1]
    print(
        f"{options.folder.name}: {asked} questions, first ten changed in {changed},"
        f" won {won}, lost {lost}"
    )


if __name__ == "__main__":
    main()

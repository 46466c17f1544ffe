"""Whether every citation of many answers can be proven against its source, as `verify` does.

usage: python -m benchmarks.prove_citations FOLDER [--namespace NS] [--limit N] [--source]

Asks the questions of FOLDER with the built-in model over the configured stores and proves each
response against the store or, with --source, against the files of FOLDER.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from docstokg.contracts.response import RAGResponse
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.asking import ask
from docstokg_local.cli.verify import FileSources, Sources, StoreSources, check_response
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.evaluation.retrieval import read_questions


def main() -> None:
    """Ask, prove, count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--source", action="store_true")
    chosen = parser.parse_args()
    wiring = Wiring(Settings.from_environment(os.environ), Telemetry(level="ERROR"))
    workflow = LocalWorkflow(wiring)
    sources: Sources = (
        FileSources(chosen.folder, chosen.namespace)
        if chosen.source
        else StoreSources(wiring.search_index(), wiring.register(), chosen.namespace)
    )
    found: Counter[str] = Counter()
    begun = time.perf_counter()
    for question in read_questions(chosen.folder, chosen.limit):
        outcome = ask(
            workflow,
            {
                "query": question.question,
                "namespace": chosen.namespace,
                "synthesis": {"enabled": True, "model": "extractive"},
                "budget": {"max_tokens_gen": 512},
            },
        )
        if outcome.status != 200:
            found["problems"] += 1
            continue
        response = RAGResponse.model_validate_json(json.dumps(outcome.body))
        findings, proven = check_response(response, sources)
        found["responses"] += 1
        found["answered"] += response.grounding is not None
        found["grounded"] += response.grounding is not None and response.grounding.grounded
        found["citations"] += len(response.citations)
        found["proven"] += proven
        found["findings"] += len(findings)
        for finding in findings:
            print(f"{question.id} {finding}", file=sys.stderr)
    seconds = round(time.perf_counter() - begun, 1)
    print(json.dumps({"set": chosen.folder.name, **found, "seconds": seconds}))


if __name__ == "__main__":
    main()

"""Does the graph harm questions that have one right passage? By document and by passage.

usage: python -m benchmarks.known_item STORE.sqlite FOLDER [--namespace NS] [--limit N]

FOLDER/questions.jsonl names the right document (`gold`) and passage (`gold_passage`) of each
question; STORE holds FOLDER, loaded as `docstokg load` does. Every question is asked with the graph
and without it.
"""

import argparse
import json
from pathlib import Path

from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.cli.asking import ask
from docstokg_local.cli.display import TerminalProgress
from docstokg_local.cli.stores import settings_of
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.evaluation.retrieval import TOP_K, documents, metrics

SHOWN = ("ndcg@10", "recall@10", "mrr")


def main() -> None:
    """Run it."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("store", type=Path)
    options.add_argument("folder", type=Path)
    options.add_argument("--namespace", default="default")
    options.add_argument("--limit", type=int)
    chosen = options.parse_args()
    url = f"sqlite:///{chosen.store.resolve()}"
    wiring = Wiring(settings_of(url, url), Telemetry(level="ERROR"))
    workflow = LocalWorkflow(wiring)
    lines = (chosen.folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line) for line in lines[: chosen.limit]]
    print("| graph | ranked | " + " | ".join(SHOWN) + " |")
    print("|---|---|" + "---|" * len(SHOWN))
    for graph in (False, True):
        totals = {kind: dict.fromkeys(SHOWN, 0.0) for kind in ("documents", "passages")}
        with TerminalProgress().stage("graph on" if graph else "graph off", len(questions)) as step:
            for question in questions:
                request = {
                    "query": question["question"],
                    "namespace": chosen.namespace,
                    "top_k": TOP_K,
                    "kg_expansion": {"enabled": graph},
                }
                body = ask(workflow, request).body
                passages = [citation["chunk_id"] for citation in body["citations"]]
                found = {
                    "documents": metrics(documents(body), set(question["gold"])),
                    "passages": metrics(passages, {question["gold_passage"]}),
                }
                for kind, values in found.items():
                    for name in SHOWN:
                        totals[kind][name] += values[name] / len(questions)
                step(1)
        for kind, means in totals.items():
            figures = " | ".join(f"{means[name]:.4f}" for name in SHOWN)
            print(f"| {'on' if graph else 'off'} | {kind} | {figures} |")


if __name__ == "__main__":
    main()

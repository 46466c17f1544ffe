"""Recall of rewritten follow-up questions, compared with the full questions.

    python -m benchmarks.conversations --set FOLDER --store FILE [--half development|kept]

Loads the set's passages into the store once (real encoders), then asks every follow-up of
`conversations.jsonl` three ways through the whole pipeline: with its history, alone, and as the
full reference question. Printed: recall@5 with its standard error, the paired difference of the
first and the last, and the number of subject changes that are correctly left unchanged.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.cli.question import submit
from docstokg_local.cli.stores import settings_of
from docstokg_local.engine.workflow import LocalWorkflow

CONVERSATIONS = Path(__file__).with_name("conversations.jsonl")
HALVES = ("development", "kept")
CUT = 5
Turns = list[dict[str, str]]


def main() -> None:
    """Load, ask and print."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--set", type=Path, required=True)
    options.add_argument("--store", type=Path, required=True)
    options.add_argument("--half", choices=HALVES, action="append")
    chosen = options.parse_args()
    url = f"sqlite:///{chosen.store.resolve()}"
    if not chosen.store.exists():
        command = Path(sys.executable).with_name("docstokg")
        subprocess.run([command, "load", chosen.set, "--index", url, "--graph", url], check=True)
    wiring = Wiring(settings_of(url, url), Telemetry(level="ERROR"))
    workflow = LocalWorkflow(wiring)
    rows = [json.loads(line) for line in CONVERSATIONS.read_text("utf-8").splitlines()]
    for half in chosen.half or HALVES:
        report(half, [row for row in rows if row["half"] == half], workflow)
    wiring.close()


def report(half: str, conversations: list[dict[str, Any]], workflow: LocalWorkflow) -> None:
    """Ask one half; print its figures and follow-ups with a lower recall than the full question."""
    recalls: dict[str, list[float]] = {"with history": [], "alone": [], "whole question": []}
    unchanged = turns = 0
    for conversation in conversations:
        history: Turns = []
        for turn in conversation["turns"]:
            if turn["whole"] is not None:
                used, with_history = search(workflow, turn["question"], history)
                hits = (
                    with_history,
                    search(workflow, turn["question"], [])[1],
                    search(workflow, turn["whole"], [])[1],
                )
                for values, documents in zip(recalls.values(), hits, strict=True):
                    values.append(float(turn["gold"] in documents))
                if turn["gold"] not in with_history:
                    print(f"  missed {conversation['id']}: {used}")
            history.append({"role": "user", "content": turn["question"]})
            history.append({"role": "assistant", "content": turn["answer"]})
        for question in conversation["changes"]:
            used = search(workflow, question, history)[0]
            turns += 1
            unchanged += used == question
            if used != question:
                print(f"  changed {conversation['id']}: {used}")
    for name, values in recalls.items():
        print(f"{half}: {name} recall@{CUT} {interval(values)} of {len(values)}")
    pairs = zip(recalls["with history"], recalls["whole question"], strict=True)
    print(f"{half}: with history - whole question {interval([a - b for a, b in pairs])}")
    print(f"{half}: {unchanged} of {turns} turns that change the subject asked as sent", flush=True)


def search(workflow: LocalWorkflow, question: str, history: Turns) -> tuple[str, list[str]]:
    """Ask one question; return the question as understood and the first five documents."""
    body = {"query": question, "history": history, "top_k": 20, "budget": {"timeout_s": 60}}
    outcome = submit(workflow, body, "search")
    assert outcome.status == 200, outcome.body
    documents = dict.fromkeys(citation["doc_id"] for citation in outcome.body["citations"])
    return outcome.body["query_used"], list(documents)[:CUT]


def interval(values: list[float]) -> str:
    """Return the mean with its standard error as text."""
    return f"{fmean(values):.3f} ± {stdev(values) / len(values) ** 0.5:.3f}"


if __name__ == "__main__":
    main()

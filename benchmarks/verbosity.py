"""What each verbosity costs, and what the gate of the graph walk saves, over 25 questions.

usage: python -m benchmarks.verbosity STORE.sqlite FOLDER [--questions 25] [--out STEM]

FOLDER holds questions.jsonl for what STORE has loaded. Writes STEM.csv (one row a request) and
STEM.md: p50, p95, expansions, prunes, rejects and timeouts per verbosity; and the gated walk
against plain breadth-first from the same seeds: expansions, mean score of the best 20 nodes, of
all.
"""

import argparse
import base64
import csv
import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from docstokg.contracts.records import Scope
from docstokg.contracts.state import Caller, Envelope
from docstokg.contracts.traverse import Frontier
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.evaluation import percentile, read_questions
from docstokg_local.workflow import LocalWorkflow
from functions.traverse.walk import Walk, Walked, walk_graph

MODES = ("snippet", "full", "graph")
CALLER = Caller(sub="bench", namespaces=("*",), groups=("*",))
FIELDS = ("question", "mode", "ms", "status", "citations", "expanded", "pruned", "reasons")
SEEDS = 10
BEST = 20


class Counts:
    """A metric sink that adds counters up by name."""

    def __init__(self) -> None:
        self.by_name: Counter[str] = Counter()

    def record(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Add one value."""
        self.by_name[name] += int(value)

    def flush(self) -> None:
        """Keep everything; it is read at the end."""


def main() -> None:
    """Run it."""
    options = argparse.ArgumentParser()
    options.add_argument("store", type=Path)
    options.add_argument("folder", type=Path)
    options.add_argument("--questions", type=int, default=25)
    options.add_argument("--out", type=Path, default=Path("benchmarks/reports/verbosity"))
    chosen = options.parse_args()
    url = f"sqlite:///{chosen.store.resolve()}"
    given = {"DOCSTOKG_INDEX_URL": url, "DOCSTOKG_GRAPH_URL": url}
    counts = Counts()
    settings = Settings.from_environment(
        {**os.environ, **given, "DOCSTOKG_GRAPH_BUDGET_PER_MINUTE": "100000"}
    )
    wiring = Wiring(settings, Telemetry(counts, level="ERROR"))
    workflow = LocalWorkflow(wiring)
    questions = [item.question for item in read_questions(chosen.folder, chosen.questions)]
    for mode in MODES:
        ask(workflow, questions[0], mode)
    rows: list[dict[str, Any]] = []
    lines = [
        "| verbosity | n | p50 ms | p95 ms | expansions | prunes | plan rejects | timeouts |",
        "|---|---|---|---|---|---|---|---|",
    ]
    bodies: dict[str, dict[str, Any]] = {}
    for mode in MODES:
        counts.by_name.clear()
        own = []
        for question in questions:
            row, body = ask(workflow, question, mode)
            own.append(row)
            bodies[question] = body
        rows += own
        times = [float(row["ms"]) for row in own]
        lines.append(
            f"| {mode} | {len(own)} | {percentile(times, 50):.0f} | {percentile(times, 95):.0f} |"
            f" {counts.by_name['graph_expand_nodes_total']} |"
            f" {counts.by_name['graph_pruned_nodes_total']} |"
            f" {counts.by_name['cypher_explain_reject_total']} |"
            f" {sum('kg_timeout' in row['reasons'] for row in own)} |"
        )
    lines += ["", *walks(wiring, questions, bodies)]
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    with chosen.out.with_suffix(".csv").open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    chosen.out.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def ask(workflow: LocalWorkflow, question: str, mode: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ask one question one way; (the row of the table, the response)."""
    body = {"query": question, "verbosity": mode, "budget": {"timeout_s": 20}}
    envelope = Envelope(
        route="answer",
        request_id="bench",
        caller=CALLER,
        body_b64=base64.b64encode(json.dumps(body).encode()).decode(),
    )
    started = time.perf_counter()
    reply = workflow.run(envelope)
    ms = (time.perf_counter() - started) * 1000
    answer = json.loads(reply.body)
    budget = (answer.get("graph") or {}).get("budget", {})
    row = {
        "question": question,
        "mode": mode,
        "ms": round(ms, 1),
        "status": reply.statusCode,
        "citations": len(answer.get("citations", ())),
        "expanded": budget.get("expanded", 0),
        "pruned": budget.get("pruned", 0),
        "reasons": " ".join(answer.get("diagnostics", {}).get("degraded_reasons", ())),
    }
    return row, answer


def walks(
    wiring: Wiring, questions: Sequence[str], bodies: Mapping[str, dict[str, Any]]
) -> list[str]:
    """Walk from the citations three deep, gated and breadth-first, with /v1/traverse's defaults."""
    found: dict[bool, list[Walked]] = {True: [], False: []}
    times: dict[bool, list[float]] = {True: [], False: []}
    for question in questions:
        citations = bodies[question].get("citations", [])[:SEEDS]
        asked = Walk(
            query=question,
            scope=Scope(namespace="default"),
            seeds=tuple(citation["uuid"] for citation in citations[:3]),
            direction="both",
            max_depth=3,
            soft_depth=3,
            max_nodes=150,
            frontier=Frontier(),
        )
        for gated in (True, False):
            started = time.perf_counter()
            walked = walk_graph(
                replace(asked, gated=gated),
                graph=wiring.knowledge_graph(),
                index=wiring.search_index(),
                embedder=wiring.embedder(),
                telemetry=wiring.telemetry,
                time_s=60.0,
            )
            times[gated].append((time.perf_counter() - started) * 1000)
            found[gated].append(walked)
    lines = [
        "| walk | nodes | expansions | best 20 nodes, mean score | all nodes, mean | p50 ms |",
        "|---|---|---|---|---|---|",
    ]
    for gated, label in ((True, "gated"), (False, "breadth-first")):
        own = found[gated]
        lines.append(
            f"| {label} | {statistics.mean(len(one.nodes) for one in own):.1f} |"
            f" {statistics.mean(one.expanded for one in own):.1f} |"
            f" {statistics.mean(best(one, BEST) for one in own):.4f} |"
            f" {statistics.mean(best(one, None) for one in own):.4f} |"
            f" {percentile(times[gated], 50):.0f} |"
        )
    saved = 1 - sum(w.expanded for w in found[True]) / max(1, sum(w.expanded for w in found[False]))
    return [*lines, "", f"The gate saves {saved:.0%} of the expansions."]


def best(walked: Walked, size: int | None) -> float:
    """Give the mean score of the best nodes that were not given as seeds."""
    scores = sorted((node.score for node in walked.nodes.values() if node.depth), reverse=True)
    return statistics.mean(scores[:size]) if scores else 0.0


if __name__ == "__main__":
    main()

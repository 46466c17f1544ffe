"""What each verbosity costs, and what the gate of the graph walk saves, over 25 questions.

usage: python -m benchmarks.verbosity [--data FOLDER] [--store FILE.sqlite] [--questions 25]
       [--out STEM]

FOLDER holds a set with questions.jsonl (default ../shared/data/musique100); it is loaded into
.cache/verbosity unless a STORE that holds it is given. Writes STEM.csv (one row a request) and
STEM.md: p50, p95, expansions, prunes, rejects and timeouts per verbosity; and walks from the same
seeds, gated and not: expansions, scores of the nodes kept, gold documents among them.
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
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from docstokg.contracts.envelope import Caller, Envelope
from docstokg.contracts.records import Scope
from docstokg.contracts.traverse import Frontier
from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.usecases.run import beginning
from docstokg.wiring import Wiring
from docstokg_functions.traverse.walk import WalkRequest, WalkResult, walk_graph
from docstokg_local.cli.display import TerminalProgress
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.evaluation.retrieval import Question, percentile, read_questions
from docstokg_local.loading.stores import stores_of

MODES = ("snippet", "full", "graph")
CALLER = Caller(sub="bench", namespaces=("*",), groups=("*",))
COUNTED = {
    "expanded": "graph_expand_nodes_total",
    "pruned": "graph_pruned_nodes_total",
    "rejects": "cypher_explain_reject_total",
    "timeouts": "cypher_timeout_total",
}
FIELDS = ("question", "mode", "ms", "status", "citations", *COUNTED, "reasons")
HERE = Path(__file__).resolve().parent
NAMESPACE = "default"
SCOPE = Scope(namespace=NAMESPACE)
SEEDS = 3
BEST = 20
NO_DELTA = 2.0
WALKS: dict[str, tuple[bool, Frontier]] = {
    "gated, defaults (top 20, delta 0.05)": (True, Frontier()),
    "gated, delta 0.2": (True, Frontier(delta_threshold=0.2)),
    "gated by top 20 alone": (True, Frontier(delta_threshold=NO_DELTA)),
    "gated by top 40 alone": (True, Frontier(top_k=40, delta_threshold=NO_DELTA)),
    "no gate: the best are kept, all are expanded": (
        True,
        Frontier(top_k=100, delta_threshold=NO_DELTA),
    ),
    "plain breadth-first": (False, Frontier()),
}


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
    options = argparse.ArgumentParser(description=main.__doc__)
    data = HERE.parent.parent / "shared" / "data" / "musique100"
    options.add_argument("--data", type=Path, default=data)
    options.add_argument("--store", type=Path)
    options.add_argument("--questions", type=int, default=25)
    options.add_argument("--out", type=Path, default=HERE.parent / "build" / "verbosity")
    chosen = options.parse_args()
    if not (chosen.data / "questions.jsonl").is_file():
        raise SystemExit(f"{chosen.data} holds no questions: nothing is measured")
    store = chosen.store or loaded(chosen.data)
    counts = Counts()
    wiring = Wiring(settings_of(store), Telemetry(counts, level="ERROR"))
    workflow = LocalWorkflow(wiring)
    items = read_questions(chosen.data, chosen.questions)
    rows: list[dict[str, Any]] = []
    lines = [
        "# What each verbosity costs, and what the walk's gate saves",
        "",
        f"`make bench-verbosity`: {chosen.data.name}, {len(items)} questions, embedded stores,"
        f" local models, {time.strftime('%Y-%m-%d', time.gmtime())}; the CSV file beside this has"
        " a row a request.",
        "",
        "| verbosity | n | p50 ms | p95 ms | expansions | prunes | plan rejects | timeouts |"
        " not 200 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    seeds: dict[str, tuple[str, ...]] = {}
    with bar() as progress:
        for mode in MODES:
            ask(workflow, counts, items[0], mode)
            own = []
            for item in progress.track(items, description=f"verbosity {mode}"):
                row, body = ask(workflow, counts, item, mode)
                own.append(row)
                cited = body.get("citations", [])[:SEEDS]
                seeds[item.id] = tuple(citation["uuid"] for citation in cited)
            rows += own
            times = [float(row["ms"]) for row in own]
            sums = [str(sum(int(row[name]) for row in own)) for name in COUNTED]
            lines.append(
                f"| {mode} | {len(own)} | {percentile(times, 50):.0f} | {percentile(times, 95):.0f}"
                f" | {' | '.join(sums)} | {sum(row['status'] != 200 for row in own)} |"
            )
        lines += ["", *walks(wiring, items, seeds, progress)]
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    with chosen.out.with_suffix(".csv").open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    chosen.out.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def bar() -> Progress:
    """Make a progress bar on the error stream, plain lines where nobody looks."""
    return Progress(console=Console(stderr=True))


def settings_of(store: Path) -> Settings:
    """Give the settings of this environment over one embedded store, with walks enough."""
    url = f"sqlite:///{store.resolve()}"
    given = {"DOCSTOKG_INDEX_URL": url, "DOCSTOKG_GRAPH_URL": url}
    return Settings.from_environment(
        {**os.environ, **given, "DOCSTOKG_GRAPH_BUDGET_PER_MINUTE": "100000"}
    )


def loaded(folder: Path) -> Path:
    """Load a set into a store of its own, once; a load that was stopped goes on."""
    store = HERE.parent / ".cache" / "verbosity" / f"{folder.name}.sqlite"
    done = store.with_suffix(".loaded")
    if not done.exists():
        store.parent.mkdir(parents=True, exist_ok=True)
        wiring = Wiring(settings_of(store))
        with RejectLog() as rejects:
            load([folder], LoadOptions(NAMESPACE), stores_of(wiring), rejects, TerminalProgress())
        wiring.close()
        done.touch()
    return store


def ask(
    workflow: LocalWorkflow, counts: Counts, item: Question, mode: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ask one question one way; (the row of the table, the response).

    The row names the question by its id: sets are not copied into the repository.
    """
    body = {"query": item.question, "verbosity": mode, "budget": {"timeout_s": 20}}
    envelope = Envelope(
        route="answer",
        request_id="bench",
        caller=CALLER,
        body_b64=base64.b64encode(json.dumps(body).encode()).decode(),
    )
    counts.by_name.clear()
    started = time.perf_counter()
    reply = workflow.run(envelope)
    ms = (time.perf_counter() - started) * 1000
    answer = json.loads(reply.body)
    row = {
        "question": item.id,
        "mode": mode,
        "ms": round(ms, 1),
        "status": reply.statusCode,
        "citations": len(answer.get("citations", ())),
        **{name: counts.by_name[metric] for name, metric in COUNTED.items()},
        "reasons": " ".join(answer.get("diagnostics", {}).get("degraded_reasons", ())),
    }
    return row, answer


def walks(
    wiring: Wiring,
    items: Sequence[Question],
    seeds: Mapping[str, tuple[str, ...]],
    progress: Progress,
) -> list[str]:
    """Walk three deep from each answer's first citations, at most 150 nodes, gated and not."""
    lines = [
        "| walk | expansions | nodes kept | best 20, mean score | all kept, mean score |"
        " gold documents among the kept | p50 ms |",
        "|---|---|---|---|---|---|---|",
    ]
    spent: dict[str, float] = {}
    for label, (gated, frontier) in WALKS.items():
        found: list[WalkResult] = []
        gold: list[float] = []
        times: list[float] = []
        for item in progress.track(items, description=f"walk {label}"):
            request = WalkRequest(
                query=item.question,
                seeds=seeds[item.id],
                direction="both",
                max_depth=3,
                soft_depth=3,
                max_nodes=150,
                frontier=frontier,
                gated=gated,
            )
            started = time.perf_counter()
            walked = walk_graph(
                beginning(wiring.telemetry, 60.0)("benchmark", SCOPE),
                request,
                60.0,
                graph=wiring.knowledge_graph(),
                index=wiring.search_index(),
                embedder=wiring.embedder(),
            )
            times.append((time.perf_counter() - started) * 1000)
            found.append(walked)
            chunks = [node.id for node in walked.nodes.values() if node.label == "Chunk"]
            known = wiring.search_index().get(chunks, SCOPE, 30.0).chunks.values()
            documents = {chunk.doc_id for chunk in known}
            gold.append(len(documents & set(item.gold)) / len(set(item.gold)))
        spent[label] = statistics.mean(one.expanded for one in found)
        lines.append(
            f"| {label} | {spent[label]:.1f} |"
            f" {statistics.mean(len(one.nodes) for one in found):.1f} |"
            f" {statistics.mean(best(one, BEST) for one in found):.4f} |"
            f" {statistics.mean(best(one, None) for one in found):.4f} |"
            f" {statistics.mean(gold):.3f} | {percentile(times, 50):.0f} |"
        )
    first, last = spent[next(iter(WALKS))], spent["plain breadth-first"]
    return [
        *lines,
        "",
        f"With its defaults the gate saves {1 - first / last:.0%} of plain breadth-first's"
        " expansions. Seeds are not counted in the scores, but their documents are in the gold.",
    ]


def best(walked: WalkResult, size: int | None) -> float:
    """Give the mean score of the best nodes that were not given as seeds."""
    scores = sorted((node.score for node in walked.nodes.values() if node.path[1:]), reverse=True)
    return statistics.mean(scores[:size]) if scores else 0.0


if __name__ == "__main__":
    main()

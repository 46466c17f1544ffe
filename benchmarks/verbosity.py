"""Latency and graph work of each verbosity, as CSV and Markdown.

usage: python -m benchmarks.verbosity [--data FOLDER] [--store FILE.sqlite | --configured]
       [--namespace NS] [--questions 25] [--out STEM]

Sends each question of FOLDER/questions.jsonl (default ../shared/data/musique100) once per
verbosity. FOLDER is first loaded into a temporary SQLite store, unless STORE contains it or
`--configured` selects the stores of the environment (a real OpenSearch and Neo4j). STEM.csv has
one row per request; STEM.md has p50 and p95 latency, expanded and pruned nodes, refused query
plans and timeouts per verbosity.
"""

import argparse
import csv
import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from docstokg.errors import LoadError
from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.question import submit
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.evaluation.retrieval import Question, read_questions
from docstokg_local.loading.stores import stores_of

ROOT = Path(__file__).resolve().parent.parent
VERBOSITIES = ("snippet", "full", "graph")
COUNTERS = {
    "expanded": "graph_expand_nodes_total",
    "pruned": "graph_pruned_nodes_total",
    "plan_rejects": "cypher_explain_reject_total",
    "query_timeouts": "cypher_timeout_total",
}
FIELDS = ("question", "verbosity", "ms", "status", "citations", "nodes", *COUNTERS, "reasons")
Row = dict[str, Any]


class CounterSink:
    """Metric sink that sums values by metric name."""

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()

    def record(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Add one value."""
        self.sums[name] += int(value)

    def flush(self) -> None:
        """Keep the sums; `measure` reads and clears them."""


def measure(
    settings: Settings, namespace: str, questions: Sequence[Question], verbosities: Sequence[str]
) -> list[Row]:
    """Return one row (FIELDS) per question and verbosity.

    One unmeasured request per verbosity warms the caches.
    """
    sink = CounterSink()
    wiring = Wiring(settings, Telemetry(sink, lambda line: None))
    workflow = LocalWorkflow(wiring)
    rows = []
    for verbosity in verbosities:
        fields = {"namespace": namespace, "verbosity": verbosity, "budget": {"timeout_s": 20}}
        submit(workflow, {**fields, "query": questions[0].question})
        named = track(questions, description=verbosity, console=Console(stderr=True))
        for question in named:
            sink.sums.clear()
            started = time.perf_counter()
            status, body = submit(workflow, {**fields, "query": question.question})
            ms = (time.perf_counter() - started) * 1000
            rows.append(
                {
                    "question": question.id,
                    "verbosity": verbosity,
                    "ms": round(ms, 1),
                    "status": status,
                    "citations": len(body.get("citations", ())),
                    "nodes": len((body.get("graph") or {}).get("nodes", ())),
                    **{field: sink.sums[name] for field, name in COUNTERS.items()},
                    "reasons": " ".join(body.get("diagnostics", {}).get("degraded_reasons", ())),
                }
            )
    wiring.close()
    return rows


def table(rows: Sequence[Row]) -> str:
    """Return the Markdown table, one line per verbosity in the order of the rows."""
    header = ("verbosity", "n", "p50 ms", "p95 ms", "nodes, mean")
    header += ("expanded", "pruned", "plan rejects", "query timeouts", "degraded", "not 200")
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for verbosity in dict.fromkeys(row["verbosity"] for row in rows):
        rows_of_verbosity = [row for row in rows if row["verbosity"] == verbosity]
        p50, p95 = np.percentile([row["ms"] for row in rows_of_verbosity], (50, 95))
        values = (
            verbosity,
            len(rows_of_verbosity),
            f"{p50:.0f}",
            f"{p95:.0f}",
            f"{sum(row['nodes'] for row in rows_of_verbosity) / len(rows_of_verbosity):.1f}",
            *(sum(row[name] for row in rows_of_verbosity) for name in COUNTERS),
            sum(bool(row["reasons"]) for row in rows_of_verbosity),
            sum(row["status"] != 200 for row in rows_of_verbosity),
        )
        lines.append(f"| {' | '.join(map(str, values))} |")
    return "\n".join(lines)


def write(rows: Sequence[Row], title: str, stem: Path) -> str:
    """Write STEM.csv and STEM.md, and return the Markdown."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    with stem.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    text = f"# {title}\n\n{table(rows)}\n"
    stem.with_suffix(".md").write_text(text, encoding="utf-8")
    return text


def store_settings(store: Path) -> Settings:
    """Return the settings of the environment with one SQLite file as index and graph."""
    url = f"sqlite:///{store.resolve()}"
    stores = {"DOCSTOKG_INDEX_URL": url, "DOCSTOKG_GRAPH_URL": url}
    return Settings.from_environment({**os.environ, **stores})


def main() -> None:
    """Measure latency and graph work of each verbosity."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    data = ROOT.parent / "shared" / "data" / "musique100"
    parser.add_argument("--data", type=Path, default=data, help="folder with questions.jsonl")
    parser.add_argument("--store", type=Path, help="SQLite store that contains the folder")
    parser.add_argument("--configured", action="store_true", help="use the configured stores")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--questions", type=int, default=25)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "verbosity")
    options = parser.parse_args()
    try:
        questions = read_questions(options.data, options.questions)
    except LoadError as error:
        raise SystemExit(
            f"{error}: name a folder that `docstokg eval` reads, of a set in docs/measured.md: "
            'make bench-verbosity MORE="--data FOLDER"'
        ) from error
    with tempfile.TemporaryDirectory() as folder:
        if options.configured:
            settings = Settings.from_environment(os.environ)
        else:
            settings = store_settings(options.store or Path(folder) / "store.sqlite")
        if not (options.configured or options.store):
            wiring = Wiring(settings)
            with RejectLog() as rejects:
                load([options.data], LoadOptions(options.namespace), stores_of(wiring), rejects)
            wiring.close()
        rows = measure(settings, options.namespace, questions, VERBOSITIES)
    title = f"Verbosity: {options.data.name}, {len(questions)} questions, {time.strftime('%F')}"
    print(write(rows, title, options.out))


if __name__ == "__main__":
    main()

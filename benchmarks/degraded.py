"""What quality is left when a dependency is down, one after the other, on several sets.

    python -m benchmarks.degraded STORE=FOLDER... [--limit 100] [--out docs/degraded.md]

STORE is a SQLite file loaded from FOLDER into the namespace named like the folder. The runs are
those of `docstokg eval --ablate down:...`: the dependency refuses every call, as one that is not
there. The table says what the caller is told beside what the answer is worth.
"""

import argparse
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from docstokg.settings import Settings
from docstokg_local.evaluation import retrieval as evaluation

DOWN = ("down:graph", "down:embedder", "down:sparse", "down:index")
TOLD = {
    "full": "nothing",
    "down:graph": "`kg_unavailable`",
    "down:embedder": "`embedding_unavailable`",
    "down:sparse": "`splade_unavailable`",
    "down:index": "503 `nothing_to_cite`",
}
METRICS = ("ndcg@10", "recall@5", "all@10")


def measure(store: Path, folder: Path, limit: int) -> evaluation.Report:
    """Ask the set's questions whole and with each dependency down."""
    url = f"sqlite:///{store.resolve()}"
    questions = evaluation.read_questions(folder, limit)
    settings = Settings(index_url=url, graph_url=url)
    return evaluation.evaluate(folder, questions, folder.name, DOWN, settings)


def table(reports: Sequence[evaluation.Report]) -> str:
    """Write one row a set and run."""
    head = ("set", "what is down", "the caller is told", *METRICS, "degraded", "refused", "p50 ms")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for report in reports:
        for run in report["runs"]:
            lines.append(f"| {' | '.join(map(str, _cells(report, run)))} |")
    return "\n".join(lines)


def _cells(report: evaluation.Report, run: dict[str, Any]) -> list[object]:
    name, count = run["name"], report["n"]
    return [
        f"{report['set']} ({count})",
        name.removeprefix("down:") if name != "full" else "nothing",
        TOLD[name],
        *(f"{run['metrics'][metric]:.3f}" for metric in METRICS),
        f"{run['degraded']} of {count}",
        f"{run['errors']} of {count}",
        run["latency_ms"].get("total", {}).get("p50", "-"),
    ]


def main() -> None:
    """Measure the sets and write the page."""
    parser = argparse.ArgumentParser(description="Quality with a dependency down.")
    parser.add_argument("sets", nargs="+", metavar="STORE=FOLDER")
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    pairs = [pair.split("=", 1) for pair in options.sets]
    reports = [measure(Path(store), Path(folder), options.limit) for store, folder in pairs]
    text = (
        "# Quality when something is down\n\n"
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, load average"
        f" {os.getloadavg()[0]:.1f} at the end: compare times within a set only."
        " `python -m benchmarks.degraded`. The embedded store's two sides are one file; each is"
        " taken down at its port, as `docstokg eval --ablate down:NAME` does.\n\n"
        f"{table(reports)}\n"
    )
    print(text)
    options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

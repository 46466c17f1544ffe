"""What extractive answers and the answer check are worth, and how long they take.

    python -m benchmarks.answers SET_FOLDER --index sqlite:///STORE [--limit 200] [--json FILE]
        [--paraphrases-only]

Asks the first questions of the set (loaded before) through the whole state machine with the
built-in model, and reports: answered, abstained, grounded, coverage, verdicts, how often a cited
passage is of a gold document, the reliability table of `confidence` (share of answers that cite a
gold document, by bin), and milliseconds of synthesis and of the check. A set with written answers
(`long_answer`) also gets them checked, with markers, against the passages of its gold document and
of another one: paraphrases, which is what a large model writes.
"""

import argparse
import json
import math
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from docstokg.contracts.records import Scope
from docstokg.contracts.state import Block
from docstokg.domain.text.sentences import sentences
from docstokg.observability import Telemetry
from docstokg.ports import Embedder
from docstokg.settings import Settings
from docstokg.usecases.check_answer import check_answer
from docstokg.usecases.comparison import Comparison
from docstokg.usecases.run import Call
from docstokg.wiring import Wiring
from docstokg_local.cli.asking import ask
from docstokg_local.engine.workflow import LocalWorkflow

BINS = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.01)


class StepTimes:
    """A metric sink that keeps how long each step took, in milliseconds."""

    def __init__(self) -> None:
        self.found: dict[str, list[float]] = {}

    def record(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Keep step latencies, drop the rest."""
        if name == "rag_step_latency_seconds":
            self.found.setdefault(labels["step"], []).append(value * 1000)

    def flush(self) -> None:
        """Do nothing."""


def main() -> None:
    """Ask, count, print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--index", required=True)
    arguments.add_argument("--namespace", default="default")
    arguments.add_argument("--limit", type=int, default=200)
    arguments.add_argument("--cache", type=Path, default=Path("~/.cache/docstokg").expanduser())
    arguments.add_argument("--json", type=Path)
    arguments.add_argument("--paraphrases-only", action="store_true")
    options = arguments.parse_args()
    lines = (options.folder / "questions.jsonl").read_text("utf-8").strip().split("\n")
    questions = [json.loads(line) for line in lines][: options.limit]
    times = StepTimes()
    settings = Settings(
        index_url=options.index, graph_url=options.index, cache_dir=str(options.cache)
    )
    wiring = Wiring(settings, Telemetry(times, level="ERROR"))
    report = {
        "set": options.folder.name,
        "extractive": None
        if options.paraphrases_only
        else extractive(LocalWorkflow(wiring), questions, options.namespace, times),
        "paraphrases": paraphrases(options.folder, questions, wiring.embedder()),
    }
    print(json.dumps(report, indent=1))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", "utf-8")


def extractive(
    workflow: LocalWorkflow,
    questions: Sequence[Mapping[str, Any]],
    namespace: str,
    times: StepTimes,
) -> dict[str, Any]:
    """Ask every question with the built-in model."""
    counts: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    coverage: list[float] = []
    judged: list[tuple[float, bool]] = []
    for question in questions:
        request = {
            "query": question["question"],
            "namespace": namespace,
            "budget": {"max_tokens_gen": 400, "timeout_s": 25},
            "synthesis": {"enabled": True, "model": "extractive"},
        }
        outcome = ask(workflow, request)
        counts[f"status {outcome.status}"] += 1
        if outcome.status != 200:
            continue
        body = outcome.body
        if body["grounding"] is None:
            counts["abstained" if body["answer"] else "no answer"] += 1
            continue
        counts["answered"] += 1
        counts["grounded"] += body["grounding"]["grounded"]
        counts["invalid citations"] += len(body["grounding"]["invalid_citations"])
        coverage.append(body["grounding"]["coverage"])
        verdicts.update(row["verdict"] for row in body["grounding"]["sentences"])
        gold = set(question["gold"])
        right = any(row["cited"] and row["doc_id"] in gold for row in body["citations"])
        judged.append((body["confidence"], right))
    return {
        "counts": dict(counts),
        "coverage_mean": _mean(coverage),
        "verdicts": dict(verdicts),
        "cites_gold": _mean([float(right) for _, right in judged]),
        "reliability": _reliability(judged),
        "ms": {
            step: _quantiles(times.found[step])
            for step in ("check_answer", "language_model", "synthesize")
            if step in times.found
        },
    }


QUIET = Call(
    request_id="benchmark",
    deadline_ms=math.inf,
    scope=Scope(namespace="default"),
    telemetry=Telemetry(write=lambda line: None),
)


def paraphrases(
    folder: Path, questions: Sequence[Mapping[str, Any]], embedder: Embedder | None
) -> dict[str, Any] | None:
    """Check written answers against their own document's passages and against another's."""
    written = [question for question in questions if question.get("long_answer")]
    if not written:
        return None
    passages: dict[str, list[str]] = {}
    for line in (folder / "passages.jsonl").read_text("utf-8").strip().split("\n"):
        row = json.loads(line)
        passages.setdefault(row["doc_id"], []).append(row["text"])
    report: dict[str, Any] = {"answers": len(written)}
    for name, used in (("lexical", None), ("dense", embedder)):
        if name == "dense" and used is None:
            continue
        for against, shift in (("own", 0), ("other", 1)):
            verdicts: Counter[str] = Counter()
            grounded = 0
            took: list[float] = []
            cpu: list[float] = []
            for place, question in enumerate(written):
                source = written[(place + shift) % len(written)]["gold"][0]
                blocks = _blocks(source, passages.get(source, []))
                if not blocks:
                    continue
                marks = "".join(f"[{block.rank}]" for block in blocks)
                answer = " ".join(f"{text} {marks}" for text in sentences(question["long_answer"]))
                started, spent = time.perf_counter(), time.process_time()
                compare = Comparison(QUIET, used, 5.0)
                checked = check_answer(answer, blocks, query=question["question"], compare=compare)
                took.append((time.perf_counter() - started) * 1000)
                cpu.append((time.process_time() - spent) * 1000)
                if checked.grounding is not None:
                    grounded += checked.grounding.grounded
                    verdicts.update(row.verdict for row in checked.grounding.sentences)
            report[f"{name}, {against} document"] = {
                "grounded": grounded,
                "verdicts": dict(verdicts),
                "check_ms": _quantiles(took),
                "check_cpu_ms": _quantiles(cpu),
            }
    return report


def _blocks(doc_id: str, texts: Sequence[str]) -> list[Block]:
    return [
        Block(rank=rank, uuid=f"{doc_id}#{rank}", text=text, document_name=doc_id, relevance=8)
        for rank, text in enumerate(texts[:5], start=1)
    ]


def _reliability(judged: Sequence[tuple[float, bool]]) -> list[dict[str, float]]:
    rows = []
    for low, high in pairwise(BINS):
        inside = [(value, right) for value, right in judged if low <= value < high]
        if inside:
            rows.append(
                {
                    "from": low,
                    "answers": len(inside),
                    "confidence": _mean([value for value, _ in inside]),
                    "cites_gold": _mean([float(right) for _, right in inside]),
                }
            )
    return rows


def _mean(values: Sequence[float]) -> float:
    return round(statistics.fmean(values), 4) if values else 0.0


def _quantiles(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "n": len(ordered),
        "p50": round(ordered[len(ordered) // 2], 2),
        "p95": round(ordered[int(len(ordered) * 0.95)], 2),
    }


if __name__ == "__main__":
    main()

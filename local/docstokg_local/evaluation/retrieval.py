"""`docstokg eval`: retrieval."""

import math
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field, ValidationError
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from docstokg.contracts import Json
from docstokg.contracts.model import Many
from docstokg.contracts.response import Channel
from docstokg.errors import LoadError, Misconfigured, Unavailable
from docstokg.loading.read.rejects import Rejected
from docstokg.loading.readers.lines import Line, json_lines, reasons
from docstokg.observability import Telemetry
from docstokg.settings import SECRETS, Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.display import screen
from docstokg_local.cli.question import submit

TOP_K = 20
METRICS = ("ndcg@10", "recall@5", "recall@10", "all@5", "all@10", "mrr")
CHANNELS: tuple[Channel, ...] = ("bm25", "splade", "dense")
PARTS = ("index", "graph", "embedder", "sparse")
ABLATIONS = ("graph", *CHANNELS, "mmr", "rrf", *(f"down:{part}" for part in PARTS))
WARM_UP = 1


class Question(Line):
    """A question with the documents that answer it."""

    id: Annotated[str, Field(min_length=1)]
    question: Annotated[str, Field(min_length=3, max_length=4096)]
    gold: Annotated[Many[str], Field(min_length=1)]


class Run(NamedTuple):
    """A configuration: changed settings, request fields, a failing part."""

    name: str
    settings: Json
    request: Json
    down: str | None = None


class FailingPort:
    """A dependency that refuses every call."""

    def __init__(self, name: str, model: str = "", dimension: int = 0) -> None:
        self._name, self.model, self.dimension = name, model, dimension

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def refuse(*values: object, **options: object) -> Any:
            raise Unavailable(f"the {self._name} is down for this run")

        return refuse


def read_questions(folder: Path, limit: int | None) -> list[Question]:
    """Read `questions*.jsonl` of a folder; raise `LoadError` for an invalid line or none."""
    files = sorted(folder.glob("questions*.jsonl"))
    questions = list(islice(read_lines(files, Question.model_validate), limit))
    if not questions:
        raise LoadError(f"{folder} contains no questions (questions*.jsonl)")
    return questions


def read_lines[Row](files: Sequence[Path], parse: Callable[[Json], Row | None]) -> Iterator[Row]:
    """Yield the parsed lines of files, without None; raise `LoadError` for an invalid line."""
    for file in files:
        for line, value in json_lines(file):
            try:
                if isinstance(value, Rejected):
                    raise value
                row = parse(value)
            except ValidationError as error:
                raise LoadError(f"{file}:{line}: {reasons(error)}") from error
            except Rejected as rejected:
                raise LoadError(f"{file}:{line}: {rejected}") from rejected
            if row is not None:
                yield row


def runs_of(ablations: Sequence[str]) -> list[Run]:
    """Return `full` and each distinct name's runs; raise `Misconfigured` for an unknown name."""
    graph_off = {"kg_expansion": {"enabled": False}}
    table = {
        "graph": [Run("no-graph", {}, graph_off)],
        "mmr": [Run("no-mmr", {"mmr": False}, {})],
        "rrf": [Run("rrf", {"fusion": "rrf"}, {})],
        **{f"down:{part}": [Run(f"down:{part}", {}, {}, down=part)] for part in PARTS},
    }
    for name in CHANNELS:
        others = tuple(channel for channel in CHANNELS if channel != name)
        selections = {f"no-{name}": others, f"only-{name}": (name,)}
        table[name] = [
            Run(run, {"channels": channels}, graph_off) for run, channels in selections.items()
        ]
    if unknown := [name for name in ablations if name not in table]:
        raise Misconfigured(f"--ablate {unknown[0]!r} must be one of {', '.join(ABLATIONS)}")
    return [Run("full", {}, {}), *(run for name in dict.fromkeys(ablations) for run in table[name])]


def evaluate(
    folder: Path,
    questions: Sequence[Question],
    namespace: str,
    ablations: Sequence[str],
    settings: Settings,
) -> Json:
    """Ask every question in every run; raise `Misconfigured` for an unknown ablation."""
    runs, shared = runs_of(ablations), Wiring(settings, Telemetry(level="ERROR"))
    reports = [measure(run, questions, namespace, shared) for run in runs]
    return report_of(folder, len(questions), namespace, settings, reports)


def report_of(
    folder: Path, count: int, namespace: str, settings: Settings, runs: list[Json], **fields: str
) -> Json:
    """Return the report of runs with set, commit and settings."""
    return {
        "set": folder.resolve().name,
        "namespace": namespace,
        "n": count,
        **fields,
        "commit": commit(),
        "settings": shown_settings(settings),
        "runs": runs,
    }


def ask_all[Asked](
    wiring: Wiring,
    title: str,
    requests: Sequence[tuple[Asked, Json]],
    take: Callable[[Asked, Json], None],
    warm_up: int = 0,
) -> Json:
    """Send requests to the state machine; call `take` with each successful body.

    Returns p50 and p95 of each step in ms, and counts of errors and degraded replies. The first
    `warm_up` requests are sent twice.
    """
    from docstokg_local.cli.display import TerminalProgress
    from docstokg_local.engine.workflow import LocalWorkflow

    workflow = LocalWorkflow(wiring)
    for _, request in requests[:warm_up]:
        submit(workflow, request)
    times: dict[str, list[float]] = {}
    errors = degraded = 0
    with TerminalProgress().stage(title, len(requests)) as advance:
        for key, request in requests:
            outcome = submit(workflow, request)
            advance(1)
            if outcome.status != 200:
                errors += 1
                continue
            diagnostics = outcome.body["diagnostics"]
            degraded += bool(diagnostics["degraded"])
            for step, took in diagnostics["timings_ms"].items():
                times.setdefault(step, []).append(took)
            take(key, outcome.body)
    latency = {
        step: {f"p{n}": round(float(np.percentile(took, n)), 2) for n in (50, 95)}
        for step, took in times.items()
    }
    return {"latency_ms": latency, "errors": errors, "degraded": degraded}


def measure(run: Run, questions: Sequence[Question], namespace: str, shared: Wiring) -> Json:
    """Return the metrics of one run; failed questions count 0; ZeroDivisionError without any."""
    totals, citations = dict.fromkeys(METRICS, 0.0), Counter[str]()

    def take(question: Question, body: Json) -> None:
        for name, value in metrics(documents(body), set(question.gold)).items():
            totals[name] += value
        citations["all"] += len(body["citations"])

    fields = {"namespace": namespace, "top_k": TOP_K, **run.request}
    requests = [(question, {"query": question.question, **fields}) for question in questions]
    took = ask_all(_wiring(run, shared), run.name, requests, take, WARM_UP)
    return {
        "name": run.name,
        "metrics": {name: round(total / len(questions), 4) for name, total in totals.items()},
        "citations": citations["all"],
        **took,
    }


def documents(response: Json) -> list[str]:
    """Return the cited documents in the order of their first citation."""
    return list(dict.fromkeys(citation["doc_id"] for citation in response["citations"]))


def metrics(ranking: Sequence[str], gold: set[str]) -> dict[str, float]:
    """Score one ranking of documents: binary nDCG@10, recall@k, all-support@k, reciprocal rank.

    nDCG = sum over hits of 1 / log2(rank + 1), divided by the same for an ideal order (Jarvelin and
    Kekalainen 2002, gains 0 and 1). Raises ZeroDivisionError without gold.
    """
    hits = [document in gold for document in ranking]
    gain = sum(1 / math.log2(rank + 1) for rank, hit in enumerate(hits[:10], 1) if hit)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(gold), 10) + 1))
    first = next((rank for rank, hit in enumerate(hits, 1) if hit), None)
    return {
        "ndcg@10": gain / ideal,
        "recall@5": sum(hits[:5]) / len(gold),
        "recall@10": sum(hits[:10]) / len(gold),
        "all@5": float(sum(hits[:5]) == len(gold)),
        "all@10": float(sum(hits[:10]) == len(gold)),
        "mrr": 1 / first if first else 0.0,
    }


def _wiring(run: Run, shared: Wiring) -> Wiring:
    embedder = shared.embedder()
    ports: dict[str, object] = {"embedder": embedder, "sparse_encoder": shared.sparse_encoder()}
    if run.down == "index":
        ports["search_index"] = FailingPort("index")
    elif run.down == "graph":
        ports["knowledge_graph"] = FailingPort("graph")
    elif run.down == "embedder" and embedder is not None:
        ports["embedder"] = FailingPort("embedder", embedder.model, embedder.dimension)
    elif run.down == "sparse":
        ports["sparse_encoder"] = FailingPort("sparse encoder", "down")
    return Wiring(shared.settings.model_copy(update=run.settings), shared.telemetry, ports)


def shown_settings(settings: Settings) -> Json:
    """Return the settings that explain a figure, without secrets, addresses and own paths."""
    hidden = {*SECRETS, "cache_dir", "keys_file", "rerank_model_path", "hosts"}
    values = settings.model_dump(mode="json")
    return {
        name: value for name, value in values.items() if name not in hidden and "url" not in name
    }


def commit() -> str | None:
    """Return the commit of the running code, or None outside a checkout."""
    command = ["git", "-C", str(Path(__file__).resolve().parent), "rev-parse", "HEAD"]
    try:
        output = subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return output.strip()


def table_of(out: Console, report: Json, first: str, columns: Iterable[str], suffix: str) -> Table:
    """Return a table for a report without rows; `suffix`: end of its title."""
    title = f"{report['set']}: {report['n']} questions, namespace {report['namespace']}{suffix}"
    box = SIMPLE_HEAD if out.is_terminal else None
    table = Table(title=title, title_justify="left", box=box)
    table.add_column(first, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def show_report(report: Json) -> None:
    """Print a table of all runs."""
    out = screen()
    columns = (*METRICS, "citations", "errors", "degraded", "p50 ms", "p95 ms")
    table = table_of(out, report, "run", columns, "")
    for run in report["runs"]:
        total = run["latency_ms"].get("total", {"p50": 0.0, "p95": 0.0})
        scores = (f"{run['metrics'][name]:.4f}" for name in METRICS)
        counts = (str(run[name]) for name in ("citations", "errors", "degraded"))
        table.add_row(run["name"], *scores, *counts, *(f"{total[p]:.1f}" for p in ("p50", "p95")))
    out.print(table)

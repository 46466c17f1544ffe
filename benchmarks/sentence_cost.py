"""What the vectors of sentences cost: a load with and without them, and a question.

    python -m benchmarks.sentence_cost SET_FOLDER [--passages 300] [--questions 50] [--rounds 2]

The first passages of a set are loaded through the command line into new embedded stores with an
empty cache, in turn as they are and with an embedder that reads every chunk and makes no vector of
its sentences. Then the set's first questions are asked in both stores, in turn, of the extractive
model and of none. Prints processor seconds (which a busy machine changes little), the clock, and
bytes a chunk; the best of the rounds for a load, the median of the questions.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from docstokg.adapters.onnx.minilm import OnnxMiniLm
from docstokg.domain.answer import extractive
from docstokg.observability import Telemetry
from docstokg.ports import Parts, Spans
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.cli import commands as cli
from docstokg_local.cli.asking import SYNTHESIS_TOKENS, ask
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.evaluation.retrieval import read_lines

WITHOUT = "load-without-sentences"
OK = 200
KINDS = ("with", "without")
ANSWERED_BY = {"nobody": None, "the extractive model": extractive.MODEL}


class Took(NamedTuple):
    """Seconds on the clock and of processors."""

    wall: float
    cpu: float

    def least(self, other: "Took | None") -> "Took":
        """Give the smaller of both, each by itself."""
        return Took(*map(min, self, other)) if other else self


def main() -> None:
    """Load in turn, ask in turn, print."""
    if sys.argv[1:2] == [WITHOUT]:
        OnnxMiniLm.embed_parts = _without_sentences  # type: ignore[method-assign]
        cli.app(["load", *sys.argv[2:]])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--passages", type=int, default=300)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    lines = (options.folder / "passages.jsonl").read_text("utf-8").split("\n")[: options.passages]
    files = [options.folder / "questions.jsonl"]
    questions = [row["question"] for row in read_lines(files, dict)][: options.questions]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source = folder / "passages.jsonl"
        source.write_text("\n".join(lines) + "\n", "utf-8")
        loads: dict[str, Took] = {}
        for number in range(options.rounds):
            for kind in KINDS:
                took = _loaded(source, folder / f"{kind}{number}", kind)
                loads[kind] = took.least(loads.get(kind))
        stores = {kind: folder / f"{kind}0" / "store.sqlite" for kind in KINDS}
        print(_loads(loads, stores, len(lines)), flush=True)
        print(_questions(stores, questions))


def _without_sentences(
    self: OnnxMiniLm, texts: Sequence[str], parts: Sequence[Spans]
) -> tuple[Parts, ...]:
    return tuple((vector, b"") for vector in self.embed(texts, None))


def _loaded(source: Path, folder: Path, kind: str) -> Took:
    """Load in a process of its own; its seconds, the start included."""
    folder.mkdir()
    command = [sys.executable, "-m", "benchmarks.sentence_cost", WITHOUT]
    if kind == "with":
        command = [sys.executable, "-m", "docstokg_local.cli.commands", "load"]
    begun = time.monotonic()
    process = subprocess.Popen(
        [*command, str(source), "--index", f"sqlite:///{folder / 'store.sqlite'}"],
        env=os.environ | {"DOCSTOKG_CACHE_DIR": str(folder / "cache")},
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(process.args)} ended with {process.returncode}")
    return Took(time.monotonic() - begun, usage.ru_utime + usage.ru_stime)


def _loads(loads: dict[str, Took], stores: dict[str, Path], chunks: int) -> str:
    rows = ["| load | CPU s | s | bytes of the store a chunk |", "|---|---|---|---|"]
    size = {kind: sum(f.stat().st_size for f in _files(path)) for kind, path in stores.items()}
    for kind in KINDS:
        took = loads[kind]
        rows.append(f"| {kind} | {took.cpu:.2f} | {took.wall:.2f} | {size[kind] / chunks:.0f} |")
    more = [loads["with"][i] / loads["without"][i] - 1 for i in (1, 0)]
    grown = (size["with"] - size["without"]) / chunks
    rows.append(f"| more | {more[0]:+.1%} | {more[1]:+.1%} | {grown:+.0f} |")
    return "\n".join(rows) + "\n"


def _files(store: Path) -> list[Path]:
    return [
        path
        for path in store.parent.rglob(f"{store.name}*")
        if path.is_file() and not path.name.endswith("-shm")
    ]


def _questions(stores: dict[str, Path], questions: Sequence[str]) -> str:
    workflows = {kind: _workflow(path) for kind, path in stores.items()}
    took: dict[tuple[str, str], list[Took]] = {}
    for question in [*questions[:5], *questions]:  # the first five warm everything
        for answered_by, model in ANSWERED_BY.items():
            for kind, workflow in workflows.items():
                took.setdefault((answered_by, kind), []).append(_asked(workflow, question, model))
    rows = ["| a question answered by | store | CPU ms, median | p50 ms |", "|---|---|---|---|"]
    for (answered_by, kind), all_of_them in took.items():
        own = all_of_them[5:]
        cpu, wall = (1000 * statistics.median(one[i] for one in own) for i in (1, 0))
        rows.append(f"| {answered_by} | {kind} | {cpu:.1f} | {wall:.1f} |")
    return "\n".join(rows)


def _workflow(store: Path) -> LocalWorkflow:
    url = f"sqlite:///{store}"
    environment = os.environ | {"DOCSTOKG_INDEX_URL": url, "DOCSTOKG_GRAPH_URL": url}
    return LocalWorkflow(Wiring(Settings.from_environment(environment), Telemetry(level="ERROR")))


def _asked(workflow: LocalWorkflow, question: str, model: str | None) -> Took:
    request: dict[str, object] = {"query": question, "namespace": "default"}
    if model:
        request |= {
            "synthesis": {"enabled": True, "model": model},
            "budget": {"max_tokens_gen": SYNTHESIS_TOKENS, "timeout_s": 25},
        }
    begun, spent = time.monotonic(), time.process_time()
    reply = ask(workflow, request)
    if reply.status != OK:
        raise SystemExit(f"{question}: {reply.body}")
    return Took(time.monotonic() - begun, time.process_time() - spent)


if __name__ == "__main__":
    main()

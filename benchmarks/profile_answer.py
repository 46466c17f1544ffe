"""Processor time of an answer by step, in one process with one client.

    python -m benchmarks.profile_answer STORE QUESTIONS.jsonl [--namespace N] [--requests 100]
                                        [--functions 25] [--out FILE.md]

STORE is a SQLite file. Every figure but the wall time is processor time of the whole process, its
threads included (`time.process_time`), so that other work on the machine changes it little. A step
lasts from its event as a dict to its result as a dict, including validation and serialisation of
models. `machine` is the rest: transitions, expressions, and JSON between steps.
Question vectors are not cached; the caches of words and rarity are warm.
"""

import argparse
import base64
import cProfile
import json
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docstokg.contracts.envelope import Caller, Envelope
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Handler, Wiring
from docstokg_local.engine.engine import StateMachine
from docstokg_local.engine.workflow import DEFINITION, STEPS
from docstokg_local.server.prometheus import PrometheusSink

WARM_UP = 10
MACHINE = "machine"
WHOLE = "whole"


class Meter:
    """Processor time by name, one value per question."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}
        self._now: dict[str, float] = {}

    def around(self, name: str, handler: Handler) -> Handler:
        """Return the handler with a meter."""

        def metered(event: dict[str, Any], context: object) -> dict[str, Any]:
            started = time.process_time()
            try:
                return handler(event, context)
            finally:
                took = time.process_time() - started
                self._now[name] = self._now.get(name, 0.0) + took

        return metered

    def question(self, run: Callable[[], None]) -> None:
        """Meter one question; time outside of steps belongs to `machine`."""
        self._now = {}
        started = time.process_time()
        run()
        whole = time.process_time() - started
        self._now |= {MACHINE: whole - sum(self._now.values()), WHOLE: whole}
        for name, seconds in self._now.items():
            self.spent.setdefault(name, []).append(seconds * 1000)


def envelope(question: str, namespace: str, number: int) -> dict[str, Any]:
    """Return the envelope of a request, as the HTTP server makes it."""
    body = {"query": question[:4000], "namespace": namespace, "budget": {"timeout_s": 20}}
    return Envelope(
        route="answer",
        request_id=f"profile-{number}",
        caller=Caller(sub="profile", namespaces=("*",), groups=("*",)),
        body_b64=base64.b64encode(json.dumps(body).encode()).decode(),
    ).model_dump(mode="json")


def measure(
    store: Path, questions: list[str], namespace: str, functions: int
) -> tuple[Meter, dict[str, list[tuple[int, int]]], list[float], str]:
    """Ask each question once; return meter, bytes by state, wall times (ms), slowest functions."""
    meter, walls = Meter(), []
    sizes: dict[str, list[tuple[int, int]]] = {}
    url = f"sqlite:///{store.resolve()}"
    with tempfile.TemporaryDirectory() as cache:
        settings = Settings(index_url=url, graph_url=url, cache_dir=cache, log_level="ERROR")
        wiring = Wiring(settings, Telemetry(PrometheusSink(), lambda line: None))
        handlers = {
            name: meter.around(name.removesuffix("Function").lower(), module.build(wiring))
            for name, module in STEPS.items()
        }
        wiring.warm()
        machine = StateMachine.from_file(DEFINITION, handlers, 30)
        profile = cProfile.Profile()

        def run_question(number: int, question: str) -> None:
            done = machine.execute(envelope(question, namespace, number))
            assert done.output["statusCode"] == 200, done
            for state, sent, result in done.sizes:
                sizes.setdefault(state, []).append((sent, result))

        half = len(questions) - min(40, len(questions) // 3)
        for number, question in enumerate(questions[:half]):
            started = time.perf_counter()
            if number < WARM_UP:
                run_question(number, question)
                sizes.clear()
                continue
            meter.question(lambda n=number, q=question: run_question(n, q))
            walls.append((time.perf_counter() - started) * 1000)
        # Profiling slows everything several times, so it uses separate questions.
        profile.enable()
        for number, question in enumerate(questions[half:], half):
            run_question(number, question)
        profile.disable()
        wiring.close()
    return meter, sizes, walls, dearest(profile, len(questions) - half, functions)


def dearest(profile: cProfile.Profile, questions: int, count: int) -> str:
    """Return a table of functions by their own time."""
    lines = ["| function | ms a question, profiled | calls |", "|---|---|---|"]
    stats: dict[tuple[str, int, str], tuple[int, int, float, float, object]]
    stats = vars(pstats.Stats(profile))["stats"]
    for (file, line, name), row in sorted(stats.items(), key=lambda item: -item[1][2])[:count]:
        place = "/".join(Path(file).parts[-2:]) if file != "~" else "built in"
        at = f"{place}:{line} " if line else ""
        calls = f"{row[1] / questions:.0f}"
        lines.append(
            f"| {at}{name.replace('|', '/')} | {row[2] / questions * 1000:.2f} | {calls} |"
        )
    return "\n".join(lines)


def table(meter: Meter, sizes: dict[str, list[tuple[int, int]]], walls: list[float]) -> str:
    """Return tables of times by step and bytes by state."""
    lines = ["| part | CPU p50, ms | p95 | share |", "|---|---|---|---|"]
    whole = statistics.fmean(meter.spent[WHOLE])
    for name, values in meter.spent.items():
        ordered = sorted(values)
        high = ordered[int(0.95 * (len(ordered) - 1))]
        share = sum(values) / len(meter.spent[WHOLE]) / whole
        lines.append(f"| {name} | {statistics.median(values):.1f} | {high:.1f} | {share:.0%} |")
    lines += [
        f"| wall, {len(walls)} questions | {statistics.median(walls):.1f} |"
        f" {sorted(walls)[int(0.95 * (len(walls) - 1))]:.1f} | |",
        "",
        "| state | bytes in, p50 | most | bytes out, p50 | most |",
        "|---|---|---|---|---|",
    ]
    for state, pairs in sizes.items():
        sent, result = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        lines.append(
            f"| {state} | {statistics.median(sent):,.0f} | {max(sent):,} |"
            f" {statistics.median(result):,.0f} | {max(result):,} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure one store and write the report."""
    parser = argparse.ArgumentParser(description="Processor time of an answer, step by step.")
    parser.add_argument("store", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--functions", type=int, default=25)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = options.questions.read_text("utf-8").splitlines()[: options.requests]
    questions = [str(json.loads(line)["question"]) for line in lines]
    meter, sizes, walls, functions = measure(
        options.store, questions, options.namespace, options.functions
    )
    text = f"{table(meter, sizes, walls)}\n\n{functions}\n"
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

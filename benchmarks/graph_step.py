"""What the graph's step costs here and at an earlier commit, in processor time of its questions.

    python -m benchmarks.graph_step BASE SET... [--questions 20] [--calls 5] [--hops N]
                                    [--before N] [--stores FOLDER] [--real]

Both load the sets into an embedded store as `benchmarks.http_api build` does (kept under FOLDER and
used again where they are there), the commit in its own worktree with an environment from its own
lock. Of every set so many questions are taken evenly; the step gets what retrieval found, as a
dict, and gives a dict, with default hops unless told otherwise. Processor time of the process, the
best of the calls, is what a busy machine changes least; p50 and p95 are over the questions.
--before asks so many other questions of each set first, once: with --calls 1 a question is then
measured as a server sees it that has been asked a while, but never this. --real: both load into
OpenSearch and Neo4j of their own, started empty, and time on the clock is told beside ours of the
processor, also the best of the calls.
"""

import argparse
import base64
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMESPACE = "bench"
REAL = Path("real")
LATE = (float("inf"), float("inf"))
Took = dict[str, list[tuple[float, float]]]
"""Milliseconds of the processor and on the clock, for each question of a set."""
TIMEOUT_S = 25
AWAKE_S = 120
ROOT = Path(__file__).resolve().parent.parent


def questions(folder: Path, count: int) -> tuple[list[str], list[str]]:
    """Take questions of a set, evenly; and give the others."""
    with (folder / "questions.jsonl").open(encoding="utf-8") as lines:
        every = [str(json.loads(line)["question"]) for line in lines]
    taken = every[:: max(1, len(every) // count)][:count]
    return taken, [question for question in every if question not in taken]


def measure(store: Path, sets: Sequence[Path], options: argparse.Namespace) -> Took:
    """Time the step for each set's questions; runs at either commit."""
    from docstokg_functions.expand import handler as expand
    from docstokg_functions.retrieve import handler as retrieve
    from docstokg_functions.validate import handler as validate

    from docstokg.observability import Telemetry
    from docstokg.settings import Settings
    from docstokg.wiring import Wiring

    settings = Settings.from_environment(os.environ)
    if store != REAL:
        url = f"sqlite:///{store.resolve()}"
        settings = Settings(index_url=url, graph_url=url, log_level="ERROR")
    wiring = Wiring(settings, Telemetry(write=lambda line: None))
    steps = [module.build(wiring) for module in (validate, retrieve, expand)]
    found: Took = {}
    for folder in sets:
        asked, others = questions(folder, options.questions)
        for question in others[: max(1, options.before)]:
            _best(steps, question, argparse.Namespace(**{**vars(options), "calls": 1}))
        _awake(steps, others[0] if others else asked[0], options)
        found[folder.name] = [_best(steps, question, options) for question in asked]
    wiring.close()
    return found


def _awake(steps: Sequence[Any], question: str, options: argparse.Namespace) -> None:
    """Wait until the graph answers: of servers just started the first questions open a circuit."""
    until = time.monotonic() + AWAKE_S
    once = argparse.Namespace(**{**vars(options), "calls": 1})
    while _best(steps, question, once) == LATE and time.monotonic() < until:
        time.sleep(1)


def _best(steps: Sequence[Any], question: str, options: argparse.Namespace) -> tuple[float, float]:
    validate, retrieve, expand = steps
    graph = {} if options.hops is None else {"hops": options.hops}
    body = {
        "query": question, "namespace": options.namespace, "kg_expansion": graph,
        "budget": {"timeout_s": TIMEOUT_S},
    }  # fmt: skip
    least = LATE
    for _ in range(options.calls):
        caller = {"sub": "bench", "namespaces": ["*"], "groups": ["*"]}
        envelope = {
            "route": "answer", "request_id": "bench", "caller": caller,
            "body_b64": base64.b64encode(json.dumps(body).encode()).decode(),
        }  # fmt: skip
        state = {key: part for key, part in validate({"envelope": envelope}, None).items() if part}
        state["retrieval"] = retrieve(state, None)
        begun, started = time.perf_counter(), time.process_time()
        result = expand({"mode": "expand", **state}, None)
        spent = (time.process_time() - started) * 1000
        if not result.get("degraded"):
            wall = (time.perf_counter() - begun) * 1000
            least = min(least[0], spent), min(least[1], wall)
    return least


def run(tree: Path, arguments: Sequence[str], **more: Any) -> str:
    """Run a tree's Python in it; give what it printed."""
    done = subprocess.run(
        [str(tree / ".venv" / "bin" / "python"), *arguments],
        cwd=tree, check=True, text=True, stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, more["path"]))}
        | more.get("environment", {}),
    )  # fmt: skip
    return done.stdout


@contextmanager
def loaded(
    tree: Path, store: Path, sets: Sequence[str], path: Sequence[Path]
) -> Iterator[dict[str, str]]:
    """Let a tree load the sets, unless the file is there; give what it needs to read them."""
    if store == REAL:
        from benchmarks.load_stores import real_stores

        with real_stores(None, NAMESPACE) as servers:
            environment = servers.environment()
            words = ["-m", "docstokg_local.cli.commands", "load", *sets, "--namespace", NAMESPACE]
            run(tree, words, path=path, environment=environment)
            yield environment
        return
    if not store.exists():
        run(tree, ["-m", "benchmarks.http_api", "build", str(store), *sets], path=path)
    yield {}


def main() -> None:
    """Measure both, one after the other, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base")
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--calls", type=int, default=5)
    parser.add_argument("--hops", type=int)
    parser.add_argument("--before", type=int, default=1)
    parser.add_argument("--stores", type=Path)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--namespace", default=NAMESPACE, help=argparse.SUPPRESS)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        json.dump(measure(options.one, options.sets, options), sys.stdout)
        return
    from benchmarks.bench_load_rate import checked_out

    sets = [str(folder.resolve()) for folder in options.sets]
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.stores or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        sides = {f"at {options.base}": checked_out(options.base), "here": ROOT}
        took: dict[str, Took] = {}
        for name, tree in sides.items():
            file = folder / f"{'here' if tree == ROOT else options.base}.sqlite"
            store = REAL if options.real else file
            path = [tree, tree / "layers/common/python", tree / "local"]
            words = [__file__, options.base, *sets, "--one", str(store)]
            words += ["--questions", str(options.questions), "--calls", str(options.calls)]
            words += ["--before", str(options.before)]
            words += [] if options.hops is None else ["--hops", str(options.hops)]
            with loaded(tree, store, sets, path) as environment:
                printed = run(tree, words, path=path, environment=environment)
            took[name] = json.loads(printed)
    for place, clock in enumerate(["CPU", "clock"] if options.real else ["CPU"]):
        times = {
            side: {name: [ms[place] for ms in rows] for name, rows in found.items()}
            for side, found in took.items()
        }
        report(times, clock)


def report(took: dict[str, dict[str, list[float]]], clock: str) -> None:
    """Print p50 and p95 of both, for each set and for all questions."""
    for name, found in took.items():
        late = sum(ms == float("inf") for one in found.values() for ms in one)
        if late:
            raise SystemExit(f"{name}: {late} questions got no answer of the graph in its time")
    (base, before), (here, now) = took.items()
    print(f"| questions of | n | {base}, {clock} ms p50 | p95 | {here} | p95 | share |")
    print("|---|---|---|---|---|---|---|")
    every = {"all": [ms for one in before.values() for ms in one]}
    both = before | every, now | {"all": [ms for one in now.values() for ms in one]}
    for name, old in both[0].items():
        new = both[1][name]
        middle = statistics.median(old), statistics.median(new)
        high = _high(old), _high(new)
        print(
            f"| {name} | {len(old)} | {middle[0]:.1f} | {high[0]:.1f} | {middle[1]:.1f} |"
            f" {high[1]:.1f} | {middle[1] / middle[0]:.2f} |"
        )


def _high(values: Sequence[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))]


if __name__ == "__main__":
    main()

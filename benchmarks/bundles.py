"""What each deployed folder costs: size, import, INIT, first and warm events, under awslambdaric.

`python -m benchmarks.bundles [--json FILE]` loads the demo corpus once, runs the demo question
through the gateway's templates, the state machine file and one process per function of
`build/host`, and prints a table. The folders for Lambda hold the same files (infra/package.py).
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.demo import QUESTION
from docstokg_local.demo_corpus import write_corpus
from docstokg_local.loading.pipeline import LoadOptions, load
from docstokg_local.loading.rejects import RejectLog
from docstokg_local.loading.stores import stores_of
from infra.package import BUILD, build, size_mb
from infra.specs import SPECS
from tests.infra.test_bundles import measured
from tests.infra.test_processes import STEPS, Deployment
from tests.runtime_api import Fleet, Folders

WARM_RUNS = 40


class Timed(Deployment):
    """A deployment that keeps how long each step's event took."""

    def __init__(self, fleet: Fleet) -> None:
        self.took: dict[str, list[float]] = {name: [] for name in STEPS}
        super().__init__(fleet)

    def _step(self, name: str) -> Any:
        def step(payload: dict[str, Any], _: object) -> Any:
            started = time.perf_counter()
            answer = self.fleet.invoke(name, payload)
            self.took[name].append((time.perf_counter() - started) * 1000)
            return answer

        return step


def demo_store(folder: Path, cache: Path) -> dict[str, str]:
    """Load the demo corpus; give the variables that point at it."""
    url = f"sqlite:///{folder / 'store.sqlite'}"
    wiring = Wiring(Settings(index_url=url, graph_url=url, cache_dir=str(cache)))
    with RejectLog() as rejects:
        load([write_corpus(cache, False)], LoadOptions("default"), stores_of(wiring), rejects)
    wiring.close()
    return {
        "DOCSTOKG_INDEX_URL": url,
        "DOCSTOKG_GRAPH_URL": url,
        # Vectors of the questions must not come from this disk: Lambda starts without.
        "DOCSTOKG_CACHE_DIR": str(folder / "sandbox"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--cache", type=Path, default=Path("~/.cache/docstokg").expanduser())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    build("host")
    folders = Folders(BUILD / "host")
    layer = size_mb(BUILD / "host" / "layer")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        variables = demo_store(folder, options.cache)
        fleet = Fleet(
            folders,
            folder / "logs",
            variables=dict.fromkeys((spec.name for spec in SPECS), variables),
            timeouts=dict.fromkeys((spec.name for spec in SPECS), 30.0),
        )
        rows: dict[str, dict[str, Any]] = {}
        for step in STEPS:
            runs = [measured(folders, step) for _ in range(3)]
            rows[step] = {
                "mb": round(size_mb(folders.build / step) + layer, 1),
                "import_cpu_ms": round(min(float(str(run["ms"])) for run in runs)),
                "modules": runs[0]["count"],
                "init_ms": round(fleet.sandbox(step).init_ms),
            }
        deployment = Timed(fleet)
        body = {
            "query": QUESTION,
            "synthesis": {"enabled": True, "model": "extractive"},
            "budget": {"max_tokens_gen": 512},
        }
        totals = []
        for number in range(WARM_RUNS + 1):
            # A question asked before would come from the vector cache.
            asked = body | {"query": f"{QUESTION} ({number})"}
            started = time.perf_counter()
            answer = deployment.post("answer", json.dumps(asked))
            totals.append((time.perf_counter() - started) * 1000)
            assert answer.status == 200, answer.body
        final = deployment.post("answer", json.dumps(body)).json
        for step, times in deployment.took.items():
            rows[step]["first_ms"] = round(times[0], 1)
            rows[step]["warm_p50_ms"] = round(statistics.median(times[1:]), 1)
        fleet.close()
    print(f"{'function':<11}{'MB':>7}{'import':>8}{'INIT':>7}{'first':>8}{'warm p50':>10}  (ms)")
    for step, row in rows.items():
        print(
            f"{step:<11}{row['mb']:>7}{row['import_cpu_ms']:>8}{row['init_ms']:>7}"
            f"{row['first_ms']:>8}{row['warm_p50_ms']:>10}"
        )
    whole = {"first_ms": round(totals[0]), "warm_p50_ms": round(statistics.median(totals[1:]))}
    print(f"whole request: {whole}; reasons {final['diagnostics']['degraded_reasons']}")
    print(f"{len(final['citations'])} citations; answer: {final['answer'][:300]}")
    if options.json:
        options.json.write_text(json.dumps({"functions": rows, "whole": whole}, indent=2) + "\n")


if __name__ == "__main__":
    main()

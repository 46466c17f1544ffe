"""Fit the gate of graph expansion on the development sets, and say what it gives and costs.

usage: python -m benchmarks.fit_gate [--data FOLDER] [--work FOLDER] [--limit N] [--sets A,B]
       [--write]

Loads each set into WORK/SET.sqlite (once), asks every question through validate and retrieve, and
ranks it with and without the graph for each candidate blend. Every printed figure of the gate
comes from cross-fitting: questions are dealt into five folds, and blend and weights that judge a
fold were fitted on the other four. `--write` commits the fit on all questions to `gate_fit.json`.
"""

import argparse
import base64
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from docstokg.contracts.records import Scope
from docstokg.contracts.state import Plan, Retrieval
from docstokg.domain import gate as gates
from docstokg.domain.slice_graph import Blend, ranked_chunks
from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.rejects import RejectLog
from docstokg.observability import Telemetry
from docstokg.usecases.run import Run
from docstokg.wiring import Wiring
from docstokg_local.cli import settings_of
from docstokg_local.evaluation import read_questions
from docstokg_local.load_stores import stores_of
from functions.expand.expand import explore, measured
from functions.retrieve import handler as retrieve_step
from functions.validate import handler as validate_step

HERE = Path(__file__).resolve().parent
GATE = HERE.parent / "layers/common/python/docstokg/domain/gate_fit.json"
USED = ("facts",)
"""Signals with a weight. The others, and more that were tried (best score, flatness, rarity and
share of the named entities, agreement of both orders), told help from harm only on the questions
they were fitted on: with all of them the cross-fitted gain on musique100 fell by a third."""

SETS = ("musique100", "musique100-titles", "pubmedqa", "scifact_train", "medquad_rare")
"""Folders of the data; `-titles` loads the passages only, so that titles are the whole graph."""

BLENDS = (Blend(2.0, 5.0), Blend(4.0, 4.0), Blend(8.0, 4.0))
FOLDS = 5
TITLES = "-titles"
TOP_K = 20
LIMIT = 32
RIDGE = 1.0
LOSS = 3.0
"""How much more harm counts than help: questions the graph cannot help must not lose by it."""
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """One question: what each order is worth, and for each blend the graph's worth and signals."""

    name: str
    off: tuple[float, ...]
    on: tuple[tuple[float, ...], ...]
    signals: tuple[tuple[float, ...], ...]
    ms: float


def main() -> None:
    """Run it."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", type=Path, default=HERE.parent.parent / "shared/data")
    options.add_argument("--work", type=Path, default=Path("/tmp/docstokg-gate"))
    options.add_argument("--limit", type=int, default=300)
    options.add_argument("--sets", default=",".join(SETS))
    options.add_argument("--write", action="store_true")
    chosen = options.parse_args()
    asked = chosen.sets.split(",")
    names = [n for n in asked if (chosen.data / n.removesuffix(TITLES)).is_dir()]
    cases: list[Case] = []
    for name in names:
        found = remembered(name, chosen.data, chosen.work, chosen.limit)
        cases += found
        print(f"{name}: {len(found)} questions", file=sys.stderr, flush=True)
    report(cases, names)
    if chosen.write:
        blend, gate = fit(cases, range(len(BLENDS)))
        stored = {
            "passages": BLENDS[blend].passages,
            "sharpness": BLENDS[blend].sharpness,
            "bias": round(gate.bias, 4),
            "weights": [round(value, 4) for value in gate.weights],
            "means": [round(value, 4) for value in gate.means],
            "scales": [round(value, 4) for value in gate.scales],
            "signals": list(gates.Signals.__dataclass_fields__),
            "fitted_on": {name: sum(case.name == name for case in cases) for name in names},
        }
        GATE.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def remembered(name: str, data: Path, work: Path, limit: int) -> list[Case]:
    """Read what an earlier run measured from WORK/SET.LIMIT.json, else measure and keep it."""
    file = work / f"{name}.{limit}.json"
    if not file.exists():
        found = cases_of(name, data, work, limit)
        file.write_text(json.dumps([asdict(case) for case in found]), encoding="utf-8")
    return [
        Case(
            row["name"],
            tuple(row["off"]),
            tuple(tuple(values) for values in row["on"]),
            tuple(tuple(values) for values in row["signals"]),
            row["ms"],
        )
        for row in json.loads(file.read_text(encoding="utf-8"))
    ]


def cases_of(name: str, data: Path, work: Path, limit: int) -> list[Case]:
    """Ask the questions of one set both ways."""
    work.mkdir(parents=True, exist_ok=True)
    folder, plain = data / name.removesuffix(TITLES), name.endswith(TITLES)
    store = work / f"{name}.sqlite"
    url = f"sqlite:///{store}"
    wiring = Wiring(settings_of(url, url), Telemetry(level="ERROR"))
    if not store.exists():
        stores = stores_of(wiring)
        load(
            [folder / "passages.jsonl" if plain else folder], LoadOptions(), stores, RejectLog(None)
        )
    validate, retrieve = validate_step.build(wiring), retrieve_step.build(wiring)
    graph = wiring.knowledge_graph()
    documents = Documents(wiring)
    questions = read_questions(folder, None)
    step = max(1, math.ceil(len(questions) / limit))
    found = []
    for question in questions[::step]:
        body = {
            "query": question.question,
            "top_k": TOP_K,
            "budget": {"timeout_s": 20},
            "kg_expansion": {"limit": LIMIT},
        }
        envelope = {
            "route": "answer",
            "request_id": "fit",
            "caller": {"sub": "fit", "namespaces": ["*"], "groups": ["*"]},
            "body_b64": base64.b64encode(json.dumps(body).encode()).decode(),
        }
        made: dict[str, Any] = validate({"envelope": envelope}, None)
        retrieved = retrieve({"plan": made["plan"], "scope": made["scope"]}, None)
        plan = Plan.model_validate(made["plan"])
        plan = plan.model_copy(
            update={"expansion": plan.expansion.model_copy(update={"time_s": 20.0})}
        )
        retrieval = Retrieval.model_validate(retrieved)
        gold = set(question.gold)
        off = worth(documents.of(retrieval.selected), gold)
        on, seen, started = [], [], time.process_time()
        for blend in BLENDS:
            scope = Scope.model_validate(made["scope"])
            run = Run(plan=plan, scope=scope, telemetry=wiring.telemetry)
            _, walked = explore(run, retrieval, graph=graph, blend=blend)
            if walked is None:
                break
            order = ranked_chunks(walked.graph, walked.scores)
            chosen = set(retrieval.selected)
            known = [u for u in order if u not in chosen and u in walked.graph.mentions]
            chosen |= set(known[:LIMIT])
            on.append(worth(documents.of([u for u in order if u in chosen]), gold))
            seen.append(astuple(measured(retrieval, walked)))
        ms = (time.process_time() - started) * 1000 / len(BLENDS)
        if len(on) == len(BLENDS):
            found.append(Case(name, off, tuple(on), tuple(seen), ms))
        else:
            zeros = (0.0,) * len(gates.Signals.__dataclass_fields__)
            found.append(Case(name, off, (off,) * len(BLENDS), (zeros,) * len(BLENDS), ms))
    return found


class Documents:
    """Documents of chunks, read from the index and remembered."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._known: dict[str, str] = {}

    def of(self, uuids: Sequence[str]) -> list[str]:
        """List the documents of chunks in order, each once."""
        from docstokg.contracts.records import Scope

        missing = [uuid for uuid in uuids if uuid not in self._known]
        if missing:
            got = self._wiring.search_index().get(missing, Scope(namespace="default"), 30.0)
            self._known |= {uuid: chunk.doc_id for uuid, chunk in got.chunks.items()}
        return list(dict.fromkeys(self._known[uuid] for uuid in uuids))


def worth(ranking: Sequence[str], gold: set[str]) -> tuple[float, ...]:
    """Give nDCG@10, recall@5 and all@10 of one ranking of documents."""
    hits = [float(doc in gold) for doc in ranking[:10]]
    gain = sum(hit / math.log2(i + 2) for i, hit in enumerate(hits))
    best = sum(1 / math.log2(i + 2) for i in range(min(10, len(gold))))
    return gain / best, sum(hits[:5]) / len(gold), float(sum(hits) == len(gold))


def fit(cases: Sequence[Case], blends: Sequence[int]) -> tuple[int, gates.Gate]:
    """Choose the blend whose fitted gate gains most on `cases`, every set counting alike."""
    fitted = {blend: logistic(cases, blend) for blend in blends}
    best = max(blends, key=lambda blend: gained(cases, blend, fitted[blend]))
    return best, fitted[best]


def gained(cases: Sequence[Case], blend: int, gate: gates.Gate) -> float:
    """Give the sum of mean gains over the sets, a loss counting LOSS times."""
    by_set: dict[str, list[float]] = {}
    for case in cases:
        is_open = gate.opens(gates.Signals(*case.signals[blend]))
        by_set.setdefault(case.name, []).append(difference(case, blend) if is_open else 0.0)
    means = [float(np.mean(values)) for values in by_set.values()]
    return sum(mean if mean > 0 else LOSS * mean for mean in means)


def difference(case: Case, blend: int) -> float:
    """Give what reordering changes, averaged over the three measures."""
    return float(np.mean(np.subtract(case.on[blend], case.off)))


def logistic(cases: Sequence[Case], blend: int) -> gates.Gate:
    """Fit log-odds that reordering helps, each question weighing |gain| / questions of its set.

    Newton's method on the ridge-penalised weighted log-likelihood; signals are standardised.
    """
    used = [name in USED for name in gates.Signals.__dataclass_fields__]
    inputs = np.array([case.signals[blend] for case in cases]) * np.array(used)
    change = np.array([difference(case, blend) for case in cases])
    size = {name: sum(case.name == name for case in cases) for name in {c.name for c in cases}}
    weight = np.abs(change) / np.array([size[case.name] for case in cases])
    weight = np.where(change < 0, LOSS * weight, weight)
    weight *= len(cases) / max(1e-12, float(weight.sum()))
    means, spread = inputs.mean(0), inputs.std(0)
    scales = np.where(spread > 1e-6, spread, 1.0)
    design = np.hstack([np.ones((len(cases), 1)), (inputs - means) / scales])
    wanted = (change > 0).astype(np.float64)
    beta: Array = np.zeros(design.shape[1])
    penalty = RIDGE * np.eye(len(beta))
    penalty[0, 0] = 0.0
    for _ in range(30):
        odds = 1 / (1 + np.exp(-np.clip(design @ beta, -30, 30)))
        slope = design.T @ (weight * (wanted - odds)) - penalty @ beta
        curve = (design * (weight * odds * (1 - odds))[:, None]).T @ design + penalty
        beta = beta + np.linalg.solve(curve + 1e-9 * np.eye(len(beta)), slope)
    return gates.Gate(
        tuple(float(value) for value in beta[1:]),
        tuple(float(value) for value in means),
        tuple(float(value) for value in scales),
        float(beta[0]),
        BLENDS[blend],
    )


def report(cases: Sequence[Case], names: Sequence[str]) -> None:
    """Print, per set: graph off, always open, gated by cross-fitting, and gated by other sets."""
    folds = [[case for i, case in enumerate(cases) if i % FOLDS == fold] for fold in range(FOLDS)]
    judged: list[tuple[Case, tuple[float, ...], bool]] = []
    for fold, held in enumerate(folds):
        rest = [case for i, part in enumerate(folds) if i != fold for case in part]
        blend, gate = fit(rest, range(len(BLENDS)))
        judged += [gated(case, blend, gate) for case in held]
    print("| set | n | order | nDCG@10 | recall@5 | all@10 | open | cpu ms |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        own = [case for case in cases if case.name == name]
        show(name, "graph off", [case.off for case in own], 0.0, own)
        for blend, mixed in enumerate(BLENDS):
            label = f"always open, {mixed.passages:g} / {mixed.sharpness:g}"
            show(name, label, [case.on[blend] for case in own], 1.0, own)
        mine = [row for row in judged if row[0].name == name]
        opened = float(np.mean([row[2] for row in mine]))
        show(name, "**gate, cross-fitted**", [row[1] for row in mine], opened, own)
        others = [case for case in cases if case.name != name]
        if others:
            blend, gate = fit(others, range(len(BLENDS)))
            rows = [gated(case, blend, gate) for case in own]
            opened = float(np.mean([row[2] for row in rows]))
            show(name, "gate fitted on the other sets", [row[1] for row in rows], opened, own)


def gated(case: Case, blend: int, gate: gates.Gate) -> tuple[Case, tuple[float, ...], bool]:
    """Judge one question with a gate that has not seen it."""
    is_open = gate.opens(gates.Signals(*case.signals[blend]))
    return case, case.on[blend] if is_open else case.off, is_open


def show(
    name: str, label: str, values: Sequence[tuple[float, ...]], opened: float, own: Sequence[Case]
) -> None:
    """Print one row."""
    means = " | ".join(f"{value:.4f}" for value in np.mean(np.array(values), axis=0))
    ms = float(np.median([case.ms for case in own]))
    print(f"| {name} | {len(own)} | {label} | {means} | {opened:.2f} | {ms:.0f} |", flush=True)


if __name__ == "__main__":
    main()

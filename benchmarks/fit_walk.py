"""Choose the weights of the graph walk and when it reorders, with leave-one-out validation.

usage: python -m benchmarks.fit_walk FOLDER=STORE.sqlite[:NAMESPACE] ... [--limit N]

Each FOLDER has the questions (`questions.jsonl`) of a set that was loaded into its STORE. Every
question goes through validate, retrieve and the slices of expand once; the walk is then repeated
with each setting of the grid. Printed: per set graph off, the weights in force, and the setting
chosen by the other sets; then the settings by their gain over all sets.
"""

import argparse
import base64
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.loaded_sets import WRITTEN, LoadedSet
from docstokg.contracts.records import Scope
from docstokg.contracts.state import Plan, Retrieval
from docstokg.domain.deadline import Deadline
from docstokg.domain.graph.slice_graph import LINKS, WEIGHTS, Links, Weights
from docstokg.observability import Telemetry
from docstokg.usecases.run import Run
from docstokg.wiring import Handler, Wiring
from docstokg_functions.expand.expand import explore, order_of, ranked
from docstokg_functions.retrieve import handler as retrieve_step
from docstokg_functions.validate import handler as validate_step
from docstokg_local.cli.display import TerminalProgress
from docstokg_local.cli.stores import settings_of
from docstokg_local.evaluation.retrieval import Question, metrics, read_questions

TOP_K = 20
TIME_S = 60.0
SHOWN = ("ndcg@10", "recall@5", "all@10")
LOSS = 3.0
"""How much more harm counts than help: questions the graph cannot help must not lose by it."""

ANY = 1_000_000

IN_FORCE = (WEIGHTS, LINKS)
GRID: tuple[tuple[Weights, Links], ...] = (
    *(
        (Weights(about, relation, passages, sharpness), LINKS)
        for about, relation, passages, sharpness in itertools.product(
            (3.0, 5.0, 10.0), (1.0, 2.0), (1.0, 2.0, 3.0), (4.0, 5.0)
        )
    ),
    *(
        (WEIGHTS, Links(rare, share))
        for rare, share in itertools.product((15, 30, 50, 100, ANY), (0.1, 0.15, 0.2, 0.25, 0.3))
        if (rare, share) != LINKS
    ),
)

Worth = dict[str, float]


@dataclass(frozen=True)
class Case:
    """Scores of one question without the graph, and with each setting of the grid."""

    off: Worth
    on: tuple[Worth, ...]
    nodes: int


def main() -> None:
    """Run it."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("sets", nargs="+", type=LoadedSet.read, metavar=WRITTEN)
    options.add_argument("--limit", type=int, default=250)
    chosen = options.parse_args()
    cases: dict[str, list[Case]] = {}
    for folder, store, namespace in chosen.sets:
        cases[f"{folder.name} ({store.stem})"] = cases_of(folder, store, namespace, chosen.limit)
    report(cases)


def cases_of(folder: Path, store: Path, namespace: str, limit: int) -> list[Case]:
    """Measure a set's questions, evenly sampled."""
    url = f"sqlite:///{store.resolve()}"
    wiring = Wiring(settings_of(url, url), Telemetry(level="ERROR"))
    steps = validate_step.build(wiring), retrieve_step.build(wiring)
    questions = read_questions(folder, None)
    sample = questions[:: max(1, math.ceil(len(questions) / limit))]
    with TerminalProgress().stage(folder.name, len(sample)) as advance:
        cases = []
        for question in sample:
            cases.append(case_of(question, namespace, steps, wiring))
            advance(1)
    wiring.close()
    return cases


def case_of(
    question: Question, namespace: str, steps: tuple[Handler, Handler], wiring: Wiring
) -> Case:
    """Ask one question, fetch its slices once, and walk with every setting."""
    validate, retrieve = steps
    body = {"query": question.question, "namespace": namespace, "top_k": TOP_K}
    envelope = {
        "route": "answer",
        "request_id": "fit",
        "caller": {"sub": "fit", "namespaces": ["*"], "groups": ["*"]},
        "body_b64": base64.b64encode(json.dumps(body).encode()).decode(),
    }
    validated = validate({"envelope": envelope}, None)
    plan = Plan.model_validate(validated["plan"])
    plan = plan.model_copy(
        update={
            "deadline_ms": plan.started_ms + int(TIME_S * 1000),
            "retrieval": plan.retrieval.model_copy(update={"time_s": TIME_S}),
            "expansion": plan.expansion.model_copy(update={"time_s": TIME_S}),
        }
    )
    state = {"plan": plan.model_dump(mode="json"), "scope": validated["scope"]}
    retrieval = Retrieval.model_validate(retrieve(state, None))
    run = Run.of(state, wiring.telemetry)
    explored, ranking = explore(run, retrieval, graph=wiring.knowledge_graph())
    gold, index = set(question.gold), wiring.search_index()
    hydrated = index.get(
        retrieval.selected, Scope(namespace=namespace), Deadline.after(TIME_S)
    ).chunks
    document = {item.uuid: item.doc_id for item in explored.part.chunks}
    document |= {uuid: chunk.doc_id for uuid, chunk in hydrated.items()}
    off = worth(retrieval.selected, document, gold)
    if ranking is None:
        return Case(off, (off,) * len(GRID), 0)
    on = tuple(
        worth(
            order_of(retrieval, ranked(plan, retrieval, explored, weights), links), document, gold
        )
        for weights, links in GRID
    )
    return Case(off, on, len(explored.part.entities) + len(explored.part.chunks))


def worth(order: Sequence[str], document: Mapping[str, str], gold: set[str]) -> Worth:
    """Return the score of a chunk order by document, without chunks that would not be cited."""
    documents = dict.fromkeys(document[uuid] for uuid in order if uuid in document)
    values = metrics(list(documents), gold)
    return {name: values[name] for name in SHOWN}


def mean(values: Sequence[Worth]) -> Worth:
    """Return the mean over questions."""
    return {name: sum(value[name] for value in values) / len(values) for name in SHOWN}


def gain(cases: Sequence[Case], setting: int) -> float:
    """Return the gain of a setting on a set over the printed measures; a loss counts LOSS times."""
    off, on = mean([case.off for case in cases]), mean([case.on[setting] for case in cases])
    changes = [on[name] - off[name] for name in SHOWN]
    return sum(change if change > 0 else LOSS * change for change in changes) / len(changes)


def report(cases: Mapping[str, Sequence[Case]]) -> None:
    """Print both tables."""
    print("| set | n | nodes | order | " + " | ".join(SHOWN) + " |")
    print("|---|---|---|---|" + "---|" * len(SHOWN))
    for name, cases_of_set in cases.items():
        nodes = sum(case.nodes for case in cases_of_set) / len(cases_of_set)
        others = [cases_of_other for other, cases_of_other in cases.items() if other != name]
        rows = [("graph off", mean([case.off for case in cases_of_set]))]
        rows.append((f"in force {label(IN_FORCE)}", on(cases_of_set, GRID.index(IN_FORCE))))
        if others:
            best = max(
                range(len(GRID)),
                key=lambda i: sum(gain(cases_of_other, i) for cases_of_other in others),
            )
            rows.append((f"chosen on the other sets {label(GRID[best])}", on(cases_of_set, best)))
        for order, values in rows:
            figures = " | ".join(f"{values[name_]:.4f}" for name_ in SHOWN)
            print(f"| {name} | {len(cases_of_set)} | {nodes:.0f} | {order} | {figures} |")
    columns = ["about / relation / passages / sharpness; rare / share", "mean gain", *cases]
    print(f"\n| {' | '.join(columns)} |")
    print("|---|---|" + "---|" * len(cases))
    ordered = sorted(
        range(len(GRID)),
        key=lambda i: -sum(gain(cases_of_other, i) for cases_of_other in cases.values()),
    )
    for i in ordered:
        gains = [gain(cases_of_other, i) for cases_of_other in cases.values()]
        figures = " | ".join(f"{value:+.4f}" for value in gains)
        print(f"| {label(GRID[i])} | {sum(gains) / len(gains):+.4f} | {figures} |")


def on(cases: Sequence[Case], setting: int) -> Worth:
    """Return the mean scores of one setting."""
    return mean([case.on[setting] for case in cases])


def label(setting: tuple[Weights, Links]) -> str:
    """Return a setting as text."""
    return "; ".join(" / ".join(f"{value:g}" for value in part) for part in setting)


if __name__ == "__main__":
    main()

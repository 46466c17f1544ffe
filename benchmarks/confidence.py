"""Confidence of right and wrong answers on the demo store.

    python -m benchmarks.confidence STORE [--terms 40]

STORE is the file that `docstokg demo --index sqlite:///STORE` writes. Asks "What is X?" of the
first terms by id that have a document of their own, and of as many that are only named in other
documents. An answer is right if it cites the document of X. Prints the area under the ROC curve
with its standard error, of the confidence and of the seed's formula alone, and the means of right
and wrong answers.
"""

import argparse
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from docstokg.contracts.response import ConfidenceParts
from docstokg.domain.answer.confidence import confidence
from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.cli.question import submit, with_answer
from docstokg_local.cli.stores import settings_of
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.evaluation.calibration import roc_area, roc_area_error

NAMESPACE = "default"
PREFIX = "HP:"


def main() -> None:
    """Ask both kinds of question and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("--terms", type=int, default=40)
    parser.add_argument("--rows", action="store_true", help="print each question")
    options = parser.parse_args()
    url = f"sqlite:///{options.store.resolve()}"
    wiring = Wiring(settings_of(url, url), Telemetry(level="ERROR"))
    workflow = LocalWorkflow(wiring)
    values: list[float] = []
    formulas: list[float] = []
    right: list[bool] = []
    for identifier, name in terms(wiring, options.terms):
        request = with_answer({"query": f"What is {name}?", "namespace": NAMESPACE}, "extractive")
        body = submit(workflow, request).body
        cited = {citation["doc_id"] for citation in body["citations"] if citation["cited"]}
        values.append(body["confidence"])
        parts = ConfidenceParts.model_validate(body["confidence_parts"] or {})
        formulas.append(confidence(parts, None))
        right.append(identifier in cited)
        if options.rows:
            print(f"{right[-1]:d} {values[-1]:.2f} {identifier} {name}: {body['answer'][:120]}")
    print(f"{len(right)} questions, {sum(right)} right")
    for name, figures in (("confidence", values), ("formula alone", formulas)):
        print(f"{name}: AUC {area(figures, right)}", end="")
        for kind, outcome in ((True, "right"), (False, "wrong")):
            values_of_kind = [
                value for value, is_right in zip(figures, right, strict=True) if is_right is kind
            ]
            print(f", {outcome} {mean(values_of_kind)}", end="")
        print()


def terms(wiring: Wiring, count: int) -> list[tuple[str, str]]:
    """Return (id, name) of the first terms with a document, then of those that are only named."""
    graph = wiring.graph_writer()
    documents = {node.doc_id for node in graph.stored_nodes(NAMESPACE)}
    named = {mention.entity for mention in graph.stored_mentions(NAMESPACE)}
    terms = sorted(
        (entity.id, entity.name)
        for entity in graph.stored_entities(NAMESPACE)
        if entity.id.startswith(PREFIX) and entity.id in named
    )
    documented_terms = [term for term in terms if term[0] in documents]
    other = [term for term in terms if term[0] not in documents]
    return documented_terms[:count] + other[:count]


def area(values: Sequence[float], right: Sequence[bool]) -> str:
    """Write the area under the ROC curve with its standard error (Hanley and McNeil 1982)."""
    auc = roc_area(values, right)
    if auc is None:
        return "-"
    return f"{auc:.3f} +- {roc_area_error(auc, right):.3f}"


def mean(values: Sequence[float]) -> str:
    """Write the mean of some values with its standard error."""
    if len(values) < 2:
        return "-"
    error = statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.fmean(values):.3f} +- {error:.3f}"


if __name__ == "__main__":
    main()

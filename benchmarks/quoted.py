"""Check that every sentence of the built-in model's answers is a proven quotation.

    python -m benchmarks.quoted STORE NAMESPACE [--questions FOLDER] [--count 100]

FOLDER contains `answers*.jsonl` or `questions*.jsonl` as for `docstokg eval --answers`. Without
it, the questions are "What is TITLE?" of documents of the namespace, evenly spaced. Prints the
verdicts of all factual sentences, and each sentence that is not `supported`.
"""

import argparse
from collections import Counter
from pathlib import Path

from docstokg.domain.answer.notices import is_abstention
from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.cli.question import submit, with_answer
from docstokg_local.cli.stores import settings_of
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.evaluation.answers import read_answers


def main() -> None:
    """Ask until the namespace or the number of answers is exhausted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("namespace")
    parser.add_argument("--questions", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--rows", action="store_true", help="print each answer")
    options = parser.parse_args()
    url = f"sqlite:///{options.store.resolve()}"
    wiring = Wiring(settings_of(url, url), Telemetry(level="ERROR"))
    workflow = LocalWorkflow(wiring)
    if options.questions is not None:
        questions = [answer.question for answer in read_answers(options.questions, options.count)]
    else:
        questions = titles(wiring, options.namespace, options.count)
    verdicts: Counter[str] = Counter()
    answers = grounded = 0
    for question in questions:
        request = {"query": question, "namespace": options.namespace}
        body = submit(workflow, with_answer(request, "extractive")).body
        answer, report = body["answer"], body["grounding"]
        if options.rows:
            print(f"{body['confidence']:.2f} {question} -> {answer}")
        if report is None or is_abstention(answer):
            continue
        answers += 1
        grounded += report["grounded"] is True
        for sentence in report["sentences"]:
            if sentence["reasons"] == ["no_claim"]:
                continue
            verdicts[sentence["verdict"]] += 1
            if sentence["verdict"] != "supported":
                text = answer[sentence["start"] : sentence["end"]]
                print(f"{sentence['verdict']} {sentence['reasons']}: {text!r}")
    counts = ", ".join(f"{count} {kind}" for kind, count in verdicts.most_common())
    print(
        f"{len(questions)} questions, {answers} answers, {grounded} grounded; sentences: {counts}"
    )


def titles(wiring: Wiring, namespace: str, count: int) -> list[str]:
    """Return questions for the titles and sections of a namespace, evenly over all."""
    nodes = wiring.graph_writer().stored_nodes(namespace)
    named = sorted({f"{node.title} {node.section}".strip() for node in nodes})
    limit = min(count, len(named))
    return [f"What is {named[place * len(named) // limit]}?" for place in range(limit)]


if __name__ == "__main__":
    main()

"""A small language model beside the built-in one: the same passages, synthesize and check alone.

    python -m benchmarks.small_model ask SET_FOLDER --namespace NS --index URL --model NAME
        --out ANSWERS.jsonl [--questions 100] [--minutes 9]
    python -m benchmarks.small_model report ANSWERS.jsonl

`ask` takes the set's first fact questions, lets the pipeline find the passages, and hands just
these to the step that synthesizes, with no limit on time: once to the built-in model, once to NAME,
which DOCSTOKG_LLM_BASE_URL serves. It adds a line for each question to ANSWERS.jsonl and goes on
where it stopped; after `--minutes` it stops between two questions. `report` checks what was
written, as it is and with DOCSTOKG_REPAIR=attribute, and prints the table: F1, ROUGE-L and content
words against the written answer (an abstention counts 0), the share of factual sentences with a
marker, and the share of cited passages that hold 60 % of the words of an evidence statement. Then
how many answers of each level of confidence are right; silence is `low` and is not right.
"""

import argparse
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from docstokg.contracts.records import Scope
from docstokg.contracts.state import Block, Plan
from docstokg.domain.answer import extractive, notices
from docstokg.observability import Telemetry
from docstokg.ports import Embedder
from docstokg.settings import Settings
from docstokg.usecases.check_answer import CheckedAnswer, Repair, check_answer
from docstokg.usecases.comparison import Comparison
from docstokg.usecases.run import Call, Run
from docstokg.wiring import Handler, Wiring
from docstokg_functions.synthesize import handler as synthesize_step
from docstokg_functions.synthesize.synthesize import synthesize
from docstokg_local.cli.asking import ask
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.evaluation.answers import (
    HELD,
    MAX_TOKENS_GEN,
    WrittenAnswer,
    f1,
    held,
    is_right,
    read_answers,
    rouge_l,
    words,
)

Row = dict[str, Any]
HOUR_S = 3600.0
FACTS = (None, "Fact Retrieval")
QUIET = Telemetry(level="ERROR")


def main() -> None:
    """Ask or report."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    commands = arguments.add_subparsers(required=True)
    asking = commands.add_parser("ask")
    asking.add_argument("folder", type=Path)
    asking.add_argument("--namespace", required=True)
    asking.add_argument("--index", required=True)
    asking.add_argument("--model", required=True)
    asking.add_argument("--out", type=Path, required=True)
    asking.add_argument("--questions", type=int, default=100)
    asking.add_argument("--minutes", type=float, default=9.0)
    asking.set_defaults(run=ask_both)
    reporting = commands.add_parser("report")
    reporting.add_argument("answers", type=Path)
    reporting.set_defaults(run=report)
    options = arguments.parse_args()
    options.run(options)


def ask_both(options: argparse.Namespace) -> None:
    """Write the answers of both models, a line each question, until the time is over."""
    began = time.monotonic()
    written = [row for row in read_answers(options.folder, None) if row.type in FACTS]
    known = {row["id"] for row in _rows(options.out)} if options.out.exists() else set()
    left = [row for row in written[: options.questions] if row.id not in known]
    settings = Settings.from_environment(os.environ).model_copy(
        update={"index_url": options.index, "graph_url": options.index}
    )
    wiring = Wiring(settings, QUIET)
    given = _capturing()
    workflow = LocalWorkflow(wiring)
    with options.out.open("a", encoding="utf-8") as out:
        for row in left:
            if time.monotonic() - began > 60 * options.minutes:
                break
            event = given(workflow, row.question, options.namespace)
            if event is None:
                print(f"{row.id}: no passages", flush=True)
                continue
            made = row.model_dump(mode="json") | {
                "blocks": event["blocks"],
                "answers": {
                    model: _answer(wiring, event, model)
                    for model in (extractive.MODEL, options.model)
                },
            }
            out.write(json.dumps(made, ensure_ascii=False) + "\n")
            out.flush()
            took = made["answers"][options.model]["took_s"]
            print(f"{row.id}: {took:.0f} s: {made['answers'][options.model]['text']}", flush=True)


def _capturing() -> Callable[[LocalWorkflow, str, str], Row | None]:
    """Give what runs a question up to the step that synthesizes, and keeps what it is given."""
    kept: list[Row] = []
    build = synthesize_step.build

    def keeping(wiring: Wiring) -> Handler:
        handler = build(wiring)

        def call(event: Row, context: object) -> Row:
            kept.append(event)
            return handler(event, context)

        return call

    vars(synthesize_step)["build"] = keeping

    def run(workflow: LocalWorkflow, question: str, namespace: str) -> Row | None:
        kept.clear()
        ask(
            workflow,
            {
                "query": question,
                "namespace": namespace,
                "synthesis": {"enabled": True, "model": extractive.MODEL},
                "budget": {"max_tokens_gen": MAX_TOKENS_GEN, "timeout_s": 25},
            },
        )
        return kept[0] if kept else None

    return run


def _answer(wiring: Wiring, event: Mapping[str, Any], model: str) -> Row:
    """Let one model write from the passages of an event, with an hour to do it."""
    plan = Plan.model_validate(event["plan"])
    assert plan.synthesis is not None
    chosen = plan.synthesis.model_copy(update={"model": model, "fallback": None})
    late = plan.model_copy(
        update={"synthesis": chosen, "deadline_ms": int(1000 * (time.time() + HOUR_S))}
    )
    run = Run.of({"plan": late.model_dump(mode="json")}, QUIET)
    blocks = [Block.model_validate(block) for block in event["blocks"]]
    began = time.monotonic()
    made = synthesize(
        run, blocks, relevant=bool(event["relevant"]), language_model=wiring.language_model
    )
    return {
        "outcome": made.outcome,
        "text": made.answer,
        "blocks": made.block_count or len(blocks),
        "took_s": round(time.monotonic() - began, 2),
        "warnings": list(made.warnings),
    }


def report(options: argparse.Namespace) -> None:
    """Check every answer and print the table."""
    rows = _rows(options.answers)
    embedder = Wiring(Settings.from_environment({})).embedder()
    models = list(rows[0]["answers"])
    print(f"{len(rows)} questions\n")
    print("| model | repair | F1 | ROUGE-L | words | silent | right | sentences marked |", end="")
    print(" citation precision | supported, weak, unsupported, uncited | seconds, median |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    repairs: tuple[Repair, ...] = ("report", "attribute")
    measured: dict[tuple[str, Repair], list[Row]] = {}
    for model in models:
        for repair in repairs[: 1 if model == extractive.MODEL else 2]:
            own = [_measured(row, model, repair, embedder) for row in rows]
            measured[model, repair] = own
            print(f"| {model} | {repair} | {_line(own)} |", flush=True)
    print("\n| model | repair | medium or high, right | low, right | of these said something |")
    print("|---|---|---|---|---|")
    for (model, repair), own in measured.items():
        low = [row for row in own if row["level"] == "low"]
        parts = ([row for row in own if row["level"] != "low"], low, _speaking(low))
        shares = (_share([row["right"] for row in part]) for part in parts)
        print(f"| {model} | {repair} | {' | '.join(shares)} |")


def _measured(row: Row, model: str, repair: Repair, embedder: Embedder | None) -> Row:
    written = WrittenAnswer.model_validate(
        {name: row[name] for name in ("id", "question", "answer", "type", "evidence")}
    )
    made = row["answers"][model]
    blocks = [Block.model_validate(block) for block in row["blocks"]][: made["blocks"]]
    call = Call(
        request_id="benchmark",
        deadline_ms=math.inf,
        scope=Scope(namespace="default"),
        telemetry=QUIET,
    )
    checked: CheckedAnswer = check_answer(
        made["text"],
        blocks,
        query=written.question,
        compare=Comparison(call, embedder, 60.0),
        repair=repair,
    )
    silent = notices.is_abstention(checked.answer)
    said = "" if silent else checked.answer
    texts = [block.text for block in blocks if block.rank in checked.cited]
    verdicts = list(checked.grounding.sentences) if checked.grounding else []
    return {
        "f1": f1(said, written.answer),
        "rouge_l": rouge_l(said, written.answer),
        "words": len(words(said)),
        "silent": silent,
        "right": is_right(said, written.answer),
        "level": checked.confidence_level,
        "marked": [bool(one.citations) for one in verdicts],
        "verdicts": [one.verdict for one in verdicts],
        "precise": [any(held([text], one) >= HELD for one in written.evidence) for text in texts],
        "took_s": made["took_s"],
    }


def _line(rows: Sequence[Row]) -> str:
    def mean(name: str) -> float:
        return statistics.fmean(row[name] for row in rows)

    marked = [one for row in rows for one in row["marked"]]
    precise = [one for row in rows for one in row["precise"]]
    verdicts = [one for row in rows for one in row["verdicts"]]
    kinds = ", ".join(
        str(verdicts.count(kind)) for kind in ("supported", "weak", "unsupported", "uncited")
    )
    return (
        f"{mean('f1'):.3f} | {mean('rouge_l'):.3f} | {mean('words'):.1f} | {mean('silent'):.2f} | "
        f"{mean('right'):.2f} | {_share(marked)} | {_share(precise)} | {kinds} | "
        f"{statistics.median(row['took_s'] for row in rows):.1f}"
    )


def _speaking(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if not row["silent"]]


def _share(values: Sequence[bool]) -> str:
    return f"{sum(values) / len(values):.2f} of {len(values)}" if values else "-"


def _rows(path: Path) -> list[Row]:
    return list(_read(path))


def _read(path: Path) -> Iterator[Row]:
    for line in path.read_text("utf-8").splitlines():
        yield json.loads(line)


if __name__ == "__main__":
    main()

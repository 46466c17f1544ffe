"""A small language model with the product's prompt and with a plain one, over the same passages.

    python -m benchmarks.small_model ask NAME=FILE ... --index URL --model NAME --out OUT.jsonl
        [--minutes 60] [--context 450] [--rest]
    python -m benchmarks.small_model report OUT.jsonl ... [--rows ROWS.jsonl]

`ask` takes questions of each set in turn (NAME: the namespace it is loaded into), lets the
pipeline find the passages, and hands the first of these, as many as fit into `--context` tokens, to
three arms: the built-in model; NAME, which DOCSTOKG_LLM_BASE_URL serves, by the step that
synthesizes; and NAME with PLAIN. There is no limit on time. A line for each question and a resumed
run; `--rest` takes the forty questions that the prompt was not looked at with.

`report` judges by a rule that does not know the arm: `is_right` of the evaluation (a short written
answer as it stands, numbers and names included, else half of its content words), any of `accept`
where the set has that; silence, in whatever words, is right where there is no answer and wrong
elsewhere. `--rows` keeps id, right, refused and seconds.
"""

import argparse
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from docstokg.contracts.state import Block, Plan
from docstokg.domain.answer import extractive, notices, prompt
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.usecases.check_answer import check_answer
from docstokg.usecases.run import Run
from docstokg.wiring import Handler, Wiring
from docstokg_functions.synthesize import handler as synthesize_step
from docstokg_functions.synthesize.synthesize import synthesize
from docstokg_local.cli.asking import ask
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.evaluation.answers import is_right, without_markers

Row = dict[str, Any]
ARMS = ("extractive", "product", "plain")
HOUR_S = 3600.0
TOKENS = 80
QUIET = Telemetry(level="ERROR")
FIT = {"med": 10, "mus": 10, "own": 10}
REST = {"med": 20, "mus": 10, "own": 10}
"""Questions of each set by namespace, the first to fit and those behind them."""
PLAIN = """Answer the question with the passages below.
Use only what the passages say.
If they do not contain the answer, say that you do not know.
Keep the answer short.

Passages:

{passages}

Question: {question}
Answer:"""
_SILENT = re.compile(
    r"\b(?:do(?:es)? not|don't|doesn't|cannot|can't|could not|no|not)\b[^.]{0,40}"
    r"\b(?:know|information|contain|mention|provide|specif\w+|answer|say|state|find|stated|mentioned)"
    r"|\b(?:unknown|not available|unclear)\b",
    re.IGNORECASE,
)


def main() -> None:
    """Ask or report."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    commands = arguments.add_subparsers(required=True)
    asking = commands.add_parser("ask")
    asking.add_argument("sets", nargs="+")
    asking.add_argument("--index", required=True)
    asking.add_argument("--model", required=True)
    asking.add_argument("--out", type=Path, required=True)
    asking.add_argument("--minutes", type=float, default=60.0)
    asking.add_argument("--context", type=int, default=450)
    asking.add_argument("--rest", action="store_true")
    asking.set_defaults(run=ask_all)
    reporting = commands.add_parser("report")
    reporting.add_argument("answers", type=Path, nargs="+")
    reporting.add_argument("--rows", type=Path)
    reporting.set_defaults(run=report)
    options = arguments.parse_args()
    options.run(options)


def questions(namespace: str, path: Path, *, rest: bool) -> list[Row]:
    """Read the questions of one set that belong to the part asked for."""
    rows = [row for row in _rows(path) if row.get("type") in (None, "Fact Retrieval", "answerable")]
    rows = [row for row in rows if row.get("corpus") in (None, "company")]
    first = FIT[namespace]
    chosen = rows[first : first + REST[namespace]] if rest else rows[:first]
    kept = ("id", "question", "answer", "accept")
    return [{key: row[key] for key in kept if key in row} | {"set": namespace} for row in chosen]


def ask_all(options: argparse.Namespace) -> None:
    """Write a line for each question, its passages and what each arm says, until time is over."""
    began = time.monotonic()
    parts = [one.partition("=") for one in options.sets]
    sets = [questions(name, Path(path), rest=options.rest) for name, _, path in parts]
    # In turn, so that a run that is cut short has some of each.
    order = sorted((place / len(own), row["id"]) for own in sets for place, row in enumerate(own))
    by_id = {row["id"]: row for own in sets for row in own}
    known = {row["id"] for row in _rows(options.out)} if options.out.exists() else set()
    settings = Settings.from_environment(os.environ).model_copy(
        update={"index_url": options.index, "graph_url": options.index}
    )
    wiring = Wiring(settings, QUIET)
    given = _capturing()
    workflow = LocalWorkflow(wiring)
    with options.out.open("a", encoding="utf-8") as out:
        for _, name in order:
            if name in known or time.monotonic() - began > 60 * options.minutes:
                continue
            row = by_id[name]
            event = given(workflow, row["question"], row["set"])
            if event is None:
                continue
            arms = {arm: _answer(wiring, event, options, arm) for arm in ARMS}
            made = row | {"model": options.model, "arms": arms}
            out.write(json.dumps(made, ensure_ascii=False) + "\n")
            out.flush()
            for arm in ARMS:
                print(f"{name} {arm} {arms[arm]['took_s']}: {arms[arm]['text']!r}", flush=True)


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
        asked = {"enabled": True, "model": extractive.MODEL}
        budget = {"max_tokens_gen": TOKENS, "timeout_s": 25}
        ask(
            workflow,
            {"query": question, "namespace": namespace, "synthesis": asked, "budget": budget},
        )
        return kept[0] if kept else None

    return run


def _answer(wiring: Wiring, event: Mapping[str, Any], options: Any, arm: str) -> Row:
    """Let one arm write, with an hour to do it; what a reader would be shown."""
    plan = Plan.model_validate(event["plan"])
    assert plan.synthesis is not None
    model = extractive.MODEL if arm == "extractive" else options.model
    chosen = plan.synthesis.model_copy(update={"model": model, "fallback": None})
    limits = plan.budget_limits.model_copy(update={"max_tokens_context": options.context})
    late = plan.model_copy(
        update={
            "synthesis": chosen,
            "budget_limits": limits,
            "deadline_ms": int(1000 * (time.time() + HOUR_S)),
        }
    )
    blocks = [Block.model_validate(block) for block in event["blocks"]]
    began = time.monotonic()
    if arm == "plain":
        count = len(prompt.passages_within(blocks, options.context))
        passages = "\n\n".join(block.text for block in blocks[:count])
        asked = PLAIN.format(passages=passages, question=plan.query)
        text = wiring.language_model().complete(
            [{"role": "user", "content": asked}],
            model=model, temperature=0.0, max_tokens=TOKENS, timeout_s=HOUR_S,
        ).text  # fmt: skip
    else:
        run = Run.of({"plan": late.model_dump(mode="json")}, QUIET)
        made = synthesize(run, blocks, relevant=True, language_model=wiring.language_model)
        given = blocks[: made.block_count]
        text = check_answer(made.answer, given, query=plan.query, repair=plan.repair).answer
    return {"text": text, "took_s": round(time.monotonic() - began, 1)}


def judged(row: Row, arm: str) -> Row:
    """Say whether an answer is right, and whether it is none."""
    text = row["arms"][arm]["text"]
    refused = not text.strip() or notices.is_abstention(without_markers(text))
    golds = row.get("accept") or [row["answer"]]
    right = any(all(is_right(text, part) for part in gold.split("+")) for gold in golds)
    refused = refused or (not right and _SILENT.search(text) is not None)
    return {
        "id": row["id"],
        "model": row["model"],
        "arm": arm,
        "right": right and not refused,
        "refused": refused,
        "seconds": row["arms"][arm]["took_s"],
    }


def report(options: argparse.Namespace) -> None:
    """Print the table, and the pairs won and lost against the plain prompt."""
    made = [judged(row, arm) for path in options.answers for row in _rows(path) for arm in ARMS]
    if options.rows:
        lines = "".join(json.dumps(row) + "\n" for row in made)
        options.rows.write_text(lines, encoding="utf-8")
    print(
        "| model | arm | questions | right | refused | seconds, mean |\n|---|---|---|---|---|---|"
    )
    for model in sorted({row["model"] for row in made}):
        by_arm = {arm: [r for r in made if (r["model"], r["arm"]) == (model, arm)] for arm in ARMS}
        for arm, own in by_arm.items():
            means = (_mean(own, name) for name in ("right", "refused", "seconds"))
            print(f"| {model} | {arm} | {len(own)} | " + " | ".join(means) + " |")
        pairs = list(zip(by_arm["product"], by_arm["plain"], strict=True))
        won = sum(a["right"] > b["right"] for a, b in pairs)
        lost = sum(a["right"] < b["right"] for a, b in pairs)
        print(f"| {model} | product against plain | won {won} | lost {lost} | tied "
              f"{len(pairs) - won - lost} | |")  # fmt: skip


def _mean(rows: Sequence[Row], name: str) -> str:
    return f"{sum(row[name] for row in rows) / len(rows):.2f}"


def _rows(path: Path) -> Iterator[Row]:
    for line in path.read_text("utf-8").splitlines():
        yield json.loads(line)


if __name__ == "__main__":
    main()

"""A small language model with the product's prompt and with a plain one, on the same passages.

    python -m benchmarks.small_model ask FOLDER[:FIRST]... --model NAME --out OUT.jsonl
                                       [--ids ROWS.jsonl] [--rules FILE]
    python -m benchmarks.small_model report OUT.jsonl... [--rows ROWS.jsonl]

Each FOLDER (med, mus, own_...) contains `given.jsonl` (training.passages). `ask` sends its first
passages to three arms: the built-in model; NAME, served at DOCSTOKG_LLM_BASE_URL, through the
synthesis step and the check; and NAME with PLAIN. There is no time limit. One line is written per
question; a second run adds missing ones. The FIRST questions of a set are skipped, as the first ten
were used while the prompt was written. With `--ids` exactly the questions whose id is in ROWS.jsonl
are asked. FILE holds other rules than the prompt's, for a trial.

`small_model_rows.jsonl` holds a reader's verdicts on the trial of decisions/small-models.md, by
set, arm and kind; `small_model_questions.jsonl` its thirteen questions that no other set has.

`report` uses a rule that is blind to the arm: `is_right` of the evaluation (a short reference
answer verbatim, else half of its content words), also against any of `accept`; an abstention is
wrong, unless the reference is "-" (a near miss: nothing answers). `--rows` keeps id, right, refused
and seconds.
"""

import argparse
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docstokg.contracts.state import Block, Plan
from docstokg.domain.answer import extractive, notices, prompt
from docstokg.domain.deadline import Deadline
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.usecases.check_answer import check_answer
from docstokg.usecases.run import Run
from docstokg.wiring import Wiring
from docstokg_functions.synthesize.synthesize import synthesize
from docstokg_functions.validate.handler import build
from docstokg_local.cli.question import envelope_of
from docstokg_local.evaluation.answers import is_right, without_markers

Row = dict[str, Any]
ARMS = ("extractive", "product", "plain")
DAY_S = 86400.0
CONTEXT, TOKENS = 450, 80
FITTED = 10
ASKED = {"med": 20}
ASKED_ELSEWHERE = 10
QUIET = Telemetry(level="ERROR")
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
    arguments.add_argument("do", choices=("ask", "report"))
    arguments.add_argument("paths", nargs="+")
    arguments.add_argument("--model")
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--rows", type=Path)
    arguments.add_argument("--rules", type=Path)
    arguments.add_argument("--ids", type=Path)
    options = arguments.parse_args()
    if options.rules:
        vars(prompt)["_RULES"] = options.rules.read_text("utf-8")
    if options.do == "ask":
        ids = {row["id"] for row in _rows(options.ids)} if options.ids else None
        ask_all(options.paths, options.model, options.out, ids)
    else:
        report([Path(path) for path in options.paths], options.rows)


def ask_all(folders: list[str], model: str, out: Path, ids: set[str] | None = None) -> None:
    """Write a line for each question that is not in the file yet, alternating between sets.

    `ids`: those to ask; None: the usual part of each set.
    """
    placed = []
    for named in folders:
        name, _, first = named.partition(":")
        folder, begin = Path(name), int(first or FITTED)
        batch = list(_rows(folder / "given.jsonl"))
        if ids is not None:
            batch = [row for row in batch if row["id"] in ids]
        else:
            kinds = (None, "Fact Retrieval", "answerable")
            batch = [row for row in batch if row.get("type") in kinds]
            batch = batch[begin : begin + ASKED.get(folder.name, ASKED_ELSEWHERE)]
        placed += [(n / len(batch), row["id"], row) for n, row in enumerate(batch)]
    answered = {row["id"] for row in _rows(out)} if out.exists() else set()
    changes = {"models": (model, extractive.MODEL)}
    wiring = Wiring(Settings.from_environment(os.environ).model_copy(update=changes), QUIET)
    with out.open("a", encoding="utf-8") as file:
        for _, name, row in sorted(placed, key=lambda placement: placement[:2]):
            if name not in answered:
                arms = {arm: _answer(wiring, row, model, arm) for arm in ARMS}
                row_out = {"model": model, "arms": arms} | row
                del row_out["blocks"]
                file.write(json.dumps(row_out, ensure_ascii=False) + "\n")
                file.flush()


def _answer(wiring: Wiring, row: Row, model: str, arm: str) -> Row:
    """Return the answer of one arm without a time limit, as displayed to a reader."""
    blocks = [Block.model_validate(block) for block in row["blocks"]]
    began = time.monotonic()
    if arm == "plain":
        count = len(prompt.passages_within(blocks, CONTEXT))
        passages = "\n\n".join(block.text for block in blocks[:count])
        content = PLAIN.format(passages=passages, question=row["question"])
        text = (
            wiring.language_model()
            .complete(
                [{"role": "user", "content": content}],
                model=model,
                temperature=0.0,
                max_tokens=TOKENS,
                deadline=Deadline.after(DAY_S),
            )
            .text
        )
    else:
        plan = _plan(wiring, row["question"], model if arm == "product" else extractive.MODEL)
        run = Run.of({"plan": plan.model_dump(mode="json")}, QUIET)
        reply = synthesize(run, blocks, relevant=True, language_model=wiring.language_model)
        shown_blocks = blocks[: reply.block_count]
        text = check_answer(reply.answer, shown_blocks, query=plan.query, repair=plan.repair).answer
    return {"text": text, "took_s": round(time.monotonic() - began, 1)}


def _plan(wiring: Wiring, question: str, model: str) -> Plan:
    synthesis = {"enabled": True, "model": model}
    budget = {"max_tokens_gen": TOKENS, "max_tokens_context": CONTEXT}
    request = {"query": question, "synthesis": synthesis, "budget": budget}
    validated = build(wiring)({"envelope": envelope_of(request, "answer").model_dump()}, None)
    late = int(1000 * (time.time() + DAY_S))
    return Plan.model_validate(validated["plan"]).model_copy(update={"deadline_ms": late})


def _judged(row: Row, arm: str) -> Row:
    """Return whether an answer is right, and whether it is an abstention."""
    text = row["arms"][arm]["text"]
    golds = (row["answer"], *row.get("accept", ()))
    right = any(all(is_right(text, part) for part in gold.split("+")) for gold in golds)
    silent = not right and _SILENT.search(text) is not None
    refused = silent or not text.strip() or notices.is_abstention(without_markers(text))
    expected = refused if row["answer"] == "-" else right and not refused
    named = {"id": row["id"], "model": row["model"], "arm": arm}
    measures = {"right": expected, "refused": refused}
    return named | measures | {"seconds": row["arms"][arm]["took_s"]}


def report(answers: list[Path], rows_file: Path | None) -> None:
    """Print a line per model and arm, and the paired comparison with the plain prompt."""
    judged = [_judged(row, arm) for path in answers for row in _rows(path) for arm in ARMS]
    if rows_file:
        rows_file.write_text("".join(json.dumps(row) + "\n" for row in judged), "utf-8")
    for model in sorted({row["model"] for row in judged}):
        by_arm = {
            arm: [r for r in judged if (r["model"], r["arm"]) == (model, arm)] for arm in ARMS
        }
        for arm, rows_of_arm in by_arm.items():
            right, refused, s = (
                sum(r[key] for r in rows_of_arm) for key in ("right", "refused", "seconds")
            )
            print(
                f"{model} {arm}: {right} right, {refused} refused of {len(rows_of_arm)}; {s:.0f} s"
            )
        pairs = [
            (a["right"], b["right"])
            for a, b in zip(by_arm["product"], by_arm["plain"], strict=True)
        ]
        won, lost = pairs.count((True, False)), pairs.count((False, True))
        print(f"{model}: won {won}, lost {lost}, tied {len(pairs) - won - lost}")


def _rows(path: Path) -> Iterator[Row]:
    return map(json.loads, path.read_text("utf-8").splitlines())


if __name__ == "__main__":
    main()

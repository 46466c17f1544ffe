"""Abstention of the built-in model on answerable questions and near misses.

    python -m benchmarks.near_misses FOLDER... [--least 0.65]

Each FOLDER contains `given.jsonl` (training.passages). Near misses are the same questions without
the passages that contain the answer: those of gold documents or, for sets with gold statements,
those with 60 % of the words of one. Prints the share of answered questions.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docstokg.contracts.state import Block
from docstokg.domain.answer import extractive, notices
from docstokg.settings import Settings
from docstokg_local.evaluation.answers import HELD, word_share


def main() -> None:
    """Answer from all passages, remove those with the answer, and answer again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--least", type=float, default=Settings().answer_min_probability)
    options = parser.parse_args()
    print("| set | questions | own answered | near misses answered |\n|---|---|---|---|")
    for folder in options.folders:
        lines = (folder / "given.jsonl").read_text("utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        answered = sum(is_answered(row, row["blocks"], options.least) for row in rows)
        near = sum(is_answered(row, without_answer(row), options.least) for row in rows)
        count = len(rows)
        print(f"| {folder.name} | {count} | {answered / count:.2f} | {near / count:.2f} |")


def is_answered(row: Mapping[str, Any], blocks: list[Any], floor: float) -> bool:
    """Return whether the model answers from the first passages."""
    shown_blocks = [Block.model_validate(block) for block in blocks[: extractive.READ]]
    return not notices.is_abstention(
        extractive.answer(row["question"], shown_blocks, 512, floor).text
    )


def without_answer(row: Mapping[str, Any]) -> list[Any]:
    """Return the passages without the answer or a part of it."""
    pairs = zip(row["blocks"], row["documents"], strict=True)
    if row.get("gold"):
        return [block for block, document in pairs if document not in row["gold"]]
    evidence = row["evidence"]
    return [
        b
        for b, _ in pairs
        if not any(word_share([b["text"]], passage) >= HELD for passage in evidence)
    ]


if __name__ == "__main__":
    main()

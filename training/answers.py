"""Fits which stretch of a source answers, and how likely it is right.

    python -m training.answers FOLDER... [--kept FOLDER...] [--write]

Each FOLDER holds `given.jsonl` (training.passages). Fits

1. `choice`: a softmax over the units of all passages of a question; what is right is worth more
   the closer it is to the written answer and the shorter it is. Sets of reviews (`item`) are left
   out of this: nobody asks them for a fact.
2. `right`: a logistic model of the choice being right. Where a set names its gold documents, a
   third of its questions come again without them; questions without an answer count half.
3. `answerable`: the same of any passage answering, whatever was chosen; it decides on silence.
4. `confidence_of_quotation` and `confidence_of_parts`: logistic models of the same, of what (2)
   says when its set is left out of the fit, and of the parts of `confidence_parts`.

Prints each set left out. `Leak` when a question or a paragraph is in a set that is kept for
measuring (`--kept`; by default what is measured of ../shared/data, and our own questions).
"""

import argparse
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from docstokg.contracts.state import Block
from docstokg.domain.answer import extractive
from docstokg.domain.answer.reader_features import Features, candidates
from docstokg_local.evaluation.answers import f1, held, is_right, words
from docstokg_local.evaluation.calibration import roc_area
from training.leaks import kept_texts, refuse_shared

Floats = npt.NDArray[np.float64]
WEIGHTS = Path("layers/common/python/docstokg/domain/answer/reader_weights.json")
DATA = Path("../shared/data")
KEPT = (
    *(DATA / name for name in ("musique100", "twowiki101", "medical_guidelines")),
    *(Path("benchmarks") / f"own_questions_{part}.jsonl" for part in ("dev", "kept")),
)
CHOICE = ("cosine", "words", "words_around", "place", "long")
RIGHT = ("share", "margin", "cosine", "words", "kind_missed")
ANSWERABLE = (*RIGHT, "words_around")
QUOTATION = ("log_odds",)
PARTS = ("retrieval", "similarity")
WITHOUT_GOLD = 3
UNANSWERABLE_WEIGHT = 0.5
WHOLE = 0.8
RIDGE = 1e-3
STEPS = 250


class Asked(NamedTuple):
    """A question with its candidates: features (n, 6), which are right, what each is worth."""

    features: Floats
    right: Floats
    worth: Floats
    answerable: bool
    retrieval: float


def read(folder: Path) -> list[dict[str, Any]]:
    """Read the questions of a set with the passages given."""
    lines = (folder / "given.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def says(row: Mapping[str, Any], text: str) -> bool:
    """Tell whether a text holds the written answer; a `whole` one is a sentence to be quoted."""
    if row.get("whole"):
        return held([text], row["answer"]) >= WHOLE
    return any(is_right(text, gold) for gold in row.get("golds") or [row["answer"]])


def asked(row: Mapping[str, Any], *, without_gold: bool = False) -> Asked | None:
    """Make what is fitted of one question; None where nothing can be quoted."""
    given = [
        (Block.model_validate(block), score)
        for block, document, score in zip(
            row["blocks"], row["documents"], row["scores"], strict=True
        )
        if not (without_gold and document in row.get("gold", ()))
    ][: extractive.READ]
    found = candidates(row["question"], [block for block, _ in given])
    if not found:
        return None
    answerable = row["type"] == "answerable" and not without_gold
    golds = row.get("golds") or [row["answer"]]
    close = np.array([max(f1(one.unit.shown, gold) for gold in golds) for one in found])
    length = np.array([len(words(one.unit.shown)) for one in found])
    return Asked(
        np.array([one.features for one in found]),
        np.array([answerable and says(row, one.unit.shown) for one in found], dtype=float),
        close / max(close.max(), 1e-9) / (1 + length / 10),
        answerable,
        float(np.mean([score for _, score in given])),
    )


def made(rows: Sequence[Mapping[str, Any]]) -> list[Asked]:
    """Make what is fitted of a set."""
    own = [asked(row) for row in rows]
    again = [asked(row, without_gold=True) for row in rows[::WITHOUT_GOLD] if row.get("gold")]
    return [one for one in (*own, *again) if one is not None]


def fit_choice(sets: Iterable[Sequence[Asked]]) -> dict[str, float]:
    """Maximise the log of the worth expected of a softmax over candidates; sets count alike."""
    columns = [Features._fields.index(name) for name in CHOICE]
    used = [
        [one for one in rows if one.answerable and 0 <= one.worth.min() < one.worth.max()]
        for rows in sets
    ]
    each = [(one, 1 / len(rows) / len(used)) for rows in used for one in rows]
    values = np.concatenate([one.features[:, columns] for one, _ in each])
    deviation = values.std(0) + 1e-9
    values = values / deviation
    worth = np.concatenate([one.worth for one, _ in each])
    sizes = np.array([len(one.worth) for one, _ in each])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    owner = np.repeat(np.arange(len(each)), sizes)
    importance = np.array([weight for _, weight in each])[owner]
    weights, mean, square = (np.zeros(len(CHOICE)) for _ in range(3))
    for step in range(1, STEPS + 1):
        scores = values @ weights
        likely = np.exp(scores - np.maximum.reduceat(scores, starts)[owner])
        share = likely / np.add.reduceat(likely, starts)[owner]
        good = likely * worth
        share_of_good = good / np.add.reduceat(good, starts)[owner]
        slope = values.T @ ((share - share_of_good) * importance) + RIDGE * weights
        mean, square = 0.9 * mean + 0.1 * slope, 0.99 * square + 0.01 * slope**2
        # Adam (Kingma and Ba 2014).
        weights -= 0.05 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    return dict(zip(CHOICE, (weights / deviation).tolist(), strict=True))


class Chosen(NamedTuple):
    """What was chosen for one question."""

    signs: dict[str, float]
    right: bool
    answerable: bool
    retrieval: float


def choose(rows: Sequence[Asked], choice: Mapping[str, float]) -> list[Chosen]:
    """Choose as the product does."""
    weights = np.array([choice.get(name, 0.0) for name in Features._fields])
    chosen = []
    for one in rows:
        scores = one.features @ weights
        best = int(scores.argmax())
        own = Features(*one.features[best].tolist())
        signs = extractive.signs_of(own, scores.tolist(), float(scores[best]))
        chosen.append(Chosen(signs, bool(one.right[best]), one.answerable, one.retrieval))
    return chosen


def newton(matrix: Floats, right: Floats, importance: Floats, ridge: Floats) -> Floats:
    """Give the weights of a logistic regression by Newton's method; `ridge`: of each weight."""
    weights = np.zeros(matrix.shape[1])
    for _ in range(40):
        likely = 1 / (1 + np.exp(-matrix @ weights))
        slope = matrix.T @ (importance * (likely - right)) + ridge * weights
        curve = (matrix * (importance * likely * (1 - likely))[:, None]).T @ matrix
        step = np.linalg.solve(curve + np.diag(ridge), slope)
        weights -= step
        if np.abs(step).max() < 1e-7:
            break
    return weights


def fit_logistic(
    values: Floats, right: Floats, importance: Floats, names: Sequence[str]
) -> dict[str, Any]:
    """Fit a logistic model with a small ridge."""
    mean, deviation = values.mean(0), values.std(0) + 1e-9
    matrix = np.column_stack([(values - mean) / deviation, np.ones(len(values))])
    weights = newton(matrix, right, importance, np.array([1e-4] * len(names) + [1e-9]))
    own = weights[:-1] / deviation
    return {
        "bias": round(float(weights[-1] - own @ mean), 4),
        "weights": {name: round(float(w), 4) for name, w in zip(names, own, strict=True)},
    }


def fit_right(
    sets: Iterable[Sequence[Chosen]], names: Sequence[str] = RIGHT, of: str = "right"
) -> dict[str, Any]:
    """Fit how likely a choice is right, or `of` "answerable" any is; sets count alike."""
    groups = list(sets)
    rows = [one for group in groups for one in group]
    return fit_logistic(
        np.array([[one.signs[name] for name in names] for one in rows]),
        np.array([getattr(one, of) for one in rows], dtype=float),
        _importance(groups),
        names,
    )


def _importance(groups: Sequence[Sequence[Chosen]]) -> Floats:
    weights = []
    for group in groups:
        own = [1.0 if one.answerable else UNANSWERABLE_WEIGHT for one in group]
        weights += [weight / sum(own) for weight in own]
    return np.array(weights)


def with_parts(one: Chosen, right: Mapping[str, Any]) -> Chosen:
    """Add what confidence is made of."""
    odds = min(0.999, max(0.001, extractive.logistic(right, one.signs)))
    signs = {
        **one.signs,
        "log_odds": math.log(odds / (1 - odds)),
        "retrieval": one.retrieval,
        "similarity": max(0.0, one.signs["cosine"]),
    }
    return one._replace(signs=signs)


def main() -> None:
    """Check, fit, print each set left out, and with --write commit the weights."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--kept", type=Path, nargs="+", default=list(KEPT))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    read_sets = {folder.name: read(folder) for folder in options.folders}
    rows = [row for own in read_sets.values() for row in own]
    texts = {block["uuid"]: block["text"] for row in rows for block in row["blocks"]}
    refuse_shared((row["question"] for row in rows), texts.values(), kept_texts(options.kept))
    sets = {name: made(own) for name, own in read_sets.items()}
    facts = [name for name, own in read_sets.items() if not any("item" in row for row in own)]
    everything = fit_all(sets, facts, list(sets))
    for left_out, kept in sets.items():
        others = [name for name in sets if name != left_out]
        fitted = fit_all(sets, [name for name in facts if name != left_out], others)
        choices = choose(kept, fitted["choice"])
        chosen = [with_parts(one, fitted["right"]) for one in choices]
        likely = [extractive.logistic(fitted["confidence_of_quotation"], c.signs) for c in chosen]
        right = [one.right for one in chosen]
        own = [one.right for one in chosen if one.answerable]
        print(
            f"without {left_out}: of its {len(own)} that can be answered right {np.mean(own):.3f};"
            f" confidence AUC {roc_area(likely, right) or 0:.3f}, mean {np.mean(likely):.3f},"
            f" of all {len(right)} right {np.mean(right):.3f}"
        )
    print(json.dumps(everything, indent=1))
    if options.write:
        WEIGHTS.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")


def fit_rising(sets: Sequence[Sequence[Chosen]], names: Sequence[str]) -> dict[str, Any]:
    """Fit without what would speak against an answer: between few sets that is chance."""
    fitted = fit_right(sets, names)
    rising = [name for name in names if fitted["weights"][name] > 0]
    return fitted if len(rising) == len(names) else fit_rising(sets, rising)


def fit_all(
    sets: Mapping[str, Sequence[Asked]], facts: Sequence[str], names: Sequence[str]
) -> dict[str, Any]:
    """Fit every model on the sets named; `facts`: those that the choice is fitted on."""
    choice = fit_choice([sets[name] for name in facts])
    chosen = {name: choose(sets[name], choice) for name in names}
    right = fit_right(chosen.values())
    left_out = []
    for name, rows in chosen.items():
        others = [chosen[other] for other in names if other != name]
        apart = fit_right(others or [rows])
        left_out.append([with_parts(one, apart) for one in rows])
    return {
        "card": "docs/decisions/answers.md",
        "fitted_on": {name: len(sets[name]) for name in names},
        "choice": {name: round(weight, 4) for name, weight in choice.items()},
        "right": right,
        "answerable": fit_right(chosen.values(), ANSWERABLE, of="answerable"),
        "confidence_of_quotation": fit_right(left_out, QUOTATION),
        "confidence_of_parts": fit_rising(left_out, PARTS),
    }


if __name__ == "__main__":
    main()

"""Fit the model that selects the text of a source that answers, and its confidence.

    python -m training.answers FOLDER... [--kept FOLDER...] [--write]

Each FOLDER has `given.jsonl` (training.passages). Fits

1. `choice`: a softmax over the units of all passages of a question.
2. `right`: a logistic model of the choice being right.
3. `answerable`: the same for any passage answering; it decides on abstention.
4. For sets with `hops`, `pair`: a softmax over pairs; `prefer_pair`: the best pair being right
   where either it or the choice is; `pair_right`: the preferred pairs being right.

(1) and (2) exclude sets with `hops`, (1) also sets of reviews (`item`). Raises `Leak` for overlap
with a test set (`--kept`).
"""

import argparse
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from docstokg.contracts.state import Block
from docstokg.domain.answer import extractive
from docstokg.domain.answer.reader_features import Candidate, candidates
from docstokg.domain.answer.two_hops import Pair, pairs
from docstokg_local.evaluation.answers import f1, held, is_right, words
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
PAIR = ("covered", "bridge", "choice")
PREFER = ("gain", "choice", "covered", "bridge")
WITHOUT_GOLD = 3
UNANSWERABLE_WEIGHT = 0.5
WHOLE = 0.8
RIDGE = 1e-3
STEPS = 250


class Asked(NamedTuple):
    """A question's candidates and pairs, with labels and worths."""

    found: list[Candidate]
    right: Floats
    worth: Floats
    linked: list[Pair]
    pair_right: Floats
    pair_worth: Floats
    answerable: bool


def read(folder: Path) -> list[dict[str, Any]]:
    """Return the questions of a set with their passages."""
    lines = (folder / "given.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def says(row: Mapping[str, Any], text: str) -> bool:
    """Return whether a text contains the written answer, or of a `whole` one WHOLE of its words."""
    if row.get("whole"):
        return held([text], row["answer"]) >= WHOLE
    return any(is_right(text, gold) for gold in row.get("golds") or [row["answer"]])


def asked(row: Mapping[str, Any], *, without_gold: bool = False) -> Asked | None:
    """Return the candidates and pairs of a question; None without candidates.

    `without_gold`: omit gold documents; then nothing is right.
    """
    given = [
        Block.model_validate(block)
        for block, document in zip(row["blocks"], row["documents"], strict=True)
        if not (without_gold and document in row.get("gold", ()))
    ]
    found = candidates(row["question"], given[: extractive.READ])
    if not found:
        return None
    answerable = row["type"] == "answerable" and not without_gold
    shown = [one.unit.shown for one in found]
    linked = pairs(row["question"], found, [0.0] * len(found))
    both = [" ".join(shown[place] for place in pair.places) for pair in linked]
    right, pair_right = (
        np.array([answerable and says(row, text) for text in texts], dtype=float)
        for texts in (shown, both)
    )
    worths = _worth(row, shown), _worth(row, both)
    return Asked(found, right, worths[0], linked, pair_right, worths[1], answerable)


def _worth(row: Mapping[str, Any], texts: Sequence[str]) -> Floats:
    golds = row.get("golds") or [row["answer"]]
    close = np.array([max(f1(text, gold) for gold in golds) for text in texts])
    length = np.array([len(words(text)) for text in texts])
    worth: Floats = close / max([*close, 1e-9]) / (1 + length / 10)
    return worth


def made(rows: Sequence[Mapping[str, Any]]) -> list[Asked]:
    """Return the questions with candidates, then every third again without gold documents."""
    own = [asked(row) for row in rows]
    again = [asked(row, without_gold=True) for row in rows[::WITHOUT_GOLD] if row.get("gold")]
    return [one for one in (*own, *again) if one is not None]


def scored(one: Asked, choice: Mapping[str, float]) -> tuple[list[float], list[Pair]]:
    """Return each candidate's score, and the pairs with `choice` relative to the best score."""
    scores = [extractive.weighted(choice, own.features._asdict()) for own in one.found]
    top = max(scores)
    linked = [
        pair._replace(
            signs=pair.signs | {"choice": max(scores[place] for place in pair.places) - top}
        )
        for pair in one.linked
    ]
    return scores, linked


def table(signs: Iterable[Mapping[str, float]], names: Sequence[str]) -> Floats:
    """Return features by name as a matrix, a row each; raise KeyError for a missing one."""
    return np.array([[one[name] for name in names] for one in signs])


def _softmax(
    names: Sequence[str], sets: Sequence[Sequence[tuple[Floats, Floats]]]
) -> dict[str, float]:
    used = [
        [(own, worth) for own, worth in rows if 0 <= worth.min() < worth.max()] for rows in sets
    ]
    each = [(own, worth, 1 / len(rows) / len(used)) for rows in used for own, worth in rows]
    values = np.concatenate([own for own, *_ in each])
    deviation = values.std(0) + 1e-9
    values = values / deviation
    worth = np.concatenate([worth for _, worth, _ in each])
    sizes = np.array([len(worth) for _, worth, _ in each])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    owner = np.repeat(np.arange(len(each)), sizes)
    importance = np.array([weight for *_, weight in each])[owner]
    weights, mean, square = (np.zeros(len(names)) for _ in range(3))
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
    fitted = (weights / deviation).tolist()
    return {name: round(weight, 4) for name, weight in zip(names, fitted, strict=True)}


class Chosen(NamedTuple):
    """The choice for a question, or its best pair, with features."""

    signs: dict[str, float]
    right: bool
    answerable: bool


def choose(
    rows: Sequence[Asked], choice: Mapping[str, float], pair: Mapping[str, float]
) -> list[tuple[Chosen, Chosen | None]]:
    """Choose like the product: the best candidate and the best pair, None without pairs."""
    chosen = []
    for one in rows:
        scores, linked = scored(one, choice)
        best = int(np.argmax(scores))
        signs = extractive.signs_of(one.found, scores, best)
        single, both = Chosen(signs, bool(one.right[best]), one.answerable), None
        if linked:
            place = int(np.argmax([extractive.weighted(pair, own.signs) for own in linked]))
            right = bool(one.pair_right[place])
            both = Chosen(linked[place].signs, right, one.answerable)
        chosen.append((single, both))
    return chosen


def regression(
    values: Floats, right: Floats, importance: Floats, ridge: float, groups: Floats
) -> tuple[Floats, float]:
    """Return slopes and bias of a logistic regression by Newton's method.

    `ridge`: of each standardised slope. `groups`: a column per group with its own intercept; the
    bias is their mean.
    """
    mean, deviation = values.mean(0), values.std(0) + 1e-9
    matrix = np.c_[(values - mean) / deviation, groups]
    ridges = np.repeat([ridge, 1e-9], [values.shape[1], groups.shape[1]])
    weights = np.zeros(matrix.shape[1])
    for _ in range(40):
        likely = 1 / (1 + np.exp(-matrix @ weights))
        slope = matrix.T @ (importance * (likely - right)) + ridges * weights
        curve = (matrix * (importance * likely * (1 - likely))[:, None]).T @ matrix
        step = np.linalg.solve(curve + np.diag(ridges), slope)
        weights -= step
        if np.abs(step).max() < 1e-7:
            break
    slopes = weights[: values.shape[1]] / deviation
    return slopes, float(weights[values.shape[1] :].mean() - slopes @ mean)


def fit_logistic(
    sets: Iterable[Sequence[Chosen]],
    names: Sequence[str],
    of: Callable[[Chosen], bool] = lambda one: one.right,
) -> dict[str, Any]:
    """Return bias and weights by name for the probability of `of`; nonempty sets weigh the same.

    Raises ValueError without examples.
    """
    groups = [group for group in sets if group]
    rows = [one for group in groups for one in group]
    weights = [[1.0 if one.answerable else UNANSWERABLE_WEIGHT for one in own] for own in groups]
    importance = np.concatenate([np.array(own) / sum(own) for own in weights])
    values = table((one.signs for one in rows), names)
    right = np.array([of(one) for one in rows], dtype=float)
    slopes, bias = regression(values, right, importance, 1e-4, np.ones((len(rows), 1)))
    return {
        "bias": round(bias, 4),
        "weights": {name: round(float(w), 4) for name, w in zip(names, slopes, strict=True)},
    }


def preferred(fitted: Mapping[str, Any], pair: Chosen | None) -> bool:
    """Return whether the product quotes the pair; False for None."""
    if pair is None:
        return False
    return extractive.logistic(fitted, pair.signs) >= extractive.PREFERRED


def main() -> None:
    """Check, fit, print, and with --write replace the weights."""
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
    hops = {name for name, own in read_sets.items() if any("hops" in row for row in own)}
    text = json.dumps(fit_all(sets, facts, hops), indent=1)
    print(text)
    if options.write:
        WEIGHTS.write_text(f"{text}\n", encoding="utf-8")


def fit_all(
    sets: Mapping[str, Sequence[Asked]], facts: Collection[str], hops: Collection[str]
) -> dict[str, Any]:
    """Return every fitted model; `facts`: sets without reviews; `hops`: sets with hops."""
    plain = [name for name in sets if name not in hops]
    choice = _softmax(
        CHOICE,
        [
            [
                (table((own.features._asdict() for own in one.found), CHOICE), one.worth)
                for one in sets[name]
            ]
            for name in plain
            if name in facts
        ],
    )
    pair = _softmax(
        PAIR,
        [
            [
                (table((own.signs for own in linked), PAIR), one.pair_worth)
                for one in rows
                if (linked := scored(one, choice)[1])
            ]
            for name, rows in sets.items()
            if name in hops
        ],
    )
    chosen = {name: choose(own, choice, pair) for name, own in sets.items()}
    singles = {name: [single for single, _ in own] for name, own in chosen.items()}
    differing = [
        [pair for single, pair in own if pair is not None and pair.right != single.right]
        for own in chosen.values()
    ]
    prefer = fit_logistic(differing, PREFER)
    quoted = [
        [pair for _, pair in own if pair is not None and preferred(prefer, pair)]
        for own in chosen.values()
    ]
    return {
        "card": "docs/decisions/answers.md",
        "fitted_on": {name: len(own) for name, own in sets.items()},
        "choice": choice,
        "right": fit_logistic([singles[name] for name in plain], RIGHT),
        "answerable": fit_logistic(singles.values(), ANSWERABLE, lambda one: one.answerable),
        "pair": pair,
        "prefer_pair": prefer,
        "pair_right": fit_logistic(quoted, PREFER),
    }


if __name__ == "__main__":
    main()

"""Fit the model that selects the text of a source that answers, and its confidence.

    python -m training.answers FOLDER... [--kept FOLDER...] [--keep-choice] [--write]

Each FOLDER has `given.jsonl` (training.passages). Fits

1. `choice`: a softmax over the units of all passages of a question.
2. `logit`: the weight of the reader's logit beside that score, by a softmax over both.
3. `right`: a logistic model of the choice being right.
4. `answerable`: the same for any passage answering; it decides on abstention.
5. For sets with `hops`, `pair`: a softmax over pairs; `prefer_pair`: the best pair being right
   where either it or the choice is; `pair_right`: the preferred pairs being right. Without such
   sets, the committed ones are kept.

(2) to (5) with and without the reader. (1) to (3) exclude sets with `hops`, (1) also sets of
reviews (`item`). Prints the AUC of `answerable` and the share of right choices on each set left out
of the fit. Raises `Leak` for overlap with a test set (`--kept`).
"""

import argparse
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from docstokg.adapters.onnx.reader import OnnxReader
from docstokg.contracts.state import Block
from docstokg.domain.answer import extractive
from docstokg.domain.answer.reader_features import Candidate, candidates
from docstokg.domain.answer.two_hops import Pair, pairs
from docstokg.domain.deadline import Deadline
from docstokg_local.evaluation.answers import f1, is_right, word_share, words
from docstokg_local.evaluation.calibration import roc_area, roc_area_error
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
# With the reader, the other features add nothing on sets left out.
RIGHT_READ, ANSWERABLE_READ = ("share", "words_around", "logit"), ("words_around", "logit")
PAIR = ("covered", "bridge", "choice")
PREFER = ("gain", "choice", "covered", "bridge")
WITHOUT_GOLD = 3
UNANSWERABLE_WEIGHT = 0.5
WHOLE = 0.8
RIDGE = 1e-3
STEPS = 250


class Case(NamedTuple):
    """A question's candidates and pairs, with labels and worths."""

    candidates: list[Candidate]
    right: Floats
    worth: Floats
    linked: list[Pair]
    pair_right: Floats
    pair_worth: Floats
    answerable: bool
    logits: dict[int, float]


def read(folder: Path) -> list[dict[str, Any]]:
    """Return the questions of a set with their passages."""
    lines = (folder / "given.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def contains(row: Mapping[str, Any], text: str) -> bool:
    """Return whether a text contains the written answer, or of a `whole` one WHOLE of its words."""
    if row.get("whole"):
        return word_share([text], row["answer"]) >= WHOLE
    return any(is_right(text, gold) for gold in row.get("golds") or [row["answer"]])


def case_of(row: Mapping[str, Any], *, without_gold: bool = False) -> Case | None:
    """Return the candidates and pairs of a question; None without candidates.

    `without_gold`: omit gold documents; then nothing is right.
    """
    blocks = [
        Block.model_validate(block)
        for block, document in zip(row["blocks"], row["documents"], strict=True)
        if not (without_gold and document in row.get("gold", ()))
    ]
    pool = candidates(row["question"], blocks[: extractive.READ])
    return labelled(row, pool, without_gold=without_gold) if pool else None


def labelled(row: Mapping[str, Any], pool: list[Candidate], *, without_gold: bool) -> Case:
    """Return the candidates of a question with their labels, and the reader's logits."""
    choice = extractive.model()["choice"]
    scores = [extractive.weighted(choice, candidate.features._asdict()) for candidate in pool]
    logits = extractive.compared(row["question"], pool, scores, reader())
    answerable = row["type"] == "answerable" and not without_gold
    single_texts = [candidate.unit.shown for candidate in pool]
    linked = pairs(row["question"], pool, [0.0] * len(pool))
    both = [" ".join(single_texts[place] for place in pair.places) for pair in linked]
    right, pair_right = (
        np.array([answerable and contains(row, text) for text in texts], dtype=float)
        for texts in (single_texts, both)
    )
    worths = _worth(row, single_texts), _worth(row, both)
    return Case(pool, right, worths[0], linked, pair_right, worths[1], answerable, logits)


@cache
def reader() -> extractive.Reader:
    """Return the installed reader."""
    logits = OnnxReader().logits
    return lambda question, texts: logits(question, texts, Deadline.after(60.0))


def _worth(row: Mapping[str, Any], texts: Sequence[str]) -> Floats:
    golds = row.get("golds") or [row["answer"]]
    close = np.array([max(f1(text, gold) for gold in golds) for text in texts])
    length = np.array([len(words(text)) for text in texts])
    worth: Floats = close / max([*close, 1e-9]) / (1 + length / 10)
    return worth


def cases_of(rows: Sequence[Mapping[str, Any]]) -> list[Case]:
    """Return the questions with candidates, then every third again without gold documents."""
    cases = [case_of(row) for row in rows]
    again = [case_of(row, without_gold=True) for row in rows[::WITHOUT_GOLD] if row.get("gold")]
    return [case for case in (*cases, *again) if case is not None]


def scored(
    case: Case, choice: Mapping[str, float], weight: float
) -> tuple[list[float], list[Pair]]:
    """Return each candidate's score, and the pairs with `choice` relative to the best score.

    `weight`: of the reader's logit; 0 without the reader.
    """
    scores = [
        extractive.weighted(choice, candidate.features._asdict()) for candidate in case.candidates
    ]
    scores = extractive.mixed(scores, case.logits if weight else {}, weight)
    top = max(scores)
    linked = [
        pair._replace(
            signs=pair.signs | {"choice": max(scores[place] for place in pair.places) - top}
        )
        for pair in case.linked
    ]
    return scores, linked


def table(signs: Iterable[Mapping[str, float]], names: Sequence[str]) -> Floats:
    """Return features by name as a matrix, a row each; raise KeyError for a missing one."""
    return np.array([[row[name] for name in names] for row in signs])


def _softmax(
    names: Sequence[str], sets: Sequence[Sequence[tuple[Floats, Floats]]]
) -> dict[str, float]:
    used = [
        [(matrix, worth) for matrix, worth in rows if 0 <= worth.min() < worth.max()]
        for rows in sets
    ]
    each = [(matrix, worth, 1 / len(rows) / len(used)) for rows in used for matrix, worth in rows]
    values = np.concatenate([matrix for matrix, *_ in each])
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
    rows: Sequence[Case], choice: Mapping[str, float], pair: Mapping[str, float], weight: float
) -> list[tuple[Chosen, Chosen | None]]:
    """Choose like the product: the best candidate and the best pair, None without pairs."""
    chosen = []
    for case in rows:
        scores, linked = scored(case, choice, weight)
        best = int(np.argmax(scores))
        signs = extractive.signs_of(case.candidates, scores, best, case.logits)
        single, both = Chosen(signs, bool(case.right[best]), case.answerable), None
        if linked:
            place = int(np.argmax([extractive.weighted(pair, link.signs) for link in linked]))
            right = bool(case.pair_right[place])
            both = Chosen(linked[place].signs, right, case.answerable)
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
    of: Callable[[Chosen], bool] = lambda choice: choice.right,
) -> dict[str, Any]:
    """Return bias and weights by name for the probability of `of`; nonempty sets weigh the same.

    Raises ValueError without examples.
    """
    groups = [group for group in sets if group]
    rows = [choice for group in groups for choice in group]
    weights = [
        [1.0 if choice.answerable else UNANSWERABLE_WEIGHT for choice in group] for group in groups
    ]
    importance = np.concatenate(
        [np.array(group_weights) / sum(group_weights) for group_weights in weights]
    )
    values = table((choice.signs for choice in rows), names)
    right = np.array([of(choice) for choice in rows], dtype=float)
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
    parser.add_argument("--keep-choice", action="store_true", help="do not fit `choice`")
    options = parser.parse_args()
    read_sets = {folder.name: read(folder) for folder in options.folders}
    rows = [row for set_rows in read_sets.values() for row in set_rows]
    texts = {block["uuid"]: block["text"] for row in rows for block in row["blocks"]}
    refuse_shared((row["question"] for row in rows), texts.values(), kept_texts(options.kept))
    sets = {name: cases_of(set_rows) for name, set_rows in read_sets.items()}
    facts = [
        name for name, set_rows in read_sets.items() if not any("item" in row for row in set_rows)
    ]
    hops = {name for name, set_rows in read_sets.items() if any("hops" in row for row in set_rows)}
    fitted = fit_all(sets, facts, hops, keep_choice=options.keep_choice)
    text = json.dumps(fitted, indent=1)
    print(text)
    if options.write:
        WEIGHTS.write_text(f"{text}\n", encoding="utf-8")


def fit_all(
    sets: Mapping[str, Sequence[Case]],
    facts: Collection[str],
    hops: Collection[str],
    *,
    keep_choice: bool,
) -> dict[str, Any]:
    """Return every fitted model; `facts`: sets without reviews; `hops`: sets with hops.

    `keep_choice`: do not fit `choice`.
    """
    plain = [name for name in sets if name in facts and name not in hops]
    choice = (
        extractive.model()["choice"]
        if keep_choice
        else _softmax(
            CHOICE,
            [
                [
                    (
                        table(
                            (candidate.features._asdict() for candidate in case.candidates), CHOICE
                        ),
                        case.worth,
                    )
                    for case in sets[name]
                ]
                for name in plain
            ],
        )
    )
    mixture = _softmax(
        ("score", "logit"),
        [
            [_compared(case, choice) for case in sets[name] if len(case.logits) > 1]
            for name in plain
        ],
    )
    weight = round(mixture["logit"] / mixture["score"], 4)
    return {
        "card": "docs/decisions/answers.md",
        "fitted_on": {name: len(cases) for name, cases in sets.items()},
        "choice": choice,
        "without_reader": fit_variant(sets, hops, choice, 0.0),
        "with_reader": fit_variant(sets, hops, choice, weight),
    }


def _compared(case: Case, choice: Mapping[str, float]) -> tuple[Floats, Floats]:
    scores, _ = scored(case, choice, 0.0)
    values = np.array([[scores[place], logit] for place, logit in case.logits.items()])
    return values, case.worth[list(case.logits)]


def fit_variant(
    sets: Mapping[str, Sequence[Case]],
    hops: Collection[str],
    choice: Mapping[str, float],
    weight: float,
) -> dict[str, Any]:
    """Return the models with the reader, whose logit has this weight; 0: without it."""
    committed = extractive.model()["with_reader" if weight else "without_reader"]
    names = (RIGHT_READ, ANSWERABLE_READ) if weight else (RIGHT, ANSWERABLE)
    linked = [
        [
            (table((linked.signs for linked in pairs_of_one), PAIR), case.pair_worth)
            for case in rows
            if (pairs_of_one := scored(case, choice, weight)[1])
        ]
        for name, rows in sets.items()
        if name in hops
    ]
    pair = _softmax(PAIR, linked) if linked else committed["pair"]
    chosen = {name: choose(cases, choice, pair, weight) for name, cases in sets.items()}
    singles = {name: [single for single, _ in choices] for name, choices in chosen.items()}
    _report(singles, names[1])
    result = {
        "logit": weight,
        "right": fit_logistic([group for n, group in singles.items() if n not in hops], names[0]),
        "answerable": fit_logistic(singles.values(), names[1], lambda choice: choice.answerable),
        **{name: committed[name] for name in ("pair", "prefer_pair", "pair_right")},
    }
    if not linked:
        return result
    differing = [
        [pair for single, pair in choices if pair is not None and pair.right != single.right]
        for choices in chosen.values()
    ]
    prefer = fit_logistic(differing, PREFER)
    quoted = [
        [pair for _, pair in choices if pair is not None and preferred(prefer, pair)]
        for choices in chosen.values()
    ]
    pair_right = fit_logistic(quoted, PREFER)
    return result | {"pair": pair, "prefer_pair": prefer, "pair_right": pair_right}


def _report(sets: Mapping[str, Sequence[Chosen]], names: Sequence[str]) -> None:
    """Print, for each set left out of the fit, the AUC of `answerable` and the right choices."""
    for name, rows in sets.items():
        others = [choices for other, choices in sets.items() if other != name]
        labels = [choice.answerable for choice in rows]
        if not others or len(set(labels)) < 2:
            continue
        fitted = fit_logistic(others, names, lambda choice: choice.answerable)
        values = [extractive.logistic(fitted, choice.signs) for choice in rows]
        auc = roc_area(values, labels) or 0.0
        right = np.mean([choice.right for choice in rows if choice.answerable])
        error = roc_area_error(auc, labels)
        print(f"{name}: AUC answerable {auc:.3f} +- {error:.3f}, right choice {right:.3f}")


if __name__ == "__main__":
    main()

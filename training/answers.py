"""Fit the probabilities of the built-in model.

    python -m training.answers FOLDER... [--kept FOLDER...] [--only PART] [--write]

Each FOLDER has `given.jsonl` (training.passages). Fits, for the committed score of candidates
(`choice`),

1. `logit`: the smallest weight of the reader's logit beside that score whose share of right
   choices, the mean over the sets, is within EQUAL of the largest.
2. `right`: a logistic model of the choice being right.
3. `credit`: the same for the expected credit, which decides on abstention: 1 for a right choice,
   0.5 for a wrong one of passages that answer, else 0.

(2) and (3) with and without the reader; in each set the questions that its passages answer have
the share ANSWERABLE of the weight. `choice` and the models of pairs are those of commit cec0999d.
Prints, for each set left out of the fit, the share of right choices and the area under the ROC
curve of both models, right against other, with standard errors. Raises `Leak` for overlap with a
test set (`--kept`).

`--only reader`: fit only the models with the reader. `--only names`: fit only the weight of
`name_missed`, on folders with tables (training.tables), as the one with which 98 % of the near
misses that it marks are silent.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from docstokg.adapters.onnx.reader import OnnxReader
from docstokg.contracts import Json
from docstokg.contracts.state import Block
from docstokg.domain.answer import extractive
from docstokg.domain.answer.reader_features import Candidate, candidates
from docstokg.domain.answer.rows import asked_rows
from docstokg.domain.deadline import Deadline
from docstokg.settings import Settings
from docstokg_local.evaluation.answers import is_right, word_share
from docstokg_local.evaluation.calibration import roc_area, roc_area_error
from training.leaks import kept_texts, refuse_shared

Floats = npt.NDArray[np.float64]
WEIGHTS = Path("layers/common/python/docstokg/domain/answer/reader_weights.json")
DATA = Path("../shared/data")
KEPT = (
    *(DATA / name for name in ("musique100", "twowiki101", "medical_guidelines")),
    *(Path("benchmarks") / f"own_questions_{part}.jsonl" for part in ("dev", "kept")),
)
RIGHT = ("share", "margin", "cosine", "words", "kind_missed")
CREDIT = (*RIGHT, "words_around")
# With the reader, the other features add nothing on sets left out.
READ = ("share", "logit")
# As on the sets of strangers (60 of 80), while the sets of the fit differ; see silence.md.
ANSWERABLE = 0.75
LOGIT_WEIGHTS = np.arange(0.1, 2.05, 0.1).round(1)
EQUAL = 0.005
WITHOUT_GOLD = 3
WHOLE = 0.8
SILENT = 0.98


class Asked(NamedTuple):
    """A question, its candidates, which of them are right, and the reader's logits."""

    query: str
    pool: list[Candidate]
    right: list[bool]
    answerable: bool
    logits: dict[int, float]


class Chosen(NamedTuple):
    """The choice for a question, with features."""

    signs: dict[str, float]
    right: bool
    answerable: bool


def read(folder: Path) -> list[Json]:
    """Return the questions of a set with their passages."""
    lines = (folder / "given.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def contains(row: Mapping[str, Any], text: str) -> bool:
    """Return whether a text contains a right answer, or of a `whole` one WHOLE of its words."""
    golds = row.get("golds") or [row["answer"]]
    if row.get("whole"):
        return any(word_share([text], gold) >= WHOLE for gold in golds)
    return any(is_right(text, gold) for gold in golds)


def asked(row: Mapping[str, Any], *, without_gold: bool = False) -> Asked | None:
    """Return the labelled candidates of a question; None without candidates.

    `without_gold`: omit gold documents; then nothing is right.
    """
    blocks = [
        Block.model_validate(block)
        for block, document in zip(row["blocks"], row["documents"], strict=True)
        if not (without_gold and document in row.get("gold", ()))
    ]
    pool = candidates(row["question"], blocks[: extractive.READ])
    if not pool:
        return None
    scores = extractive.choice_scores(pool)
    logits = extractive.compared(row["question"], pool, scores, reader())
    answerable = row["type"] == "answerable" and not without_gold
    right = [answerable and contains(row, each.unit.text) for each in pool]
    return Asked(row["question"], pool, right, answerable, logits)


@cache
def reader() -> extractive.Reader:
    """Return the installed reader."""
    logits = OnnxReader().logits
    return lambda question, texts: logits(question, texts, Deadline.after(60.0))


def questions(rows: Sequence[Mapping[str, Any]]) -> list[Asked]:
    """Return the questions with candidates, then every third again without gold documents."""
    whole = [asked(row) for row in rows]
    again = [asked(row, without_gold=True) for row in rows[::WITHOUT_GOLD] if row.get("gold")]
    return [each for each in (*whole, *again) if each is not None]


def choose(rows: Sequence[Asked], weight: float) -> list[Chosen]:
    """Choose the best candidate like the product; `weight`: of the logit, 0 without the reader."""
    chosen = []
    for query, pool, right, answerable, logits in rows:
        scores = extractive.mixed(extractive.choice_scores(pool), logits if weight else {}, weight)
        best = int(np.argmax(scores))
        beside, _ = asked_rows(query, pool, best)
        signs = extractive.signs_of(pool, scores, best, logits, beside)
        chosen.append(Chosen(signs, right[best], answerable))
    return chosen


def share_right(rows: Iterable[Chosen]) -> float:
    """Return the share of right choices of the answerable questions; NaN without any."""
    return float(np.mean([each.right for each in rows if each.answerable]))


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
    of: Callable[[Chosen], float] = lambda each: each.right,
) -> Json:
    """Return bias and weights by name for the mean of `of`; nonempty sets weigh the same.

    Raises ValueError without examples.
    """
    groups = [group for group in sets if group]
    rows = [each for group in groups for each in group]
    importance = np.concatenate([importances(group) for group in groups])
    values = np.array([[each.signs[name] for name in names] for each in rows])
    right = np.array([of(each) for each in rows], dtype=float)
    slopes, bias = regression(values, right, importance, 1e-4, np.ones((len(rows), 1)))
    return {
        "bias": round(bias, 4),
        "weights": {name: round(float(w), 4) for name, w in zip(names, slopes, strict=True)},
    }


def importances(group: Sequence[Chosen]) -> Floats:
    """Return weights of sum 1; answerable questions have ANSWERABLE of it if there are others."""
    answerable = np.array([each.answerable for each in group])
    share = answerable.mean()
    if share in {0, 1}:
        return np.full(len(group), 1 / len(group))
    weights = np.where(answerable, ANSWERABLE / share, (1 - ANSWERABLE) / (1 - share))
    return weights / len(group)


def credit(chosen: Chosen) -> float:
    """Return 1 for a right choice, 0.5 for a wrong one of passages that answer, else 0."""
    return (chosen.right + chosen.answerable) / 2


def report(name: str, sets: Mapping[str, Sequence[Chosen]], models: Sequence[Sequence[str]]) -> str:
    """Write the figures of a set with models that are fitted on the others; areas without NaN."""
    others = [rows for other, rows in sets.items() if other != name]
    counted = [each for each in sets[name] if each.answerable]
    share = share_right(counted)
    error = (share * (1 - share) / len(counted)) ** 0.5 if counted else 0.0
    figures = [f"right choice {share:.3f} +- {error:.3f}"]
    labels = [each.right for each in sets[name]]
    for kind, names, of in zip(
        ("right", "credit"), models, (lambda each: each.right, credit), strict=True
    ):
        fitted = fit_logistic(others, names, of)
        area = roc_area([extractive.logistic(fitted, each.signs) for each in sets[name]], labels)
        if area is not None:
            figures.append(f"AUC {kind} {area:.3f} +- {roc_area_error(area, labels):.3f}")
    return f"{name}: {', '.join(figures)}"


def fit(sets: Mapping[str, Sequence[Asked]], weight: float) -> Json:
    """Return the models with the reader, whose logit has this weight; 0: without it."""
    committed = extractive.model()["with_reader" if weight else "without_reader"]
    name_missed = committed["credit"]["weights"]["name_missed"]
    models = (READ, READ) if weight else (RIGHT, CREDIT)
    chosen = {name: choose(rows, weight) for name, rows in sets.items()}
    print(f"weight of the logit {weight}")
    for name in chosen if len(chosen) > 1 else ():
        print(report(name, chosen, models))
    expected = fit_logistic(chosen.values(), models[1], credit)
    expected["weights"]["name_missed"] = name_missed
    right = fit_logistic(chosen.values(), models[0])
    return {**committed, "logit": weight, "right": right, "credit": expected}


def fit_names(rows: Sequence[Asked], part: str) -> Json:
    """Return the committed models of `part` with a new weight of `name_missed`.

    Raise IndexError if no row marks an unanswerable question.
    """
    committed = extractive.model()[part]
    expected = committed["credit"]
    weights = {**expected["weights"], "name_missed": 0.0}
    near = np.array(
        [
            extractive.logistic({**expected, "weights": weights}, each.signs)
            for each in choose(rows, committed["logit"])
            if each.signs["name_missed"] and not each.answerable
        ]
    )
    least = Settings().answer_min_probability
    gap = np.log(least / (1 - least)) - np.quantile(np.log(near / (1 - near)), SILENT)
    weights["name_missed"] = round(min(0.0, float(gap)), 4)
    print(f"{part}: {len(near)} near misses, {weights}")
    return {**committed, "credit": {**expected, "weights": weights}}


def main() -> None:
    """Check, fit, print, and with --write replace the weights."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--kept", type=Path, nargs="+", default=list(KEPT))
    parser.add_argument("--only", choices=("names", "reader"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    by_name = {folder.name: read(folder) for folder in options.folders}
    rows = [row for lines in by_name.values() for row in lines]
    texts = {block["uuid"]: block["text"] for row in rows for block in row["blocks"]}
    refuse_shared((row["question"] for row in rows), texts.values(), kept_texts(options.kept))
    sets = {name: questions(lines) for name, lines in by_name.items()}
    if options.only == "names":
        asked_rows = [row for lines in sets.values() for row in lines]
        changed: Json = {
            part: fit_names(asked_rows, part) for part in ("without_reader", "with_reader")
        }
    else:
        shares = {
            float(value): np.mean([share_right(choose(rows, value)) for rows in sets.values()])
            for value in LOGIT_WEIGHTS
        }
        weight = min(w for w, share in shares.items() if share >= max(shares.values()) - EQUAL)
        sizes = {name: len(lines) for name, lines in by_name.items()}
        changed = {"with_reader": fit(sets, weight), "reader_fitted_on": sizes}
        if options.only is None:
            changed |= {"without_reader": fit(sets, 0.0), "fitted_on": sizes}
    fitted = {**extractive.model(), **changed}
    text = json.dumps(fitted, indent=1)
    print(text)
    if options.write:
        WEIGHTS.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

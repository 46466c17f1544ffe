"""Fits which stretch of a source answers, and how likely it is right.

    python -m training.answers FOLDER... [--kept FOLDER...] [--write]

Each FOLDER holds `given.jsonl` (training.passages). Fits

1. `choice`: a softmax over the units of all passages of a question. A unit is worth more the closer
   it is to the written answer and the shorter it is. Sets of reviews (`item`) are left out, and
   of (1) and (2) sets that name `hops`.
2. `right`: a logistic model of the choice being right. Where a set names its gold documents, a
   third of its questions come again without them; questions without an answer count half.
3. `answerable`: the same of any passage answering, whatever was chosen; it decides on silence.
4. `pair`: a softmax over the pairs of sets that name `hops`, like `choice`; `prefer_pair`: a
   logistic model of the best pair being right, of the questions where either the pair or the choice
   is; `pair_right`: of the preferred pairs being right.

Prints each set left out, and the mean AUC of the confidence by the weight of its formula. `Leak`
if a question or a paragraph is in a set that is kept for measuring (`--kept`; by default the
measured sets of ../shared/data, and our own questions).
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
from docstokg.domain.answer.confidence import confidence, confidence_parts
from docstokg.domain.answer.reader_features import Candidate, Features, candidates
from docstokg.domain.answer.two_hops import Pair, pairs
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
PAIR = ("covered", "bridge", "choice")
PREFER = ("gain", "choice", "covered", "bridge")
SHARES = np.linspace(0.5, 1.0, 11)
WITHOUT_GOLD = 3
UNANSWERABLE_WEIGHT = 0.5
WHOLE = 0.8
RIDGE = 1e-3
STEPS = 250


class Asked(NamedTuple):
    """A question with its candidates and pairs: features, which are right, what each is worth.

    `scores`, `documents`: retrieval score and document per rank of a passage.
    """

    found: list[Candidate]
    features: Floats
    right: Floats
    worth: Floats
    pairs: list[Pair]
    pair_right: Floats
    pair_worth: Floats
    answerable: bool
    scores: dict[int, float]
    documents: dict[int, str]


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
    """Return the candidates and pairs of a question; None where nothing can be quoted."""
    given = [
        (Block.model_validate(block), document, score)
        for block, document, score in zip(
            row["blocks"], row["documents"], row["scores"], strict=True
        )
        if not (without_gold and document in row.get("gold", ()))
    ][: extractive.READ]
    found = candidates(row["question"], [block for block, *_ in given])
    if not found:
        return None
    answerable = row["type"] == "answerable" and not without_gold
    linked = list(pairs(row["question"], found))
    shown = [one.unit.shown for one in found]
    both = [f"{shown[pair.first]} {shown[pair.second]}" for pair in linked]
    return Asked(
        found,
        np.array([one.features for one in found]),
        np.array([answerable and says(row, text) for text in shown], dtype=float),
        _worth(row, shown),
        linked,
        np.array([answerable and says(row, text) for text in both], dtype=float),
        _worth(row, both) if both else np.zeros(0),
        answerable,
        {block.rank: score for block, _, score in given},
        {block.rank: document for block, document, _ in given},
    )


def _worth(row: Mapping[str, Any], texts: Sequence[str]) -> Floats:
    golds = row.get("golds") or [row["answer"]]
    close = np.array([max(f1(text, gold) for gold in golds) for text in texts])
    length = np.array([len(words(text)) for text in texts])
    worth: Floats = close / max(close.max(), 1e-9) / (1 + length / 10)
    return worth


def made(rows: Sequence[Mapping[str, Any]]) -> list[Asked]:
    """Make what is fitted of a set."""
    own = [asked(row) for row in rows]
    again = [asked(row, without_gold=True) for row in rows[::WITHOUT_GOLD] if row.get("gold")]
    return [one for one in (*own, *again) if one is not None]


def fit_choice(sets: Iterable[Sequence[Asked]]) -> dict[str, float]:
    """Fit the choice among candidates; sets count alike."""
    columns = [Features._fields.index(name) for name in CHOICE]
    return _softmax(
        CHOICE, [[(one.features[:, columns], one.worth) for one in rows] for rows in sets]
    )


def fit_pair(sets: Iterable[Sequence[Asked]], choice: Mapping[str, float]) -> dict[str, float]:
    """Fit the choice among pairs; sets count alike."""
    return _softmax(
        PAIR,
        [
            [(_pair_features(one, choice), one.pair_worth) for one in rows if one.pairs]
            for rows in sets
        ],
    )


def _pair_features(one: Asked, choice: Mapping[str, float]) -> Floats:
    scores = scores_of(one, choice)
    made = (extractive.best_pair({}, [pair], scores) for pair in one.pairs)
    return np.array([[pair.signs[name] for name in PAIR] for pair in made if pair is not None])


def scores_of(one: Asked, choice: Mapping[str, float]) -> list[float]:
    """Return the score of each candidate."""
    return [extractive.weighted(choice, own.features._asdict()) for own in one.found]


def _softmax(
    names: Sequence[str], sets: Sequence[Sequence[tuple[Floats, Floats]]]
) -> dict[str, float]:
    """Maximise the log of the expected worth of a softmax over the rows of each question."""
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
    """The choice for one question, and the best pair with its features."""

    one: Asked
    best: int
    signs: dict[str, float]
    right: bool
    answerable: bool
    pair: extractive.BestPair | None
    pair_right: bool


def choose(
    rows: Sequence[Asked], choice: Mapping[str, float], pair: Mapping[str, float]
) -> list[Chosen]:
    """Choose like the product."""
    chosen = []
    for one in rows:
        scores = scores_of(one, choice)
        best = int(np.argmax(scores))
        signs = extractive.signs_of(one.found, scores, best)
        linked = extractive.best_pair(pair, one.pairs, scores)
        places = [(own.first, own.second) for own in one.pairs]
        is_right = linked is not None and bool(one.pair_right[places.index(linked.places)])
        chosen.append(
            Chosen(one, best, signs, bool(one.right[best]), one.answerable, linked, is_right)
        )
    return chosen


def paired(rows: Sequence[Chosen]) -> list[Chosen]:
    """Return the rows with a pair, with its features for the choice's."""
    return [row._replace(signs=row.pair.signs) for row in rows if row.pair is not None]


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
    sets: Iterable[Sequence[Chosen]],
    names: Sequence[str] = RIGHT,
    of: Callable[[Chosen], bool] = lambda one: one.right,
) -> dict[str, Any]:
    """Fit the probability that `of` holds, by default that a choice is right; sets count alike."""
    groups = [group for group in sets if group]
    rows = [one for group in groups for one in group]
    return fit_logistic(
        np.array([[one.signs[name] for name in names] for one in rows]),
        np.array([of(one) for one in rows], dtype=float),
        _importance(groups),
        names,
    )


def _importance(groups: Sequence[Sequence[Chosen]]) -> Floats:
    weights = []
    for group in groups:
        own = [1.0 if one.answerable else UNANSWERABLE_WEIGHT for one in group]
        weights += [weight / sum(own) for weight in own]
    return np.array(weights)


class Said(NamedTuple):
    """An answer: its probability, the formula's value, whether it is right, whether it is two."""

    probability: float
    formula: float
    right: bool
    is_pair: bool
    words: int


def say(row: Chosen, fitted: Mapping[str, Any]) -> Said:
    """Answer like the product, whether or not it would stay silent."""
    found = row.one.found
    probability = extractive.logistic(fitted["right"], row.signs)
    ranks = list(dict.fromkeys(found[i].block.rank for i in extractive.agreeing(found, row.best)))
    own = found[row.best].block.rank
    ranks = [own, *(rank for rank in ranks if rank != own)][: 1 + extractive.FURTHER]
    quoted, right, is_pair = [found[row.best]], row.right, False
    per_sentence = [max(row.one.scores[rank] for rank in ranks)]
    if row.pair is not None:
        is_pair = extractive.logistic(fitted["prefer_pair"], row.pair.signs) >= extractive.PREFERRED
    if row.pair is not None and is_pair:
        quoted, right = [found[place] for place in row.pair.places], row.pair_right
        probability = extractive.logistic(fitted["pair_right"], row.pair.signs)
        ranks = [one.block.rank for one in quoted]
        per_sentence = [row.one.scores[rank] for rank in ranks]
    documents = {row.one.documents[rank] for rank in ranks}
    similarity = max(one.features.cosine for one in quoted)
    formula = confidence(confidence_parts(per_sentence, documents, similarity), None)
    count = sum(len(words(one.unit.shown)) for one in quoted)
    return Said(probability, formula, right, is_pair, count)


def area(answers: Sequence[Said], share: float) -> float:
    """Return the AUC of share x formula + (1 - share) x probability against right answers."""
    values = [share * one.formula + (1 - share) * one.probability for one in answers]
    return roc_area(values, [one.right for one in answers]) or 0.0


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
    hops = {name: max(row.get("hops", 0) for row in own) for name, own in read_sets.items()}
    everything = fit_all(sets, facts, hops)
    apart: dict[str, list[Said]] = {}
    for left_out, rows in sets.items():
        others = {name: own for name, own in sets.items() if name != left_out}
        fitted = fit_all(others, facts, hops)
        answers = [say(row, fitted) for row in choose(rows, fitted["choice"], fitted["pair"])]
        if left_out in facts:
            apart[left_out] = answers
        own = [one for one, row in zip(answers, rows, strict=True) if row.answerable]
        print(
            f"without {left_out}: {len(own)} answerable,"
            f" right {_mean(one.right for one in own):.3f},"
            f" pairs {sum(one.is_pair for one in own)},"
            f" words {_mean(one.words for one in own):.1f};"
            f" all {len(answers)}: AUC of probability {area(answers, 0):.3f},"
            f" formula {area(answers, 1):.3f}, half of each {area(answers, 0.5):.3f}"
        )
    means = {share: _mean(area(answers, share) for answers in apart.values()) for share in SHARES}
    print(
        "weight of the formula, mean AUC:",
        {round(float(s), 2): round(m, 4) for s, m in means.items()},
    )
    print(json.dumps(everything, indent=1))
    if options.write:
        WEIGHTS.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")


def _mean(values: Iterable[float]) -> float:
    return float(np.mean([float(value) for value in values]))


def fit_all(
    sets: Mapping[str, Sequence[Asked]], facts: Collection[str], hops: Mapping[str, int]
) -> dict[str, Any]:
    """Fit every model on `sets`; `facts`: sets without reviews; `hops`: 0 where none are named."""
    plain = {name: own for name, own in sets.items() if not hops[name]}
    choice = fit_choice(own for name, own in plain.items() if name in facts)
    pair = fit_pair((own for name, own in sets.items() if hops[name]), choice)
    chosen = {name: choose(own, choice, pair) for name, own in sets.items()}
    single = [chosen[name] for name in plain]
    linked = [paired(own) for own in chosen.values()]
    differing = [[one for one in own if one.pair_right != one.right] for own in linked]
    prefer = fit_right(differing, PREFER, lambda one: one.pair_right)
    preferred = [
        [one for one in own if extractive.logistic(prefer, one.signs) >= extractive.PREFERRED]
        for own in linked
    ]
    return {
        "card": "docs/decisions/answers.md",
        "fitted_on": {name: len(own) for name, own in sets.items()},
        "choice": choice,
        "right": fit_right(single),
        "answerable": fit_right(chosen.values(), ANSWERABLE, lambda one: one.answerable),
        "pair": pair,
        "prefer_pair": prefer,
        "pair_right": fit_right(preferred, PREFER, lambda one: one.pair_right),
    }


if __name__ == "__main__":
    main()

"""Fits and cross-validates the weights of docstokg.domain.verdicts on SciFact's training claims.

    python -m benchmarks.train_verdicts --data ../shared/data --write

The unit is (claim, passage). Positives: SUPPORT abstracts, whole. Negatives: (a) the same abstracts
without their rationale sentences, (b) per claim the first five abstracts BM25 finds that are not
cited, (c) CONTRADICT abstracts. Claims without evidence are left out; five folds by claim.
Everything is fitted inside the training folds: heads, calibration, thresholds.
"""

import argparse
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from docstokg.adapters.onnx_minilm import OnnxMiniLm
from docstokg.adapters.vector_cache import CachedEmbedder
from docstokg.domain import verdicts
from docstokg.domain.wording import OPPOSITES, content_stems, read, stem

FOLDS = 5
POLARITY_WEIGHT = {"lexical": 0.5, "dense": 0.5}
_SENTENCE_NAMES_TEXT = (
    "coverage margin bigrams with_previous names numbers length precision place last first "
    "last_but_one count direction neighbour has_numbers concludes finds measures plans"
)
SENTENCE_NAMES = _SENTENCE_NAMES_TEXT.split()
_RELEVANCE_NAMES_TEXT = (
    "first_odds second_odds third_odds joint_odds by_one by_two by_three by_all bigrams_best "
    "bigrams_all top_coverage top_bigrams numbers_missing numbers_missing_top numbers "
    "names_missing names_missing_top rarest_missing stems_missing rare_held denies best_denies "
    "denial_differs top_denies opposed opposed_top agreed agreed_top heading says_more says_less"
)
RELEVANCE_NAMES = _RELEVANCE_NAMES_TEXT.split()
_POLARITY_NAMES_TEXT = (
    "denies best_denies denial_differs top_denies only_top_denies opposed opposed_top agreed "
    "agreed_top heading heading_top says_more says_less heading_denied numbers_missing_top "
    "numbers_differ"
)
POLARITY_NAMES = _POLARITY_NAMES_TEXT.split()
LICENCES = (
    "SciFact claims CC BY 4.0, abstracts ODC-By; word counts also from PubMedQA (MIT), "
    "MuSiQue and MedQuAD (CC BY 4.0)"
)


@dataclass
class Pair:
    """A claim with a text; `rationale` are places in `sentences`, `kind` as in the docstring."""

    claim: str
    kind: str
    fold: int
    sentences: list[str]
    rationale: list[int] = field(default_factory=list)


def main() -> None:
    """Cross-validate, report, and write the weights fitted on all folds."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--cache", type=Path, default=Path("~/.cache/docstokg").expanduser())
    arguments.add_argument("--json", type=Path)
    arguments.add_argument("--write", action="store_true", help="write verdict_weights.json")
    options = arguments.parse_args()
    idf, rarest = rarities(options.data)
    base = verdicts.Weights(idf, rarest, _EMPTY, _NO_SCORER, _NO_SCORER)
    pairs = load_pairs(options.data / "scifact_train")
    print("pairs", dict(Counter(pair.kind for pair in pairs)), "stems", len(idf))
    rows = [verdicts.sentence_features(p.claim, p.sentences, base) for p in pairs]
    similar = Similarity(CachedEmbedder(OnnxMiniLm(), options.cache))
    report = cross_validate(pairs, rows, base, similar)
    print(json.dumps(report, indent=1))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    if options.write:
        everything = np.ones(len(pairs), dtype=bool)
        fitted, _ = fit_all(pairs, rows, base, similar, everything)
        target = Path(verdicts.__file__).with_name("verdict_weights.json")
        target.write_text(_dump(fitted, report), "utf-8")
        print("wrote", target, target.stat().st_size, "bytes")


def rarities(data: Path) -> tuple[dict[str, float], float]:
    """Count stems over the passages of all sets: ln(1 + n / df), one digit, df >= 8."""
    counts: Counter[str] = Counter()
    passages = 0
    for path in sorted(data.glob("*/passages.jsonl")):
        for line in path.read_text("utf-8").strip().split("\n"):
            counts.update(set(content_stems(json.loads(line)["text"])))
            passages += 1
    idf = {
        word: round(math.log(1 + passages / count), 1)
        for word, count in sorted(counts.items())
        if count >= 8 and not word.isdigit() and len(word) < 20
    }
    return idf, round(math.log(1 + passages / 4), 1)


def load_pairs(folder: Path) -> list[Pair]:
    """Read claims and build positives and the three kinds of negatives."""
    lines = (folder / "passages.jsonl").read_text("utf-8").strip().split("\n")
    passages = {row["doc_id"]: row for row in map(json.loads, lines)}
    search = Bm25({key: f"{row['title']} {row['text']}" for key, row in passages.items()})
    questions = map(json.loads, (folder / "questions.jsonl").read_text("utf-8").strip().split("\n"))
    pairs: list[Pair] = []
    for number, question in enumerate(q for q in questions if q["evidence"]):
        claim, fold = question["question"], number % FOLDS
        cited: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for evidence in question["evidence"]:
            cited[evidence["doc_id"]].append(evidence)
        for doc_id, found in cited.items():
            sentences = passages[doc_id]["sentences"]
            rationale = sorted({place for row in found for place in row["sentences"]})
            kind = found[0]["label"]
            pairs.append(Pair(claim, kind, fold, sentences, rationale))
            rest = [text for place, text in enumerate(sentences) if place not in rationale]
            if kind == "SUPPORT" and rest:
                pairs.append(Pair(claim, "a", fold, rest))
        others = search.first(claim, 5, {*question["gold"], *cited})
        pairs += [Pair(claim, "b", fold, passages[key]["sentences"]) for key in others]
    return pairs


class Bm25:
    """BM25 (k1 1.2, b 0.75) over stems, for negatives only."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        stems = {key: content_stems(text) for key, text in texts.items()}
        mean = sum(map(len, stems.values())) / len(stems)
        self._postings: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for key, words in stems.items():
            norm = 1.2 * (0.25 + 0.75 * len(words) / mean)
            for word, count in Counter(words).items():
                self._postings[word].append((key, count * 2.2 / (count + norm)))
        self._count = len(stems)

    def first(self, query: str, count: int, without: set[str]) -> list[str]:
        """Return the best `count` keys that are not in `without`."""
        scores: Counter[str] = Counter()
        for word in set(content_stems(query)):
            found = self._postings.get(word, [])
            idf = math.log(1 + (self._count - len(found) + 0.5) / (len(found) + 0.5))
            for key, weight in found:
                scores[key] += weight * idf  # type: ignore[assignment]  # Counter of floats
        ordered = sorted(scores, key=lambda key: (-scores[key], key))
        return [key for key in ordered if key not in without][:count]


class Similarity:
    """Cosines of a claim with sentences, from a cached embedder."""

    def __init__(self, embedder: CachedEmbedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Any] = {}

    def fetch(self, texts: Iterable[str]) -> None:
        """Embed what is not known yet, in batches."""
        wanted = sorted({text for text in texts if text not in self._known})
        for at in range(0, len(wanted), 512):
            batch = wanted[at : at + 512]
            for text, vector in zip(batch, self._embedder.embed(batch, None), strict=True):
                self._known[text] = np.frombuffer(vector, dtype="<f4")

    def cosines(self, claim: str, texts: Sequence[str]) -> list[float]:
        """Return the cosine of the claim with each text."""
        return [float(self._known[claim] @ self._known[text]) for text in texts]


_EMPTY = verdicts.Head((), (), (), (), 0.0)
_NO_SCORER = verdicts.Scorer(_EMPTY, _EMPTY, 0.0, 0.0, 0.0, 1.0, 0.0)


def logistic(
    rows: Sequence[Mapping[str, float]],
    names: Sequence[str],
    wanted: Any,
    ridge: float,
    weights: Any = None,
) -> verdicts.Head:
    """Fit a ridge logistic regression by Newton's method on standardised features."""
    matrix = np.array([[row[name] for name in names] for row in rows])
    means, scales = matrix.mean(0), matrix.std(0) + 1e-9
    design = np.c_[(matrix - means) / scales, np.ones(len(matrix))]
    wanted = np.asarray(wanted, dtype=float)
    weights = np.ones(len(wanted)) if weights is None else weights
    penalty = np.eye(design.shape[1]) * ridge
    penalty[-1, -1] = 0
    beta = np.zeros(design.shape[1])
    for _ in range(40):
        chance = 1 / (1 + np.exp(-design @ beta))
        gradient = design.T @ (weights * (chance - wanted)) + penalty @ beta
        curvature = (design * (weights * chance * (1 - chance))[:, None]).T @ design + penalty
        step = np.linalg.solve(curvature, gradient)
        beta -= step
        if np.abs(step).max() < 1e-7:
            break
    rounded = [tuple(float(f"{x:.5g}") for x in part) for part in (means, scales, beta)]
    return verdicts.Head(tuple(names), rounded[0], rounded[1], rounded[2][:-1], rounded[2][-1])


def fit_all(
    pairs: Sequence[Pair],
    rows: Sequence[list[dict[str, float]]],
    base: verdicts.Weights,
    similar: Similarity,
    training: Any,
) -> tuple[verdicts.Weights, list[dict[str, float]]]:
    """Fit every head on the pairs marked in `training`; give the features of all pairs as well."""
    cited = [
        i for i, pair in enumerate(pairs) if training[i] and pair.kind in ("SUPPORT", "CONTRADICT")
    ]
    sentence = logistic(
        [row for i in cited for row in rows[i]],
        SENTENCE_NAMES,
        [place in pairs[i].rationale for i in cited for place in range(len(rows[i]))],
        3.0,
    )
    partial = verdicts.Weights(base.idf, base.rarest, sentence, _NO_SCORER, _NO_SCORER)
    features = _features(pairs, rows, partial, similar)
    chosen = np.flatnonzero(training)
    kinds = np.array([pairs[i].kind for i in chosen])
    scorers: dict[str, verdicts.Scorer] = {}
    for name in ("lexical", "dense"):
        extra = verdicts.DENSE_NAMES if name == "dense" else ()
        own = [features[i] for i in chosen]
        about = np.isin(kinds, ["SUPPORT", "CONTRADICT"])
        weights = np.where(kinds == "b", 0.4, 1.0)
        relevance = logistic(own, [*RELEVANCE_NAMES, *extra], about, 10.0, weights)
        told = [row for row, yes in zip(own, about, strict=True) if yes]
        polarity = logistic(told, POLARITY_NAMES, kinds[about] == "SUPPORT", 20.0)
        raw = verdicts.Scorer(relevance, polarity, POLARITY_WEIGHT[name], 0.0, 0.0, 1.0, 0.0)
        joined = np.array([verdicts.joined(row, raw) for row in own])
        scorers[name] = _calibrated(raw, joined, kinds)
    fitted = verdicts.Weights(base.idf, base.rarest, sentence, scorers["lexical"], scorers["dense"])
    return fitted, features


def _calibrated(raw: verdicts.Scorer, joined: Any, kinds: Any) -> verdicts.Scorer:
    """Fit slope and shift (kinds weighted equally), then the two thresholds."""
    positive = kinds == "SUPPORT"
    sizes = Counter(kinds.tolist())
    weights = np.array([len(kinds) / sizes[kind] * (3.0 if kind == "SUPPORT" else 1.0)
                        for kind in kinds]) / 6  # fmt: skip
    head = logistic([{"x": x} for x in joined], ["x"], positive, 0.0, weights)
    slope = head.weights[0] / head.scales[0]
    shift = head.bias - head.means[0] * slope
    chances = 1 / (1 + np.exp(-(slope * joined + shift)))
    supported = _threshold(chances, positive)
    weak = min(supported, float(np.quantile(chances[positive], 0.1)))
    return verdicts.Scorer(
        raw.relevance, raw.polarity, raw.polarity_weight,
        round(supported, 4), round(weak, 4), round(slope, 5), round(shift, 5),
    )  # fmt: skip


def _threshold(chances: Any, positive: Any) -> float:
    """Return the threshold with the best balanced accuracy."""
    candidates = np.quantile(chances, np.linspace(0.02, 0.98, 193))
    return float(max(candidates, key=lambda t: _balanced(chances, positive, t)))


def _balanced(chances: Any, positive: Any, threshold: float) -> float:
    said = chances >= threshold
    return float((said[positive].mean() + (~said)[~positive].mean()) / 2)


def _features(
    pairs: Sequence[Pair],
    rows: Sequence[list[dict[str, float]]],
    partial: verdicts.Weights,
    similar: Similarity,
) -> list[dict[str, float]]:
    scores = [[_sigmoid(partial.sentence.logit(row)) for row in found] for found in rows]
    tops = [
        [pair.sentences[i] for i in sorted(range(len(own)), key=lambda i: (-own[i], i))[:3]]
        for pair, own in zip(pairs, scores, strict=True)
    ]
    similar.fetch(
        text for pair, top in zip(pairs, tops, strict=True) for text in (pair.claim, *top)
    )
    return [
        verdicts.passage_features(pair.claim, pair.sentences, own, partial)
        | verdicts.dense_features(similar.cosines(pair.claim, top))
        for pair, own, top in zip(pairs, scores, tops, strict=True)
    ]


def cross_validate(
    pairs: Sequence[Pair],
    rows: Sequence[list[dict[str, float]]],
    base: verdicts.Weights,
    similar: Similarity,
) -> dict[str, Any]:
    """Return AUC per kind of negative, balanced accuracy, selection, verdicts and reasons."""
    folds = np.array([pair.fold for pair in pairs])
    kinds = np.array([pair.kind for pair in pairs])
    chances = {name: np.zeros(len(pairs)) for name in ("lexical", "dense")}
    sides: dict[str, list[Any]] = {name: [] for name in chances}
    balanced: dict[str, list[float]] = {name: [] for name in chances}
    first: list[bool] = []
    recall: list[float] = []
    given: dict[str, Counter[str]] = defaultdict(Counter)
    flagged: dict[str, Counter[str]] = defaultdict(Counter)
    spoiled: dict[str, Counter[str]] = defaultdict(Counter)
    for fold in range(FOLDS):
        fitted, features = fit_all(pairs, rows, base, similar, folds != fold)
        held = np.flatnonzero(folds == fold)
        for name, scorer in (("lexical", fitted.lexical), ("dense", fitted.dense)):
            chances[name][held] = [verdicts.support(features[i], scorer) for i in held]
            sides[name] += [
                (kinds[i], scorer.relevance.logit(features[i]), scorer.polarity.logit(features[i]))
                for i in held
            ]
            value = _balanced(chances[name][held], kinds[held] == "SUPPORT", scorer.supported_from)
            balanced[name].append(value)
        for i in held:
            pair = pairs[i]
            if pair.rationale:
                own = [fitted.sentence.logit(row) for row in rows[i]]
                order = sorted(range(len(own)), key=lambda place: (-own[place], place))
                first.append(order[0] in pair.rationale)
                recall.append(len({*order[:3]} & {*pair.rationale}) / len(pair.rationale))
            judged = _judge(pair.claim, pair.sentences, fitted)
            given[pair.kind][judged.verdict] += 1
            flagged[pair.kind].update(judged.reasons)
            if pair.kind == "SUPPORT":
                spoiled["unchanged"][judged.verdict] += 1
                for how, claim in spoil(pair.claim):
                    spoiled[how][_judge(claim, pair.sentences, fitted).verdict] += 1
    auc = {
        name: {
            **{
                f"against_{kind}": round(_auc(own[told], kinds[told] == "SUPPORT"), 3)
                for kind in ("a", "b", "CONTRADICT")
                for told in (np.isin(kinds, ["SUPPORT", kind]),)
            },
            "against_all": round(_auc(own, kinds == "SUPPORT"), 3),
            "balanced_accuracy": round(float(np.mean(balanced[name])), 3),
            "trade_off": _trade_off(sides[name]),
        }
        for name, own in chances.items()
    }  # fmt: skip
    return {
        "claims": len({pair.claim for pair in pairs}),
        "pairs": dict(Counter(kinds.tolist())),
        "auc": auc,
        "selection": {
            "abstracts": len(first),
            "top1": round(float(np.mean(first)), 3),
            "recall@3": round(float(np.mean(recall)), 3),
        },
        "verdicts_lexical": {kind: dict(counts) for kind, counts in given.items()},
        "reasons": {kind: dict(counts) for kind, counts in flagged.items()},
        "spoiled_claims": {how: dict(counts) for how, counts in spoiled.items()},
    }


def _trade_off(sides: Sequence[Any]) -> dict[str, list[float]]:
    """Return [AUC against all, AUC against CONTRADICT] per polarity weight."""
    kinds = np.array([side[0] for side in sides])
    relevance = np.array([side[1] for side in sides])
    polarity = np.array([side[2] for side in sides])
    told = np.isin(kinds, ["SUPPORT", "CONTRADICT"])
    found: dict[str, list[float]] = {}
    for weight in (0.0, 0.25, 0.5, 0.6, 0.7, 0.8, 1.0, 1.5):
        score = -np.log1p(np.exp(-relevance - 1)) + weight * polarity
        values = (_auc(score, kinds == "SUPPORT"), _auc(score[told], kinds[told] == "SUPPORT"))
        found[str(weight)] = [round(value, 3) for value in values]
    return found


def _judge(claim: str, sentences: Sequence[str], fitted: verdicts.Weights) -> verdicts.Judgement:
    passage = verdicts.Passage("", " ".join(sentences))
    return verdicts.decide(verdicts.examine(claim, [passage], fitted), fitted)


def spoil(claim: str) -> Iterable[tuple[str, str]]:
    """Yield a supported claim made wrong in one way each, where it can be."""
    number = re.search(r"\b\d+(?:\.\d+)?\b", claim)
    if number and read(claim).quantities:
        yield (
            "number",
            f"{claim[: number.start()]}{float(number[0]) * 3 + 7:g}{claim[number.end() :]}",
        )
    verb = re.search(r"\b(?:is|are|was|were|can|does|has|have)\b", claim)
    if verb and not read(claim).negations:
        yield "negation", f"{claim[: verb.end()]} not{claim[verb.end() :]}"
    for match in re.finditer(r"[A-Za-z]+", claim):
        if stem(match[0].casefold()) in OPPOSITES and match[0].casefold() in _SWAPS:
            swap = _SWAPS[match[0].casefold()]
            yield "opposite", f"{claim[: match.start()]}{swap}{claim[match.end() :]}"
            break
    name = re.search(r"(?<=\s)[A-Z][A-Za-z]*\d[A-Za-z0-9-]*|(?<=\s)[A-Z]{3,}\b", claim)
    if name:
        yield "name", f"{claim[: name.start()]}QRX7{claim[name.end() :]}"


_SWAPS_TEXT = (
    "increases/decreases increased/decreased increase/decrease higher/lower reduces/increases "
    "reduced/increased decreased/increased decreases/increases lower/higher more/less "
    "promotes/inhibits inhibits/promotes activates/inhibits enhances/impairs positive/negative "
    "induces/prevents suppresses/promotes improves/impairs reduce/increase longer/shorter"
)
_SWAPS = {left: right for pair in _SWAPS_TEXT.split() for left, right in (pair.split("/"),)}


def _auc(scores: Any, positive: Any) -> float:
    """Return the area under the ROC curve, ties counted half (Mann-Whitney)."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    ones = int(positive.sum())
    zeros = len(scores) - ones
    return float((ranks[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def _dump(fitted: verdicts.Weights, report: Mapping[str, Any]) -> str:
    groups: dict[float, list[str]] = defaultdict(list)
    for word, value in fitted.idf.items():
        groups[value].append(word)
    data = {
        "made_by": "benchmarks/train_verdicts.py",
        "data": "scifact_train, all five folds; figures below are cross-validated",
        "licences": LICENCES,
        "report": report,
        "sentence": _head(fitted.sentence),
        "lexical": _scorer(fitted.lexical),
        "dense": _scorer(fitted.dense),
        "rarest": fitted.rarest,
        "idf": {str(value): " ".join(groups[value]) for value in sorted(groups)},
    }
    return json.dumps(data, indent=1) + "\n"


def _head(head: verdicts.Head) -> dict[str, Any]:
    rows = zip(head.names, head.means, head.scales, head.weights, strict=True)
    return {"bias": head.bias, "features": {name: list(row) for name, *row in rows}}


def _scorer(scorer: verdicts.Scorer) -> dict[str, Any]:
    return {
        "polarity_weight": scorer.polarity_weight,
        "supported_from": scorer.supported_from,
        "weak_from": scorer.weak_from,
        "slope": scorer.slope,
        "shift": scorer.shift,
        "relevance": _head(scorer.relevance),
        "polarity": _head(scorer.polarity),
    }


if __name__ == "__main__":
    main()

"""Fits and cross-validates the weights of docstokg.domain.answer.verdicts on several sets at once.

    python -m benchmarks.train_verdicts --data ../shared/data --write

The unit is (claim, text). True: SciFact's SUPPORT abstracts, WiCE's supported claims, ExpertQA's
Complete ones. Not true: SciFact's CONTRADICT abstracts, its SUPPORT abstracts without their
rationale and the first five abstracts BM25 finds that are not cited; WiCE's partially and not
supported claims; ExpertQA's Partial and Incomplete ones. Beside them, false claims made by rule
from the true ones (benchmarks.false_claims) say what the rules of contradictions.py
catch; they are not fitted on. But a claim whose subject was exchanged no rule sees, and who gives
no citation has it held against what is found for it, which speaks of the new subject: so the true
claims, and half as many with another subject, are also paired with the passage of their whole set
that says most of them. On these and all other pairs `searched` is fitted, `lexical` and `dense` on
the others alone. Each set and each class weighs the same, what is found half as much. Five folds by
claim; then each set left out once. The threshold is the lowest that lets at most 45 in a thousand
false claims pass, of those made beside what their true ones cite; for `searched` 30, of those
and those beside what was found, each kind weighing the same.
"""

import argparse
import hashlib
import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from benchmarks.false_claims import RULES
from docstokg.adapters.onnx.minilm import OnnxMiniLm
from docstokg.adapters.sqlite.vector_cache import CachedEmbedder
from docstokg.domain.answer import exchanged, verdicts
from docstokg.domain.answer.claims import align, features, read_claim
from docstokg.domain.text.sentences import sentence_spans
from docstokg.domain.text.wording import content_stems

Kind = Literal["lexical", "dense", "searched"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FOLDS = 5
# What was searched for is held to more; finer steps tell one claim of a thousand.
FALSE_PASSING: dict[Kind, float] = {"lexical": 0.045, "dense": 0.045, "searched": 0.03}
STEPS: dict[Kind, int] = {"lexical": 97, "dense": 97, "searched": 961}
WEAK_BELOW = 0.1
OTHERS_KEPT = 0.3
FOUND_KEPT = 0.5
FOUND_WEIGHT = 0.5
FOUND_FIRST = 6
PASSAGE_CHARACTERS = 900
LICENCES = (
    "SciFact claims CC BY 4.0, abstracts ODC-By; WiCE ODC-BY; ExpertQA MIT; word counts also from "
    "PubMedQA (MIT), MuSiQue and MedQuAD (CC BY 4.0)"
)


@dataclass(slots=True)
class Pair:
    """A claim with a text; `group` keeps what belongs together in one fold.

    `rule`: how a false claim was made. `found`: the text was looked for and is cited by nobody.
    """

    data: str
    kind: str
    group: str
    claim: str
    sentences: list[str]
    supported: bool
    rule: str | None = None
    found: bool = False

    @property
    def fold(self) -> int:
        """Give 0 to 4, the same for all pairs of a group."""
        return int(hashlib.sha256(self.group.encode()).hexdigest(), 16) % FOLDS


def main() -> None:
    """Cross-validate, report, and write the weights fitted on everything."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--cache", type=Path, default=Path("~/.cache/docstokg").expanduser())
    arguments.add_argument("--json", type=Path)
    arguments.add_argument("--not-cited", type=int, default=5, help="SciFact abstracts a claim")
    arguments.add_argument("--write", action="store_true", help="write verdict_weights.json")
    options = arguments.parse_args()
    idf, rarest = rarities(options.data)
    judge = verdicts.judge_of(
        verdicts.Weights(
            idf=idf, rarest=rarest, lexical=_NO_SCORER, dense=_NO_SCORER, searched=_NO_SCORER
        )
    )
    pairs = load_pairs(options.data, options.not_cited)
    pairs += found_pairs(options.data, pairs, judge)
    print("pairs", dict(Counter((pair.data, pair.rule or pair.kind) for pair in pairs)))
    study = Study(pairs, judge, Similarity(CachedEmbedder(OnnxMiniLm(), options.cache)))
    report = study.report()
    print(json.dumps(report, indent=1))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    if options.write:
        scorers = {kind: study.scorer(kind) for kind in KINDS}
        target = Path(verdicts.__file__).with_name("verdict_weights.json")
        target.write_text(_dump(idf, rarest, scorers, report), "utf-8")
        print("wrote", target, target.stat().st_size, "bytes")


def rarities(data: Path) -> tuple[dict[str, str], float]:
    """Count stems over the passages of all sets: ln(1 + n / df), one digit, df >= 8."""
    counts: Counter[str] = Counter()
    passages = 0
    for path in sorted(data.glob("*/passages.jsonl")):
        for line in path.read_text("utf-8").strip().split("\n"):
            counts.update(set(content_stems(json.loads(line)["text"])))
            passages += 1
    grouped: dict[str, list[str]] = defaultdict(list)
    for word, count in sorted(counts.items()):
        if count >= 8 and not word.isdigit() and len(word) < 20:
            grouped[f"{math.log(1 + passages / count):.1f}"].append(word)
    idf = {value: " ".join(grouped[value]) for value in sorted(grouped, key=float)}
    return idf, round(math.log(1 + passages / 4), 1)


def load_pairs(data: Path, not_cited: int) -> list[Pair]:
    """Read the three sets, and add false claims made by rule from their true ones."""
    pairs = [*_scifact(data / "scifact_train", not_cited), *_wice(data), *_expertqa(data)]
    rng = random.Random(7)
    made: list[Pair] = []
    for name in dict.fromkeys(pair.data for pair in pairs):
        true = [pair for pair in pairs if pair.data == name and pair.supported]
        claims = [pair.claim for pair in true]
        for rule, change in RULES.items():
            for pair in true:
                claim = change(pair.claim, rng, claims)
                if claim and claim != pair.claim and rng.random() < OTHERS_KEPT:
                    made.append(
                        Pair(name, pair.kind, pair.group, claim, pair.sentences, False, rule)
                    )
    return [*pairs, *made]


def found_pairs(data: Path, pairs: Sequence[Pair], judge: verdicts.Judge) -> list[Pair]:
    """Pair true claims, and some with another subject, with what their set says most of them."""
    rng = random.Random(7)
    abstracts = (row["text"] for row in _lines(data / "scifact_train" / "passages.jsonl"))
    texts = {"scifact": [_sentences(text) for text in abstracts]}
    for name in ("wice", "expertqa"):
        own = dict.fromkeys(tuple(pair.sentences) for pair in pairs if pair.data == name)
        texts[name] = [part for sentences in own for part in _passages(sentences)]
    made: list[Pair] = []
    for name, passages in texts.items():
        search = Bm25({str(i): " ".join(passage) for i, passage in enumerate(passages)})
        true = {p.claim: p.group for p in pairs if p.data == name and p.supported}
        claims = list(true)
        cases: list[tuple[str, str, str | None]] = [(claim, claim, None) for claim in claims]
        for claim in claims:
            other = RULES["subject"](claim, rng, claims)
            if other and rng.random() < FOUND_KEPT:
                cases.append((claim, other, "subject"))
        for origin, claim, rule in cases:
            keys = search.first(claim, FOUND_FIRST, set())
            own_passages = [passages[int(key)] for key in keys]
            if own_passages:
                best = max(own_passages, key=lambda one: _said(claim, one, judge))
                made.append(
                    Pair(name, "found", true[origin], claim, best, rule is None, rule, found=True)
                )
    return made


def _said(claim: str, sentences: Sequence[str], judge: verdicts.Judge) -> float:
    """Say how much of a claim stands in the sentence that says most of it."""
    values = features(align(read_claim(claim, judge.weigh), sentences))
    return values["together"] + values["by_one"] / 2


def _passages(sentences: Sequence[str]) -> list[list[str]]:
    """Cut a long text into passages as long as a loader's."""
    made: list[list[str]] = [[]]
    for sentence in sentences:
        if sum(map(len, made[-1])) > PASSAGE_CHARACTERS:
            made.append([])
        made[-1].append(sentence)
    return made


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").strip().split("\n")]


def _sentences(text: str) -> list[str]:
    return [text[span.start : span.end] for span in sentence_spans(text)]


def _scifact(folder: Path, not_cited: int) -> Iterable[Pair]:
    passages = {row["doc_id"]: row for row in _lines(folder / "passages.jsonl")}
    search = Bm25({key: f"{row['title']} {row['text']}" for key, row in passages.items()})
    for question in _lines(folder / "questions.jsonl"):
        claim = question["question"]
        cited: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for evidence in question["evidence"]:
            cited[evidence["doc_id"]].append(evidence)
        for doc_id, found in cited.items():
            sentences = passages[doc_id]["sentences"]
            places = {place for row in found for place in row["sentences"]}
            kind = found[0]["label"]
            yield Pair("scifact", kind, claim, claim, sentences, kind == "SUPPORT")
            rest = [text for place, text in enumerate(sentences) if place not in places]
            if kind == "SUPPORT" and rest:
                yield Pair("scifact", "without rationale", claim, claim, rest, False)
        if cited:
            for key in search.first(claim, not_cited, {*question["gold"], *cited}):
                yield Pair("scifact", "not cited", claim, claim, passages[key]["sentences"], False)


def _wice(data: Path) -> Iterable[Pair]:
    for row in _lines(data / "wice_dev" / "claims.jsonl"):
        sentences = [text for text in row["evidence"] if text.strip()]
        claim, kind = row["claim"], row["label"]
        yield Pair("wice", kind, claim, claim, sentences, kind == "supported")


def _expertqa(data: Path) -> Iterable[Pair]:
    for row in _lines(data / "expertqa_val" / "claims.jsonl"):
        sentences = [text for evidence in row["evidence"] for text in _sentences(evidence)]
        claim = re.sub(r"\s*\[\d+(?:,\s*\d+)*\]", "", row["claim"])
        if sentences:
            kind = row["support"]
            yield Pair("expertqa", kind, row["question"], claim, sentences, kind == "Complete")


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
        scores: dict[str, float] = defaultdict(float)
        for word in set(content_stems(query)):
            found = self._postings.get(word, [])
            idf = math.log(1 + (self._count - len(found) + 0.5) / (len(found) + 0.5))
            for key, weight in found:
                scores[key] += weight * idf
        ordered = sorted(scores, key=lambda key: (-scores[key], key))
        return [key for key in ordered if key not in without][:count]


class Similarity:
    """Cosines of a claim with sentences, from a cached embedder."""

    def __init__(self, embedder: CachedEmbedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Any] = {}

    def fetch(self, texts: Iterable[str]) -> None:
        """Embed what is not known yet, in batches."""
        wanted = sorted({text for text in texts if text not in self._known}, key=len)
        for at in range(0, len(wanted), 512):
            batch = wanted[at : at + 512]
            for text, vector in zip(batch, self._embedder.embed(batch, None), strict=True):
                self._known[text] = np.frombuffer(vector, dtype="<f4")

    def closeness(
        self, claim: str, sides: tuple[str, str], texts: Sequence[str]
    ) -> verdicts.Closeness:
        """Return all cosines of a claim with the sentences nearest to it, the nearest first."""
        subject, both = self.cosines(sides[0], [texts[0], sides[1]])
        (predicate,) = self.cosines(sides[1], texts[:1])
        return verdicts.Closeness(self.cosines(claim, texts), subject, predicate, both)

    def cosines(self, claim: str, texts: Sequence[str]) -> list[float]:
        """Return the cosine of the claim with each text."""
        return [float(self._known[claim] @ self._known[text]) for text in texts]


_NO_SCORER = verdicts.Scorer(features={}, bias=0.0, supported_from=1.0, weak_from=0.0)


class Study:
    """All pairs with their features and what the rules say of them."""

    def __init__(self, pairs: Sequence[Pair], judge: verdicts.Judge, similar: Similarity) -> None:
        self.pairs = pairs
        self.rows: list[dict[str, float]] = []
        self.fatal: list[bool] = []
        self.quoted: list[bool] = []
        evidence: list[list[str]] = []
        sides: list[tuple[str, str]] = []
        for pair in pairs:
            claim = read_claim(pair.claim, judge.weigh)
            sides.append(claim.sides)
            alignment = align(claim, pair.sentences)
            self.rows.append(features(alignment) | exchanged.features(alignment, pair.sentences))
            best = alignment.order[: verdicts.MOST_EVIDENCE]
            evidence.append([pair.sentences[place] for place in best])
            passage = verdicts.Passage("", " ".join(pair.sentences))
            examination = verdicts.examine(pair.claim, [passage], judge)
            self.fatal.append(bool(examination.reasons))
            self.quoted.append(examination.quoted)
        similar.fetch(
            text
            for pair, own, texts in zip(pairs, sides, evidence, strict=True)
            for text in (pair.claim, *own, *texts)
        )
        for pair, own, row, texts in zip(pairs, sides, self.rows, evidence, strict=True):
            row.update(verdicts.dense_features(similar.closeness(pair.claim, own, texts)))
        self.supported = np.array([pair.supported for pair in pairs], dtype=float)
        self.data = np.array([pair.data for pair in pairs])
        self.folds = np.array([pair.fold for pair in pairs])
        self.found = np.array([pair.found for pair in pairs])
        self.natural = np.array([pair.rule is None and not pair.found for pair in pairs])
        # Found texts where no rule sees a difference.
        seen = np.array(self.fatal) | np.array(self.quoted)
        self.unseen = self.found & ~seen

    def fitted_on(self, kind: Kind) -> Any:
        """Say which pairs a scorer is fitted on."""
        return self.natural | self.unseen if kind == "searched" else self.natural

    def scorer(self, kind: Kind) -> verdicts.Scorer:
        """Fit on all pairs of a scorer, with thresholds from the cross-validated chances."""
        fitted = self._fitted(kind, self.fitted_on(kind))
        chances = self._validated(kind)
        supported_from = _threshold(chances, self, kind)
        true = chances[self.natural & (self.supported == 1)]
        weak_from = min(supported_from, float(np.quantile(true, WEAK_BELOW)))
        return fitted.model_copy(
            update={
                "supported_from": round(supported_from, 4),
                "weak_from": round(weak_from, 4),
            }
        )

    def report(self) -> dict[str, Any]:
        """Give AUC by set (cross-validated; set left out) and who is called supported."""
        return {kind: self._report(kind) for kind in KINDS}

    def _report(self, kind: Kind) -> dict[str, Any]:
        chances = self._validated(kind)
        threshold = _threshold(chances, self, kind)
        sets = sorted(set(self.data.tolist()))
        alone, alone_found = {}, {}
        for name in sets:
            fitted = self._fitted(kind, self.fitted_on(kind) & (self.data != name))
            held = np.flatnonzero(self.natural & (self.data == name))
            own = np.array([fitted.support(self.rows[i]) for i in held])
            alone[name] = round(_auc(own, self.supported[held]), 3)
            held = np.flatnonzero(self.unseen & (self.data == name))
            own = np.array([fitted.support(self.rows[i]) for i in held])
            alone_found[name] = round(_auc(own, self.supported[held]), 3)
        called: dict[str, list[bool]] = defaultdict(list)
        for i, pair in enumerate(self.pairs):
            passes = bool(chances[i] >= threshold) and not self.fatal[i]
            where = "found: " if pair.found else "made: "
            called[f"{where}{pair.rule}" if pair.rule else f"{pair.data}: {pair.kind}"].append(
                passes
            )
        return {
            "auc_cross_validated": {
                name: round(
                    _auc(
                        chances[self.natural & (self.data == name)],
                        self.supported[self.natural & (self.data == name)],
                    ),
                    3,
                )
                for name in sets
            },
            "auc_set_left_out": alone,
            "auc_found_set_left_out": alone_found,
            "supported_from": round(threshold, 4),
            "called_supported": {
                who: {"share": round(sum(found) / len(found), 3), "n": len(found)}
                for who, found in sorted(called.items())
            },
        }

    def _validated(self, kind: Kind) -> Any:
        chances = np.zeros(len(self.pairs))
        for fold in range(FOLDS):
            fitted = self._fitted(kind, self.fitted_on(kind) & (self.folds != fold))
            for i in np.flatnonzero(self.folds == fold):
                chances[i] = fitted.support(self.rows[i])
        return chances

    def _fitted(self, kind: Kind, training: Any) -> verdicts.Scorer:
        chosen = np.flatnonzero(training)
        weights = np.zeros(len(chosen))
        for name in set(self.data[chosen].tolist()):
            for label in (0.0, 1.0):
                for found, worth in ((False, 1.0), (True, FOUND_WEIGHT)):
                    own = (self.data[chosen] == name) & (self.supported[chosen] == label)
                    own &= self.found[chosen] == found
                    weights[own] = worth / max(1, own.sum())
        weights *= len(chosen) / weights.sum()
        return logistic(
            [self.rows[i] for i in chosen], NAMES[kind], self.supported[chosen], weights
        )


def logistic(
    rows: Sequence[Mapping[str, float]], names: Sequence[str], wanted: Any, weights: Any
) -> verdicts.Scorer:
    """Fit a ridge (5) logistic regression by Newton's method on standardised features."""
    matrix = np.array([[row[name] for name in names] for row in rows])
    means, scales = matrix.mean(0), matrix.std(0) + 1e-9
    design = np.c_[(matrix - means) / scales, np.ones(len(matrix))]
    penalty = np.eye(design.shape[1]) * 5.0
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
    rounded = [[float(f"{x:.4g}") for x in part] for part in (means, scales, beta)]
    fitted = {
        name: (mean, scale, weight)
        for name, mean, scale, weight in zip(names, *rounded[:2], rounded[2][:-1], strict=True)
    }
    return verdicts.Scorer(features=fitted, bias=rounded[2][-1], supported_from=1.0, weak_from=0.0)


def _threshold(chances: Any, study: Study, kind: Kind) -> float:
    """Return the lowest threshold that no more made claims pass than may, rules applied.

    Where found ones were fitted on: of the mean of both shares.
    """
    held = np.array(study.fatal)
    true = (study.supported == 1) & ~study.found
    candidates = np.quantile(chances[true], np.linspace(0.02, 0.98, STEPS[kind]))
    made = ~study.natural & ~study.found
    found = study.found & (study.supported == 0)
    kinds = (made, found) if kind == "searched" else (made,)
    for candidate in candidates:
        passes = (chances >= candidate) & ~held
        if float(np.mean([passes[one].mean() for one in kinds])) <= FALSE_PASSING[kind]:
            return float(candidate)
    return float(candidates[-1])


def _auc(scores: Any, positive: Any) -> float:
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    count = positive.sum()
    return float(
        (ranks[positive == 1].sum() - count * (count + 1) / 2) / (count * (len(scores) - count))
    )


ONE = align(read_claim("One thing is another.", lambda stem: 1.0), ["One thing."])
LEXICAL_NAMES = tuple(features(ONE))
ALL_NAMES = (*LEXICAL_NAMES, *verdicts.DENSE_NAMES)
# Shares of all words, pairs and names say little where the text was chosen for having them.
_UNTOLD_TEXT = (
    "together subject by_one pairs_one pairs_all pairs_best names_missing names_absent "
    "numbers_missing numbers_absent cosine_first cosine_subject cosine_predicate predicate_adds"
)
SEARCHED_NAMES = (
    *(name for name in ALL_NAMES if name not in _UNTOLD_TEXT.split()),
    *exchanged.features(ONE, ["One thing."]),
)
NAMES: dict[Kind, tuple[str, ...]] = {
    "lexical": LEXICAL_NAMES,
    "dense": ALL_NAMES,
    "searched": SEARCHED_NAMES,
}


def _dump(
    idf: Mapping[str, str],
    rarest: float,
    scorers: Mapping[Kind, verdicts.Scorer],
    report: Mapping[str, Any],
) -> str:
    data = {
        "made_by": "benchmarks/train_verdicts.py",
        "licences": LICENCES,
        "report": report,
        "rarest": rarest,
        **{kind: _scorer(scorer) for kind, scorer in scorers.items()},
        "idf": idf,
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _scorer(scorer: verdicts.Scorer) -> dict[str, Any]:
    return {
        "features": {name: list(row) for name, row in scorer.features.items()},
        "bias": scorer.bias,
        "supported_from": scorer.supported_from,
        "weak_from": scorer.weak_from,
    }


if __name__ == "__main__":
    main()

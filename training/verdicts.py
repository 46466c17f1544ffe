"""Fits the weights of docstokg.domain.answer.verdicts on several sets at once, each left out once.

    python -m training.verdicts --data ../shared/data --fetched FOLDER [--write]

`--fetched` holds sarrouti/HealthVer's files as `HealthVer/healthver_dev.csv` and `..._test.csv`.

The unit is (claim, text). True: SciFact's SUPPORT abstracts, WiCE's supported claims, ExpertQA's
Complete ones, HealthVer's Supports. Not true: SciFact's CONTRADICT abstracts, its SUPPORT abstracts
without their rationale and the first five abstracts BM25 finds that are not cited; WiCE's partially
and not supported claims; ExpertQA's Partial and Incomplete ones; HealthVer's Refutes and Neutral.
HealthVer's test part is fitted on by no scorer. False claims made by code from the true ones
(training.false_claims) say what the rules of docstokg.domain.answer.contradictions catch, and
where thresholds lie. Who gives no citation has a claim held against what is found for it, which
speaks of its subject even where that was exchanged: so the true claims, and half as many with
another subject, are also paired with the passage of their whole set that says most of them.
`searched` is fitted on these pairs as well, `lexical` and `dense` on the natural ones alone. Each
set and each class weighs the same, what is found half as much. No pair may share a question or a
paragraph with the sets that answers are measured on (training.leaks).
"""

import argparse
import csv
import hashlib
import json
import math
import random
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from docstokg.adapters.onnx.minilm import OnnxMiniLm
from docstokg.adapters.sqlite.vector_cache import CachedEmbedder
from docstokg.domain.answer import verdicts
from docstokg.domain.text.sentences import sentences
from docstokg.domain.text.wording import content_stems
from docstokg_local.evaluation.calibration import roc_area
from training.answers import newton
from training.false_claims import RULES
from training.leaks import kept_texts, refuse_shared

Kind = Literal["lexical", "dense", "searched"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FOLDS = 5
FALSE_PASSING = 0.06
STEPS = 481
WEAK_BELOW = 0.2
MEASURED = ("musique100", "twowiki101", "medical_guidelines")
MADE_KEPT = 0.3
FOUND_KEPT = 0.5
FOUND_WEIGHT = 0.5
WEIGHT = {"healthver": 0.25}
"""What a set counts: HealthVer has 230 claims, most of them the topic of what they are held to."""
FOUND_FIRST = 6
NOT_CITED = 5
PASSAGE_CHARACTERS = 900
REPORTED_ONLY = "healthver test"
LICENCES = (
    "SciFact claims CC BY 4.0, abstracts ODC-By; WiCE ODC-BY; ExpertQA MIT; HealthVer as published"
)
LEXICAL = (
    "subject", "by_all_squared", "pairs_all", "names_absent", "numbers_absent", "sentences",
)  # fmt: skip
DENSE = (*LEXICAL, "cosine_best", "cosine_times_all")
SEARCHED = (
    *DENSE, "together", "own_near", "own_together", "together_near", "subject_adds", "cosine_lower",
    "cosine_sides",
)  # fmt: skip
NAMES: dict[Kind, Sequence[str]] = {"lexical": LEXICAL, "dense": DENSE, "searched": SEARCHED}


@dataclass(slots=True)
class Pair:
    """A claim with a text; `group` keeps what belongs together in one fold.

    `rule`: how a false claim was made. `found`: the text was looked for and is cited by nobody.
    """

    data: str
    kind: str
    group: str
    claim: str
    sentences: tuple[str, ...]
    supported: bool
    rule: str | None = None
    found: bool = False

    @property
    def fold(self) -> int:
        """Give 0 to 4, the same for all pairs of a group."""
        return int(hashlib.sha256(self.group.encode()).hexdigest(), 16) % FOLDS

    @property
    def text(self) -> str:
        """Give the passage, its sentences as paragraphs."""
        return "\n\n".join(self.sentences)


def main() -> None:
    """Cross-validate, report, and write the weights fitted on everything."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--fetched", type=Path, required=True)
    arguments.add_argument("--cache", type=Path, default=Path("~/.cache/docstokg").expanduser())
    arguments.add_argument("--write", action="store_true", help="write verdict_weights.json")
    options = arguments.parse_args()
    natural = [*load_pairs(options.data, options.fetched)]
    kept = kept_texts(options.data / name for name in MEASURED)
    refuse_shared(
        (pair.claim for pair in natural), (" ".join(pair.sentences) for pair in natural), kept
    )
    pairs = [*natural, *made_pairs(natural), *found_pairs(options.data, natural)]
    study = Study(pairs, CachedEmbedder(OnnxMiniLm(), options.cache))
    report = {kind: study.report(kind) for kind in KINDS}
    print(json.dumps(report, indent=1))
    if options.write:
        target = Path(verdicts.__file__).with_name("verdict_weights.json")
        target.write_text(written(study, report), "utf-8")
        print("wrote", target, target.stat().st_size, "bytes")


def load_pairs(data: Path, fetched: Path) -> Iterable[Pair]:
    """Read the pairs that people judged."""
    yield from _scifact(data / "scifact_train")
    for row in _lines(data / "wice_dev" / "claims.jsonl"):
        own = tuple(text for text in row["evidence"] if text.strip())
        claim, kind = row["claim"], row["label"]
        yield Pair("wice", kind, claim, claim, own, kind == "supported")
    for row in _lines(data / "expertqa_val" / "claims.jsonl"):
        own = tuple(text for evidence in row["evidence"] for text in sentences(evidence))
        claim = re.sub(r"\s*\[\d+(?:,\s*\d+)*\]", "", row["claim"])
        if own:
            kind = row["support"]
            yield Pair("expertqa", kind, row["question"], claim, own, kind == "Complete")
    for part, name in (("dev", "healthver"), ("test", REPORTED_ONLY)):
        with (fetched / "HealthVer" / f"healthver_{part}.csv").open(encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                claim, kind = row["claim"], row["label"]
                own = sentences(row["evidence"])
                if claim.strip() and own:
                    yield Pair(name, kind, claim, claim, own, kind == "Supports")


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").strip().split("\n")]


def _scifact(folder: Path) -> Iterable[Pair]:
    passages = {row["doc_id"]: row for row in _lines(folder / "passages.jsonl")}
    search = Bm25({key: f"{row['title']} {row['text']}" for key, row in passages.items()})
    for question in _lines(folder / "questions.jsonl"):
        claim = question["question"]
        cited: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for evidence in question["evidence"]:
            cited[evidence["doc_id"]].append(evidence)
        for doc_id, found in cited.items():
            own = passages[doc_id]["sentences"]
            places = {place for row in found for place in row["sentences"]}
            kind = found[0]["label"]
            yield Pair("scifact", kind, claim, claim, tuple(own), kind == "SUPPORT")
            rest = tuple(text for place, text in enumerate(own) if place not in places)
            if kind == "SUPPORT" and rest:
                yield Pair("scifact", "without rationale", claim, claim, rest, False)
        if cited:
            for key in search.first(claim, NOT_CITED, {*question["gold"], *cited}):
                own = passages[key]["sentences"]
                yield Pair("scifact", "not cited", claim, claim, tuple(own), False)


def made_pairs(natural: Sequence[Pair]) -> list[Pair]:
    """Make false claims by code from the true ones of the sets that are fitted on."""
    rng = random.Random(7)
    made: list[Pair] = []
    for name in dict.fromkeys(pair.data for pair in natural if pair.data != REPORTED_ONLY):
        true = [pair for pair in natural if pair.data == name and pair.supported]
        claims = [pair.claim for pair in true]
        for rule, change in RULES.items():
            for pair in true:
                claim = change(pair.claim, rng, claims)
                if claim and claim != pair.claim and rng.random() < MADE_KEPT:
                    made.append(
                        Pair(name, pair.kind, pair.group, claim, pair.sentences, False, rule)
                    )
    return made


def found_pairs(data: Path, natural: Sequence[Pair]) -> list[Pair]:
    """Pair true claims, and some with another subject, with what their set says most of them."""
    rng = random.Random(7)
    rows = _lines(data / "scifact_train" / "passages.jsonl")
    texts = {"scifact": [tuple(row["sentences"]) for row in rows]}
    for name in ("wice", "expertqa", "healthver"):
        own = dict.fromkeys(pair.sentences for pair in natural if pair.data == name)
        texts[name] = [part for all_of_it in own for part in _passages(all_of_it)]
    made: list[Pair] = []
    for name, passages in texts.items():
        search = Bm25({str(i): " ".join(passage) for i, passage in enumerate(passages)})
        true = {p.claim: p.group for p in natural if p.data == name and p.supported}
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
                best = max(own_passages, key=lambda one: _said(claim, one))
                made.append(
                    Pair(name, "found", true[origin], claim, best, rule is None, rule, found=True)
                )
    return made


def _said(claim: str, own: Sequence[str]) -> float:
    """Say how much of a claim stands in a passage together."""
    values = verdicts.examine(claim, [verdicts.Passage("", "\n\n".join(own))]).features
    return values["together"] + values["by_one"] / 2 if values else 0.0


def _passages(own: Sequence[str]) -> list[tuple[str, ...]]:
    """Cut a long text into passages as long as a loader's."""
    made: list[list[str]] = [[]]
    for sentence in own:
        if sum(map(len, made[-1])) > PASSAGE_CHARACTERS:
            made.append([])
        made[-1].append(sentence)
    return [tuple(one) for one in made]


class Bm25:
    """BM25 (k1 1.2, b 0.75, as SQLite has it) over stems, for negatives only."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._db = sqlite3.connect(":memory:")
        self._db.execute("CREATE VIRTUAL TABLE said USING fts5(key UNINDEXED, stems)")
        rows = ((key, " ".join(content_stems(text))) for key, text in texts.items())
        self._db.executemany("INSERT INTO said VALUES (?, ?)", rows)

    def first(self, query: str, count: int, without: set[str]) -> list[str]:
        """Return the best `count` keys that are not in `without`."""
        words = " OR ".join(f'"{stem}"' for stem in sorted(set(content_stems(query))))
        found = "SELECT key FROM said WHERE said MATCH ? ORDER BY rank, key"
        ordered = self._db.execute(found, (words,)) if words else ()
        return [key for (key,) in ordered if key not in without][:count]


class Study:
    """All pairs with their features and what the rules say of them."""

    def __init__(self, pairs: Sequence[Pair], embedder: CachedEmbedder) -> None:
        self.pairs = [pair for pair in pairs if any(map(str.strip, pair.sentences))]
        passages = [[verdicts.Passage("", pair.text)] for pair in self.pairs]
        examined = [
            verdicts.examine(pair.claim, own)
            for pair, own in zip(self.pairs, passages, strict=True)
        ]
        vectors = embedded(
            embedder,
            [
                text
                for one in examined
                for text in (one.claim, *one.sides, *(item.text for item in one.evidence))
            ],
        )
        self.rows = [
            verdicts.dense_features(
                one.features,
                [float(vectors[one.claim] @ vectors[item.text]) for item in one.evidence],
                sides_of(one, vectors),
            )
            for one in examined
        ]
        self.reasons = [one.reasons for one in examined]
        self.fatal = np.array([bool(one.reasons) for one in examined])
        self.supported = np.array([pair.supported for pair in self.pairs], dtype=float)
        self.data = np.array([pair.data for pair in self.pairs])
        self.folds = np.array([pair.fold for pair in self.pairs])
        self.found = np.array([pair.found for pair in self.pairs])
        self.natural = np.array([pair.rule is None and not pair.found for pair in self.pairs])
        self.reported = self.data == REPORTED_ONLY

    def fitted_on(self, kind: Kind) -> Any:
        """Say which pairs a scorer is fitted on."""
        chosen = self.natural | self.found if kind == "searched" else self.natural
        return chosen & ~self.reported

    def scorer(self, kind: Kind) -> verdicts.Scorer:
        """Fit on all pairs of a scorer, with thresholds from the cross-validated chances."""
        chances = self.validated(kind)
        supported_from = self.threshold(kind, chances)
        heard = ~np.isin(self.data, list(WEIGHT))
        true = chances[self.natural & (self.supported == 1) & ~self.reported & heard]
        weak_from = min(supported_from, float(np.quantile(true, WEAK_BELOW)))
        return self.fitted(kind, self.fitted_on(kind)).model_copy(
            update={
                "supported_from": round(supported_from, 4),
                "weak_from": round(weak_from, 4),
            }
        )

    def report(self, kind: Kind) -> dict[str, Any]:
        """Give AUC and balanced accuracy by set left out, and who is called supported."""
        chances = self.validated(kind)
        threshold = self.threshold(kind, chances)
        left_out: dict[str, dict[str, float]] = {}
        for name in sorted(set(self.data.tolist())):
            own = {name, "healthver"} if name == REPORTED_ONLY else {name}
            fitted = self.fitted(kind, self.fitted_on(kind) & ~np.isin(self.data, list(own)))
            for found in (False, True):
                held = np.flatnonzero((self.data == name) & (self.found if found else self.natural))
                if not 0 < self.supported[held].sum() < len(held):
                    continue
                scores = np.array([fitted.support(self.rows[i]) for i in held])
                right = self.supported[held]
                area = roc_area(scores.tolist(), right.astype(bool).tolist()) or 0.0
                error = auc_error(area, right.sum(), len(held) - right.sum())
                left_out[f"{name}{', found' if found else ''}"] = {
                    "auc": round(area, 3),
                    "error": round(error, 3),
                    "balanced": round(balanced((scores >= 0.5) & ~self.fatal[held], right), 3),
                    "n": len(held),
                }
        called: dict[str, list[bool]] = defaultdict(list)
        for i, pair in enumerate(self.pairs):
            where = "found: " if pair.found else "made: "
            key = f"{where}{pair.rule}" if pair.rule else f"{pair.data}: {pair.kind}"
            called[key].append(bool(chances[i] >= threshold) and not self.fatal[i])
        return {
            "set_left_out": left_out,
            "supported_from": round(threshold, 4),
            "called_supported": {
                who: {"share": round(sum(found) / len(found), 3), "n": len(found)}
                for who, found in sorted(called.items())
            },
        }

    def validated(self, kind: Kind) -> Any:
        """Return the chance of every pair from a fit on the other folds."""
        chances = np.zeros(len(self.pairs))
        for fold in range(FOLDS):
            fitted = self.fitted(kind, self.fitted_on(kind) & (self.folds != fold))
            for i in np.flatnonzero(self.folds == fold):
                chances[i] = fitted.support(self.rows[i])
        return chances

    def fitted(self, kind: Kind, training: Any) -> verdicts.Scorer:
        """Fit on some pairs: each set and each class of it weighs the same."""
        chosen = np.flatnonzero(training)
        weights = np.zeros(len(chosen))
        for name in set(self.data[chosen].tolist()):
            for label in (0.0, 1.0):
                for found, worth in ((False, 1.0), (True, FOUND_WEIGHT)):
                    own = (self.data[chosen] == name) & (self.supported[chosen] == label)
                    own &= self.found[chosen] == found
                    weights[own] = worth * WEIGHT.get(name, 1.0) / max(1, own.sum())
        weights *= len(chosen) / weights.sum()
        return logistic(
            [self.rows[i] for i in chosen], NAMES[kind], self.supported[chosen], weights
        )

    def threshold(self, kind: Kind, chances: Any) -> float:
        """Return the lowest threshold that no more made claims pass than may, rules applied.

        Where found ones were fitted on: of the mean of both shares.
        """
        made = ~self.natural & ~self.found
        found = self.found & (self.supported == 0)
        kinds = (made, found) if kind == "searched" else (made,)
        true = (self.supported == 1) & ~self.found & ~self.reported
        candidates = np.quantile(chances[true], np.linspace(0.02, 0.98, STEPS))
        for candidate in candidates:
            passes = (chances >= candidate) & ~self.fatal
            if float(np.mean([passes[one].mean() for one in kinds])) <= FALSE_PASSING:
                return float(candidate)
        return float(candidates[-1])


def embedded(embedder: CachedEmbedder, texts: Iterable[str]) -> dict[str, Any]:
    """Embed each text once, in batches of like length."""
    known: dict[str, Any] = {}
    wanted = sorted(set(texts), key=len)
    for at in range(0, len(wanted), 512):
        batch = wanted[at : at + 512]
        for text, vector in zip(batch, embedder.embed(batch, None), strict=True):
            known[text] = np.frombuffer(vector, dtype="<f4")
    return known


def sides_of(one: verdicts.Examination, vectors: Mapping[str, Any]) -> tuple[float, float, float]:
    """Compare a claim's sides with its best evidence and with each other."""
    subject, predicate = (vectors[side] for side in one.sides)
    best = vectors[one.evidence[0].text]
    return float(subject @ best), float(predicate @ best), float(subject @ predicate)


def logistic(
    rows: Sequence[Mapping[str, float]], names: Sequence[str], wanted: Any, weights: Any
) -> verdicts.Scorer:
    """Fit a ridge (5) logistic regression on standardised features."""
    matrix = np.array([[row[name] for name in names] for row in rows])
    means, scales = matrix.mean(0), matrix.std(0) + 1e-9
    design = np.c_[(matrix - means) / scales, np.ones(len(matrix))]
    beta = newton(design, wanted, weights, np.array([5.0] * len(names) + [0.0]))
    rounded = [[float(f"{x:.4g}") for x in part] for part in (means, scales, beta)]
    fitted = {
        name: (mean, scale, weight)
        for name, mean, scale, weight in zip(names, *rounded[:2], rounded[2][:-1], strict=True)
    }
    return verdicts.Scorer(features=fitted, bias=rounded[2][-1], supported_from=1.0, weak_from=0.0)


def auc_error(area: float, right: float, wrong: float) -> float:
    """Return the standard error of an AUC (Hanley and McNeil) of so many right and wrong."""
    first, second = area / (2 - area), 2 * area * area / (1 + area)
    return math.sqrt(
        (area * (1 - area) + (right - 1) * (first - area**2) + (wrong - 1) * (second - area**2))
        / (right * wrong)
    )


def balanced(called: Any, positive: Any) -> float:
    """Return the mean of the shares of positives and of negatives that are told right."""
    return float((called[positive == 1].mean() + (~called[positive == 0]).mean()) / 2)


def written(study: Study, report: Mapping[Kind, Any]) -> str:
    """Write the scorers with their card."""
    card = {"made_by": "training/verdicts.py", "licences": LICENCES, "figures": report}
    scorers = {kind: json.loads(study.scorer(kind).model_dump_json()) for kind in KINDS}
    return json.dumps({"card": card, **scorers}, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()

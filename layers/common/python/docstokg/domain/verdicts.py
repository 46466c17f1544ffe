"""Whether the passages a sentence cites say what it says, decided without calling a model."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Final, Literal

from docstokg.contracts.response import Verdict
from docstokg.domain import consistency
from docstokg.domain.citations import strip_markers
from docstokg.domain.folding import variant
from docstokg.domain.sentences import Span, sentence_spans
from docstokg.domain.wording import OPPOSITES, Quantity, Wording, read
from docstokg.domain.words import normalise

Reason = Literal[
    "number_not_in_source",
    "name_not_in_source",
    "id_not_in_source",
    "id_label_mismatch",
    "negation_mismatch",
    "contradiction_suspected",
]

_MOST_EVIDENCE: Final = 3
_CUES: Final = {
    "concludes": ("conclu", "suggest", "these findings", "these results", "these data",
                  "our results", "our findings", "our data", "thus", "therefore", "indicate"),
    "finds": ("we show", "we found", "we find", "demonstrat", "reveal", "here we", "identified",
              "we report"),
    "measures": ("result", "significan", "p <", "p<", "p=", "p =", "ci", "compared"),
    "plans": ("background", "objective", "aim", "purpose", "methods", "to investigate",
              "to determine", "we investigated", "to examine", "unknown", "unclear",
              "poorly understood", "design"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Head:
    """A logistic regression over named features: sigmoid(bias + sum of weight x scaled value)."""

    names: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float

    def logit(self, features: Mapping[str, float]) -> float:
        """Return the log odds."""
        total = self.bias
        for name, mean, scale, weight in zip(
            self.names, self.means, self.scales, self.weights, strict=True
        ):
            total += weight * (features[name] - mean) / scale
        return total


@dataclass(frozen=True, slots=True)
class Scorer:
    """Relevance and polarity heads with how they are joined (see `support`)."""

    relevance: Head
    polarity: Head
    polarity_weight: float
    supported_from: float
    weak_from: float
    slope: float
    shift: float


@dataclass(frozen=True, slots=True)
class Weights:
    """Everything fitted by benchmarks/train_verdicts.py."""

    idf: Mapping[str, float]
    rarest: float
    sentence: Head
    lexical: Scorer
    dense: Scorer

    def weigh(self, stem: str) -> float:
        """Return how rare a stem is: ln(1 + passages / passages with it)."""
        return self.idf.get(stem, self.rarest)


@dataclass(frozen=True, slots=True)
class Passage:
    """A cited passage: `base` is added to offsets in `text`; `header` names it (title, ids)."""

    uuid: str
    text: str
    base: int = 0
    header: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sentence of a passage that may support the claim."""

    uuid: str
    start: int
    end: int
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Examination:
    """A claim compared by words with what it cites; `evidence` best first, at most three.

    Compare the claim with the evidence by vectors, when there is an embedder, and `decide`.
    """

    claim: str
    evidence: tuple[Evidence, ...]
    features: Mapping[str, float]
    reasons: tuple[Reason, ...]
    quoted: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the cited passages say of a claim; `support` in [0, 1]."""

    verdict: Verdict
    support: float
    evidence: Evidence | None
    reasons: tuple[Reason, ...]


@lru_cache(maxsize=1)
def weights() -> Weights:
    """Read the committed weights."""
    text = resources.files(__package__).joinpath("verdict_weights.json").read_text("utf-8")
    return parse_weights(json.loads(text))


def parse_weights(data: Mapping[str, object]) -> Weights:
    """Build weights from the JSON that benchmarks/train_verdicts.py writes."""
    idf = _mapping(data["idf"])
    rarity = {stem: float(value) for value, stems in idf.items() for stem in str(stems).split()}
    return Weights(
        idf=rarity,
        rarest=_number(data["rarest"]),
        sentence=_head(data["sentence"]),
        lexical=_scorer(data["lexical"]),
        dense=_scorer(data["dense"]),
    )


def examine(claim: str, passages: Sequence[Passage], fitted: Weights) -> Examination:
    """Compare a claim (without markers) with the passages it cites, by words alone."""
    spans = [(passage, span) for passage in passages for span in sentence_spans(passage.text)]
    texts = [passage.text[span.start : span.end] for passage, span in spans]
    scores = sentence_scores(claim, texts, fitted) if texts else ()
    order = sorted(range(len(texts)), key=lambda index: (-scores[index], index))
    evidence = tuple(_evidence(*spans[index], scores[index]) for index in order[:_MOST_EVIDENCE])
    features = passage_features(claim, texts, scores, fitted) if texts else {}
    return Examination(
        claim=claim,
        evidence=evidence,
        features=features,
        reasons=_reasons(claim, passages, texts, order, features),
        quoted=_is_quoted(claim, passages),
    )


def decide(
    examination: Examination,
    fitted: Weights,
    cosines: Sequence[float] | None = None,
) -> Judgement:
    """Turn an examination into a verdict.

    `cosines`: of the claim with each sentence of `examination.evidence`, in its order; None
    without an embedder. A claim quoted word for word is
    supported with 1.0. A number, id or id/label pair that no cited passage holds makes it
    unsupported whatever its score; a foreign name, a changed negation or a suspected
    contradiction makes it weak at best.
    """
    if not examination.evidence:
        return Judgement("unsupported", 0.0, None, ())
    best = examination.evidence[0]
    if examination.quoted:
        return Judgement("supported", 1.0, best, ())
    features = dict(examination.features)
    scorer = fitted.lexical
    if cosines is not None and len(cosines) == len(examination.evidence):
        features |= dense_features(cosines)
        scorer = fitted.dense
    value = support(features, scorer)
    reasons = examination.reasons
    if value < scorer.weak_from or _FATAL.intersection(reasons):
        verdict: Verdict = "unsupported"
    elif value < scorer.supported_from or reasons:
        verdict = "weak"
    else:
        verdict = "supported"
    return Judgement(verdict, round(value, 4), best, reasons)


def is_settled(examination: Examination) -> bool:
    """Tell whether a rule decides, so that no comparison by meaning can change the verdict."""
    return (
        examination.quoted
        or not examination.evidence
        or bool(_FATAL.intersection(examination.reasons))
    )


def support(features: Mapping[str, float], scorer: Scorer) -> float:
    """Join the two heads: sigmoid(slope x (ln sigmoid(r + 1) + w x p) + shift).

    r, p: log odds of relevance and polarity; w = `polarity_weight`. The logarithm lets relevance
    saturate, so that among passages that are surely about the claim polarity decides.
    """
    return _sigmoid(scorer.slope * joined(features, scorer) + scorer.shift)


def joined(features: Mapping[str, float], scorer: Scorer) -> float:
    """Return the uncalibrated joint score of `support`."""
    relevance = scorer.relevance.logit(features)
    polarity = scorer.polarity.logit(features)
    saturated = -math.log1p(math.exp(-max(-60.0, relevance) - 1.0))
    return saturated + scorer.polarity_weight * polarity


def sentence_scores(claim: str, sentences: Sequence[str], fitted: Weights) -> tuple[float, ...]:
    """Return, per sentence of one text, the probability that it is evidence on the claim."""
    return tuple(
        _sigmoid(fitted.sentence.logit(features))
        for features in sentence_features(claim, sentences, fitted)
    )


def sentence_features(
    claim: str, sentences: Sequence[str], fitted: Weights
) -> list[dict[str, float]]:
    """Return the named features of each sentence as evidence on the claim."""
    wanted = read(claim)
    found = [read(sentence) for sentence in sentences]
    rarity = _rarities(wanted, fitted)
    total = sum(rarity.values()) or 1.0
    sets = [frozenset(wording.stems) for wording in found]
    covered = [_covered(rarity, stems) / total for stems in sets]
    ordered = sorted(covered)
    bigrams = _bigrams(wanted)
    count = len(sentences)
    rows: list[dict[str, float]] = []
    for index, wording in enumerate(found):
        before = sets[index - 1] if index else frozenset[str]()
        neighbours = covered[max(0, index - 1) : index] + covered[index + 1 : index + 2]
        best_other = ordered[-2] if count > 1 and covered[index] == ordered[-1] else ordered[-1]
        weight = sum(map(fitted.weigh, sets[index])) or 1.0
        low = sentences[index].lower()
        row = {
            "coverage": covered[index],
            "margin": covered[index] - best_other,
            "bigrams": len(bigrams & _bigrams(wording)) / (len(bigrams) or 1),
            "with_previous": _covered(rarity, sets[index] | before) / total,
            "names": _share(wanted.names, wording.names, 0.5),
            "numbers": 1.0 - _missing(wanted, wording.quantities) if wanted.quantities else 0.5,
            "length": math.log(1 + len(wording.stems)),
            "precision": _covered(rarity, sets[index]) / weight,
            "place": index / max(1, count - 1),
            "last": float(index == count - 1),
            "first": float(index == 0),
            "last_but_one": float(index == count - 2),
            "count": count / 10,
            "direction": float(bool(wording.ups and wanted.ups))
            + float(bool(wording.downs and wanted.downs)),
            "neighbour": max(neighbours, default=0.0),
            "has_numbers": float(bool(wording.quantities)),
        }
        row |= {cue: float(any(word in low for word in words)) for cue, words in _CUES.items()}
        rows.append(row)
    return rows


def passage_features(
    claim: str, sentences: Sequence[str], scores: Sequence[float], fitted: Weights
) -> dict[str, float]:
    """Return the named features of a whole text as support for the claim.

    `scores`: of the sentences, from `sentence_scores`.
    """
    wanted = read(claim)
    found = [read(sentence) for sentence in sentences]
    order = sorted(range(len(found)), key=lambda index: (-scores[index], index))
    best = found[order[0]]
    top = [found[index] for index in order[:_MOST_EVIDENCE]]
    rarity = _rarities(wanted, fitted)
    total = sum(rarity.values()) or 1.0
    sets = [frozenset(wording.stems) for wording in found]
    held = frozenset().union(*sets)
    odds = sorted((_logit(score) for score in scores), reverse=True)
    odds += [odds[-1]] * _MOST_EVIDENCE
    by_one, by_two, by_three = _greedy(rarity, total, sets)
    bigrams = _bigrams(wanted)
    shared = [bigrams & _bigrams(wording) for wording in found]
    absent = [weight for stem, weight in rarity.items() if stem not in held]
    rare = sorted(rarity.items(), key=lambda item: (-item[1], item[0]))[:3]
    all_numbers = [number for wording in found for number in wording.quantities]
    top_numbers = [number for wording in top for number in wording.quantities]
    opposed = [_opposed(wanted, wording) for wording in top]
    agreed = [_agreed(wanted, wording) for wording in top]
    heading = _sign(wanted.ups - wanted.downs)
    best_heading = _sign(best.ups - best.downs)
    top_heading = _sign(sum(wording.ups - wording.downs for wording in top))
    denies, best_denies = wanted.negations > 0, best.negations > 0
    any_denies = any(wording.negations for wording in top)
    missing_in_top = _missing(wanted, top_numbers)
    return {
        "first_odds": odds[0],
        "second_odds": odds[1],
        "third_odds": odds[2],
        "joint_odds": math.log(sum(map(math.exp, odds[:3]))),
        "by_one": by_one,
        "by_two": by_two,
        "by_three": by_three,
        "by_all": _covered(rarity, held) / total,
        "bigrams_best": max(len(pairs) for pairs in shared) / (len(bigrams) or 1),
        "bigrams_all": len(frozenset().union(*shared)) / (len(bigrams) or 1),
        "top_coverage": _covered(rarity, sets[order[0]]) / total,
        "top_bigrams": len(shared[order[0]]) / (len(bigrams) or 1),
        "numbers_missing": _missing(wanted, all_numbers),
        "numbers_missing_top": missing_in_top,
        "numbers": float(bool(wanted.quantities)),
        "numbers_differ": missing_in_top * float(bool(top_numbers)),
        "names_missing": 1.0 - _share(wanted.names, _names(found), 1.0),
        "names_missing_top": 1.0 - _share(wanted.names, _names(top), 1.0),
        "rarest_missing": max(absent, default=0.0),
        "stems_missing": len(absent) / (len(rarity) or 1),
        "rare_held": sum(stem in held for stem, _ in rare) / 3,
        "denies": float(denies),
        "best_denies": float(best_denies),
        "denial_differs": float(denies != best_denies),
        "top_denies": float(any_denies),
        "only_top_denies": float(any_denies and not denies),
        "opposed": float(opposed[0]),
        "opposed_top": float(sum(opposed)),
        "agreed": float(agreed[0]),
        "agreed_top": float(sum(agreed)),
        "heading": float(heading * best_heading),
        "heading_top": float(heading * top_heading),
        "says_more": float(wanted.ups > 0),
        "says_less": float(wanted.downs > 0),
        "heading_denied": float(
            heading * (-1 if denies else 1) * best_heading * (-1 if best_denies else 1)
        ),
    }


def dense_features(cosines: Sequence[float]) -> dict[str, float]:
    """Return the features of the claim's cosines with its evidence, best evidence first."""
    return {
        "cosine_top": cosines[0],
        "cosine_best": max(cosines),
        "cosine_mean": sum(cosines) / len(cosines),
    }


DENSE_NAMES: Final = tuple(dense_features([0.0]))
_FATAL: Final = frozenset[Reason]({"number_not_in_source", "id_not_in_source", "id_label_mismatch"})
_BRACKETS: Final = str.maketrans("[]{}`\u2018\u2019", "()()'''")
_CLOSE_COVERAGE: Final = 0.6


def _reasons(
    claim: str,
    passages: Sequence[Passage],
    texts: Sequence[str],
    order: Sequence[int],
    features: Mapping[str, float],
) -> tuple[Reason, ...]:
    """Return what speaks against a claim, in the order of the type."""
    if not texts:
        return ()
    wanted = read(claim)
    headed = [f"{passage.header}\n{passage.text}" for passage in passages]
    sources = [read(text) for text in texts] + [read(passage.header) for passage in passages]
    held_ids = frozenset().union(*(source.ids for source in sources))
    found: list[Reason] = []
    numbers = [number for source in sources for number in source.quantities]
    if any(number.exact and not _stated(number, numbers) for number in wanted.quantities):
        found.append("number_not_in_source")
    folded = normalise("\n".join(headed))
    if any(name not in folded for name in wanted.names if name.upper() not in wanted.ids):
        found.append("name_not_in_source")
    if wanted.ids - held_ids:
        found.append("id_not_in_source")
    if any(not _pair_held(mention, label, headed) for mention, label in _labelled(claim)):
        found.append("id_label_mismatch")
    best = read(texts[order[0]])
    close = features["top_coverage"] >= _CLOSE_COVERAGE
    if close and (wanted.negations > 0) != (best.negations > 0):
        found.append("negation_mismatch")
    if close and _opposed(wanted, best) and not features["heading"] > 0:
        found.append("contradiction_suspected")
    return tuple(found)


def _labelled(text: str) -> list[tuple[str, str]]:
    """Return (id, label) wherever a label stands beside an id."""
    return [
        (mention.id, text[start:end])
        for mention in consistency.mentions(text)
        if (place := consistency.label_beside(text, mention)) is not None
        for start, end in (place,)
    ]


def _pair_held(identifier: str, label: str, headed: Sequence[str]) -> bool:
    """Tell whether one source holds both the id and the end of the words that label it."""
    words = variant(label).split()
    for text in headed:
        if identifier.casefold() not in text.casefold():
            continue
        plain = f" {variant(text)} "
        # The label's beginning is a guess: its last word alone is no evidence unless it is all.
        tails = range(max(1, len(words) - 1)) if words else ()
        if any(f" {' '.join(words[at:])} " in plain for at in tails):
            return True
    return False


def _is_quoted(claim: str, passages: Sequence[Passage]) -> bool:
    plain = _quotable(claim).strip(" .!?\"'\u201c\u201d\u2026")
    return len(plain) > 0 and any(
        f" {plain}" in f" {_quotable(passage.text)}" for passage in passages
    )


def _quotable(text: str) -> str:
    """Return text as quotations are compared: no markers, one kind of bracket and of quote."""
    folded = normalise(strip_markers(text)).translate(_BRACKETS)
    return " ".join(folded.split())


def _evidence(passage: Passage, span: Span, score: float) -> Evidence:
    text = passage.text[span.start : span.end]
    return Evidence(
        passage.uuid, passage.base + span.start, passage.base + span.end, text, round(score, 4)
    )


def _rarities(wording: Wording, fitted: Weights) -> dict[str, float]:
    return {stem: fitted.weigh(stem) for stem in dict.fromkeys(wording.stems)}


def _covered(rarity: Mapping[str, float], stems: Set[str]) -> float:
    return sum(weight for stem, weight in rarity.items() if stem in stems)


def _greedy(
    rarity: Mapping[str, float], total: float, sets: Sequence[frozenset[str]]
) -> tuple[float, float, float]:
    """Return the share of the claim covered by the best one, two and three sentences."""
    covered: frozenset[str] = frozenset()
    shares: list[float] = []
    for _ in range(_MOST_EVIDENCE):
        covered |= max(sets, key=lambda stems: _covered(rarity, stems - covered))
        shares.append(_covered(rarity, covered) / total)
    return shares[0], shares[1], shares[2]


def _bigrams(wording: Wording) -> frozenset[tuple[str, str]]:
    return frozenset(zip(wording.stems, wording.stems[1:], strict=False))


def _share(wanted: frozenset[str], held: frozenset[str], otherwise: float) -> float:
    return len(wanted & held) / len(wanted) if wanted else otherwise


def _names(wordings: Sequence[Wording]) -> frozenset[str]:
    return frozenset().union(*(wording.names for wording in wordings))


def _missing(wanted: Wording, numbers: Sequence[Quantity]) -> float:
    """Return the share of the claim's numbers that are not among `numbers`; 0 without any."""
    if not wanted.quantities:
        return 0.0
    absent = sum(not _stated(number, numbers) for number in wanted.quantities)
    return absent / len(wanted.quantities)


def _stated(number: Quantity, numbers: Sequence[Quantity]) -> bool:
    """Tell whether `number` is stated, or is a stated number rounded to its own digits."""
    return any(
        (not number.unit or not other.unit or number.unit == other.unit)
        and (
            math.isclose(number.value, other.value, rel_tol=1e-9, abs_tol=1e-12)
            or (other.digits > number.digits and round(other.value, number.digits) == number.value)
        )
        for other in numbers
    )


def _opposed(wanted: Wording, wording: Wording) -> int:
    held = frozenset(wording.stems)
    return sum(
        1
        for stem in wanted.stems
        if stem in OPPOSITES and stem not in held and OPPOSITES[stem] & held
    )


def _agreed(wanted: Wording, wording: Wording) -> int:
    held = frozenset(wording.stems)
    return sum(1 for stem in wanted.stems if stem in OPPOSITES and stem in held)


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


def _logit(probability: float) -> float:
    inside = min(1 - 1e-6, max(1e-6, probability))
    return math.log(inside / (1 - inside))


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, value))))


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TypeError("verdict weights: an object was expected")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float):
        raise TypeError("verdict weights: a number was expected")
    return float(value)


def _head(value: object) -> Head:
    data = _mapping(value)
    features = _mapping(data["features"])
    rows = {name: [_number(part) for part in _list(row)] for name, row in features.items()}
    return Head(
        names=tuple(rows),
        means=tuple(row[0] for row in rows.values()),
        scales=tuple(row[1] for row in rows.values()),
        weights=tuple(row[2] for row in rows.values()),
        bias=_number(data["bias"]),
    )


def _scorer(value: object) -> Scorer:
    data = _mapping(value)
    return Scorer(
        relevance=_head(data["relevance"]),
        polarity=_head(data["polarity"]),
        polarity_weight=_number(data["polarity_weight"]),
        supported_from=_number(data["supported_from"]),
        weak_from=_number(data["weak_from"]),
        slope=_number(data["slope"]),
        shift=_number(data["shift"]),
    )


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("verdict weights: a list was expected")
    return value

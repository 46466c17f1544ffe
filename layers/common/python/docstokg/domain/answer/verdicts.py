"""Whether the passages a sentence cites say what it says, decided without calling a model."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Final, Literal, get_args

from docstokg.contracts.model import Contract
from docstokg.contracts.response import Verdict
from docstokg.domain.answer import consistency, tables
from docstokg.domain.answer.citations import strip_markers
from docstokg.domain.answer.claims import Alignment, Source, align, features
from docstokg.domain.answer.clauses import AUXILIARIES, read_sentences, stems_of
from docstokg.domain.answer.contradictions import (
    Difference,
    Doubt,
    differences,
    is_misplaced_number,
)
from docstokg.domain.text.folding import variant
from docstokg.domain.text.quantities import is_stated, quantities
from docstokg.domain.text.sentences import sentences
from docstokg.domain.text.wording import ids, names
from docstokg.domain.text.words import normalise

Flaw = Literal[
    "number_not_in_source", "name_not_in_source", "id_not_in_source", "id_label_mismatch"
]
Reason = Flaw | Doubt | Difference | Literal["marker_added"]

MOST_EVIDENCE: Final = 2
_FATAL: Final = frozenset(
    {*get_args(Difference), "number_not_in_source", "id_not_in_source", "id_label_mismatch"}
)
FLAWS: Final[frozenset[str]] = frozenset(get_args(Flaw))
"""Reasons about numbers, names and ids, which no other fact makes good."""

# What begins the items of a list, which a quotation puts behind each other with "; ".
_LISTED: Final = re.compile(r"\n[^\S\n]*(?:[-*+\u2022\u25cb\u00b7]|\d{1,3}[.)])[^\S\n]+")
_LEAST_QUOTED: Final = 3
_JOINT: Final = re.compile(r"[-/+]")
_PARTS: Final = re.compile(r"[^\W\d_]{3,}")
_BRACKETS: Final = str.maketrans("[]{}`\u2018\u2019", "()()'''")


class Scorer(Contract):
    """A logistic regression over named features: sigmoid(bias + sum of weight x scaled value).

    `features`: name to (mean, standard deviation, weight). A claim is supported from
    `supported_from` and weak from `weak_from`, both probabilities.
    """

    features: Mapping[str, tuple[float, float, float]]
    bias: float
    supported_from: float
    weak_from: float

    def support(self, values: Mapping[str, float]) -> float:
        """Return the probability, in [0, 1], that the text supports the claim."""
        total = self.bias
        for name, (mean, deviation, weight) in self.features.items():
            total += weight * (values[name] - mean) / deviation
        return 1 / (1 + math.exp(-max(-60.0, min(60.0, total))))


class Weights(Contract):
    """Everything fitted by training/verdicts.py; `card`: how, on what, and its figures.

    `lexical`: by words alone. `dense`: by meaning too. `searched`: for passages that were looked
    for; nobody cites them for the claim.
    """

    card: Mapping[str, object] = {}
    lexical: Scorer
    dense: Scorer
    searched: Scorer


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


@dataclass(frozen=True, slots=True)
class Examination:
    """A claim compared by words with what it cites; `evidence` best first.

    `sides`: the claim before its verb, and from it on. Compare the claim with the evidence by
    vectors, when there is an embedder, and `decide`.
    """

    claim: str
    sides: tuple[str, str]
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
    return Weights.model_validate_json(text)


def examine(claim: str, passages: Sequence[Passage]) -> Examination:
    """Compare a claim (without markers) with the passages it cites, by words alone."""
    read = [(passage, read_sentences(passage.text)) for passage in passages]
    owners = [passage for passage, sentences in read for _ in sentences]
    if not owners:
        return Examination(claim, (claim, claim), (), {}, (), quoted=False)
    sources = [Source(sentences, stems_of(passage.header)) for passage, sentences in read]
    alignment = align(claim, sources)
    evidence = tuple(
        Evidence(own.uuid, own.base + sentence.start, own.base + sentence.end, sentence.text)
        for place in alignment.order[:MOST_EVIDENCE]
        for own, sentence in ((owners[place], alignment.sentences[place]),)
    )
    return Examination(
        claim=claim,
        sides=alignment.clauses[0].sides,
        evidence=evidence,
        features=features(alignment),
        reasons=_reasons(alignment, passages),
        quoted=_is_quoted(claim, passages),
    )


def decide(
    examination: Examination,
    cosines: Sequence[float] | None = None,
    sides: tuple[float, float, float] | None = None,
) -> Judgement:
    """Turn an examination into a verdict.

    `cosines`: of the claim with each evidence; None without an embedder. `sides`: for passages that
    were looked for and nobody cites, the cosines of the claim's sides with the best evidence and
    with each other. A claim quoted word for word is supported with 1.0. A
    number, id or id/label pair that no cited passage holds makes it unsupported whatever its score,
    and so does a place that says otherwise (contradicted, subject_mismatch, restriction_mismatch);
    a foreign name or a doubt makes it weak at best.
    """
    if not examination.evidence:
        return Judgement("unsupported", 0.0, None, ())
    best = examination.evidence[0]
    if examination.quoted:
        return Judgement("supported", 1.0, best, ())
    values = dict(examination.features)
    scorer = weights().lexical
    if cosines is not None and len(cosines) == len(examination.evidence):
        values = dense_features(values, cosines, sides)
        scorer = weights().dense if sides is None else weights().searched
    support = scorer.support(values)
    if support < scorer.weak_from or _FATAL.intersection(examination.reasons):
        verdict: Verdict = "unsupported"
    elif support < scorer.supported_from or examination.reasons:
        verdict = "weak"
    else:
        verdict = "supported"
    return Judgement(verdict, round(support, 4), best, examination.reasons)


def is_settled(examination: Examination) -> bool:
    """Tell whether a rule decides, so that no comparison by meaning can change the verdict."""
    return (
        examination.quoted
        or not examination.evidence
        or bool(_FATAL.intersection(examination.reasons))
    )


def dense_features(
    values: Mapping[str, float],
    cosines: Sequence[float],
    sides: tuple[float, float, float] | None = None,
) -> dict[str, float]:
    """Return the features by meaning, beside those by words.

    With the right subject the whole claim is closer to the evidence than what is said of it alone.
    """
    best = max(cosines)
    subject, predicate, both = sides or (0.0, 0.0, 0.0)
    return {
        **values,
        "subject_adds": cosines[0] - predicate,
        "cosine_lower": min(subject, predicate),
        "cosine_sides": both,
        "cosine_best": best,
        "cosine_best_squared": best * best,
        "cosine_times_all": best * values["by_all"],
    }


def _reasons(alignment: Alignment, passages: Sequence[Passage]) -> tuple[Reason, ...]:
    """Return what speaks against a claim, in the order of the type."""
    claim = alignment.text
    headed = [f"{passage.header}\n{passage.text}" for passage in passages]
    stated = [number for sentence in alignment.sentences for number in quantities(sentence.text)]
    stated += [number for passage in passages for number in quantities(passage.header)]
    folded = normalise("\n".join(headed))
    flaws: list[Reason] = []
    if any(not is_stated(number, stated) for number in quantities(claim)) or is_misplaced_number(
        alignment
    ):
        flaws.append("number_not_in_source")
    common = frozenset(filter(str.islower, _PARTS.findall(claim)))
    own_ids = ids(claim)
    if any(
        not _has_name(name, folded, common) for name in names(claim) if name.upper() not in own_ids
    ):
        flaws.append("name_not_in_source")
    if own_ids - frozenset().union(*map(ids, headed)):
        flaws.append("id_not_in_source")
    if any(not _pair_held(mention, label, headed) for mention, label in _labelled(claim)):
        flaws.append("id_label_mismatch")
    sure, doubts = differences(alignment)
    return (*flaws, *doubts, *sure)


def _has_name(name: str, folded: str, common: Set[str]) -> bool:
    """Tell whether a text has a name, or each part of one that is put together by signs.

    A part that is a common word is no name ("mutated" of "FLT3-mutated").
    """
    return name in folded or all(
        part in folded or part in common for part in _JOINT.split(name) if part
    )


def _labelled(text: str) -> list[tuple[str, str]]:
    """Return (id, label) wherever a label stands beside an id."""
    return [
        (mention.id, text[start:end])
        for mention in consistency.mentions(text)
        if (place := consistency.label_beside(text, mention)) is not None
        for start, end in (place,)
    ]


def _pair_held(identifier: str, label: str, headed: Sequence[str]) -> bool:
    """Tell whether a source puts the words that label an id beside it.

    A source that labels the id otherwise does not; one that has it without a label does where it
    has the words at all.
    """
    tails = _tails(label)
    for text in headed:
        if identifier.casefold() not in text.casefold():
            continue
        labels = [own for other, own in _labelled(text) if other == identifier]
        plain = [f" {variant(own)} " for own in labels or [text]]
        if any(f" {tail} " in own for tail in tails for own in plain):
            return True
    return False


def _tails(label: str) -> list[str]:
    """Return the ends of the words before an id that may be its label."""
    # The label's beginning is a guess: "a code is Seizure (HP:0001250)" is labelled "Seizure".
    words = variant(label).split()
    verbs = [place for place, word in enumerate(words) if word in AUXILIARIES]
    words = words[verbs[-1] + 1 :] if verbs else words
    # Its last word alone is no evidence unless it is all.
    return [" ".join(words[at:]) for at in range(max(1, len(words) - 1) if words else 0)]


def _is_quoted(claim: str, passages: Sequence[Passage]) -> bool:
    """Tell whether a passage has a claim word for word, or each item of a list, in this order."""
    plain = _quotable(claim).strip(" .!?\"'\u201c\u201d\u2026")
    if not plain:
        return False
    texts = [f" {_quotable(text)}" for passage in passages for text in _readings(passage.text)]
    if any(f" {plain}" in text for text in texts):
        return True
    items = [item.strip(" .") for item in plain.split("; ")]
    if len(items) == 1 or any(len(item.split()) < _LEAST_QUOTED for item in items):
        return False
    listed = (_quotable(_LISTED.sub(" ", passage.text)) for passage in passages)
    return any(_is_in_order(items, f" {text}") for text in listed)


def _is_in_order(items: Sequence[str], text: str) -> bool:
    at = 0
    for item in items:
        at = text.find(f" {item}", at)
        if at < 0:
            return False
        at += len(item)
    return True


def _readings(text: str) -> tuple[str, ...]:
    """Return a passage as it stands, and each row of its tables as it is read aloud."""
    return (text, *tables.readings(sentences(text))) if "|" in text else (text,)


def _quotable(text: str) -> str:
    """Return text as quotations are compared: no markers, one kind of bracket and of quote."""
    folded = normalise(strip_markers(text)).translate(_BRACKETS)
    return " ".join(folded.split())

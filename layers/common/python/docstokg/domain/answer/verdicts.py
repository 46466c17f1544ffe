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
from docstokg.domain.answer import consistency, exchanged, tables
from docstokg.domain.answer.citations import strip_markers
from docstokg.domain.answer.claims import (
    AUXILIARIES,
    Alignment,
    align,
    features,
    is_stated,
    read_claim,
)
from docstokg.domain.answer.contradictions import (
    Difference,
    Doubt,
    differences,
    is_misplaced_number,
)
from docstokg.domain.text.folding import variant
from docstokg.domain.text.sentences import Span, sentence_spans
from docstokg.domain.text.wording import read
from docstokg.domain.text.words import normalise

Flaw = Literal[
    "number_not_in_source", "name_not_in_source", "id_not_in_source", "id_label_mismatch"
]
Reason = Flaw | Doubt | Difference | Literal["marker_added"]

MOST_EVIDENCE: Final = 3
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
_ROMAN: Final = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x")
_COUNTED_TEXT: Final = (
    "stage stages grade grades type types class classes phase phases level levels part parts "
    "chapter volume version"
)
_COUNTED: Final = tuple(_COUNTED_TEXT.split())
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
    """Everything fitted by benchmarks/train_verdicts.py.

    `idf`: ln(1 + passages / passages with a stem), written as text, to the stems that have it,
    separated by spaces; other stems have `rarest`. `report`: the figures of that fit.
    `searched`: for passages that were looked for, by words and meaning; nobody cites them for the
    claim.
    """

    made_by: str = ""
    licences: str = ""
    report: Mapping[str, object] = {}
    idf: Mapping[str, str]
    rarest: float
    lexical: Scorer
    dense: Scorer
    searched: Scorer

    def rarities(self) -> Mapping[str, float]:
        """Return the rarity of every known stem."""
        return {stem: float(value) for value, stems in self.idf.items() for stem in stems.split()}


@dataclass(frozen=True, slots=True)
class Judge:
    """Fitted weights ready for use: `weigh` gives the rarity of any stem."""

    weights: Weights
    rarities: Mapping[str, float]

    def weigh(self, stem: str) -> float:
        """Return how rare a stem is."""
        return self.rarities.get(stem, self.weights.rarest)


@dataclass(frozen=True, slots=True)
class Passage:
    """A cited passage: `base` is added to offsets in `text`; `header` names it (title, ids)."""

    uuid: str
    text: str
    base: int = 0
    header: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sentence of a passage that may support the claim; `score`: share of the claim in it."""

    uuid: str
    start: int
    end: int
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Examination:
    """A claim compared by words with what it cites; `evidence` best first, at most three.

    `sides`: the claim before its verb, and from its verb on. Compare claim and sides with the
    evidence by vectors, when there is an embedder, and `decide`.
    """

    claim: str
    sides: tuple[str, str]
    evidence: tuple[Evidence, ...]
    features: Mapping[str, float]
    reasons: tuple[Reason, ...]
    quoted: bool


@dataclass(frozen=True, slots=True)
class Closeness:
    """Cosines of an examination: its claim with each evidence, best evidence first.

    `subject`, `predicate`: of the claim's sides with the best evidence; `sides`: of both.
    """

    evidence: Sequence[float]
    subject: float
    predicate: float
    sides: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the cited passages say of a claim; `support` in [0, 1]."""

    verdict: Verdict
    support: float
    evidence: Evidence | None
    reasons: tuple[Reason, ...]


@lru_cache(maxsize=1)
def judge() -> Judge:
    """Read the committed weights."""
    text = resources.files(__package__).joinpath("verdict_weights.json").read_text("utf-8")
    return judge_of(Weights.model_validate_json(text))


def judge_of(weights: Weights) -> Judge:
    """Make weights ready for use."""
    return Judge(weights, weights.rarities())


def examine(claim: str, passages: Sequence[Passage], fitted: Judge) -> Examination:
    """Compare a claim (without markers) with the passages it cites, by words alone."""
    spans = [
        (number, span)
        for number, passage in enumerate(passages)
        for span in sentence_spans(passage.text)
    ]
    texts = [passages[number].text[span.start : span.end] for number, span in spans]
    if not texts:
        return Examination(claim, (claim, claim), (), {}, (), quoted=False)
    heading = " ".join(passage.header for passage in passages)
    read_as = read_claim(claim, fitted.weigh)
    alignment = align(read_as, texts, heading, [number for number, _ in spans])
    best = alignment.order[:MOST_EVIDENCE]
    evidence = tuple(
        _evidence(passages[number], span, _score(alignment, place))
        for place in best
        for number, span in (spans[place],)
    )
    return Examination(
        claim=claim,
        sides=read_as.sides,
        evidence=evidence,
        features=features(alignment) | exchanged.features(alignment, texts),
        reasons=_reasons(alignment, passages, texts),
        quoted=_is_quoted(claim, passages),
    )


def about_subject(claim: str, passages: Sequence[Passage]) -> list[Passage]:
    """Leave out what was found in other documents where a claim begins with the name of one."""
    names = [passage.header.partition("\n")[0] for passage in passages]
    of_it = exchanged.of_title(claim, names, [passage.text for passage in passages])
    return [passage for passage, own in zip(passages, of_it, strict=True) if own]


def decide(
    examination: Examination,
    fitted: Judge,
    closeness: Closeness | None = None,
    *,
    searched: bool = False,
) -> Judgement:
    """Turn an examination into a verdict.

    `closeness`: None without an embedder. `searched`: the passages were looked for, nobody cites
    them. A claim quoted word for word is supported with 1.0. A number, id or id/label pair that no
    cited passage holds makes it unsupported whatever its score, and so does a sentence that says
    otherwise (contradicted, subject_mismatch, restriction_mismatch); a foreign name or a doubt
    makes it weak at best.
    """
    if not examination.evidence:
        return Judgement("unsupported", 0.0, None, ())
    best = examination.evidence[0]
    if examination.quoted:
        return Judgement("supported", 1.0, best, ())
    values = dict(examination.features)
    scorer = fitted.weights.lexical
    if closeness is not None and len(closeness.evidence) == len(examination.evidence):
        values |= dense_features(closeness)
        scorer = fitted.weights.searched if searched else fitted.weights.dense
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


def dense_features(closeness: Closeness) -> dict[str, float]:
    """Return the features by meaning.

    What a side adds to the other tells a claim whose subject was exchanged: with the right one
    the whole claim is closer to the evidence than what is said of the subject alone.
    """
    cosines = closeness.evidence
    return {
        "cosine_first": cosines[0],
        "cosine_best": max(cosines),
        "cosine_mean": sum(cosines) / len(cosines),
        "cosine_subject": closeness.subject,
        "cosine_predicate": closeness.predicate,
        "subject_adds": cosines[0] - closeness.predicate,
        "predicate_adds": cosines[0] - closeness.subject,
        "cosine_lower": min(closeness.subject, closeness.predicate),
        "cosine_sides": closeness.sides,
    }


DENSE_NAMES: Final = tuple(dense_features(Closeness([0.0], 0.0, 0.0, 0.0)))


def _reasons(
    alignment: Alignment, passages: Sequence[Passage], texts: Sequence[str]
) -> tuple[Reason, ...]:
    """Return what speaks against a claim, in the order of the type."""
    wording = alignment.claim.wording
    headed = [f"{passage.header}\n{passage.text}" for passage in passages]
    sources = [*alignment.readings, *(read(passage.header) for passage in passages)]
    held_ids = frozenset().union(*(source.ids for source in sources))
    numbers = [number for source in sources for number in source.quantities]
    folded = normalise("\n".join(headed))
    flaws: list[Reason] = []
    if any(number.exact and not is_stated(number, numbers) for number in wording.quantities) or (
        is_misplaced_number(alignment, texts)
    ):
        flaws.append("number_not_in_source")
    common = frozenset(filter(str.islower, _PARTS.findall(alignment.claim.text)))
    if any(
        not _has_name(name, folded, common)
        for name in wording.names
        if name.upper() not in wording.ids
    ):
        flaws.append("name_not_in_source")
    if wording.ids - held_ids:
        flaws.append("id_not_in_source")
    if any(
        not _pair_held(mention, label, headed) for mention, label in _labelled(alignment.claim.text)
    ):
        flaws.append("id_label_mismatch")
    sure, doubts = differences(alignment, texts)
    return (*flaws, *doubts, *sure)


def _has_name(name: str, folded: str, common: Set[str] = frozenset()) -> bool:
    """Tell whether a text has a name, or each part of one that is put together by signs.

    A part that is a common word is no name ("mutated" of "FLT3-mutated"), and "stage II" may be
    written "stage 2".
    """
    return name in folded or all(
        part in folded or part in common or _is_counted(part, folded)
        for part in _JOINT.split(name)
        if part
    )


def _is_counted(numeral: str, folded: str) -> bool:
    """Tell whether a text counts stages and the like up to a Roman numeral, in digits."""
    if numeral not in _ROMAN:
        return False
    digit = _ROMAN.index(numeral) + 1
    return any(f" {noun} {digit}" in folded for noun in _COUNTED)


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
    # The label's beginning is a guess: "a code is Seizure (HP:0001250)" is labelled "Seizure".
    words = variant(label).split()
    verbs = [place for place, word in enumerate(words) if word in AUXILIARIES]
    words = words[verbs[-1] + 1 :] if verbs else words
    for text in headed:
        if identifier.casefold() not in text.casefold():
            continue
        plain = f" {variant(text)} "
        # Its last word alone is no evidence unless it is all.
        tails = range(max(1, len(words) - 1)) if words else ()
        if any(f" {' '.join(words[at:])} " in plain for at in tails):
            return True
    return False


def _is_quoted(claim: str, passages: Sequence[Passage]) -> bool:
    """Tell whether a passage has a claim word for word, or each item of a list, in this order."""
    plain = _quotable(claim).strip(" .!?\"'\u201c\u201d\u2026")
    if not plain:
        return False
    texts = [f" {_quotable(text)}" for passage in passages for text in _readings(passage)]
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


def _readings(passage: Passage) -> tuple[str, ...]:
    """Return a passage as it stands, and each row of its tables as it is read aloud."""
    if "|" not in passage.text:
        return (passage.text,)
    sentences = [passage.text[start:end] for start, end in sentence_spans(passage.text)]
    return (passage.text, *tables.readings(sentences))


def _quotable(text: str) -> str:
    """Return text as quotations are compared: no markers, one kind of bracket and of quote."""
    folded = normalise(strip_markers(text)).translate(_BRACKETS)
    return " ".join(folded.split())


def _score(alignment: Alignment, place: int) -> float:
    return min(alignment.subject[place], alignment.predicate[place])


def _evidence(passage: Passage, span: Span, score: float) -> Evidence:
    text = passage.text[span.start : span.end]
    return Evidence(
        passage.uuid, passage.base + span.start, passage.base + span.end, text, round(score, 4)
    )

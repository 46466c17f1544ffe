"""A claim laid beside the clauses and sentences of the texts it is held against, by words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from docstokg.domain.answer.clauses import Clause, Sentence, read_clauses
from docstokg.domain.answer.lexicon import lexicon
from docstokg.domain.text.quantities import is_stated
from docstokg.domain.text.wording import Wording, read

_HEADING: Final = 0.85
_BESIDE: Final = 0.5
_NUMBER: Final = "#"


@dataclass(frozen=True, slots=True)
class Source:
    """A text that a claim is held against: its sentences and what its heading names."""

    sentences: tuple[Sentence, ...]
    heading: frozenset[str]


@dataclass(frozen=True, slots=True)
class Place:
    """One clause of a source: `near`: the stems of its sentence and of those beside it."""

    clause: Clause
    sentence: int
    source: int
    near: frozenset[str]
    heading: frozenset[str]


@dataclass(frozen=True, slots=True)
class Match:
    """A clause of the claim beside the place that says most of it; shares in [0, 1]."""

    clause: Clause
    place: Place
    subject: float
    predicate: float
    said: float


@dataclass(frozen=True)
class Alignment:
    """A claim beside its sources, which hold at least one sentence in all.

    `sentences`: of all sources, in order. `order`: places of sentences, the one that says most of
    the claim first.
    """

    text: str
    wording: Wording
    clauses: tuple[Clause, ...]
    sentences: tuple[Sentence, ...]
    places: tuple[Place, ...]
    matches: tuple[Match, ...]
    order: tuple[int, ...]
    near: tuple[frozenset[str], ...]
    heading: frozenset[str]

    @cached_property
    def rarities(self) -> Mapping[str, float]:
        """Give the rarities of the claim's stems."""
        return rarities(frozenset().union(*(clause.own for clause in self.clauses)))

    @cached_property
    def held(self) -> frozenset[str]:
        """Give the stems that stand anywhere in the sources."""
        return self.heading.union(*(sentence.stems for sentence in self.sentences))


def rarities(stems: Set[str]) -> dict[str, float]:
    """Return how rare each stem is."""
    known = lexicon()
    return {name: known.rarity(name) for name in stems}


def share(wanted: Mapping[str, float], stems: Set[str]) -> float:
    """Return the share by rarity of what is wanted that `stems` hold; 1 when nothing is."""
    total = sum(wanted.values())
    return sum(v for name, v in wanted.items() if name in stems) / total if total else 1.0


def covered(wanted: Mapping[str, float], place: Place) -> float:
    """Return the share that a place says: itself, its heading (0.85) and what is near it (0.5)."""
    total = sum(wanted.values())
    if not total:
        return 1.0
    own = place.clause.stems
    return (
        sum(
            value
            if name in own
            else value * _HEADING
            if name in place.heading
            else value * _BESIDE
            if name in place.near
            else 0.0
            for name, value in wanted.items()
        )
        / total
    )


def align(text: str, sources: Sequence[Source]) -> Alignment:
    """Lay a claim beside its sources.

    The best place for a clause has the highest min(subject, predicate) + half of all that it says;
    the best sentence says most of the claim. Ties go to the earlier one.
    """
    sentences = tuple(sentence for source in sources for sentence in source.sentences)
    near: list[frozenset[str]] = []
    places: list[Place] = []
    for number, source in enumerate(sources):
        stems = [sentence.stems for sentence in source.sentences]
        for at, sentence in enumerate(source.sentences):
            beside = stems[at : at + 1] if sentence.is_row else stems[max(0, at - 1) : at + 2]
            around = frozenset().union(*beside)
            places += [
                Place(clause, len(near), number, around, source.heading)
                for clause in sentence.clauses
            ]
            near.append(around)
    clauses = read_clauses(text)
    matches = tuple(_match(clause, places) for clause in clauses) if places else ()
    wanted = rarities(frozenset().union(*(clause.own for clause in clauses)))
    best = {match.place.sentence: match.said for match in matches}
    scores = [
        share(wanted, sentence.stems) + 0.5 * best.get(at, 0.0)
        for at, sentence in enumerate(sentences)
    ]
    order = tuple(sorted(range(len(sentences)), key=lambda at: (-scores[at], at)))
    heading = frozenset().union(*(source.heading for source in sources))
    return Alignment(
        text, read(text), clauses, sentences, tuple(places), matches, order, tuple(near), heading
    )


def _match(clause: Clause, places: Sequence[Place]) -> Match:
    subject, predicate = sides(clause)
    best: Match | None = None
    best_score = -1.0
    for place in places:
        held = place.clause.stems | place.heading
        about, says = covered(subject, place), share(predicate, held)
        said = share({**subject, **predicate}, held)
        score = min(about, says) + said / 2
        if score > best_score:
            best, best_score = Match(clause, place, about, says, said), score
    assert best is not None  # there are places
    return best


def sides(clause: Clause) -> tuple[dict[str, float], dict[str, float]]:
    """Return the rarities of a clause's subject, its own or the one it takes over, and the rest."""
    subject = clause.subject or (clause.taken - clause.verb)
    return rarities(subject), rarities((clause.verb | clause.rest) - subject)


def features(alignment: Alignment) -> dict[str, float]:
    """Return the named features of sources as support for a claim, by words alone."""
    wanted, matches = alignment.rarities, alignment.matches
    readings = [read(sentence.text) for sentence in alignment.sentences]
    pairs = bigrams(alignment.wording)
    by_all = share(wanted, alignment.held)
    return {
        "by_clause": sum(match.said for match in matches) / len(matches),
        "subject": min(match.subject for match in matches),
        "together": min(min(match.subject, match.predicate) for match in matches),
        "by_one": max(share(wanted, sentence.stems) for sentence in alignment.sentences),
        "by_all": by_all,
        "by_all_squared": by_all * by_all,
        "pairs_all": len(pairs & frozenset().union(*map(bigrams, readings))) / (len(pairs) or 1),
        **_own(alignment),
        "names_absent": _names_missing(alignment.wording, readings),
        "numbers_absent": _numbers_missing(alignment.wording, readings),
        "sentences": math.log(len(readings)),
    }


def _own(alignment: Alignment) -> dict[str, float]:
    """Return what tells a claim whose subject was exchanged: the words its sides do not share.

    "Mouth cancer staging is recommended for stage 3 colon cancer" has "cancer" and "stage" on both
    sides, and any text about colon cancer holds them: only "mouth" is the subject's own.
    """
    first = alignment.clauses[0].subject
    second = frozenset().union(*(clause.own for clause in alignment.clauses)) - first
    second |= alignment.clauses[0].verb | alignment.clauses[0].rest
    subject, predicate = rarities(first - second or first), rarities(second - first or second)
    around = [near | alignment.heading for near in alignment.near]
    return {
        "own_near": share(subject, around[alignment.order[0]]),
        "own_together": max(
            share(subject, near) * share(predicate, sentence.stems)
            for near, sentence in zip(around, alignment.sentences, strict=True)
        ),
        "together_near": max(
            min(share(rarities(first), near), share(rarities(second), near)) for near in around
        ),
    }


def bigrams(wording: Wording) -> frozenset[tuple[str, str]]:
    """Return the pairs of neighbouring content stems."""
    return frozenset(zip(wording.stems, wording.stems[1:], strict=False))


def _names_missing(claim: Wording, readings: Sequence[Wording]) -> float:
    held = frozenset().union(*(reading.names for reading in readings))
    return 1 - len(claim.names & held) / len(claim.names) if claim.names else 0.0


def _numbers_missing(claim: Wording, readings: Sequence[Wording]) -> float:
    if not claim.quantities:
        return 0.0
    numbers = [number for reading in readings for number in reading.quantities]
    absent = sum(not is_stated(number, numbers) for number in claim.quantities)
    return absent / len(claim.quantities)

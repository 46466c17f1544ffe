"""Answers from two linked sentences of two documents."""

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

from docstokg.domain.answer.reader_features import Candidate, alike, rarities, stems
from docstokg.domain.text.names import capitalised_names
from docstokg.domain.text.words import fold


class Pair(NamedTuple):
    """Two candidates in quotation order, by index.

    `signs`: features for the decision to quote both. `covered`: share of the question's words,
    weighted by rarity, in both with titles. `bridge`: rarity of the rarest shared name. `gain`:
    `covered` minus the highest share of one passage. `choice`: the better score minus the best of
    all.
    """

    first: int
    second: int
    signs: dict[str, float]


def pairs(query: str, found: Sequence[Candidate], scores: Sequence[float]) -> list[Pair]:
    """Return the pairs from two documents that share a name which is not in the question.

    The first candidate contains a word of the question, the second another one. Two that differ
    only in a value are no pair.
    """
    asked: dict[str, float] = {}
    passages: dict[int, dict[str, float]] = {}
    for one in found:
        asked.update(one.asked)
        passages.setdefault(one.block.rank, {}).update(one.asked)
    total = sum(asked.values())
    most = max((sum(own.values()) for own in passages.values()), default=0.0)
    made = []
    for (first, second), bridge in _bridges(query, found).items():
        one, other = found[first], found[second]
        if one.asked and other.asked.keys() - one.asked.keys() and not alike(one, other):
            covered = sum({**one.asked, **other.asked}.values())
            signs = {
                "covered": covered / total,
                "bridge": bridge / total,
                "gain": (covered - most) / total,
                "choice": max(scores[first], scores[second]) - max(scores),
            }
            made.append(Pair(first, second, signs))
    return made


def _bridges(query: str, found: Sequence[Candidate]) -> dict[tuple[int, int], float]:
    known = f" {fold(query)} "
    sharing: dict[str, list[int]] = {}
    for place, one in enumerate(found):
        for name in _names(one):
            if f" {name} " not in known:
                sharing.setdefault(name, []).append(place)
    rarity = rarities([one.words.union(stems(one.block.subject)) for one in found])
    bridges: dict[tuple[int, int], float] = {}
    for name, places in sharing.items():
        bridge = sum(rarity.get(stem, 0.0) for stem in stems(name))
        for pair in permutations(places, 2):
            documents = {found[place].block.document_name for place in pair}
            if len(documents) > 1:
                bridges[pair] = max(bridge, bridges.get(pair, 0.0))
    return bridges


def _names(one: Candidate) -> frozenset[str]:
    text = f"{one.block.subject}. {one.unit.shown}"
    return frozenset(folded for name in capitalised_names(text) if len(folded := fold(name)) > 2)

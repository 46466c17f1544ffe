"""Answers from two linked sentences."""

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

from docstokg.domain.answer.reader_features import Candidate, alike, rarities, stems
from docstokg.domain.text.names import capitalised_names
from docstokg.domain.text.words import fold


class Pair(NamedTuple):
    """Candidates in quotation order, by index.

    `signs`: decision features. `covered`: share of the question's words, weighted by rarity, in
    both with titles. `bridge`: rarity of the rarest shared name. `gain`: `covered` minus the
    highest share of one passage. `choice`: the better score minus the best of all.
    """

    places: tuple[int, ...]
    signs: dict[str, float]


def pairs(query: str, found: Sequence[Candidate], scores: Sequence[float]) -> list[Pair]:
    """Return, unordered, the pairs from two documents that share a name not in the question.

    The first candidate contains a word of the question, the second another one; none that are
    `alike`. `scores`: of `found`, for the feature `choice`.
    """
    made = []
    for (first, second), bridge in _bridges(query, found).items():
        one, other = found[first], found[second]
        if one.asked and other.asked.keys() - one.asked.keys() and not alike(one, other):
            made.append(Pair((first, second), signs_of(found, scores, (first, second), bridge)))
    return made


def along(found: Sequence[Candidate], scores: Sequence[float]) -> Pair | None:
    """Return the candidates that state the graph's path between two names of the question.

    The best one for each edge, in the order of the path; None without a path, or a candidate for an
    edge.
    """
    steps = sorted({(*step, one.block.rank) for one in found for step in one.block.steps})
    quoted: dict[int, None] = {}
    for _, start, end, rank in steps:
        stating = [
            place
            for place, one in enumerate(found)
            if one.block.rank == rank and one.unit.start < end and start < one.unit.end
        ]
        if not stating:
            return None
        quoted[max(stating, key=scores.__getitem__)] = None
    return Pair(tuple(quoted), signs_of(found, scores, tuple(quoted), 0.0)) if quoted else None


def signs_of(
    found: Sequence[Candidate], scores: Sequence[float], places: Sequence[int], bridge: float
) -> dict[str, float]:
    """Return the features of candidates quoted together; `bridge`: rarity of their shared name.

    Raise ValueError without candidates or places.
    """
    asked: dict[str, float] = {}
    passages: dict[int, dict[str, float]] = {}
    for one in found:
        asked.update(one.asked)
        passages.setdefault(one.block.rank, {}).update(one.asked)
    total = sum(asked.values()) or 1.0
    most = max(sum(own.values()) for own in passages.values())
    together: dict[str, float] = {}
    for place in places:
        together.update(found[place].asked)
    covered = sum(together.values())
    return {
        "covered": covered / total,
        "bridge": bridge / total,
        "gain": (covered - most) / total,
        "choice": max(scores[place] for place in places) - max(scores),
    }


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


def _names(one: Candidate) -> list[str]:
    text = f"{one.block.subject}. {one.unit.shown}"
    found = (fold(name) for name in capitalised_names(text))
    return sorted({name for name in found if len(name) > 2})

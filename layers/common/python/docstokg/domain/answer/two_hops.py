"""Answers from two linked sentences."""

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

from docstokg.domain.answer.reader_features import Candidate, alike, rarities, stems
from docstokg.domain.text.names import capitalised_names
from docstokg.domain.text.words import fold

# Words before a sentence's subject: "In 1968, the ...".
_OPENING = 3


class Pair(NamedTuple):
    """Candidates in quotation order, by index.

    `signs`: decision features. `covered`: share of the question's words, weighted by rarity, in
    both with titles. `bridge`: rarity of the rarest shared name. `gain`: `covered` minus the
    highest share of one passage. `choice`: the better score minus the best of all.
    """

    places: tuple[int, ...]
    signs: dict[str, float]


def pairs(query: str, pool: Sequence[Candidate], scores: Sequence[float]) -> list[Pair]:
    """Return, unordered, the pairs from two documents that share a name not in the question.

    The first candidate contains a word of the question; the second another each, and is about the
    shared name: its subject, row key or title. None that are `alike`. `scores`: of `pool`, for the
    feature `choice`.
    """
    result = []
    for (first, second), bridge in _bridges(query, pool).items():
        start, end = pool[first], pool[second]
        if (
            start.covered
            and end.covered.keys() - start.covered.keys()
            and not alike(start.words, end.words)
        ):
            signs = signs_together(pool, scores, (first, second), bridge)
            result.append(Pair((first, second), signs))
    return result


def along(pool: Sequence[Candidate], scores: Sequence[float]) -> Pair | None:
    """Return the candidates that state the graph's path between two names of the question.

    The best of each edge, in the order of the path; None without a path or a candidate.
    """
    steps = sorted({(*step, each.block.rank) for each in pool for step in each.block.steps})
    quoted: dict[int, None] = {}
    for _, start, end, rank in steps:
        stating = [
            place
            for place, candidate in enumerate(pool)
            if candidate.block.rank == rank
            and candidate.unit.start < end
            and start < candidate.unit.end
        ]
        if not stating:
            return None
        quoted[max(stating, key=scores.__getitem__)] = None
    return Pair(tuple(quoted), signs_together(pool, scores, tuple(quoted), 0.0)) if quoted else None


def signs_together(
    pool: Sequence[Candidate], scores: Sequence[float], places: Sequence[int], bridge: float
) -> dict[str, float]:
    """Return the features of candidates quoted together; `bridge`: rarity of their shared name.

    Raise ValueError without candidates or places.
    """
    words: dict[str, float] = {}
    passages: dict[int, dict[str, float]] = {}
    for each in pool:
        words.update(each.covered)
        passages.setdefault(each.block.rank, {}).update(each.covered)
    total = sum(words.values()) or 1.0
    highest = max(sum(weights.values()) for weights in passages.values())
    together: dict[str, float] = {}
    for place in places:
        together.update(pool[place].covered)
    covered = sum(together.values())
    return {
        "covered": covered / total,
        "bridge": bridge / total,
        "gain": (covered - highest) / total,
        "choice": max(scores[place] for place in places) - max(scores),
    }


def _bridges(query: str, pool: Sequence[Candidate]) -> dict[tuple[int, int], float]:
    question = f" {fold(query)} "
    sharing: dict[str, list[int]] = {}
    for place, candidate in enumerate(pool):
        for name in _names(candidate):
            if f" {name} " not in question:
                sharing.setdefault(name, []).append(place)
    rarity = rarities([each.words.union(stems(each.block.subject)) for each in pool])
    bridges: dict[tuple[int, int], float] = {}
    for name, places in sharing.items():
        bridge = sum(rarity.get(stem, 0.0) for stem in stems(name))
        for pair in permutations(places, 2):
            documents = {pool[place].block.document_name for place in pair}
            if len(documents) > 1 and _is_about(pool[pair[1]], name):
                bridges[pair] = max(bridge, bridges.get(pair, 0.0))
    return bridges


def _is_about(candidate: Candidate, name: str) -> bool:
    """Return whether a name is in the title or in the first words of a candidate."""
    words = fold(candidate.unit.text).split()[: len(name.split()) + _OPENING]
    return f" {name} " in f" {fold(candidate.block.subject)} " or f" {name} " in (
        f" {' '.join(words)} "
    )


def _names(candidate: Candidate) -> list[str]:
    text = f"{candidate.block.subject}. {candidate.unit.text}"
    names = (fold(name) for name in capitalised_names(text))
    return sorted({name for name in names if len(name) > 2})

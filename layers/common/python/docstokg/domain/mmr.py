"""Greedy selection of passages that are relevant, new and from several documents."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from docstokg.domain.vectors import matrix

LAMBDA = 0.7
REPETITION_FROM = 0.7

# Penalty per selected passage of the same document: docs/decisions/several-documents.md.
SAME_DOCUMENT = 0.06
LEAST_DOCUMENTS = 3
# Places by which a passage falls per passage of the same document before it.
FALL = 2


def select(
    relevance: Sequence[float],
    vectors: Sequence[bytes | None],
    count: int,
    documents: Sequence[str | None] = (),
) -> list[int]:
    """Select up to `count` positions by maximal marginal relevance (Carbonell, Goldstein 1998).

    mmr(d) = 0.7 * rel(d) / max rel - 0.3 * max over picked p of max(0, (cos(d, p) - 0.7) / 0.3)
    - 0.06 * picked passages of its document. `relevance` >= 0, in rank order; ties keep it.
    Candidates without a vector (None) have similarity 0, those without a document no penalty, nor
    has any candidate if `documents` are fewer than three.
    """
    size = len(relevance)
    if size == 0 or count <= 0:
        return []
    best = max(relevance)
    scaled = LAMBDA * np.asarray(relevance, dtype=np.float64) / (best if best > 0 else 1.0)
    having = [position for position, vector in enumerate(vectors) if vector is not None]
    row = {position: index for index, position in enumerate(having)}
    rows = matrix([vector for vector in vectors if vector is not None])
    positions = np.asarray(having, dtype=np.intp)
    repeated = np.zeros(size)
    numbers = _numbers(documents)
    passages = np.zeros(size)
    taken = np.zeros(size, dtype=bool)
    picked: list[int] = []
    for _ in range(min(count, size)):
        penalty = (1 - LAMBDA) * repeated + SAME_DOCUMENT * passages
        value = np.where(taken, -np.inf, scaled - penalty)
        choice = int(np.argmax(value))
        picked.append(choice)
        taken[choice] = True
        if numbers is not None and numbers[choice] >= 0:
            passages += numbers == numbers[choice]
        if choice in row:
            cosine = rows @ rows[row[choice]]
            similar = np.maximum(0.0, (cosine - REPETITION_FROM) / (1 - REPETITION_FROM))
            repeated[positions] = np.maximum(repeated[positions], similar)
    return picked


def spread(documents: Sequence[str | None]) -> list[int]:
    """Return the positions of ranked passages so that those of one document stand apart.

    Each falls two places per passage of its document before it; ties keep the order. Passages
    without a document stay, and all do if there are fewer than three documents.
    """
    numbers = _numbers(documents)
    if numbers is None:
        return list(range(len(documents)))
    before: dict[int, int] = {}
    places: list[int] = []
    for position, number in enumerate(numbers.tolist()):
        places.append(position + FALL * before.get(number, 0))
        before[number] = before.get(number, 0) + (number >= 0)
    return sorted(range(len(places)), key=places.__getitem__)


def _numbers(documents: Sequence[str | None]) -> NDArray[np.intp] | None:
    number_of: dict[str | None, int] = {None: -1}
    numbers = [number_of.setdefault(document, len(number_of)) for document in documents]
    return np.asarray(numbers, dtype=np.intp) if len(number_of) > LEAST_DOCUMENTS else None

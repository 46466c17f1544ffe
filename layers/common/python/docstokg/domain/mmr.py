"""Greedy maximal marginal relevance."""

from collections.abc import Sequence

import numpy as np

from docstokg.domain.vectors import matrix

LAMBDA = 0.7
REPETITION_FROM = 0.7


def select(relevance: Sequence[float], vectors: Sequence[bytes | None], count: int) -> list[int]:
    """Select up to `count` positions by maximal marginal relevance (Carbonell, Goldstein 1998).

    mmr(d) = 0.7 * rel(d) / max rel - 0.3 * max over picked p of max(0, (cos(d, p) - 0.7) / 0.3).
    `relevance` >= 0, in rank order; ties keep it. Candidates without a vector (None) have
    similarity 0.
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
    taken = np.zeros(size, dtype=bool)
    picked: list[int] = []
    for _ in range(min(count, size)):
        value = np.where(taken, -np.inf, scaled - (1 - LAMBDA) * repeated)
        choice = int(np.argmax(value))
        picked.append(choice)
        taken[choice] = True
        if choice in row:
            cosine = rows @ rows[row[choice]]
            penalty = np.maximum(0.0, (cosine - REPETITION_FROM) / (1 - REPETITION_FROM))
            repeated[positions] = np.maximum(repeated[positions], penalty)
    return picked

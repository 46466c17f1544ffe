"""Personalised PageRank."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
# Undirected edges (a, b, weight > 0); an array of shape (n, 3) needs no conversion.
Edges = Sequence[tuple[int, int, float]] | NDArray[np.float64]

DAMPING = 0.85
ITERATIONS = 20


def personalised(
    edges: Edges,
    restart: Vector,
    damping: float = DAMPING,
    iterations: int = ITERATIONS,
    one_way: NDArray[np.bool_] | None = None,
) -> Vector:
    """Return the personalised PageRank of each node, shape (n,), sum 1.

    x <- (1 - d) s + d (W'x + loss * s), with s = `restart` scaled to sum 1 (uniform if all zero), W
    the undirected `edges` (a, b, weight > 0) with rows scaled to sum 1, and `loss` the mass of
    nodes without edges: Page et al. 1999; Haveliwala, "Topic-sensitive PageRank", 2002. `one_way`
    edges lead from a to b only.
    """
    size = len(restart)
    total = float(restart.sum())
    start = restart / total if total > 0 else np.full(size, 1 / max(1, size))
    if not len(edges):
        return np.asarray(start, dtype=np.float64)
    table = np.asarray(edges, dtype=np.float64)
    heads, tails, weight = table[:, 0].astype(np.intp), table[:, 1].astype(np.intp), table[:, 2]
    again = np.ones(len(table), dtype=np.bool_) if one_way is None else ~one_way
    rows, columns = np.concatenate([heads, tails[again]]), np.concatenate([tails, heads[again]])
    weights = np.concatenate([weight, weight[again]])
    out = np.bincount(rows, weights=weights, minlength=size)
    dangling = np.flatnonzero(out == 0)
    out[dangling] = 1.0
    share = weights / out[rows]
    x, back = start, (1 - damping) * start
    for _ in range(iterations):
        moved = np.bincount(columns, weights=x[rows] * share, minlength=size)
        x = back + damping * (moved + float(x[dangling].sum()) * start)
    return np.asarray(x, dtype=np.float64)

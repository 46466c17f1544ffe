"""The walk must be the one the formula says: a distribution, near its seeds, fair to order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.graph.pagerank import personalised

EDGES = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7), st.floats(0.1, 5.0)).filter(
        lambda edge: edge[0] != edge[1]
    ),
    max_size=20,
)
RESTART = st.lists(st.floats(0.0, 3.0), min_size=8, max_size=8)


@given(EDGES, RESTART, st.floats(0.1, 0.8))
def test_it_solves_the_linear_system(
    edges: list[tuple[int, int, float]], restart: list[float], damping: float
) -> None:
    """So it is a distribution, and the order of edges does not matter."""
    start = np.array(restart)
    start = start / start.sum() if start.sum() > 0 else np.full(8, 1 / 8)
    weights = np.zeros((8, 8))
    for head, tail, weight in edges:
        weights[head, tail] += weight
        weights[tail, head] += weight
    out = weights.sum(1, keepdims=True)
    steps = np.where(out > 0, weights / np.where(out > 0, out, 1), start[None, :])
    exact = np.linalg.solve(np.eye(8) - damping * steps.T, (1 - damping) * start)
    assert personalised(edges, start, damping, 120) == pytest.approx(exact, abs=1e-9)

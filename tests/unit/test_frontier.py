"""The gate of a walk must be exactly its rule, whatever the scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.graph.frontier import gate_layer, score_layer
from docstokg.domain.vectors import pack, unpack

SCORES = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.floats(-1, 1), max_size=12)


@given(SCORES, st.one_of(st.none(), st.floats(-1, 1)), st.integers(1, 8), st.floats(0, 1))
def test_exactly_the_best_nodes_without_falloff_are_expanded(
    scores: dict[str, float], before: float | None, top_k: int, delta: float
) -> None:
    gated = gate_layer(scores, before, top_k, delta)
    ranked = sorted(scores, key=lambda name: (-scores[name], name))
    for name, score in scores.items():
        good = before is None or score >= before - delta
        assert (name in gated.expand) is (name in ranked[:top_k] and good)
    assert sorted([*gated.expand, *gated.pruned]) == sorted(scores)
    assert list(gated.expand) == [name for name in ranked if name in gated.expand]


VECTORS = st.lists(st.lists(st.floats(-1, 1), min_size=3, max_size=3), min_size=1, max_size=6)


@given(VECTORS, VECTORS, st.floats(0, 1))
def test_scores_follow_the_formula(
    rows: list[list[float]], earlier: list[list[float]], penalty: float
) -> None:
    query = unpack(pack([1.0, 2.0, -1.0]))
    vectors = {f"n{i}": unpack(pack(row)) for i, row in enumerate(rows)}
    collected = np.stack([unpack(pack(row)) for row in earlier])
    scores = score_layer(query, vectors, collected, penalty)
    for name, vector in vectors.items():
        near = max(0.0, *(float(vector @ row) for row in collected))
        assert scores[name] == pytest.approx(float(vector @ query) - penalty * near, abs=1e-5)

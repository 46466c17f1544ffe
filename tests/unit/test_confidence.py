"""The confidence formula, by hand and by property."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.confidence import confidence, level


@pytest.mark.parametrize(
    ("scores", "documents", "similarity", "expected"),
    [
        ([1.0], {"a"}, 1.0, 0.4 + 0.09 + 0.3),
        ([0.5, 0.7], {"a", "b"}, 0.5, 0.4 * 0.6 + 0.18 + 0.15),
        ([0.9], {"a", "b", "c"}, 0.8, 0.36 + 0.3 + 0.24),
        ([0.9], {"a", "b", "c", "d"}, None, 0.36 + 0.3),
        ([], set(), None, 0.0),
        ([0.5], {"a"}, -0.4, 0.2 + 0.09),
    ],
)
def test_by_hand(
    scores: list[float], documents: set[str], similarity: float | None, expected: float
) -> None:
    assert confidence(scores, documents, similarity) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("value", "word"), [(0.8, "high"), (0.7999, "medium"), (0.5, "medium"), (0.4999, "low")]
)
def test_levels(value: float, word: str) -> None:
    assert level(value) == word


@given(
    st.lists(st.floats(0, 1), max_size=5),
    st.sets(st.text(max_size=3), max_size=5),
    st.none() | st.floats(-1, 1),
)
def test_stays_within_bounds(
    scores: list[float], documents: set[str], similarity: float | None
) -> None:
    assert 0 <= confidence(scores, documents, similarity) <= 1

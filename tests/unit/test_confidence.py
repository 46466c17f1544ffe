"""The confidence formula, by hand and by property."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.contracts.response import Verdict
from docstokg.domain.answer.confidence import bounded, confidence, level


@pytest.mark.parametrize(
    ("scores", "documents", "similarity", "expected"),
    [
        ([1.0], {"a"}, 1.0, 0.4 + 0.09 + 0.3),
        ([0.9], {"a", "b", "c"}, 1.0, 0.4 + 0.3 + 0.3),
        ([0.9], {"a", "b", "c", "d"}, None, 0.4 + 0.3),
        ([], set(), None, 0.0),
        ([0.0, 0.0], {"a", "b"}, -0.4, 0.18),
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


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_better_passages_and_nearer_answers_are_never_trusted_less(
    low: float, high: float, far: float, near: float
) -> None:
    scores, cosines = sorted((low, high)), sorted((far, near))
    assert confidence([scores[0]], {"a"}, cosines[0]) <= confidence([scores[1]], {"a"}, cosines[1])


@pytest.mark.parametrize(
    ("value", "verdicts", "invalid", "expected"),
    [
        (0.1, ["supported", "supported"], False, 0.51),
        (0.9, ["supported"], False, 0.9),
        (0.9, ["supported", "unsupported"], False, 0.45),
        (0.2, ["supported", "weak"], False, 0.2),
        (0.2, ["supported", "uncited"], False, 0.2),
        (0.4, ["supported"], True, 0.5),
        (0.9, ["unsupported"], True, 0.45),
        (0.7, [], False, 0.7),
    ],
)
def test_the_checks_bound_it(
    value: float, verdicts: list[Verdict], invalid: bool, expected: float
) -> None:
    assert bounded(value, verdicts, invalid=invalid) == expected

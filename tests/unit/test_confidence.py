"""Confidence: the seed's formula, and the ceilings that the checks set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.contracts.response import ConfidenceParts, Verdict
from docstokg.domain.answer.confidence import bounded, confidence, confidence_parts, level

SHARE = st.floats(0, 1)


@pytest.mark.parametrize(
    ("value", "documents", "word"),
    [
        (0.8, 2, "high"), (0.8, 1, "medium"), (0.7999, 3, "medium"), (0.5, 1, "medium"),
        (0.4999, 3, "low"),
    ],
)  # fmt: skip
def test_levels(value: float, documents: int, word: str) -> None:
    assert level(value, documents) == word


def test_the_formula_by_hand() -> None:
    parts = ConfidenceParts(retrieval=0.5, sources=0.6, similarity=0.8)
    assert confidence(parts, None) == pytest.approx(0.4 * 0.5 + 0.3 * 0.6 + 0.3 * 0.8)


@given(st.lists(SHARE, min_size=1, max_size=4), SHARE)
def test_a_further_source_that_agrees_never_lowers_it(scores: list[float], near: float) -> None:
    single = confidence_parts(scores, {"a"}, near)
    double = confidence_parts(scores, {"a", "b"}, near)
    for probability in (None, 0.3):
        assert confidence(single, probability) <= confidence(double, probability)


@pytest.mark.parametrize(
    ("value", "verdicts", "invalid", "cited", "expected"),
    [
        (0.1, ["supported", "supported"], False, True, 0.1),
        (0.9, ["unverified"], False, True, 0.9),
        (0.9, ["supported", "unsupported"], False, True, 0.45),
        (0.9, ["supported"], True, True, 0.49),
        (0.9, ["uncited"], False, False, 0.5),
        (0.9, ["unsupported"], True, False, 0.45),
    ],
)
def test_the_checks_bound_it(
    value: float, verdicts: list[Verdict], invalid: bool, cited: bool, expected: float
) -> None:
    assert bounded(value, verdicts, invalid=invalid, cited=cited) == expected

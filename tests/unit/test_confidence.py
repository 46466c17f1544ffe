"""Confidence: a probability, held under what the checks allow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.contracts.response import ConfidenceParts, Verdict
from docstokg.domain.answer.confidence import bounded, confidence, confidence_parts, level

SHARE = st.floats(0, 1)


@pytest.mark.parametrize(
    ("documents", "sources"), [(set(), 0.0), ({"a"}, 0.3), ({"a", "b"}, 0.6), (set("abcd"), 1.0)]
)
def test_the_parts_by_hand(documents: set[str], sources: float) -> None:
    parts = confidence_parts([0.2, 0.4], documents, -0.3)
    assert parts == ConfidenceParts(retrieval=0.3, sources=sources, similarity=0.0)


@pytest.mark.parametrize(
    ("value", "word"), [(0.8, "high"), (0.7999, "medium"), (0.5, "medium"), (0.4999, "low")]
)
def test_levels(value: float, word: str) -> None:
    assert level(value) == word


@given(SHARE, SHARE, SHARE)
def test_a_likelier_quotation_is_trusted_more(low: float, high: float, retrieval: float) -> None:
    parts = ConfidenceParts(retrieval=retrieval, sources=0.3, similarity=0.5)
    values = [confidence(parts, [1.0], one) for one in sorted((low, high))]
    assert 0 <= values[0] <= values[1] <= 1


@given(SHARE, SHARE, st.lists(SHARE, max_size=4))
def test_another_models_answer_is_trusted_no_more_than_it_is_supported(
    near: float, far: float, support: list[float]
) -> None:
    low, high = (
        confidence(ConfidenceParts(retrieval=0.5, sources=0.3, similarity=one), support, None)
        for one in sorted((near, far))
    )
    assert 0 <= low <= high <= (sum(support) / len(support) if support else 0) + 1e-3


@pytest.mark.parametrize(
    ("value", "verdicts", "invalid", "expected"),
    [
        (0.1, ["supported", "supported"], False, 0.1), (0.9, ["supported"], False, 0.9),
        (0.9, ["supported", "unsupported"], False, 0.45), (0.9, ["supported"], True, 0.49),
        (0.9, ["unsupported"], True, 0.45),
    ],
)  # fmt: skip
def test_the_checks_bound_it(
    value: float, verdicts: list[Verdict], invalid: bool, expected: float
) -> None:
    assert bounded(value, verdicts, invalid=invalid) == expected

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain import fusion

LISTS = st.dictionaries(
    st.sampled_from(["bm25", "splade", "dense"]),
    st.dictionaries(st.text("abcdef", min_size=1, max_size=2), st.floats(-5, 50), max_size=12).map(
        lambda scores: sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    ),
)


def test_minmax_adds_scaled_scores() -> None:
    fused = dict(fusion.minmax({"bm25": [("a", 10), ("b", 5), ("c", 0)], "dense": [("b", 0.9)]}))
    assert fused == {"b": pytest.approx(0.75), "a": pytest.approx(0.5), "c": 0.0}


def test_reciprocal_rank_is_1_for_chunks_first_everywhere() -> None:
    fused = dict(fusion.reciprocal_rank({"bm25": [("a", 3), ("b", 2)], "dense": [("a", 1)]}))
    assert fused["a"] == pytest.approx(1.0)
    assert fused["b"] == pytest.approx((1 / 62) / (2 / 61))


def test_weights_count() -> None:
    lists = {"bm25": [("a", 1.0), ("b", 0.0)], "dense": [("b", 1.0), ("a", 0.0)]}
    assert fusion.minmax(lists, {"bm25": 2.0})[0][0] == "a"
    assert fusion.reciprocal_rank(lists, {"dense": 2.0})[0][0] == "b"


@given(LISTS)
def test_every_candidate_once_in_falling_order_within_bounds(lists) -> None:
    for fuse in (fusion.minmax, fusion.reciprocal_rank):
        fused = fuse(lists)
        assert {name for name, _ in fused} == {n for hits in lists.values() for n, _ in hits}
        assert len({name for name, _ in fused}) == len(fused)
        assert list(fused) == sorted(fused, key=lambda item: (-item[1], item[0]))
        assert all(-1e-9 <= score <= 1 + 1e-9 for _, score in fused)


@given(LISTS)
def test_order_of_channels_does_not_matter(lists) -> None:
    turned = dict(reversed(lists.items()))
    assert fusion.minmax(lists) == fusion.minmax(turned)
    assert fusion.reciprocal_rank(lists) == fusion.reciprocal_rank(turned)

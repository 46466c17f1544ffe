"""The gate is a rule over measured signals: it must follow its weights and hold what was fitted."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.gate import Gate, fitted, from_json, signals
from docstokg.domain.slice_graph import Blend

POOLS = st.lists(st.floats(0.0, 1.0), max_size=15).map(
    lambda scores: [(f"u{i}", s) for i, s in enumerate(sorted(scores, reverse=True))]
)


def rule(*, lead: float = 0.0, named: float = 0.0, facts: float = 0.0, bias: float = 0.0) -> Gate:
    return Gate((lead, named, facts), (0.0,) * 3, (1.0,) * 3, bias, Blend())


@given(POOLS, st.integers(0, 9), st.integers(0, 20))
def test_signals_stay_in_their_ranges(
    pool: list[tuple[str, float]], named: int, facts: int
) -> None:
    seen = signals(pool, named=named, facts=facts)
    assert 0.0 <= seen.lead <= 1.0
    assert seen.named == pytest.approx(math.log(1 + named))
    assert seen.facts == pytest.approx(math.log(1 + facts))


def test_signals_of_a_peaked_and_of_a_flat_list() -> None:
    assert signals([("a", 1.0), ("b", 0.2)], named=0, facts=0).lead == 0.8
    assert signals([("a", 0.5), ("b", 0.5)], named=0, facts=0).lead == 0.0
    assert signals([("a", 0.5)], named=0, facts=0).lead == 1.0


@given(st.floats(-3, 3), st.floats(-1, 1), st.floats(-1, 1))
def test_it_opens_exactly_when_its_odds_favour_it(lead: float, named: float, bias: float) -> None:
    seen = signals([("a", 1.0), ("b", 0.25)], named=1, facts=0)
    gate = rule(lead=lead, named=named, bias=bias)
    assert gate.leaning(seen) == pytest.approx(bias + lead * 0.75 + named * math.log(2))
    assert gate.opens(seen) is (gate.leaning(seen) > 0)


def test_signals_are_standardised() -> None:
    gate = Gate((2.0, 0.0, 0.0), (0.5, 0.0, 0.0), (0.25, 1.0, 1.0), 0.0, Blend())
    assert gate.leaning(signals([("a", 1.0)], named=0, facts=0)) == pytest.approx(4.0)


def test_the_committed_gate_opens_for_stated_facts_and_stays_shut_without() -> None:
    gate = fitted()
    assert gate.blend.passages > 0
    assert gate.blend.sharpness >= 1
    pool = [("a", 1.0), ("b", 0.9)]
    assert gate.opens(signals(pool, named=2, facts=20))
    assert not gate.opens(signals(pool, named=2, facts=0))


def test_a_gate_survives_its_file() -> None:
    stored = {
        "passages": 2,
        "sharpness": 3,
        "bias": 0.5,
        "weights": [1, 2, 3],
        "means": [0] * 3,
        "scales": [1] * 3,
    }
    gate = from_json(stored)
    assert gate.blend == Blend(2.0, 3.0)
    assert (gate.weights, gate.bias) == ((1.0, 2.0, 3.0), 0.5)

"""The gate is a rule over measured signals: it must follow its weights and hold what was fitted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.gate import Gate, fitted, from_json, signals
from docstokg.domain.slice_graph import Blend

NAMES = ("top", "lead", "flat", "named", "facts", "agreement", "keeps")


def rule(**weights: float) -> Gate:
    return Gate(
        tuple(weights.get(name, 0.0) for name in NAMES),
        (0.0,) * 7,
        (1.0,) * 7,
        weights.get("bias", 0.0),
        Blend(),
    )


POOLS = st.lists(st.floats(0.0, 1.0), max_size=15).map(
    lambda scores: [(f"u{i}", s) for i, s in enumerate(sorted(scores, reverse=True))]
)


@given(POOLS, st.integers(0, 9), st.integers(0, 20), st.permutations(range(15)))
def test_signals_stay_in_their_ranges(
    pool: list[tuple[str, float]], named: int, facts: int, order: list[int]
) -> None:
    ids = [uuid for uuid, _ in pool]
    by_graph = [f"u{i}" for i in order if i < len(ids)]
    seen = signals(pool, ids[:10], by_graph, named, facts)
    for name in ("top", "lead", "flat", "agreement", "keeps"):
        assert 0.0 <= getattr(seen, name) <= 1.0
    assert seen.named >= 0
    assert seen.facts >= 0


def test_signals_of_a_peaked_and_of_a_flat_list() -> None:
    peaked = signals([("a", 1.0), ("b", 0.2)], ["a", "b"], ["a", "b"], 0, 0)
    flat = signals([(f"{i}", 0.5) for i in range(12)], ["1", "2"], ["2", "9"], 3, 1)
    assert (peaked.lead, peaked.flat, peaked.keeps, peaked.agreement) == (0.8, 0.0, 1.0, 1.0)
    assert (flat.lead, flat.flat, flat.keeps, flat.agreement) == (0.0, 1.0, 0.0, 0.5)
    assert flat.named > peaked.named == 0.0


@given(st.floats(-3, 3), st.floats(0, 1))
def test_it_opens_exactly_when_its_odds_favour_it(weight: float, bias: float) -> None:
    seen = signals([("a", 1.0), ("b", 0.25)], ["a"], ["b"], 2, 0)
    gate = rule(lead=weight, bias=bias)
    assert gate.leaning(seen) == pytest.approx(bias + weight * 0.75)
    assert gate.opens(seen) is (gate.leaning(seen) > 0)


def test_the_committed_gate_prefers_flat_lists_with_named_entities() -> None:
    gate = fitted()
    assert gate.blend.passages > 0
    assert gate.blend.sharpness >= 1
    sure = signals([("a", 1.0), *((f"{i}", 0.2) for i in range(20))], ["a"], ["a"], 0, 0)
    assert isinstance(gate.opens(sure), bool)


def test_a_gate_survives_its_file() -> None:
    stored = {
        "passages": 2,
        "sharpness": 3,
        "bias": 0.5,
        "weights": [1, 2, 3, 4, 5, 6, 7],
        "means": [0] * 7,
        "scales": [1] * 7,
    }
    gate = from_json(stored)
    assert gate.blend == Blend(2.0, 3.0)
    assert gate.weights == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)

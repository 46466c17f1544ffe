"""The path shown must be the most probable one, exist in the graph, and start at a seed."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.graph.paths import most_probable

EDGES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([1.0, 2.0])).filter(
        lambda edge: edge[0] != edge[1]
    ),
    max_size=9,
    unique_by=lambda edge: (min(edge[:2]), max(edge[:2])),
)
SEEDS = st.dictionaries(st.integers(0, 5), st.sampled_from([0.5, 1.0]), min_size=1, max_size=2)


def probability(
    walk: tuple[int, ...], edges: list[tuple[int, int, float]], seeds: dict[int, float]
) -> float:
    out = {n: sum(w for a, b, w in edges if n in (a, b)) for n in range(6)}
    weight = {frozenset(edge[:2]): edge[2] for edge in edges}
    value = seeds.get(walk[0], 0.0) / sum(seeds.values())
    for start, end in itertools.pairwise(walk):
        value *= weight.get(frozenset((start, end)), 0.0) / max(1e-12, out[start])
    return value


@given(EDGES, SEEDS)
def test_no_other_walk_is_more_probable(
    edges: list[tuple[int, int, float]], seeds: dict[int, float]
) -> None:
    paths = most_probable([(*edge, 1.0) for edge in edges], seeds, 8)
    for target in range(6):
        others = itertools.chain.from_iterable(
            itertools.permutations([n for n in range(6) if n != target], size) for size in range(5)
        )
        best = max(probability((*walk, target), edges, seeds) for walk in others)
        walk = paths.to(target)
        if best == 0:
            assert walk == () or probability(walk, edges, seeds) > 0
        else:
            assert walk[0] in seeds
            assert walk[-1] == target
            assert probability(walk, edges, seeds) >= best * (1 - 1e-9)
            assert math.exp(-paths.cost[target]) == pytest.approx(probability(walk, edges, seeds))


def test_a_walk_is_not_longer_than_asked() -> None:
    line = [(i, i + 1, 1.0, 0.5 if i else 1.0) for i in range(6)]
    assert most_probable(line, {0: 1.0}, 2).to(3) == (0, 1, 2, 3)
    assert most_probable(line, {0: 1.0}, 2).to(4) == ()


def test_a_seed_is_its_own_path() -> None:
    assert most_probable([], {2: 0.3}, 1).to(2) == (2,)
    assert most_probable([], {2: 0.0}, 1).to(2) == ()

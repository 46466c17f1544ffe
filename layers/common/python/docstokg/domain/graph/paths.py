"""Most probable walks."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.intp]


class Paths(NamedTuple):
    """The best walks: `cost[n]` = -log probability of the best walk to n.

    `edge[r][n]`: last edge of the best walk of at most r half steps, -1 for a seed. `at[r][n]`:
    number of half steps before that edge. `source`: start node of each edge.
    """

    cost: Mapping[int, float]
    edge: Sequence[Numbers]
    at: Sequence[Numbers]
    source: Numbers

    def is_seed(self, node: int) -> bool:
        """Return whether the best walk to a node has no edges; False if unreachable."""
        return node in self.cost and (not self.edge or self.edge[-1][node] < 0)

    def to(self, node: int) -> tuple[int, ...]:
        """Return the nodes from the seed to `node`, both included; () if unreachable."""
        if node not in self.cost:
            return ()
        nodes, turn = [node], len(self.edge) - 1
        while self.edge and (edge := int(self.edge[turn][nodes[-1]])) >= 0:
            turn = int(self.at[turn][nodes[-1]])
            nodes.append(int(self.source[edge]))
        return tuple(reversed(nodes))


def most_probable(
    edges: Sequence[tuple[int, int, float, float]] | NDArray[np.float64],
    seeds: Mapping[int, float],
    max_length: float,
    one_way: NDArray[np.bool_] | None = None,
) -> Paths:
    """Find the most probable walk from any seed to every node within `max_length`.

    `edges`: (a, b, weight, length) with length 0.5 or 1. `one_way` edges lead from a to b only.
    P(walk) = share of its seed * product of w(a, b) / sum over c of w(a, c), the transition
    probabilities of `pagerank`. Ties go to the lower node number.
    """
    total = sum(share for share in seeds.values() if share > 0)
    starts = {node: share / total for node, share in seeds.items() if share > 0}
    if not len(edges) or not starts:
        alone = {node: float(-np.log(share)) for node, share in starts.items()}
        return Paths(alone, (), (), np.zeros(0, dtype=np.intp))
    table = np.asarray(edges, dtype=np.float64)
    ends = table[:, :2].astype(np.intp)
    size = max(int(ends.max()), *starts) + 1
    heads, tails = ends[:, 0], ends[:, 1]
    back = np.arange(len(table)) if one_way is None else np.flatnonzero(~one_way)
    begins, leads = np.concatenate((heads, tails[back])), np.concatenate((tails, heads[back]))
    order = np.argsort(leads * size + begins, kind="stable")  # by target, then by source
    source, target = begins[order], leads[order]
    edge_of = np.concatenate((np.arange(len(table)), back))[order]
    weight = table[edge_of, 2]
    halves = np.rint(2 * table[edge_of, 3]).astype(np.intp)
    step = -np.log(weight / np.bincount(source, weights=weight, minlength=size)[source])
    begins_group = np.ones(len(target), dtype=np.bool_)
    np.not_equal(target[1:], target[:-1], out=begins_group[1:])
    first = np.flatnonzero(begins_group)
    group = np.cumsum(begins_group) - 1
    reached = target[first]
    cost = np.full(size, np.inf)
    cost[list(starts)] = -np.log(list(starts.values()))
    rounds = [cost]
    edge, at = [np.full(size, -1)], [np.zeros(size, dtype=np.intp)]
    never = np.full(size, np.inf)
    for turn in range(1, int(2 * max_length) + 1):
        before = rounds[turn - 2] if turn >= 2 else never
        spent = np.where(halves == 1, rounds[turn - 1][source], before[source]) + step
        best = np.minimum.reduceat(spent, first)
        better = best < rounds[turn - 1][reached]
        # Reversed, so that for equal costs the first of each group is written last and wins.
        taken = np.flatnonzero((spent == best[group]) & better[group])[::-1]
        rounds.append(rounds[turn - 1].copy())
        edge.append(edge[-1].copy())
        at.append(at[-1].copy())
        rounds[turn][reached[better]] = best[better]
        edge[turn][target[taken]] = taken
        at[turn][target[taken]] = turn - halves[taken]
    reachable = np.flatnonzero(np.isfinite(rounds[-1]))
    costs = dict(zip(reachable.tolist(), rounds[-1][reachable].tolist(), strict=True))
    return Paths(costs, edge, at, source)

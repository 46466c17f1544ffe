"""The most probable walk from a seed to an entity: the reason the graph gives for a chunk."""

import heapq
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Paths:
    """Shortest-path tree: `cost[n]` = -log probability of the best walk to n, `before` its step."""

    cost: Mapping[int, float]
    before: Mapping[int, int]

    def to(self, node: int) -> tuple[int, ...]:
        """List the nodes from the seed to `node`, both included; empty when unreachable."""
        if node not in self.cost:
            return ()
        found = [node]
        while found[-1] in self.before:
            found.append(self.before[found[-1]])
        return tuple(reversed(found))


def most_probable(
    edges: Iterable[tuple[int, int, float, float]], seeds: Mapping[int, float], max_length: float
) -> Paths:
    """Find the walk of highest probability from any seed to every node within `max_length`.

    `edges`: (a, b, weight, length), the lengths of a walk adding up.

    P(walk) = share of its seed * product of w(a, b) / sum over c of w(a, c): the steps of the
    random surfer of `pagerank`, so that path and rank tell one story. Dijkstra on -log P with
    the undirected `edges`; ties go to the lower node number.
    """
    near: dict[int, list[tuple[int, float, float]]] = {}
    out: dict[int, float] = {}
    for one, two, weight, length in edges:
        near.setdefault(one, []).append((two, weight, length))
        near.setdefault(two, []).append((one, weight, length))
        out[one] = out.get(one, 0.0) + weight
        out[two] = out.get(two, 0.0) + weight
    total = sum(share for share in seeds.values() if share > 0)
    cost: dict[int, float] = {}
    before: dict[int, int] = {}
    # (cost, node, previous node or -1, length so far)
    queue = [
        (-math.log(share / total), node, -1, 0.0) for node, share in seeds.items() if share > 0
    ]
    heapq.heapify(queue)
    while queue:
        spent, node, previous, before_it = heapq.heappop(queue)
        if node in cost:
            continue
        cost[node] = spent
        if previous >= 0:
            before[node] = previous
        for other, weight, length in near.get(node, ()):
            if other not in cost and before_it + length <= max_length:
                step = -math.log(weight / out[node])
                heapq.heappush(queue, (spent + step, other, node, before_it + length))
    return Paths(cost, before)

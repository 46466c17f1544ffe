"""Fusion of ranked lists."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

RRF_K = 60
# One channel's (id, score), best first.
Ranked = Sequence[tuple[str, float]]


def minmax[Name: str](
    channels: Mapping[Name, Ranked], weights: Mapping[str, float] | None = None
) -> Ranked:
    """Sum each channel's scores scaled to [0, 1] over its own list.

    score(d) = sum over channels c of w_c * (s_c(d) - min s_c) / (max s_c - min s_c); equal scores
    scale to 1, a missing id counts 0 (Lee 1997, CombSUM with min-max normalisation). Best first,
    ties by id; scores are divided by the sum of the weights (default: 1 each).
    """
    return _fused(channels, weights, _scaled)


def reciprocal_rank[Name: str](
    channels: Mapping[Name, Ranked], weights: Mapping[str, float] | None = None
) -> Ranked:
    """Sum w_c / (60 + rank) over the channels (Cormack, Clarke and Buettcher 2009).

    Ranks are 1-based; scores are divided by the best attainable, so they are in [0, 1]. Order and
    default as `minmax`.
    """

    def shares(ranked: Ranked) -> list[float]:
        return [1 / (RRF_K + rank) for rank in range(1, len(ranked) + 1)]

    return _fused(channels, weights, shares, 1 / (RRF_K + 1))


def _scaled(ranked: Ranked) -> list[float]:
    scores = [score for _, score in ranked]
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    return [(score - low) / (high - low) if high > low else 1.0 for score in scores]


def _fused[Name: str](
    channels: Mapping[Name, Ranked],
    weights: Mapping[str, float] | None,
    shares: Callable[[Ranked], list[float]],
    best: float = 1.0,
) -> Ranked:
    weight_of = {name: (weights or {}).get(name, 1.0) for name in channels}
    total: dict[str, float] = defaultdict(float)
    for name in sorted(channels):
        for (identifier, _), share in zip(channels[name], shares(channels[name]), strict=True):
            total[identifier] += weight_of[name] * share
    scale = best * sum(weight_of.values()) or 1.0
    return sorted(
        ((identifier, score / scale) for identifier, score in total.items()),
        key=lambda item: (-item[1], item[0]),
    )

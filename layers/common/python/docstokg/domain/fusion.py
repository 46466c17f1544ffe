"""Several ranked lists become one: by min-max scores (default) or by reciprocal ranks."""

from collections.abc import Mapping, Sequence

RRF_K = 60
Ranked = Sequence[tuple[str, float]]
"""One channel's (id, score), best first."""


def minmax[Name: str](
    channels: Mapping[Name, Ranked], weights: Mapping[str, float] | None = None
) -> Ranked:
    """Sum each channel's scores scaled to [0, 1] over its own list.

    score(d) = sum over channels c of w_c * (s_c(d) - min s_c) / (max s_c - min s_c); a list whose
    scores are all equal gives 1 to each, one missing from a list gets 0 there (Lee 1997, CombSUM
    with min-max normalisation). Best first, ties by id; scores divided by the sum of the weights.
    """
    total: dict[str, float] = {}
    for name in sorted(channels):
        scores = [score for _, score in channels[name]]
        if not scores:
            continue
        low, high = min(scores), max(scores)
        for identifier, score in channels[name]:
            scaled = (score - low) / (high - low) if high > low else 1.0
            total[identifier] = total.get(identifier, 0.0) + _weight(weights, name) * scaled
    return _ordered(total, sum(_weight(weights, name) for name in channels))


def reciprocal_rank[Name: str](
    channels: Mapping[Name, Ranked], weights: Mapping[str, float] | None = None, k: int = RRF_K
) -> Ranked:
    """Sum w_c / (k + rank) over the channels (Cormack, Clarke and Buettcher 2009).

    Ranks are 1-based; scores are divided by the best attainable, so they lie in [0, 1].
    """
    total: dict[str, float] = {}
    for name in sorted(channels):
        for rank, (identifier, _) in enumerate(channels[name], 1):
            total[identifier] = total.get(identifier, 0.0) + _weight(weights, name) / (k + rank)
    return _ordered(total, sum(_weight(weights, name) for name in channels) / (k + 1))


def _weight(weights: Mapping[str, float] | None, name: str) -> float:
    return 1.0 if weights is None else weights.get(name, 1.0)


def _ordered(total: Mapping[str, float], best: float) -> Ranked:
    scale = best if best > 0 else 1.0
    return sorted(
        ((identifier, score / scale) for identifier, score in total.items()),
        key=lambda item: (-item[1], item[0]),
    )

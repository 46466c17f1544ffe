"""Selection of nodes to expand."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from docstokg.domain.vectors import Floats


class GatedLayer(NamedTuple):
    """A layer after gating: ids to expand, best first; pruned ids; best score."""

    expand: tuple[str, ...]
    pruned: tuple[str, ...]
    best: float


def score_layer(
    query: Floats, vectors: Mapping[str, Floats], collected: Floats | None, novelty_penalty: float
) -> dict[str, float]:
    """Return cosine(query, node) - penalty * max(0, max cosine(node, collected)) per node.

    Vectors are unit rows of equal dimension; `collected` has the nodes of earlier layers, shape (n,
    dimension), or is None.
    """
    names = sorted(vectors)
    if not names:
        return {}
    rows = np.stack([vectors[name] for name in names])
    scores = rows @ query
    if collected is not None and len(collected):
        scores = scores - novelty_penalty * np.maximum(0.0, (rows @ collected.T).max(axis=1))
    return {name: float(score) for name, score in zip(names, scores, strict=True)}


def gate_layer(
    scores: Mapping[str, float], best_before: float | None, top_k: int, delta_threshold: float
) -> GatedLayer:
    """Select the `top_k` nodes of a layer with a score >= best_before - delta_threshold.

    `best_before`: best score of the previous layer, None for the first. Ties by id.
    """
    ranked = sorted(scores, key=lambda name: (-scores[name], name))
    floor = float("-inf") if best_before is None else best_before - delta_threshold
    expand = tuple(name for name in ranked[:top_k] if scores[name] >= floor)
    to_expand = set(expand)
    pruned = tuple(name for name in ranked if name not in to_expand)
    return GatedLayer(expand, pruned, scores[ranked[0]] if ranked else float("-inf"))

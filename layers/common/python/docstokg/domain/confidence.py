"""How far an answer may be trusted, as one number and one word."""

from collections.abc import Collection, Sequence
from typing import Final

from docstokg.contracts.response import ConfidenceLevel

_WEIGHTS: Final = (0.4, 0.3, 0.3)
_BY_SOURCES: Final = (0.0, 0.3, 0.6, 1.0)
CEILING_WITH_INVALID_CITATIONS: Final = 0.5
WITHOUT_CITATIONS: Final = 0.5
_HIGH: Final = 0.8
_MEDIUM: Final = 0.5


def confidence(
    scores: Sequence[float], cited_documents: Collection[str], similarity: float | None
) -> float:
    """Return 0.4 x mean score + 0.3 x source score + 0.3 x similarity, in [0, 1].

    `scores`: of the chunks given to the model. The source score is 0.3, 0.6, 1.0 for one, two,
    three or more distinct cited documents. `similarity`: cosine(query, answer), clamped to
    [0, 1]; None without an embedder counts as 0.
    """
    mean = sum(scores) / len(scores) if scores else 0.0
    sources = _BY_SOURCES[min(len(set(cited_documents)), len(_BY_SOURCES) - 1)]
    close = min(1.0, max(0.0, similarity or 0.0))
    by_score, by_sources, by_similarity = _WEIGHTS
    value = by_score * mean + by_sources * sources + by_similarity * close
    return round(min(1.0, max(0.0, value)), 6)


def level(value: float) -> ConfidenceLevel:
    """Return high from 0.8, medium from 0.5, low below."""
    if value >= _HIGH:
        return "high"
    return "medium" if value >= _MEDIUM else "low"

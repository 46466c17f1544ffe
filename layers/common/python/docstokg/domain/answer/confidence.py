"""How far an answer may be trusted, as one number and one word."""

from collections.abc import Collection, Sequence
from typing import Final

from docstokg.contracts.response import ConfidenceLevel, Verdict
from docstokg.domain.answer.relevance import committed_table, interpolated

_WEIGHTS: Final = (0.4, 0.3, 0.3)
_BY_SOURCES: Final = (0.0, 0.3, 0.6, 1.0)
_FILE: Final = "confidence_table.json"
CEILING_WITH_INVALID_CITATIONS: Final = 0.5
CEILING_WITH_UNSUPPORTED: Final = 0.45
FLOOR_WHEN_SUPPORTED: Final = 0.51
WITHOUT_CITATIONS: Final = 0.5
_HIGH: Final = 0.8
_MEDIUM: Final = 0.5


def confidence(
    scores: Sequence[float], cited_documents: Collection[str], similarity: float | None
) -> float:
    """Return 0.4 x A(mean score) + 0.3 x source score + 0.3 x B(similarity), in [0, 1].

    `scores`: of the chunks given to the model. The source score is 0.3, 0.6, 1.0 for one, two,
    three or more distinct cited documents. `similarity`: cosine(query, answer), clamped to
    [0, 1]; None without an embedder counts as 0. A and B are rising tables: how often an answer
    was right, in parts of the best, fitted by `benchmarks/fit_confidence.py`.
    """
    mean = sum(scores) / len(scores) if scores else 0.0
    sources = _BY_SOURCES[min(len(set(cited_documents)), len(_BY_SOURCES) - 1)]
    close = min(1.0, max(0.0, similarity or 0.0))
    by_score, by_sources, by_similarity = _WEIGHTS
    value = (
        by_score * interpolated(committed_table(_FILE, "score"), mean)
        + by_sources * sources
        + by_similarity * interpolated(committed_table(_FILE, "similarity"), close)
    )
    return round(min(1.0, max(0.0, value)), 6)


def bounded(value: float, verdicts: Sequence[Verdict], *, invalid: bool) -> float:
    """Hold a confidence within what the checks allow.

    At least 0.51 when every factual sentence is cited and supported; upper limits win: 0.45
    with any unsupported sentence, 0.5 where a marker named what was not given.
    """
    if verdicts and all(verdict == "supported" for verdict in verdicts):
        value = max(value, FLOOR_WHEN_SUPPORTED)
    if "unsupported" in verdicts:
        value = min(value, CEILING_WITH_UNSUPPORTED)
    return min(value, CEILING_WITH_INVALID_CITATIONS) if invalid else value


def level(value: float) -> ConfidenceLevel:
    """Return high from 0.8, medium from 0.5, low below."""
    if value >= _HIGH:
        return "high"
    return "medium" if value >= _MEDIUM else "low"

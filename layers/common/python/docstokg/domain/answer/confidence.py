"""Confidence in an answer."""

from collections.abc import Collection, Sequence

from docstokg.contracts.response import ConfidenceLevel, ConfidenceParts, Verdict

# Weights of the three parts (SPEC 1.2, from the seed specification).
RETRIEVAL, SOURCES, SIMILARITY = 0.4, 0.3, 0.3
# Weight of the formula relative to the reader's probability (docs/decisions/confidence.md).
FORMULA = 0.6
_BY_SOURCES = (0.0, 0.3, 0.6, 1.0)
CEILING_UNCITED = 0.5
CEILING_WITH_INVALID_CITATIONS = 0.49
CEILING_WITH_UNSUPPORTED = 0.45
_HIGH = 0.8
_MEDIUM = 0.5
_LEAST_DOCUMENTS = 2


def confidence_parts(
    per_sentence: Sequence[float], cited_documents: Collection[str], similarity: float | None
) -> ConfidenceParts:
    """Return the three confidence parts, each in [0, 1].

    `per_sentence` (averaged): per factual sentence, the highest retrieval score x support of its
    passages. Sources: 0, 0.3, 0.6 or 1 for 0, 1, 2 or more `cited_documents`. `similarity`:
    cosine(question, answer); None counts 0.
    """
    return ConfidenceParts(
        retrieval=round(sum(per_sentence) / len(per_sentence), 4) if per_sentence else 0.0,
        sources=_BY_SOURCES[min(len(set(cited_documents)), len(_BY_SOURCES) - 1)],
        similarity=round(min(1.0, max(0.0, similarity or 0.0)), 4),
    )


def confidence(parts: ConfidenceParts, probability: float | None) -> float:
    """Return 0.4 x retrieval + 0.3 x sources + 0.3 x similarity, in [0, 1].

    `probability`: the built-in reader's, mixed in with weight 0.4; None for other models.
    """
    formula = RETRIEVAL * parts.retrieval + SOURCES * parts.sources + SIMILARITY * parts.similarity
    if probability is None:
        return round(formula, 4)
    return round(FORMULA * formula + (1 - FORMULA) * probability, 4)


def bounded(
    value: float, verdicts: Sequence[Verdict], *, invalid: bool, cited: bool, missing: bool = False
) -> float:
    """Return `value` capped by the check results.

    Ceilings: 0.45 with an unsupported sentence, 0.49 with an invalid marker or (`missing`) a value
    that no cited source contains or that belongs to another cell, 0.5 without a valid marker.
    """
    ceilings = (
        (CEILING_WITH_UNSUPPORTED, "unsupported" in verdicts),
        (CEILING_WITH_INVALID_CITATIONS, invalid or missing),
        (CEILING_UNCITED, not cited),
    )
    return min([value, *(ceiling for ceiling, holds in ceilings if holds)])


def level(value: float, documents: int) -> ConfidenceLevel:
    """Return high from 0.8 with two or more cited documents, medium from 0.5, else low."""
    if value >= _HIGH and documents >= _LEAST_DOCUMENTS:
        return "high"
    return "medium" if value >= _MEDIUM else "low"

"""How likely an answer is right, as one number and one word."""

import math
from collections.abc import Collection, Sequence
from typing import Final

from docstokg.contracts.response import ConfidenceLevel, ConfidenceParts, Verdict
from docstokg.domain.answer.extractive import logistic, model

_BY_SOURCES: Final = (0.0, 0.3, 0.6, 1.0)
_SUREST: Final = 0.999
CEILING_WITH_INVALID_CITATIONS: Final = 0.49
CEILING_WITH_UNSUPPORTED: Final = 0.45
_HIGH: Final = 0.8
_MEDIUM: Final = 0.5


def confidence_parts(
    scores: Sequence[float], cited_documents: Collection[str], similarity: float | None
) -> ConfidenceParts:
    """Give the three parts of an answer.

    `scores`: of the chunks given to the model. `similarity`: cosine(question, answer), None
    without an embedder.
    """
    return ConfidenceParts(
        retrieval=round(sum(scores) / len(scores), 4) if scores else 0.0,
        sources=_BY_SOURCES[min(len(set(cited_documents)), len(_BY_SOURCES) - 1)],
        similarity=round(min(1.0, max(0.0, similarity or 0.0)), 4),
    )


def confidence(
    parts: ConfidenceParts, support: Sequence[float], probability: float | None
) -> float:
    """Give the probability that an answer is right: two logistic maps of `reader_weights.json`.

    `probability`: how likely the built-in model's choice is right. Its words are a source's own;
    those of another model are right at most as often as their sentences are supported (`support`,
    of each factual sentence).
    """
    values = parts.model_dump()
    if probability is not None:
        odds = min(_SUREST, max(1 - _SUREST, probability))
        values["log_odds"] = math.log(odds / (1 - odds))
        return round(logistic(model()["confidence_of_quotation"], values), 4)
    supported = sum(support) / len(support) if support else 0.0
    return round(logistic(model()["confidence_of_parts"], values) * supported, 4)


def bounded(value: float, verdicts: Sequence[Verdict], *, invalid: bool) -> float:
    """Hold a confidence under what the checks allow.

    0.45 with any unsupported sentence, 0.49 without a marker or where one named what was not
    given.
    """
    if "unsupported" in verdicts:
        value = min(value, CEILING_WITH_UNSUPPORTED)
    return min(value, CEILING_WITH_INVALID_CITATIONS) if invalid else value


def level(value: float) -> ConfidenceLevel:
    """Return high from 0.8, medium from 0.5, low below."""
    if value >= _HIGH:
        return "high"
    return "medium" if value >= _MEDIUM else "low"

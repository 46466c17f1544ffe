"""Relevance of a citation to the question, in [0, 1].

A monotone table over cosine(question, chunk) or, without a vector, over the share of the question's
content words found. Fitted by `benchmarks/fit_abstention.py`.
"""

import json
from functools import cache
from importlib.resources import files

import numpy as np

GRAPH_ONLY_DISCOUNT = 0.8
_FILE = "relevance_table.json"

Table = tuple[tuple[float, ...], tuple[float, ...]]


@cache
def committed_table(kind: str) -> Table:
    """Load ascending inputs and outputs of the table "cosine" or "coverage" (else KeyError)."""
    text = files(__package__).joinpath(_FILE).read_text(encoding="utf-8")
    points = json.loads(text)[kind]
    return tuple(point[0] for point in points), tuple(point[1] for point in points)


def from_cosine(cosine: float) -> float:
    """Map cosine(question, chunk) in [-1, 1] to [0, 1]."""
    return interpolated(committed_table("cosine"), cosine)


def from_coverage(share: float) -> float:
    """Map the share of question words found, in [0, 1], to [0, 1]."""
    return interpolated(committed_table("coverage"), share)


def cosine_of(score: float) -> float:
    """Return the cosine of a score in the table of `from_cosine`; its ends beyond the scores."""
    cosines, scores = committed_table("cosine")
    return interpolated((scores, cosines), score)


def interpolated(table: Table, value: float) -> float:
    """Interpolate linearly in a table of ascending points; constant beyond its ends."""
    return float(np.interp(value, *table))

"""Calibration of confidence."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence


def roc_area(values: Sequence[float], right: Sequence[bool]) -> float | None:
    """Return the probability that a right answer has a higher value than a wrong one.

    Ties count half. None if all are right or all are wrong.
    """
    good = [value for value, is_right in zip(values, right, strict=True) if is_right]
    bad = sorted(value for value, is_right in zip(values, right, strict=True) if not is_right)
    if not good or not bad:
        return None
    won = sum(bisect_left(bad, value) + bisect_right(bad, value) for value in good)
    return won / 2 / len(good) / len(bad)


def roc_area_error(area: float, right: Sequence[bool]) -> float:
    """Return the standard error of a ROC area (Hanley and McNeil 1982).

    Raises ZeroDivisionError unless `right` is mixed.
    """
    good, bad = sum(right), len(right) - sum(right)
    both, twice = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (good - 1) * (both - area**2) + (bad - 1) * (twice - area**2)
    return math.sqrt(max(0.0, spread) / good / bad)

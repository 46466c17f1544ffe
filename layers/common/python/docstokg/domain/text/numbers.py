"""Comparable numbers."""

import re
from collections import Counter
from functools import lru_cache

from docstokg.domain.text.words import ID_IN_CLAIM, WORD, compatible, normalise

_ONES_TEXT = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_TENS_TEXT = "twenty thirty forty fifty sixty seventy eighty ninety"
_MONTHS_TEXT = (
    "january february march april may june july august september october november december"
)
_ONES = {word: value for value, word in enumerate(_ONES_TEXT.split())}
_TENS = {word: value for value, word in enumerate(_TENS_TEXT.split(), start=2)}
_MONTHS = {month: place for place, month in enumerate(_MONTHS_TEXT.split(), start=1)}
_SCALES = {"half": 2, "twice": 2, "double": 2, "dozen": 12, "hundred": 100, "thousand": 1000}
_OTHERS = {**_MONTHS, **_SCALES}
NUMBER_WORDS = frozenset((*_ONES, *_TENS, *_SCALES, "million", "billion"))
MONTH_WORDS = frozenset((*_MONTHS, *(month[:3] for month in _MONTHS)))
_DENIALS = frozenset(("no", "not", "never", "none", "nor", "cannot", "without", "t"))
# Digits that are part of a name (p53, HP:0001250) are not a number.
_DIGITS = re.compile(
    r"(?<![^\W\d])\d{1,3}(?:[,\u2009\u202f'\u2019]\d{3})+(?:\.\d+)?(?!\d)|(?<![^\W\d_])\d+(?:[.,]\d+)*"
)
_GROUPED = re.compile(r"(?<=\d)[,\u2009\u202f'\u2019](?=\d{3}(?:\D|\Z))")


@lru_cache(maxsize=4096)
def numbers(text: str) -> frozenset[str]:
    """Return the numbers in digits outside ids and names: `1,200.50` as `1200.5`, `007` as `7`."""
    plain = ID_IN_CLAIM.sub(" ", compatible(text))
    return frozenset(_canonical(match[0]) for match in _DIGITS.finditer(plain))


def stated_numbers(text: str) -> frozenset[str]:
    """Return `numbers`, the parts of dates and decimals, and numbers and months in words."""
    found = set(numbers(text))
    found.update(part.lstrip("0") or "0" for one in tuple(found) for part in one.split("."))
    before = 0
    for word in WORD.findall(text.casefold()):
        value = _ONES.get(word, _OTHERS.get(word))
        if word in _TENS:
            before = 10 * _TENS[word]
            found.add(str(before))
            continue
        if value is not None:
            found.add(str(value))
            if before and 0 < value < 10:
                found.add(str(before + value))
        before = 0
    return frozenset(found)


@lru_cache(maxsize=4096)
def values(text: str) -> Counter[str]:
    """Count the numbers and negations of a text; texts that differ in them may disagree."""
    denials = (word for word in WORD.findall(normalise(text)) if word in _DENIALS)
    return Counter([*numbers(text), *denials])


def _canonical(digits: str) -> str:
    whole, point, decimals = _GROUPED.sub("", digits).replace(",", ".").partition(".")
    decimals = decimals.rstrip("0") if "." not in decimals else decimals
    return (whole.lstrip("0") or "0") + (f"{point}{decimals}" if decimals else "")

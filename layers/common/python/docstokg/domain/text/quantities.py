"""Numbers with their units and dates, as values: written in digits or in words."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from docstokg.domain.text.words import ID_IN_CLAIM, WORD, compatible, normalise

Date = tuple[int | None, int | None, int | None]
"""Year, month and day; None for what is not said."""

_ONES_TEXT: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_ONES: Final = _ONES_TEXT.split()
_TENS: Final = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SMALL: Final = {word: float(value) for value, word in enumerate(_ONES)} | {
    word: 20.0 + 10 * place for place, word in enumerate(_TENS)
}
_SCALES: Final = {
    "hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12,
    "dozen": 12.0,
}  # fmt: skip
_PARTS: Final = {"half": 2, "halves": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4} | {
    f"{word}th{plural}": number
    for number, word in enumerate(("four", "fif", "six", "seven", "eigh", "nin", "ten"), start=4)
    for plural in ("", "s")
}
_OF: Final = frozenset(("of", "out", "the", "all"))
_TIMES: Final = {"twice": 2.0, "double": 2.0, "thrice": 3.0}
NUMBER_WORDS: Final = frozenset((*_SMALL, *_SCALES, *_TIMES))
_MONTHS_TEXT: Final = (
    "january february march april may june july august september october november december"
)
_MONTHS: Final = {
    name[:length]: place
    for place, name in enumerate(_MONTHS_TEXT.split(), start=1)
    for length in (3, len(name))
} | {"sept": 9}  # fmt: skip
MONTH_WORDS: Final = frozenset(_MONTHS)
_SYMBOLS: Final = frozenset(
    f"{prefix}{base}"
    for prefix in ("", "n", "u", "\u03bc", "m", "c", "d", "k", "g", "t", "h")
    for base in ("g", "m", "l", "w", "v", "a", "j", "hz", "pa", "b", "bit", "mol", "s", "wh")
) | {"bar", "kcal", "cal", "rpm", "psi", "ppm", "mi", "ft", "lb", "oz", "eur", "usd", "gbp", "iu"}
_LONG_UNITS: Final = {
    "percent": "%", "percentage": "%", "pct": "%", "%": "%", "fold": "fold", "times": "fold",
    "yr": "year", "mo": "month", "wk": "week", "hr": "hour", "h": "hour", "min": "minute",
    "sec": "second", "s": "second", "d": "day", "degree": "\u00b0", "\u00b0": "\u00b0",
    "\u00b0c": "\u00b0c", "\u00b0f": "\u00b0f", "litre": "l", "liter": "l",
    "metre": "m", "meter": "m",
    "kilometre": "km", "kilometer": "km", "gram": "g", "milligram": "mg", "kilogram": "kg",
    "microgram": "ug", "\u03bcg": "ug", "mcg": "ug", "milliliter": "ml", "millilitre": "ml",
    "centimeter": "cm", "centimetre": "cm", "millimeter": "mm", "millimetre": "mm",
    "megabyte": "mb", "gigabyte": "gb", "kilobyte": "kb", "byte": "byte", "volt": "v", "watt": "w",
    "kilowatt": "kw", "hertz": "hz", "dollar": "usd", "$": "usd", "euro": "eur", "\u20ac": "eur",
    "pound": "gbp", "\u00a3": "gbp", "mile": "mi", "foot": "ft", "feet": "ft", "inch": "inch",
    "year": "year", "month": "month", "week": "week", "day": "day", "hour": "hour",
    "minute": "minute", "second": "second",
}  # fmt: skip
_MONTH: Final = rf"({'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?"
_NAMED: Final = rf"({'|'.join(month.title() for month in _MONTHS_TEXT.split())})\b"
_DAY: Final = r"(\d{1,2})(?:st|nd|rd|th)?"
_DATES: Final = (
    (re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b"), (0, 1, 2)),
    (re.compile(rf"\b{_DAY}(?: of)? {_MONTH}(?:,? (\d{{4}})\b)?", re.IGNORECASE), (2, 1, 0)),
    (re.compile(rf"\b{_MONTH} {_DAY}\b(?:,? (\d{{4}})\b)?", re.IGNORECASE), (2, 0, 1)),
    (re.compile(rf"\b{_MONTH},?(?: of)? (\d{{4}})\b", re.IGNORECASE), (1, 0, None)),
    # A month alone only where nothing else can stand: "in May", "until late March".
    (re.compile(rf"\b(?:in|by|of|until|since|from|to|late|early|mid) {_NAMED}"), (None, 0, None)),
)
_DIGITS: Final = r"\d{1,3}(?:[,\u2009\u202f]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+"
_TOKEN: Final = re.compile(
    rf"(?<![\w.])(?<![^\W\d_]-)(?P<number>{_DIGITS})|(?P<word>[^\W\d_]+)|"
    r"(?P<sign>[%\u00b0$\u20ac\u00a3][CF]?\b|[%\u00b0$\u20ac\u00a3])|(?P<gap>[^\w\s-])"
)
_NUMERIC: Final = re.compile(r"\d")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_TOLD: Final = NUMBER_WORDS | MONTH_WORDS | _PARTS.keys()
_DENIALS: Final = frozenset(("no", "not", "never", "none", "nor", "cannot", "without", "t"))
"""Words that make two nearly equal passages two pieces of evidence; `t`: of "don't"."""
_YEAR: Final = re.compile(r"1\d{3}|20\d\d")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as a value with its unit's short name ("" when it has none we know), or a date.

    `digits`: after the decimal point as written. `date`: where it is one, `value` is its year,
    or 0; four digits that can be a year, without a unit, are a date as well.
    """

    value: float
    unit: str = ""
    digits: int = 0
    date: Date | None = None


@lru_cache(maxsize=4096)
def quantities(text: str) -> tuple[Quantity, ...]:
    """Return the dates, then the numbers that a sentence states, each in order.

    Digits glued to letters (p53, CO2, HP:0001250) are names, and "one" is a number before a unit
    or another number only.
    """
    plain = ID_IN_CLAIM.sub(" ", compatible(text))
    if not _NUMERIC.search(plain) and _TOLD.isdisjoint(_LETTERS.findall(plain.casefold())):
        return ()
    found: list[Quantity] = []
    for pattern, (year, month, day) in _DATES:
        for match in pattern.finditer(plain):
            parts = match.groups()
            date = tuple(
                None if at is None or parts[at] is None else _number_of(parts[at])
                for at in (year, month, day)
            )
            found.append(Quantity(float(date[0] or 0), date=(date[0], date[1], date[2])))
        plain = pattern.sub(" ; ", plain)
    tokens = [(match.lastgroup or "", match[0].casefold()) for match in _TOKEN.finditer(plain)]
    at = before = 0
    while at < len(tokens):
        value, digits, end = _value(tokens, at)
        if end == at:
            at += 1
            continue
        between = {word for _, word in tokens[before:at]}
        unit, end = _unit(tokens, at, end)
        if unit or value != 1 or tokens[at][0] == "number":
            if before and "of" in between and between <= _OF and not found[-1].unit:
                # "26 of 27" is another figure than "26 of 30".
                found[-1] = replace(found[-1], unit=f"of {value:g}", date=None)
            is_year = not unit and _YEAR.fullmatch(tokens[at][1]) is not None and end - at == 1
            found.append(
                Quantity(value, unit, digits, (int(value), None, None) if is_year else None)
            )
            before = end
        at = end
    return tuple(found)


def _number_of(part: str) -> int:
    return _MONTHS[part.casefold()] if part[0].isalpha() else int(part)


def _value(tokens: list[tuple[str, str]], at: int) -> tuple[float, int, int]:  # noqa: C901, PLR0912 - one branch a kind of numeral
    """Read the number at a token: its value, its decimals, and where it ends (`at` for none)."""
    kind, text = tokens[at]
    digits = 0
    if kind == "number":
        plain = re.sub(r"[^\d.]", "", text)
        total, current, digits = 0.0, float(plain), len(plain.partition(".")[2])
    elif text in _SMALL:
        total, current = 0.0, _SMALL[text]
    elif text in _TIMES:
        return _TIMES[text], 0, at + 1
    elif text == "half":
        return 0.5, 0, at + 1
    elif text in ("a", "an") and _word(tokens, at + 1) in _SCALES.keys() | _PARTS.keys():
        total, current = 0.0, 1.0
    else:
        return 0.0, 0, at
    end = at + 1
    while (word := _word(tokens, end)) is not None:
        if word in _SCALES:
            current, digits = current * _SCALES[word], 0
            if _SCALES[word] >= 1e3:
                total, current = total + current, 0.0
        elif word in _PARTS and current:
            return (total + current) / _PARTS[word], 0, end + 1
        elif word in _SMALL and kind == "word":
            value = _SMALL[word]
            if current % 100 == 0 or (value < 10 <= current and current % 10 == 0):
                current += value
            elif 10 <= current < 100 and value >= 10:
                # "Nineteen sixty-two" is said of years.
                current = 100 * current + value
            else:
                break
        elif word == "and" and _word(tokens, end + 1) in _SMALL and (total or current >= 100):
            pass
        else:
            break
        end += 1
    return total + current, digits, end


def _word(tokens: list[tuple[str, str]], at: int) -> str | None:
    return tokens[at][1] if at < len(tokens) and tokens[at][0] == "word" else None


def _unit(tokens: list[tuple[str, str]], at: int, end: int) -> tuple[str, int]:
    """Return the unit behind a number, or the sign of a currency before it, and where it ends."""
    end += int(tokens[at][1] == "half" and _word(tokens, end) in ("a", "an"))
    if end < len(tokens) and tokens[end][0] in ("word", "sign"):
        word = tokens[end][1]
        singular = word.removesuffix("s") if len(word) > 3 else word
        if unit := _LONG_UNITS.get(word) or _LONG_UNITS.get(singular):
            return unit, end + 1
        if word in _SYMBOLS and word not in ("a", "mi"):
            return word, end + 1
    if at and tokens[at - 1][1] in ("$", "\u20ac", "\u00a3"):
        return _LONG_UNITS[tokens[at - 1][1]], end
    return "", end


@lru_cache(maxsize=4096)
def values(text: str) -> Counter[object]:
    """Count the quantities and the denials of a text: texts that differ in them may disagree."""
    denials = (word for word in WORD.findall(normalise(text)) if word in _DENIALS)
    return Counter([*quantities(text), *denials])

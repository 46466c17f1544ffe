"""Values that are written in different ways: dates, clock times, amounts, ordinals, numbers.

`value_words.txt` lists names of months, numbers, scales and units in English, German, French,
Spanish, Italian, Portuguese and Dutch.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import cache, lru_cache
from importlib import resources
from itertools import pairwise
from typing import Literal, NamedTuple
from unicodedata import numeric

from docstokg.domain.text.words import ID_IN_CLAIM, WORD, compatible, normalise

Kind = Literal["date", "day", "clock", "amount", "number", "ordinal", "id"]
_DENIALS = frozenset(("no", "not", "never", "none", "nor", "cannot", "without", "t"))
# Digits that are part of a name (p53, HP:0001250) are not a number.
_DIGITS = re.compile(
    r"(?<!\w)\d{1,3}(?:[,\u2009\u202f'\u2019]\d{3})+(?:\.\d+)?(?!\d)|(?<![^\W_])\d+(?:[.,]\d+)*"
)
_GROUPED = re.compile(r"(?<=\d)[,\u2009\u202f'\u2019](?=\d{3}(?:\D|\Z))")
_RANGE = re.compile(
    r"\s*(?:-|\u2013|\u2014|to|until|till|through|and|bis|und|\u00e0|et|a|hasta|y|al?|alle|e|at\u00e9|tot|en|\u81f3)\s*",
    re.IGNORECASE,
)
# 10^6, 2.5 x 10^-3, 10<sup>6</sup>, 10\ :sup:`6`, or with a Unicode exponent.
_POWER = re.compile(
    r"(?<![\w.,])(?:(?P<v>\d+(?:[.,]\d+)?)\s?[\u00d7\u00b7x*]\s?)?10"
    r"(?:\^\(?|<sup>|(?:\\ )?:sup:`|(?=[\u00b2\u00b3\u00b9\u2070\u2074-\u207b]))"
    r"(?P<e>[-\u2212+]?\d{1,2}(?!\d)|[\u00b2\u00b3\u00b9\u2070\u2074-\u207b]{1,3})(?:\)|</sup>|`)?"
)
# E-007, L.0417-B, utf8
_ID = re.compile(
    r"(?<![^\W_])(?P<x>[a-z]{1,4})[-./_]?(?P<v>\d{1,6})(?:[-./]?(?P<w>[a-z]))?(?!\w|[.,]\d)", re.I
)
# Days of a month that a date without a year is counted by: month x 32 + day.
_MONTH_DAYS = 32
_QUARTER_DAYS = 92
# Days of months, quarters and years.
_PERIODS = frozenset((28, 29, 30, 31, 90, 91, 92, 365, 366))
_TOLERANCE = 1e-9
_HUNDRED = 100
# Characters of the longest abbreviation of a scale.
_BRIEF = 3
# Digits of a telephone number that are the same with the code of the country.
_SUBSCRIBER = 9
_SHORT_YEAR, _HALF_CENTURY, _CENTURY = 3, 50, 100
_DAY_MINUTES, _TEENS = 1440, 19
# The largest spelled number that often counts nothing.
_VAGUE = 2


class Value(NamedTuple):
    """A value or range at `text[start:end]`, `low` <= `high`.

    "date": proleptic ordinal days. "day": 32 x month + day, without a year. "clock": minutes after
    midnight. "amount": in the first unit listed for its dimension, `unit`. "number", "ordinal":
    plain. "id": `unit` are its letters.
    """

    kind: Kind
    low: float
    high: float
    unit: str = ""
    start: int = 0
    end: int = 0

    def is_part_of_period(self, other: "Value") -> bool:
        """Return whether `other` is a month, quarter or year, and this a shorter time in it."""
        is_inside = other.low <= self.low <= self.high <= other.high and self[:3] != other[:3]
        is_period = other.high - other.low + 1 in _PERIODS
        return self.kind == other.kind == "date" and is_inside and is_period

    def meets(self, other: "Value") -> bool:
        """Return whether both have the same kind and unit, and overlap."""
        width = _TOLERANCE * max(abs(self.high), abs(other.high), 1.0)
        return (
            self.kind == other.kind
            and self.unit == other.unit
            and self.low <= other.high + width
            and other.low <= self.high + width
        )


@cache
def _words() -> dict[str, dict[str, tuple[str, float]]]:
    """Return (unit, factor) by lower-case name, for each kind of name."""
    named: dict[str, dict[str, tuple[str, float]]] = {}
    text = resources.files(__package__).joinpath("value_words.txt").read_text("utf-8")
    for line in text.splitlines():
        kind, *fields = line.split()
        unit = fields.pop(0) if kind == "unit" else ""
        factor, *names = fields
        named.setdefault(kind, {}).update((name, (unit, float(factor))) for name in names)
    return named


def _either(kind: str) -> str:
    names = sorted(_words()[kind], key=len, reverse=True)
    return "|".join(map(re.escape, names))


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return kinds with patterns, in order of precedence."""
    month, number = _either("month"), _either("number")
    day = r"(?P<d>[0-3]?\d)(?:st|nd|rd|th|\.|er|\u00ba)?"
    year = r"(?P<y>(?:1\d|20|21)\d\d|['\u2019]\d\d(?!\d))"
    signs = r"[$\u20ac\u00a3\u00a5\u20b9%]"
    place = rf"(?P<o>{_either('ordinal')}|[1-4](?:st|nd|rd|th|\.)?)"
    quarter = rf"(?:Q(?P<q>[1-4])|(?P<k>[1-4])Q|{place}\s+(?:quarter|quartal|trimestre|kwartaal))"
    grouped = r"\d{1,3}(?:[., \u00a0\u2009\u202f'\u2019]\d{3})+(?!\d)(?:[.,]\d{1,2}(?!\d))?"
    digits = rf"(?:{grouped}|\d+(?:[.,]\d+)?)(?![.,]?\d)"
    scaled = rf"(?:[\s-]?(?P<s>{_either('scale')})\b)?"
    measured = rf"(?:[\s-]{{0,2}}(?:(?<=half )an? )?(?P<u>{_either('unit')}|per cent)(?!\w))?"
    below = rf"(?:{number})(?:[ -](?:{number}))?"
    scales = "|".join(name for name in _words()["scale"] if len(name) > _BRIEF)
    spelled = rf"\b{below}(?:(?:[ -](?:{scales}))+(?:[ -](?:and )?{below})?)*\b"
    codes = rf"(?P<u>{signs}|\b(?:USD|EUR|GBP|CHF|US\$))"
    hour = r"(?P<h>[01]?\d|2[0-4])"
    hour_word = rf"(?P<h>[01]?\d|2[0-4]|{number}|{_either('hour')})"
    tens = "|".join(name for name, (_, size) in _words()["number"].items() if size > _TEENS)
    several = rf"(?P<c>{number})[ -](?=\w+s\b|drittel|viertel|f\u00fcnftel|derde)"
    half_day = r"(?:[ap]\.?m\b\.?|in the (?:morning|afternoon|evening)|at night)"
    before = r"(?P<r>(?<=r )to|(?<=minutes )to|to(?= mid))"
    past = rf"(?P<b>half|quarter|{below})(?: minutes)? (?:past|{before})"
    parted = "of|off|majority|ha[ds]|have|is|are|was|were|der|des|de|du|del|della|do|da|van"
    share_of = rf"(?=\s+(?:{parted})\b|\s*(?:[.,;:?!)]|\Z))"
    chinese = r"(?P<m>\d\d?)\s?\u6708"
    texts = (
        ("date", r"(?P<y>\d{4})-(?P<m>[01]\d)-(?P<d>[0-3]\d)"),
        ("date", rf"(?P<y>\d{{4}})\s?\u5e74(?:\s?{chinese}(?:\s?(?P<d>\d\d?)\s?\u65e5)?)?"),
        ("date", r"(?P<d>\d{1,2})(?P<p>[./-])(?P<m>\d{1,2})(?P=p)(?P<y>\d{4}|\d\d)(?![.,]?\d)"),
        ("date", rf"(?P<m>0?[1-9]|1[0-2])[/.]{year}(?![\d/])"),
        ("date", rf"{year}-(?P<z>(?P<m>0[1-9]|1[0-2]))(?![\d-])"),
        ("date", r"(?P<y>(?:1\d|20)\d\d)[-\u2013/](?P<z>\d\d)(?![\d-])"),
        ("date", rf"{day}\s+(?:de\s+|of\s+)?(?P<n>{month})\.?(?:,?\s+(?:de\s+|del\s+)?{year})?\b"),
        ("date", rf"(?P<n>{month})\.?\s+{day}(?!\d|:)(?:,?\s+{year})?\b"),
        ("date", rf"(?P<n>{month})\.?,?\s+(?:de\s+|of\s+)?{year}\b"),
        ("date", r"(?P<y>['\u2019]\d\d)(?![\w'\u2019])"),
        ("date", rf"{year}[\s/-]+{quarter}\b"),
        ("date", rf"{quarter}(?:[\s/]+(?:of\s+|in\s+|de\s+|von\s+)?{year})?\b"),
        ("date", r"(?P<k>[1-4])Q[ '\u2019]?(?P<y>\d\d)(?!\d)"),
        ("past", rf"{past} {hour_word}\b(?: (?P<ap>{half_day}))?"),
        ("clock", rf"{hour}[:h](?P<i>[0-5]\d)(?!\d)(?:\s?(?P<ap>{half_day}))?(?:\s?(?:uhr|h)\b)?"),
        ("clock", rf"{hour}(?:\.(?P<i>[0-5]\d))?\s?(?:(?P<ap>{half_day})|o'clock|uhr\b|heures\b)"),
        ("hour", rf"(?P<h>{number})\s(?:(?P<ap>{half_day})|o'clock|uhr\b|heures\b)"),
        ("clock", rf"(?P<h>{_either('hour')})\b"),
        ("clock", r"(?P<h>[01]\d|2[0-4])(?P<i>[0-5]\d)\s?(?:hrs|hours|h|uhr)\b"),
        ("share", rf"(?:{several}|an? |one[ -])(?P<f>{_either('share')}){share_of}"),
        ("share", r"(?P<f>half)(?=\s+of\b)"),
        ("rate", rf"(?P<c>{number}|\d+) (?:in|out of) (?P<w>{number}|\d+)\b"),
        ("share", r"(?P<c>\d)/(?P<w>\d\d?)(?=\s+of\b)"),
        ("share", r"(?P<v>\d*)(?P<x>[\u00bc-\u00be\u2150-\u215e])(?:\s?(?P<u>%|per\s?cent\b))?"),
        ("ordinal", r"(?P<v>\d{1,3})(?:st|nd|rd|th)\b"),
        ("ordinal", rf"(?:(?P<t>{tens})[ -])?(?P<w>{_either('ordinal')})\b"),
        ("amount", rf"{codes}\s?(?P<v>{digits}){scaled}"),
        ("code", r"(?P<x>(?:\+\d|0\d)[\d ()/.-]{4,}\d)"),
        ("code", r"v\.?\s?(?P<v>\d+(?:\.\d+)?)(?![.,]?\d)"),
        ("amount", rf"(?P<v>{digits}|{spelled}){scaled}{measured}"),
        # "may" and "mars" are months only with a capital.
        ("date", rf"(?-i:(?=[A-Z]))(?P<n>{month})\b"),
    )
    return tuple(
        (kind, re.compile(rf"(?<![^\W_])(?<!\d[.,:])(?:{text})", re.IGNORECASE))
        for kind, text in texts
    )


@cache
def _hints() -> dict[str, re.Pattern[str]]:
    """Return what a text with a value has, for kinds whose patterns begin with slow lists."""
    hints = {
        "past": "past|[rs] to|to mid",
        "hour": r"o'clock|in the [aem]|at night|\s[ap]\.?m\b|uhr|heures",
        "share": rf"{_either('share')}|[\u00bc-\u00be\u2150-\u215e]|/",
        "rate": r"(?:e|o|n|\d) (?:in|out of) (?:\d|one|t|f|s|eight|nine)",
    }
    return {kind: re.compile(hint, re.IGNORECASE) for kind, hint in hints.items()}


@lru_cache(maxsize=4096)
def numbers(text: str) -> frozenset[str]:
    """Return the numbers in digits outside ids and names: `1,200.50` as `1200.5`, `007` as `7`."""
    plain = _POWER.sub(lambda match: f"{_power(match):f}", text)
    plain = ID_IN_CLAIM.sub(" ", compatible(plain))
    return frozenset(_canonical(match[0]) for match in _DIGITS.finditer(plain))


@lru_cache(maxsize=4096)
def quantities(text: str) -> Counter[str]:
    """Count the numbers and negations of a text; texts that differ in them may disagree.

    Spelled numbers below 3 often count nothing ("one of the") and are left out.
    """
    words = WORD.findall(normalise(text))
    denials = (word for word in words if word in _DENIALS)
    spelled = (_counted()[word] for word in words if word in _counted())
    return Counter([*numbers(text), *denials, *spelled])


@cache
def _counted() -> dict[str, str]:
    """Return the digits of spelled numbers from 3."""
    sizes = {name: size for name, (_, size) in _words()["number"].items()}
    return {name: f"{size:g}" for name, size in sizes.items() if size > _VAGUE}


def _canonical(digits: str) -> str:
    whole, point, decimals = _GROUPED.sub("", digits).replace(",", ".").partition(".")
    decimals = decimals.rstrip("0") if "." not in decimals else decimals
    return (whole.lstrip("0") or "0") + (f"{point}{decimals}" if decimals else "")


@lru_cache(maxsize=4096)
def values(text: str) -> tuple[Value, ...]:
    """Return the values of a text in order, and each range between two of them as one.

    Numbers that can be read with either separator ("1.234") are in both readings.
    """
    points = _points(text)
    return (*points, *_ranges(text, points), *_sums(text, points))


def identifiers(text: str) -> Iterator[Value]:
    """Yield the ids of letters and digits in a text, alike with and without signs and zeros."""
    for match in _ID.finditer(text):
        letters = f"{match['x']} {match['w'] or ''}".lower()
        yield Value("id", float(match["v"]), float(match["v"]), letters, *match.span())


@lru_cache(maxsize=4096)
def _points(text: str) -> tuple[Value, ...]:
    points: list[Value] = []
    taken = bytearray(len(text))  # 1 for each character of a value

    def take(start: int, end: int) -> None:
        taken[start:end] = b"\1" * (end - start)

    plain = ID_IN_CLAIM.sub(lambda match: " " * len(match[0]), text)
    for match in _POWER.finditer(plain):
        number = float(_power(match))
        take(*match.span())
        points.append(Value("number", number, number, "", *match.span()))
    for kind, pattern in _patterns():
        hint = _hints().get(kind)
        for match in pattern.finditer(plain) if hint is None or hint.search(plain) else ():
            if 1 in taken[match.start() : match.end()]:
                continue
            readings = list(_readings(kind, match))
            if readings:
                take(*match.span())
                points += [Value(*reading[:4], *match.span()) for reading in readings]
    return tuple(sorted(points, key=lambda point: (point.start, point.kind)))


def _power(match: re.Match[str]) -> Decimal:
    exponent = compatible(match["e"]).replace("\u2212", "-")
    return Decimal((match["v"] or "1").replace(",", ".")).scaleb(int(exponent))


def _readings(kind: str, match: re.Match[str]) -> Iterator[Value]:
    fields = match.groupdict()
    if kind == "date":
        yield from _dates(fields)
    elif kind in ("clock", "past", "hour"):
        yield from _clocks(fields)
    elif kind == "ordinal":
        named = _words()["ordinal"].get((fields.get("w") or "").lower(), ("", 0.0))[1]
        place = float(fields.get("v") or _spelled(fields.get("t") or "") + named)
        yield Value("ordinal", place, place)
    elif kind in ("share", "rate"):
        yield from _shares(fields)
    elif kind == "code":
        number = float(re.sub(r"\D", "", fields.get("x") or "")[-_SUBSCRIBER:] or fields["v"])
        yield Value("number", number, number)
    else:
        yield from _amounts(fields)


def _clocks(fields: Mapping[str, str | None]) -> Iterator[Value]:
    """Yield the time; twelve hours later too if it is in words without a part of the day."""
    named, part = (fields["h"] or "").lower(), (fields.get("ap") or "").lower()
    hour = float(named) if named.isdigit() else {**_words()["number"], **_words()["hour"]}[named][1]
    before = (fields.get("b") or "").lower()
    minutes = {"half": 30, "quarter": 15}.get(before, _spelled(before))
    minutes = -minutes if fields.get("r") else minutes + int(fields.get("i") or 0)
    is_late = part.startswith(("p", "in the a", "in the e", "at"))
    is_open = not part and (before or not named.isdigit()) and named not in _words()["hour"]
    for later in (0, 12) if is_open else (12 * is_late,):
        time = (60 * (hour + later * (hour < 12)) + minutes) % _DAY_MINUTES
        yield Value("clock", time, time)


def _shares(fields: Mapping[str, str | None]) -> Iterator[Value]:
    """Yield "three quarters of it", "1 in 5", "2/5 of it" and "66\u2154 %" as percentages."""
    if sign := fields.get("x"):
        part = int(fields["v"] or 0) + numeric(sign)
        percent = part if fields["u"] else 100 * part
        yield Value("number", part, part)
    elif name := fields.get("f"):
        percent = _count(fields.get("c") or "1") * _words()["share"][name.lower()][1]
    else:
        percent = 100 * _count(fields["c"]) / (_count(fields["w"]) or 1)
    yield Value("amount", percent, percent, "%")


def _count(amount: str | None) -> float:
    return float(amount) if amount and amount.isdecimal() else _spelled(amount or "")


def _dates(fields: dict[str, str | None]) -> Iterator[Value]:
    year = _year(fields.get("y") or "")
    quarter = fields.get("q") or fields.get("k") or fields.get("o")
    if quarter:
        place = (
            int(quarter[0])
            if quarter[0].isdigit()
            else int(_words()["ordinal"][quarter.lower()][1])
        )
        if not 1 <= place <= 4:
            return
        yield from _span(year, 3 * place - 2, 1, 3 * place, 31)
        return
    if last := fields.get("z"):
        until = year // _CENTURY * _CENTURY + int(last)
        if until > year:
            yield Value("date", date(year, 1, 1).toordinal(), date(until, 12, 31).toordinal())
        if not fields.get("m"):
            return
    named = fields.get("n")
    month = int(_words()["month"][named.lower()][1]) if named else int(fields.get("m") or 0)
    day = int(fields.get("d") or 0)
    # Day and month in digits, with a slash, are read in both orders.
    orders = {(month, day), (day, month)} if fields.get("p") == "/" else {(month, day)}
    for first, second in sorted(orders):
        if first <= 12 and second <= 31:
            yield from _span(year, first or 1, second or 1, first or 12, second or 31)


def _year(digits: str) -> int:
    """Return a year, 0 for ""; of two digits, the one from 1950 to 2049."""
    year = int(digits.lstrip("'\u2019") or 0)
    return (
        year
        if len(digits) > _SHORT_YEAR or not digits
        else year + (2000 if year < _HALF_CENTURY else 1900)
    )


def _span(year: int, month: int, day: int, last: int, end: int) -> Iterator[Value]:
    if year:
        opening, closing = (
            date(year, number, min(count, _last_day(year, number))).toordinal()
            for number, count in ((month, day), (last, end))
        )
        yield Value("date", opening, closing)
    if (month, last) != (1, 12):
        yield Value("day", _MONTH_DAYS * month + day, _MONTH_DAYS * last + end)


def _last_day(year: int, month: int) -> int:
    return (date(year, month + 1, 1) - date(year, month, 1)).days if month < 12 else 31


def _amounts(fields: dict[str, str | None]) -> Iterator[Value]:
    amount, unit = fields["v"] or "", (fields.get("u") or "").lower().replace("per c", "perc")
    letter = fields.get("s") or ""
    if letter == "m" and not unit:
        # "3 m" is a length, "3M" three millions.
        letter, unit = "", "m"
    scale = _words()["scale"][letter.lower()][1] if letter else 1.0
    name, factor = _words()["unit"].get(unit, ("", 1.0))
    for number in _numbers(amount) if any(map(str.isdigit, amount)) else {_spelled(amount)}:
        size = number * scale * factor
        if name:
            yield Value("amount", size, size, name)
        yield Value("number", number * scale, number * scale)
        if not name and scale == 1 and len(amount) == 4 and 1000 <= number < 2200:
            yield from _span(int(number), 1, 1, 12, 31)


def _spelled(amount: str) -> float:
    """Return the number of "two thousand four hundred and six"."""
    total, last = 0.0, 0.0
    for word in re.split("[ -]", amount.lower()):
        _, number = _words()["number"].get(word, ("", 0.0))
        _, scale = _words()["scale"].get(word, ("", 1.0))
        last = (last or 1.0) * scale if scale > 1 else last + number
        if scale > _HUNDRED:
            total, last = total + last, 0.0
    return total + last


def _numbers(digits: str) -> set[float]:
    """Return the readings of digits: a single separator before three digits has two."""
    bare = re.sub(r"[\s'\u2019]", "", digits)
    marks = [mark for mark in bare if mark in ".,"]
    if not marks:
        return {float(bare)}
    last = max(bare.rfind("."), bare.rfind(","))
    whole, decimals = re.sub("[.,]", "", bare[:last]), bare[last + 1 :]
    grouped, pointed = float(whole + decimals), float(f"{whole}.{decimals}")
    if len(set(marks)) > 1:
        return {pointed}
    if len(marks) > 1:
        return {grouped}
    return {grouped, pointed} if len(decimals) == 3 and whole != "0" else {pointed}


def _ranges(text: str, points: Sequence[Value]) -> Iterator[Value]:
    ends: dict[int, list[Value]] = {}
    for value in points:
        ends.setdefault(value.end, []).append(value)
    borders = sorted(ends)
    for last in points:
        place = bisect_right(borders, last.start) - 1
        if place < 0 or not _RANGE.fullmatch(text, border := borders[place], last.start):
            continue
        for first in _with_unit(ends[border], last, ends[last.end]):
            is_same = (first.kind, first.unit) == (last.kind, last.unit)
            if is_same and first.low <= last.high and _are_read_alike(first, last, ends):
                yield Value(last.kind, first.low, last.high, last.unit, first.start, last.end)


def _with_unit(firsts: list[Value], last: Value, ends: Sequence[Value]) -> Iterator[Value]:
    """Yield the first ends of a range; plain numbers also in the unit of the last end."""
    yield from firsts
    number = next((value.low for value in ends if value.kind == "number"), 0.0)
    if number and last.unit and not any(value.unit for value in firsts):
        for first in firsts:
            if first.kind == "number":
                yield first._replace(
                    kind="amount", low=first.low * last.low / number, unit=last.unit
                )


def _sums(text: str, points: Sequence[Value]) -> Iterator[Value]:
    """Yield amounts in two units, as "2 h 30 min", as one."""
    amounts = [point for point in points if point.kind == "amount"]
    for first, second in pairwise(amounts):
        is_joined = not text[first.end : second.start].replace("and", "").strip()
        if is_joined and first.unit == second.unit and first.low > second.low:
            size = first.low + second.low
            yield Value("amount", size, size, first.unit, first.start, second.end)


def _are_read_alike(first: Value, last: Value, ends: Mapping[int, Sequence[Value]]) -> bool:
    """Return whether two values are read with the same separator, or one has a single reading."""
    readings = {_reading(value, ends[value.end]) for value in (first, last)}
    return None in readings or len(readings) == 1


def _reading(value: Value, others: Sequence[Value]) -> int | None:
    """Return 0 for the lower of two readings of a number, 1 for the higher; else None."""
    kind = (value.kind, value.unit)
    sizes = sorted(other.low for other in others if (other.kind, other.unit) == kind)
    return sizes.index(value.low) if len(sizes) == 2 else None


def is_stated(claimed: Value, evidence: Sequence[Value]) -> bool:
    """Return whether one of the stated values or ranges agrees with the claimed one."""
    return any(claimed.meets(value) for value in evidence)


def other_notations(text: str) -> str:
    """Return the words of other notations of a text's dates, months and quarters; "" without."""
    words: dict[str, None] = {}
    for value in _points(text):
        if value.kind != "date" or value.high - value.low > _QUARTER_DAYS:
            continue
        first, last = (date.fromordinal(int(end)) for end in (value.low, value.high))
        months = [name for name, (_, month) in _words()["month"].items() if month == first.month]
        if (last - first).days < _MONTH_DAYS:
            words.update(dict.fromkeys((*months[:2], f"{first:%m}")))
            if first == last:
                words.update(dict.fromkeys((f"{first:%d}", str(first.day))))
        else:
            quarter = last.month // 3
            places = [name for name, (_, n) in _words()["ordinal"].items() if n == quarter]
            words.update(dict.fromkeys((f"q{quarter}", *places[:2], "quarter")))
        words[str(first.year)] = None
    return " ".join(words)


def unstated(claim: str, *texts: str) -> tuple[str, ...]:
    """Return the numbers of a claim, as written, that no text has in any notation, in order.

    Spelled numbers below 3 and ordinals often count nothing ("one of the") and are not listed.
    """
    points = _points(claim)
    plain = ID_IN_CLAIM.sub(lambda match: " " * len(match[0]), claim)
    written = list(_DIGITS.finditer(plain))
    spelled = [
        (point.start, point.end)
        for point in points
        if point.kind == "number"
        and point.low > _VAGUE
        and not any(map(str.isdigit, claim[point.start : point.end]))
    ]
    if not written and not spelled:
        return ()
    # Each text is read once, whatever it is combined with.
    evidence = [value for text in texts for value in values(text)]
    digits = frozenset[str]().union(*map(numbers, texts))
    dated = {(point.start, point.end) for point in points if point.kind == "date"}
    # The day of a date with a year counts only with that year.
    matched = [
        point
        for point in points
        if is_stated(point, evidence)
        and (point.kind != "day" or (point.start, point.end) not in dated)
    ]
    spans = [match.span() for match in written if _canonical(match[0]) not in digits] + spelled
    missing = sorted(
        (start, end)
        for start, end in spans
        if not any(point.start <= start and end <= point.end for point in matched)
    )
    return tuple(dict.fromkeys(claim[start:end] for start, end in missing))

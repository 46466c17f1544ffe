"""What a sentence says, as far as counting can tell: stems, numbers, names, ids, signs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from docstokg.domain.text.words import CLAIM_STOP_WORDS, ID_IN_CLAIM, WORD, compatible, normalise

_NAME: Final = re.compile(r"[^\W\d_][\w\u0370-\u03ff]*(?:[-/+][\w]+)*")
_QUANTITY: Final = re.compile(
    r"(?<![\w.])(?<![^\W\d_]-)(?P<number>\d{1,3}(?:[,\u2009\u202f]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
    r"\s?(?P<unit>%|\u00b0|[^\W\d_]{1,12}\b(?:/[^\W\d_]{1,8})?)?"
)
_SPELLED: Final = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "twenty": 20, "thirty": 30,
    "forty": 40, "fifty": 50, "hundred": 100, "thousand": 1000, "million": 1e6, "billion": 1e9,
    "twice": 2, "double": 2, "doubled": 2, "half": 0.5, "third": 3, "quarter": 0.25,
}  # fmt: skip
_SCALES: Final = {"hundred": 100.0, "thousand": 1e3, "million": 1e6, "billion": 1e9}
_UNITS: Final = {
    "percent": "%", "percentage": "%", "pct": "%", "yr": "year", "yrs": "year", "years": "year",
    "y": "year", "mo": "month", "months": "month", "wk": "week", "wks": "week", "weeks": "week",
    "d": "day", "days": "day", "h": "hour", "hr": "hour", "hrs": "hour", "hours": "hour",
    "min": "minute", "mins": "minute", "minutes": "minute", "s": "second", "sec": "second",
    "seconds": "second", "fold": "fold", "times": "fold", "mgs": "mg", "patients": "patient",
    "people": "person", "persons": "person", "mm": "mm", "cm": "cm", "kg": "kg", "g": "g",
    "mg": "mg", "ml": "ml", "nm": "nm", "um": "um", "kb": "kb", "mb": "mb", "gb": "gb",
    "year": "year", "month": "month", "week": "week", "day": "day", "hour": "hour",
    "minute": "minute", "second": "second", "%": "%", "\u00b0": "\u00b0",
    "l": "l", "m": "m", "km": "km", "hz": "hz", "mol": "mol", "mmol": "mmol", "nmol": "nmol",
    "usd": "usd", "eur": "eur", "dollars": "usd", "euros": "eur", "patient": "patient",
}  # fmt: skip

_NEGATIONS_TEXT: Final = (
    "no not never neither nor none cannot without lack lacks lacking lacked absence absent fail "
    "fails failed failing unable nothing unlikely unrelated unaffected unchanged rarely hardly "
    "insufficient independent independently false incorrect disprove refute dispensable "
    "unnecessary unaltered nonsignificant insignificant neg"
)
NEGATIONS: Final = frozenset(_NEGATIONS_TEXT.split())
_OPPOSITES_TEXT: Final = (
    "increase/decrease increase/reduce increase/lower increase/diminish higher/lower high/low "
    "more/less more/fewer greater/less greater/smaller larger/smaller large/small "
    "positive/negative promote/inhibit promote/suppress promote/prevent promote/reduce "
    "activate/inhibit activate/suppress activate/repress activate/inactivate activate/deactivate "
    "induce/inhibit induce/suppress induce/prevent induce/reduce enhance/reduce enhance/impair "
    "enhance/inhibit enhance/attenuate enhance/suppress enhance/decrease upregulate/downregulate "
    "stimulate/inhibit stimulate/suppress improve/impair improve/worsen improve/reduce "
    "better/worse longer/shorter long/short gain/loss sensitive/resistant susceptible/resistant "
    "sensitivity/resistance susceptible/protect elevate/reduce elevate/decrease elevate/lower "
    "accelerate/delay accelerate/slow facilitate/inhibit facilitate/impair strengthen/weaken "
    "stronger/weaker expand/shrink rise/fall success/fail common/rare common/uncommon major/minor "
    "beneficial/harmful benefit/harm same/different similar/different early/late first/last "
    "male/female men/women man/woman cause/prevent aggravate/alleviate exacerbate/ameliorate "
    "worsen/ameliorate effective/ineffective extend/shorten dominant/recessive benign/malignant "
    "acute/chronic internal/external import/export open/close allow/prohibit allow/forbid "
    "true/false maximum/minimum best/worst presence/absence present/absent methylate/demethylate "
    "excitatory/inhibitory hyperpolarize/depolarize stable/unstable stabilize/destabilize "
    "young/old younger/older adult/child protect/damage required/dispensable "
    "necessary/dispensable essential/dispensable overexpress/knockdown raise/lower raise/reduce "
    "boost/reduce support/oppose win/lose won/lost buy/sell profit/loss mild/severe "
    "associated/unassociated "
    "related/unrelated dependent/independent equal/unequal "
    "separate/shared separate/common enable/disable show/hide include/exclude "
    "create/delete add/remove keep/delete allow/deny upload/download "
    "encrypt/decrypt compress/decompress mount/unmount lock/unlock append/prepend "
    "append/overwrite install/uninstall optional/mandatory optional/required "
    "ascending/descending synchronous/asynchronous"
)
_OPPOSITES: Final = _OPPOSITES_TEXT.split()
_ALIKE_TEXT: Final = (
    "require/need/necessary/must involve/use/include/consist/comprise/contain "
    "cause/lead/result/trigger/produce/induce/due remove/delete/erase/drop/discard/clear "
    "create/make/build/generate/produce show/print/display/output/list/write "
    "begin/start/arise/originate/develop help/improve/aid/support increase/raise/elevate "
    "reduce/decrease/lower keep/retain/preserve stop/end/terminate/exit "
    "occur/happen/develop/appear/arise affect/impact/change/influence/alter "
    "detect/find/identify/see provide/give/offer become/turn recommend/advise/prefer "
    "check/test/verify/assess/evaluate/examine allow/let/permit/enable set/specify/choose/select "
    "receive/get/obtain return/give/yield exit/return/status "
    "send/sent keep/kept write/wrote/written run/ran find/found build/built hold/held leave/left "
    "lose/lost make/made take/took/taken give/gave/given begin/began/begun choose/chosen "
    "know/known show/shown hide/hidden tell/told teach/taught bring/brought bind/bound"
)


_ENDINGS: Final = (
    "ivities", "ivity", "izations", "isations", "ization", "isation", "fulness", "ousness",
    "iveness", "ational", "ations", "ically", "ities", "ation", "ments", "ating", "ators", "ement",
    "ingly", "edly",
    "ator", "ates", "ated", "ness", "ment", "ible", "able", "ical", "ance", "ence",
    "ency", "ancy",
    "ives", "ions", "ings", "ally", "ity", "ize", "ise", "ied", "ies", "ive", "ion", "ing",
    "ant", "ent", "ous", "ate", "ers", "est", "ed", "es", "ly", "al", "er", "ic", "or", "iv", "s",
    "e", "y",
)  # fmt: skip
_SHORTEST_STEM: Final = 3


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as a value with its unit's short name ("" when it has none we know).

    `digits`: after the decimal point as written. `exact`: written in digits, not in words.
    """

    value: float
    unit: str
    digits: int = 0
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Wording:
    """The countable content of one sentence.

    `stems`: content stems in order. `names`: folded names (capitals inside, or a capital after
    the first word).
    """

    stems: tuple[str, ...]
    quantities: tuple[Quantity, ...]
    names: frozenset[str]
    ids: frozenset[str]


def stem(word: str) -> str:
    """Return a crude English stem of a folded word; equal for most inflections, never empty.

    Cruder than `folding.singular`, which only undoes plurals: a name must stay one.

    Longest suffix first, at least three letters stay; applied twice, so that `activations`,
    `activated` and `active` meet. Words with digits are left as they are.
    """
    return _stem(word) if word.isalpha() and word.isascii() else word


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    for _ in range(2):
        for ending in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
                if ending == "s" and word.endswith("ss"):
                    continue
                word = word[: len(word) - len(ending)]
                break
        else:
            break
    if len(word) > _SHORTEST_STEM and word[-1] == word[-2] and word[-1] not in "ls":
        word = word[:-1]
    return word


def _pairs() -> dict[str, frozenset[str]]:
    table: dict[str, set[str]] = {}
    for pair in _OPPOSITES:
        left, right = (stem(word) for word in pair.split("/"))
        table.setdefault(left, set()).add(right)
        table.setdefault(right, set()).add(left)
    return {key: frozenset(partners) for key, partners in table.items()}


def _groups() -> dict[str, frozenset[str]]:
    table: dict[str, set[str]] = {}
    for group in _ALIKE_TEXT.split():
        stems = {stem(word) for word in group.split("/")}
        for one in stems:
            table.setdefault(one, set()).update(stems)
    return {key: frozenset(others) for key, others in table.items()}


OPPOSITES: Final = _pairs()
ALIKE: Final = _groups()
"""Stems of verbs to the stems of those that may say the same, each among its own."""


def content_stems(text: str) -> tuple[str, ...]:
    """Return the stems of all words that are no stop words, in order."""
    return tuple(
        stem(word) for word in WORD.findall(normalise(text)) if word not in CLAIM_STOP_WORDS
    )


# As many sentences as a few hundred answers hold: a server meets new questions without end.
@lru_cache(maxsize=4096)
def read(text: str) -> Wording:
    """Read one sentence."""
    folded = normalise(text)
    words = WORD.findall(folded)
    stems = tuple(stem(word) for word in words if word not in CLAIM_STOP_WORDS)
    return Wording(
        stems=stems,
        quantities=quantities(text),
        names=names(text),
        ids=ids(text),
    )


def ids(text: str) -> frozenset[str]:
    """Return the identifiers (HP:0001250) that a text holds, written with a colon."""
    return frozenset(item.upper().replace("_", ":") for item in ID_IN_CLAIM.findall(text))


def quantities(text: str) -> tuple[Quantity, ...]:
    """Return the numbers stated in `text`, digits and small number words, in order.

    Digits glued to letters (p53, CO2, HP:0001250) are names, not numbers.
    """
    amounts: list[Quantity] = []
    plain = ID_IN_CLAIM.sub(" ", compatible(text))
    for match in _QUANTITY.finditer(plain):
        number = re.sub(r"[^\d.]", "", match["number"])
        unit = (match["unit"] or "").casefold()
        value = float(number)
        if unit in _SCALES:
            value *= _SCALES[unit]
        digits = len(number.partition(".")[2]) if unit not in _SCALES else 0
        amounts.append(Quantity(value, _UNITS.get(unit, ""), digits))
    words = WORD.findall(plain.casefold())
    for index, word in enumerate(words):
        if word in _SPELLED and word not in _SCALES:
            following = words[index + 1] if index + 1 < len(words) else ""
            scale = _SCALES.get(following, 1.0)
            value = float(_SPELLED[word]) * scale
            amounts.append(Quantity(value, _UNITS.get(following, ""), exact=False))
    return tuple(amounts)


def names(text: str) -> frozenset[str]:
    """Return the folded names in one sentence.

    A name has a capital or a digit inside (mTOR, p53, IL-6, NVIDIA), or begins with a capital
    and is not the sentence's first word.
    """
    folded_names: set[str] = set()
    first = True
    for match in _NAME.finditer(text):
        word = match[0]
        inner = any(char.isupper() or char.isdigit() for char in word[1:])
        if len(word) > 1 and (inner or (word[0].isupper() and not first)):
            folded = normalise(word)
            if folded not in CLAIM_STOP_WORDS:
                folded_names.add(folded)
        first = False
    return frozenset(folded_names)

"""Kinds of values that a question asks for.

`question_kinds.txt` lists patterns of questions in English, German, French, Spanish, Italian,
Portuguese and Dutch: for a number, a time (English only) or several rows ("many"); "moment" lists
words of times, "label" nouns that precede the number of a part ("step 4"), "saying" verbs that ask
for its text.
"""

import re
from collections.abc import Collection
from functools import cache, lru_cache
from importlib import resources

from docstokg.domain.text.values import values
from docstokg.domain.text.words import FOREIGN, STOP_WORDS, WORD, normalise, stem

_KINDS = ("number", "many")
_NUMBERS = frozenset(("number", "amount", "ordinal", "date"))


@cache
def _asking() -> dict[str, re.Pattern[str]]:
    text = resources.files(__package__).joinpath("question_kinds.txt").read_text("utf-8")
    lines = [line.partition(" ") for line in text.splitlines()]
    kinds = dict.fromkeys(kind for kind, _, _ in lines)
    return {
        kind: re.compile(rf"\b(?:{'|'.join(p for k, _, p in lines if k == kind)})\b", re.I)
        for kind in kinds
    }


# Noun ("" if there is none) and number or letter of a part: "step" and "4".
Label = tuple[str, str]


@cache
def _label_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    noun = rf"(?P<noun>{_asking()['label'].pattern})\s+"
    number = r"\(?(?P<number>\d{1,3}(?:\.\d{1,3})*|[ivx]{1,5}|[a-z])"
    border = r"(?![^\W_]|[.,]\d)"
    # "a" before a word is an article.
    named = rf"{noun}{number}{border}(?!(?<=[ (]a)\s\w)"
    marked = r"[.):]+(?=\s)|(?<=\d)(?=\s+(?-i:[A-Z]))"
    opening = rf"[-*+\u2022#\s]*(?:{noun}|\u00a7\s?)?{number}(?(noun){border}|(?:{marked}))"
    return re.compile(named, re.IGNORECASE), re.compile(opening, re.IGNORECASE)


def _label(match: re.Match[str] | None) -> Label | None:
    return match and ((match["noun"] or "").casefold(), match["number"].casefold())


def named_label(question: str) -> Label | None:
    """Return the first label of a part that a question names ("step 4", "clause 2.2"), or None."""
    return _label(_label_patterns()[0].search(question))


def asks_for_part(question: str) -> bool:
    """Return whether a question names a part and has no other content ("What is step 4?")."""
    before, *others = _label_patterns()[0].split(question, maxsplit=1)
    words = WORD.findall(normalise(_asking()["saying"].sub(" ", f"{before} {''.join(others[2:])}")))
    return bool(others) and STOP_WORDS.union(FOREIGN).issuperset(words)


def opening_label(text: str) -> Label | None:
    """Return the label that a text opens with ("4. Close", "2.2 Term", "- b) Slow"), or None."""
    return _label(_label_patterns()[1].match(text))


def have_same_form(first: Label, second: Label) -> bool:
    """Return whether two labels are numbered alike, as are 2.1 and 10.4, or a and c."""
    forms = [(number.count("."), number[0].isdigit()) for _, number in (first, second)]
    return forms[0] == forms[1]


@lru_cache(maxsize=256)
def asked_kinds(question: str) -> tuple[str, ...]:
    """Return the kinds that a question asks for, in the order of the list; () if unknown."""
    return tuple(kind for kind in _KINDS if _asking()[kind].search(question))


def has_number(text: str, question: Collection[str]) -> bool:
    """Return whether a text has a number apart from the stems of the question."""
    return any(value.kind in _NUMBERS for value in values(_without(text, question)))


def lacks_time(question: str, question_stems: Collection[str], text: str) -> bool:
    """Return whether a question asks for a time, and a text has no value or word of one."""
    if not _asking()["time"].search(question):
        return False
    others = _without(text, question_stems)
    return not values(others) and _asking()["moment"].search(others) is None


def _without(text: str, stems: Collection[str]) -> str:
    return WORD.sub(lambda word: "" if stem(normalise(word[0])) in stems else word[0], text)

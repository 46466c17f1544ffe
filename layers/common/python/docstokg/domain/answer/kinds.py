"""Kinds of values that a question asks for.

`question_kinds.txt` lists patterns of questions in English, German, French, Spanish, Italian,
Portuguese and Dutch: for a number, a time, or several rows ("many").
"""

import re
from collections.abc import Collection
from functools import cache, lru_cache
from importlib import resources

from docstokg.domain.text.values import values
from docstokg.domain.text.words import WORD, normalise, stem

_VALUES = {
    "number": ("number", "amount", "ordinal", "date"),
    "time": ("date", "day", "clock", "ordinal", "amount"),
}


@cache
def _asking() -> tuple[tuple[str, re.Pattern[str]], ...]:
    text = resources.files(__package__).joinpath("question_kinds.txt").read_text("utf-8")
    lines = [line.partition(" ") for line in text.splitlines()]
    kinds = dict.fromkeys(kind for kind, _, _ in lines)
    return tuple(
        (kind, re.compile(rf"\b(?:{'|'.join(p for k, _, p in lines if k == kind)})\b", re.I))
        for kind in kinds
    )


@lru_cache(maxsize=256)
def asked_kinds(question: str) -> tuple[str, ...]:
    """Return the kinds that a question asks for, in the order of the list; () if unknown."""
    return tuple(kind for kind, pattern in _asking() if pattern.search(question))


def holds(kind: str, text: str, question: Collection[str] = ()) -> bool:
    """Return whether a text has a value of a kind apart from the stems of the question."""
    others = WORD.sub(lambda word: "" if stem(normalise(word[0])) in question else word[0], text)
    return any(value.kind in _VALUES.get(kind, ()) for value in values(others))

"""Kinds of values that a question asks for.

`question_kinds.txt` lists patterns of questions in English, German, French, Spanish, Italian,
Portuguese and Dutch. Whether a text holds a value of a kind is checked by `values`, or by listed
words.
"""

import re
from collections.abc import Collection
from functools import cache, lru_cache
from importlib import resources

from docstokg.domain.text.values import values
from docstokg.domain.text.words import WORD, normalise, stem

_NAMED = r"(?<=[^.!?] )[A-Z]\w+"
_WORDS = {
    "time": r"(?i:\b(?:\w+day|dawn|dusk|sunrise|sunset|morning|(?:after)?noon|evening|(?:mid)?night"
    r"|week|month|year|season|spring|summer|autumn|winter|age|today"
    r"|after|before|until|when|while|during|since|once)s?\b)",
    "person": rf"{_NAMED}|(?i:\b(?:he|she|they|man|woman|people|king|queen)\b)"
    r"|(?i:\b\w{3,}(?:er|or|ist|ian)\b)",
    "place": rf"{_NAMED}|(?i:\b(?:in|at|on|near|under|into|to|from|below|above|behind|by)\b)",
    "reason": r"(?i:\b(?:because|since|so that|due to|as|for|in order|therefore|reason)\b)|:",
    "means": r"`|--?\w|\(\)|(?i:\b(?:by|with|using|use|set|run|call|type|press|through|ask)\b)",
}
_VALUES = {
    "number": ("number", "amount", "ordinal", "date"),
    "time": ("date", "day", "clock", "ordinal", "amount"),
}
CHECKABLE = frozenset(("number", "time", "person", "place"))


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
    if kind in _VALUES and any(one.kind in _VALUES[kind] for one in values(others)):
        return True
    return kind in _WORDS and re.search(_WORDS[kind], others) is not None

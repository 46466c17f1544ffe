"""Name folding."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from docstokg.domain.identity import is_curie
from docstokg.domain.text.words import (
    EXPONENT,
    STOP_WORDS,
    WORD,
    compatible,
    fold,
    is_compatible,
)

# Words of the longest n-gram looked up in a question; longer names are found by the linker.
LONGEST_NAME = 8

MAX_QUESTION_KEYS = 4000

_POSSESSIVE = re.compile(r"(?<=[^\W_])['\u2019\u02bc\u2032]s(?![^\W_])", re.IGNORECASE)
_APOSTROPHES = "'\u2019\u02bc\u2032"
# The only combining mark that case folding turns into a letter.
_IOTA_BELOW = "\u0345"
_NO_PLURALS = (
    "aids mars news gas lens series species diabetes rabies scabies herpes mumps measles rickets"
    " texas kansas arkansas paris james charles thomas jesus"
)
_SINGULAR_ALREADY = frozenset(_NO_PLURALS.split())


def singular(word: str) -> str:
    """Return the singular of a folded word by the regular plurals of English; idempotent."""
    # Other words are not cached: a server meets an unlimited number of them.
    return _singular(word) if word[-1:] == "s" and word.isalpha() else word


@lru_cache(maxsize=100_000)
def _singular(word: str) -> str:
    if len(word) < 4 or word in _SINGULAR_ALREADY:
        return word
    if word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word
    if word.endswith(("sses", "shes", "ches", "xes", "zzes")):
        return word[:-2]
    return word[:-1]


# Legal form at the end of a company name.
LEGAL_FORM = re.compile(
    r"(?<=\w)[\s,&]+(?:inc|corp|corporation|co|company|ltd|limited|llc|plc|gmbh|ag)\.?$", re.I
)


def plain(name: str) -> str:
    """Return the `variant` of a name without accents and legal form, with `IL-6` as `il6`.

    Names with a space or without a digit are not joined.
    """
    letters = unicodedata.normalize("NFKD", LEGAL_FORM.sub("", name))
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    joined = " " not in bare and any(letter.isdigit() for letter in bare)
    return variant(bare.replace("-", "") if joined else bare)


def variant(name: str) -> str:
    """Fold a name without possessives and plurals."""
    return " ".join(singular(word) for word in fold(_POSSESSIVE.sub("", name)).split())


def alias_keys(
    entity: str, name: str | None = None, synonyms: Iterable[str] = ()
) -> tuple[tuple[str, bool], ...]:
    """Return the sorted lookup keys of an entity, each with whether it is the preferred name.

    Keys are the folded name and synonyms, their variants, the plain name, and the folded CURIE.
    """
    keys: dict[str, bool] = {}
    for text in synonyms:
        keys[fold(text)] = False
        keys[variant(text)] = False
    if is_curie(entity):
        keys[fold(entity)] = False
    if name:
        keys.setdefault(variant(name), False)
        keys.setdefault(plain(name), False)
        keys[fold(name)] = True
    return tuple(sorted((key, preferred) for key, preferred in keys.items() if key))


class Words(NamedTuple):
    """The folded words of a text, without possessive endings.

    `spans[i]`: code points of word i in `text`; `forms[i]`: its singular. `exact`: whether every
    span covers exactly its word.
    """

    spans: list[tuple[int, int]]
    forms: list[str]
    exact: bool


def words(text: str) -> Words:
    """Split a text into folded words with offsets."""
    if is_compatible(text) and _IOTA_BELOW not in text:
        spans, forms = [], []
        for match in WORD.finditer(text):
            word = match.group().casefold()
            if word == "s" and match.start() > 1 and text[match.start() - 1] in _APOSTROPHES:
                continue
            if not (word.isascii() or word.isalnum()):
                return _unusual_words(text)
            spans.append(match.span())
            forms.append(singular(word))
        return Words(spans, forms, True)
    return _unusual_words(text)


def _unusual_words(text: str) -> Words:
    borders = [i for i, character in enumerate(text) if i == 0 or _starts_segment(character)]
    folded: list[str] = []
    places: list[tuple[int, int]] = []
    for start, end in zip(borders, [*borders[1:], len(text)], strict=True):
        caret = "^" if EXPONENT.match(text, start) else ""
        part = caret + compatible(text[start:end]).casefold()
        folded.append(part)
        places.extend([(start, end)] * len(part))
    whole = "".join(folded)
    spans, forms = [], []
    for match in WORD.finditer(whole):
        start, end = match.span()
        if match.group() == "s" and start > 1 and whole[start - 1] in _APOSTROPHES:
            continue
        spans.append((places[start][0], places[end - 1][1]))
        forms.append(singular(match.group()))
    return Words(spans, forms, False)


@lru_cache(maxsize=20_000)
def _starts_segment(character: str) -> bool:
    first = unicodedata.normalize("NFKD", character)[0]
    backward_jamo = "\u1161" <= first <= "\u1175" or "\u11a8" <= first <= "\u11c2"
    return not (
        unicodedata.combining(first) or unicodedata.category(first)[0] == "M" or backward_jamo
    )


def question_keys(question: str) -> tuple[str, ...]:
    """Return the folded n-grams of a question, also in the singular, that can be an alias.

    Longest (8 words) first, at most 4,000. Single stop words count only in capitals ("ALL" is a
    leukaemia).
    """
    plain = [match.span() for match in WORD.finditer(question)]
    forms = [question[start:end] for start, end in plain]
    # ASCII words fold independently, so n-grams need no folding.
    folded = [word.casefold() for word in forms] if question.isascii() else None
    reduced = words(question)
    empty = [is_function_word(question[start:end]) for start, end in reduced.spans]
    keys: dict[str, None] = {}
    for size in range(min(LONGEST_NAME, len(plain)), 0, -1):
        for i in range(len(plain) - size + 1):
            if size == 1 and is_function_word(forms[i]):
                continue
            if folded is not None:
                keys[" ".join(folded[i : i + size])] = None
            else:
                keys[fold(question[plain[i][0] : plain[i + size - 1][1]])] = None
        for i in range(len(reduced.forms) - size + 1):
            if size > 1 or not empty[i]:
                keys[" ".join(reduced.forms[i : i + size])] = None
    return tuple(keys)[:MAX_QUESTION_KEYS]


def is_function_word(surface: str) -> bool:
    """Return whether a word is a stop word and not an acronym spelt like one."""
    return surface.casefold() in STOP_WORDS and not (len(surface) > 1 and surface.isupper())

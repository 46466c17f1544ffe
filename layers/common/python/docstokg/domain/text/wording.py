"""Stems, names, ids."""

import re
from functools import lru_cache
from itertools import chain

from docstokg.domain.text.words import ID_IN_CLAIM, STOP_WORDS, WORD, in_pairs, normalise, stem

_NAME = re.compile(r"[^\W\d_][\w\u0370-\u03ff]*(?:[-/+][\w]+)*")


@lru_cache(maxsize=8192)
def content_stems(text: str) -> tuple[str, ...]:
    """Return the stems of all words but stop words, in order; character pairs for solid scripts."""
    words = chain.from_iterable(
        (run,) if run.isascii() else in_pairs(run) for run in WORD.findall(normalise(text))
    )
    return tuple(stem(word) for word in words if word not in STOP_WORDS)


def ids(text: str) -> frozenset[str]:
    """Return the identifiers in a text, upper case with a colon (HP:0001250)."""
    return frozenset(item.upper().replace("_", ":") for item in ID_IN_CLAIM.findall(text))


def names(text: str) -> frozenset[str]:
    """Return the folded names in one sentence.

    A name has an inner capital or digit (mTOR, p53, IL-6), or is capitalised and not the sentence's
    first word.
    """
    folded_names: set[str] = set()
    first = True
    for match in _NAME.finditer(text):
        word = match[0]
        inner = any(char.isupper() or char.isdigit() for char in word[1:])
        if len(word) > 1 and (inner or (word[0].isupper() and not first)):
            folded = normalise(word)
            if folded not in STOP_WORDS:
                folded_names.add(folded)
        first = False
    return frozenset(folded_names)

"""Query terms and their weights."""

import math
import re

from docstokg.domain.text.words import STOP_WORDS, WORD

MAX_WORDS = 64
MAX_WORD_CHARACTERS = 64

_OPTION = re.compile(r"(?<![\w-])(--?)([A-Za-z0-9][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)*)(?![\w])")


def content_words(text: str) -> tuple[str, ...]:
    """Return the distinct casefolded content words, each cut to 64 characters, in order.

    If more than 64, the longest.
    """
    words = dict.fromkeys(
        word[:MAX_WORD_CHARACTERS]
        for word in (match.group().casefold() for match in WORD.finditer(text))
        if word not in STOP_WORDS
    )
    if len(words) <= MAX_WORDS:
        return tuple(words)
    longest = set(sorted(words, key=lambda word: (-len(word), word))[:MAX_WORDS])
    return tuple(word for word in words if word in longest)


def option_words(text: str) -> tuple[str, ...]:
    """Return the distinct command options of a text, each as one alphanumeric term.

    Word indexes fold case and drop hyphens, so `-k`, `-K` and `--k` become `opt1k0`, `opt1capk0`
    and `opt2k0`.
    """
    tokens: dict[str, None] = {}
    for match in _OPTION.finditer(text):
        hyphens, name = match.groups()
        letters = "".join(
            f"cap{c.lower()}" if c.isupper() else c if c.isalnum() else "0" for c in name
        )
        tokens[f"opt{len(hyphens)}{letters[:MAX_WORD_CHARACTERS]}0"] = None
    return tuple(tokens)


def indexed_text(text: str) -> str:
    """Return a text for word indexes: the text, followed by its option terms."""
    options = option_words(text)
    return f"{text} {' '.join(options)}" if options else text


def rarity(holders: int, rows: int) -> float:
    """Return BM25's weight, log(1 + (n - df + 0.5) / (df + 0.5)), with df = holders, n = rows."""
    return math.log(1 + (rows - holders + 0.5) / (holders + 0.5))

"""The Snowball stemmers: Porter2 for English, and those of other languages."""

import threading
from collections.abc import Callable
from functools import cache, lru_cache


@cache
def stemmer(algorithm: str) -> Callable[[str], str]:
    """Return the stemming function of a Snowball algorithm ("english"), cached per word.

    `KeyError` for an unknown algorithm. The package is imported by the first call (14 ms).
    """
    import snowballstemmer

    snowball, lock = snowballstemmer.stemmer(algorithm), threading.Lock()

    @lru_cache(maxsize=100_000)
    def stem(word: str) -> str:
        with lock:  # the object holds the state of one word
            return str(snowball.stemWord(word))

    return stem


def stem(word: str) -> str:
    """Return the English stem of a folded word; words with digits or accents are their own stem."""
    return stemmer("english")(word) if word.isascii() and word.isalpha() else word

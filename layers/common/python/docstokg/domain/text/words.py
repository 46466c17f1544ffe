"""Words and normal forms."""

import re
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import Literal

# A run of letters and digits of any script.
WORD = re.compile(r"[^\W_]+")

# Scripts without spaces, or (Korean) with particles attached to words.
SOLID = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)

# A whole id in a file: any prefix; the rest is not an address.
CURIE = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]*:[^\s:/][^\s]*")

# An id within a text: a prefix and digits, as in HP:0001250; also matches `host:8080`.
CURIE_IN_TEXT = re.compile(r"(?<![\w:/.])([A-Za-z][A-Za-z0-9]{1,14}):(\d{3,12})(?![\w:])")

# An id that claim and passage must share; also the form HP_0001250 of models and file names.
ID_IN_CLAIM = re.compile(r"\b[A-Za-z][A-Za-z0-9]{1,14}[:_]\d{3,12}\b")

_MOST_SIGNS = 30
# Matches accents and many other signs; splitting at those is harmless.
_SIGNS = re.compile(rf"[^\w\x00-\x7f]{{{_MOST_SIGNS + 1},}}")
# NFKC turns an exponent into a plain digit: 10\u2076 would equal 106.
EXPONENT = re.compile("(?<=\\d)(?=[\u00b2\u00b3\u00b9\u2070\u2074-\u207b])")
_NOT_WORD = re.compile(r"[\W_]+")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)

# English function words, selected from stopwordsiso (training/README.md). Excluded from search
# terms, names and features. Includes halves of contractions; excludes "may" and "us" (the month and
# the country).
STOP_WORDS = frozenset(
    resources.files(__package__).joinpath("stop_words.txt").read_text("utf-8").split()
)

# Function words of six languages that do not exist in English.
FOREIGN = frozenset(resources.files(__package__).joinpath("foreign.txt").read_text("utf-8").split())


# Fillers that Unicode classifies as letters or symbols, but that fonts do not draw.
_BLANK_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"


def is_visible(text: str) -> bool:
    """Return whether a text has a visible letter, digit, punctuation mark or symbol."""
    return any(
        unicodedata.category(character)[0] in "LNPS" and character not in _BLANK_LETTERS
        for character in text
    )


def compatible(text: str, form: Literal["NFC", "NFKC"] = "NFKC") -> str:
    """Normalise a text to `form` in linear time; NFKC writes an exponent as in `10^6`.

    A run of more than 30 signs (see Unicode's Stream-Safe Text Format) is normalised 30 at a time.
    """
    if text.isascii():
        return text
    text = EXPONENT.sub("^", text) if form == "NFKC" else text
    pieces, at = [], 0
    for run in _SIGNS.finditer(text):
        for cut in range(run.start() + _MOST_SIGNS, run.end(), _MOST_SIGNS):
            pieces.append(unicodedata.normalize(form, text[at:cut]))
            at = cut
    pieces.append(unicodedata.normalize(form, text[at:]))
    return "".join(pieces)


def is_compatible(text: str) -> bool:
    """Return whether NFKC leaves a text unchanged, in linear time."""
    if text.isascii():
        return True
    if _SIGNS.search(text) is not None:
        return compatible(text) == text
    return unicodedata.is_normalized("NFKC", text)


@cache
def stemmer(algorithm: str) -> Callable[[str], str]:
    """Return the stemming function of a Snowball algorithm ("english"), cached per word.

    Raise `KeyError` for an unknown algorithm.
    """
    import snowballstemmer

    snowball, lock = snowballstemmer.stemmer(algorithm), threading.Lock()

    @lru_cache(maxsize=100_000)
    def stem(word: str) -> str:
        with lock:  # the object holds the state of one word
            return str(snowball.stemWord(word))

    return stem


def stem(word: str) -> str:
    """Return the English stem of a folded word; unchanged if not only ASCII letters."""
    return stemmer("english")(word) if word.isascii() and word.isalpha() else word


def in_pairs(word: str) -> Iterator[str]:
    """Yield the runs of a word; those of scripts without spaces, and Korean, as character pairs."""
    at = 0
    for run in SOLID.finditer(word):
        yield from filter(None, (word[at : run.start()],))
        solid, at = run.group(), run.end()
        yield from (solid[i : i + 2] for i in range(max(1, len(solid) - 1)))
    yield from filter(None, (word[at:],))


def word_count(text: str) -> int:
    """Return the number of words; character pairs in scripts without spaces, and in Korean."""
    return sum(1 for word in WORD.findall(text) for _ in in_pairs(word))


def english_share(words: Sequence[str]) -> float:
    """Return the share of folded words that are English function words; 0 for no words."""
    return sum(word in STOP_WORDS for word in words) / (len(words) or 1)


def is_english(text: str) -> bool:
    """Return whether a text has no fewer English function words than listed foreign ones."""
    words = [word.casefold() for word in WORD.findall(text)]
    return english_share(words) * len(words) >= sum(word in FOREIGN for word in words)


def casefolded(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the names without case; None stays."""
    return None if names is None else tuple(map(str.casefold, names))


def fold(text: str) -> str:
    """Return NFKC, casefolded text with non-alphanumeric runs as spaces; if empty, trimmed text."""
    folded = _NOT_WORD.sub(" ", compatible(text).casefold()).strip()
    return folded or text.strip()


def normalise(text: str) -> str:
    """Return NFKC, casefolded text without invisible characters; punctuation is kept."""
    return compatible(visible(text)).casefold()


def visible(text: str) -> str:
    """Return `text` without invisible characters: zero width, direction, tags, controls."""
    return _INVISIBLE.sub("", text)

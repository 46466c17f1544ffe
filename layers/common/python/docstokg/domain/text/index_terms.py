"""Index terms besides English."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from docstokg.domain.text.query_terms import MAX_WORDS, content_words
from docstokg.domain.text.words import SOLID, STOP_WORDS, compatible, in_pairs, visible

# Letters and digits, with the combining marks of Hebrew, Arabic, Indic and Thai words.
_WORD = re.compile(
    r"(?:[^\W_]|[\u0300-\u036f\u0591-\u05bd\u05c1-\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    r"\u06d6-\u06ed\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e\u0eb1-\u0ece\u0f71-\u0f84"
    r"\u102b-\u103e\u17b4-\u17d3])+"
)
_ACCENT = re.compile("[\u0300-\u036f]")
_LATIN = re.compile("[a-z]")
_DOTTED = str.maketrans({"I": "\u0131", "\u0130": "i"})
_TURKIC = frozenset(("az", "tr"))
# Languages whose accents are always written and distinguish words.
_TONAL = frozenset(("vi",))


class Analysis(NamedTuple):
    """Stemmer and stop words of a language (ISO 639-1)."""

    language: str
    stem: Callable[[str], str]
    stop_words: frozenset[str]


# Without a stemmer, because the indexes stem English.
ENGLISH = Analysis("en", str, STOP_WORDS)


def folded_words(text: str, language: str) -> Iterator[str]:
    """Yield the folded words of a text; scripts without spaces yield character pairs.

    Folding is NFKC and casefold (ß becomes ss); ё becomes е, and Turkish ı is not i.
    """
    text = compatible(visible(text))
    text = text.translate(_DOTTED) if language in _TURKIC else text
    for match in _WORD.finditer(text.casefold().replace("\u0451", "\u0435")):
        yield from in_pairs(match.group())


def ascii_term(word: str, language: str) -> str:
    """Return a word in ASCII: Latin letters without accents, others as hex code points and 0.

    The final digit disables the indexes' stemmers.
    """
    if _LATIN.search(word) and language not in _TONAL:
        word = _ACCENT.sub("", unicodedata.normalize("NFKD", word))
    return word if word.isascii() else "".join(f"{ord(letter):x}" for letter in word) + "0"


def indexed_words(text: str, by: Analysis) -> str:
    """Return the index terms of a text in another language, including stop words."""
    return " ".join(
        ascii_term(by.stem(word), by.language) for word in folded_words(text, by.language)
    )


def searched(text: str, others: Sequence[Analysis]) -> tuple[str, ...]:
    """Return at most 64 search terms of a question: English ones, then those of `others`.

    Its likeliest language's stop words are removed, from English terms also English ones.
    """
    spoken = [ENGLISH, *others]
    counts = [
        sum(word in analysis.stop_words for word in folded_words(text, analysis.language))
        for analysis in spoken
    ]
    silent = frozenset.intersection(
        *(
            analysis.stop_words
            for analysis, count in zip(spoken, counts, strict=True)
            if count == max(counts)
        )
    )
    words = dict.fromkeys(
        word for word in content_words(text) if word not in silent and not SOLID.search(word)
    )
    for analysis in others:
        words |= dict.fromkeys(
            ascii_term(analysis.stem(word), analysis.language)
            for word in folded_words(text, analysis.language)
            if word not in silent
        )
    return tuple(words)[:MAX_WORDS]

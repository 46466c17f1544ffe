"""Words of other languages than English, written so that every store cuts them alike.

Word indexes are built for English: they cut Hindi at its vowel signs, keep a Chinese sentence as
one word, or cut it at every character, and each its own way. So a chunk in another language is
indexed as the words made here, whose letters are plain or spelt as their code points: no index
does anything more to those.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from docstokg.domain.text.query_terms import MAX_WORDS, content_words
from docstokg.domain.text.words import SOLID, STOP_WORDS, compatible, in_pairs, visible

# Letters and digits, with the marks that belong to words of Hebrew, Arabic, Indic and Thai.
_WORD = re.compile(
    r"(?:[^\W_]|[\u0300-\u036f\u0591-\u05bd\u05c1-\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    r"\u06d6-\u06ed\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e\u0eb1-\u0ece\u0f71-\u0f84"
    r"\u102b-\u103e\u17b4-\u17d3])+"
)
_ACCENT = re.compile("[\u0300-\u036f]")
_LATIN = re.compile("[a-z]")
_DOTTED = str.maketrans({"I": "\u0131", "\u0130": "i"})
_TURKIC = frozenset(("az", "tr"))
_TONAL = frozenset(("vi",))
"""Languages whose accents tell words apart that people write with them always."""


class Analysis(NamedTuple):
    """How the words of a language (ISO 639-1) become terms, and which say nothing."""

    language: str
    stem: Callable[[str], str]
    stop_words: frozenset[str]


ENGLISH = Analysis("en", str, STOP_WORDS)
"""Its words are stemmed by the indexes."""


def folded_words(text: str, language: str) -> Iterator[str]:
    """Yield the folded words of a text; of runs without spaces every two neighbours.

    Folding is NFKC and casefold, so that ß is ss; ё is е, which is how most write it, and
    ı is no i in Turkish. See `written` for accents.
    """
    text = compatible(visible(text))
    text = text.translate(_DOTTED) if language in _TURKIC else text
    for match in _WORD.finditer(text.casefold().replace("\u0451", "\u0435")):
        yield from in_pairs(match.group())


def written(word: str, language: str) -> str:
    """Spell a word in ASCII: Latin letters lose their accents, others become code points.

    The last digit keeps the stemmers of the indexes away.
    """
    if _LATIN.search(word) and language not in _TONAL:
        word = _ACCENT.sub("", unicodedata.normalize("NFKD", word))
    return word if word.isascii() else "".join(f"{ord(letter):x}" for letter in word) + "0"


def indexed_words(text: str, by: Analysis) -> str:
    """Give a text in another language as word indexes take it; its stop words stay in it."""
    return " ".join(written(by.stem(word), by.language) for word in folded_words(text, by.language))


def searched(text: str, others: Sequence[Analysis]) -> tuple[str, ...]:
    """List the words of a question to what is written in these languages and English.

    Left out are the stop words of the language that the question has most of them of: `war` is
    one in German, and none in English.
    """
    spoken = [ENGLISH, *others]
    counts = [
        sum(word in one.stop_words for word in folded_words(text, one.language)) for one in spoken
    ]
    silent = frozenset.intersection(
        *(one.stop_words for one, count in zip(spoken, counts, strict=True) if count == max(counts))
    )
    words = dict.fromkeys(
        word for word in content_words(text) if word not in silent and not SOLID.search(word)
    )
    for one in others:
        words |= dict.fromkeys(
            written(one.stem(word), one.language)
            for word in folded_words(text, one.language)
            if word not in silent
        )
    return tuple(words)[:MAX_WORDS]

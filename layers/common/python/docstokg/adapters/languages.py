"""Language analysis."""

from collections.abc import Iterable
from functools import cache, cached_property
from typing import Any

from docstokg.domain.text import index_terms
from docstokg.domain.text.index_terms import Analysis
from docstokg.domain.text.language_weights import ENGLISH
from docstokg.domain.text.query_terms import content_words, option_words
from docstokg.domain.text.words import WORD, english_share, stemmer

# Share of function words in an English passage: 99 of 100 passages of four English sets have more.
ENGLISH_SHARE = 0.1

LEAST_LETTERS = 40
LEAST_PROBABILITY = 0.9
STEMMERS = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek",
    "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish",
    "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch",
    "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip
_STEMLESS = "bg bn he ja km ko lo lv mk mr my sk sl th uk ur vi zh"
# Languages with an index analysis; others are searched by whole words.
ANALYSED = (*STEMMERS, *_STEMLESS.split())
# Languages mapped to a close one with the same analysis.
SAME = {"nb": "no", "nn": "no", "wuu": "zh", "yue": "zh", "ms": "id"}


class Recogniser:
    """A `LanguageFinder`."""

    def warm(self) -> None:
        """Load the model (1 s)."""
        _ = self._model

    def language(self, text: str) -> str:
        """Return the ISO 639-1 code; "" for English, for short ASCII and for uncertain texts."""
        words = [word.casefold() for word in WORD.findall(text)]
        if sum(map(len, words)) < LEAST_LETTERS and text.isascii():
            return ""
        if english_share(words) >= ENGLISH_SHARE:
            return ""
        code, probability = self._model.classify(text)
        sure = probability >= LEAST_PROBABILITY or SAME.get(code, code) == "zh"
        return "" if code == "en" or not sure else SAME.get(code, code)

    def probabilities(self, text: str) -> dict[str, float]:
        """Return the probabilities of English and the analysed languages, scaled to sum 1."""
        among = dict.fromkeys((ENGLISH, *ANALYSED), 0.0)
        for code, probability in self._model.rank(text):
            if SAME.get(code, code) in among:
                among[SAME.get(code, code)] += float(probability)
        every = sum(among.values()) or 1.0
        return {language: probability / every for language, probability in among.items()}

    @cached_property
    def _model(self) -> Any:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@cache
def analysis_of(language: str) -> Analysis:
    """Return the stemmer and stop words of a language; without a stemmer words are unchanged."""
    import stopwordsiso

    stops = frozenset(
        word
        for line in stopwordsiso.stopwords(language)
        for word in index_terms.folded_words(line, language)
    )
    name = STEMMERS.get(language)
    if name is None:
        return Analysis(language, str, stops)
    return Analysis(language, stemmer(name), stops)


def indexed(text: str, language: str) -> str:
    """Return the index terms of a text, separated by spaces."""
    return index_terms.indexed_words(text, analysis_of(language))


def searched(text: str, languages: Iterable[str]) -> tuple[str, ...]:
    """Return the search terms and options of a question; `languages`: other than English."""
    analyses = [analysis_of(language) for language in languages]
    words = index_terms.searched(text, analyses) if analyses else content_words(text)
    return (*words, *option_words(text))

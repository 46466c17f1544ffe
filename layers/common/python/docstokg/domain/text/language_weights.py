"""Channel weights by language."""

import re
from collections import Counter
from collections.abc import Mapping

ENGLISH = "en"
# Minimum weight of word channels. On 510 of our questions in another language than the passages,
# vectors only had .782 first; words at 0 to .2: .775 to .788, at .5: .720, at 1: .445.
LEAST = 0.1

_MANY = re.compile("multilingual|jina-embeddings-v[34]|cohere.embed-v4|bge-m3|labse", re.IGNORECASE)

_ENGLISH = re.compile(
    r"all-minilm|all-mpnet|bge-(?:small|base|large)-en|gte-(?:small|base|large)(?!-)"
    r"|(?<!multilingual-)e5-(?:small|base|large)",
    re.IGNORECASE,
)

# Weight of a channel that does not support the language; it only orders unmatched passages.
TIE = 0.001


def counts(note: str | None) -> Counter[str]:
    """Parse `LANGUAGE=PASSAGES ...` (default: 1; None: empty); ValueError for invalid numbers."""
    words = (word.partition("=") for word in (note or "").split())
    return Counter({code: int(count or 1) for code, _, count in words})


def shares(counts: Mapping[str, int]) -> dict[str, float]:
    """Return the share of each language with a count above 0, sorted by code."""
    every = sum(counts.values())
    return {code: count / every for code, count in sorted(counts.items()) if count > 0}


def reads_many(model: str) -> bool:
    """Return whether an encoder is multilingual, by its name."""
    return _MANY.search(model) is not None


def word_weights(
    question_shares: Mapping[str, float], stored_shares: Mapping[str, float], floor: float
) -> dict[str, float]:
    """Return the weights of the channels "bm25" and "splade", at least `floor`.

    `question_shares`: probability of the question per language. `stored_shares`: share of
    passages per language. The weight is the sum of their products, for "splade" of English only.
    """
    share = {code: question_shares.get(code, 0.0) * part for code, part in stored_shares.items()}
    english = share.get(ENGLISH, 0.0)
    return {"bm25": max(floor, sum(share.values())), "splade": max(floor, english)}


def reads_english_only(model: str) -> bool:
    """Return whether an encoder is known by its name to be trained on English only."""
    return _ENGLISH.search(model) is not None


def english_weights(
    question_shares: Mapping[str, float], stored_shares: Mapping[str, float]
) -> dict[str, float]:
    """Return the weights of "dense" and "splade": the probability of an English question.

    At least 0.001, also without passages in English. `question_shares`: probability per language.
    `stored_shares`: share of passages per language; others are ignored.
    """
    total = sum(question_shares.get(code, 0.0) for code in stored_shares)
    english = (
        question_shares.get(ENGLISH, 0.0) / total if ENGLISH in stored_shares and total else 0.0
    )
    return dict.fromkeys(("dense", "splade"), max(TIE, english))

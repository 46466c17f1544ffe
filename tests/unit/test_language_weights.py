"""What words weigh where a question is in another language than the passages."""

import pytest

from docstokg.adapters.languages import Recogniser
from docstokg.domain.text.language_weights import (
    LEAST,
    TIE,
    english_weights,
    reads_english_only,
    word_weights,
)

RECOGNISER = Recogniser()
ARABIC = "لماذا لا يستخدم الكلور في التنظيف؟"
ENGLISH = "Why should chlorine not be used for cleaning?"
GERMAN = "Warum soll man zur Reinigung kein Chlor verwenden?"


@pytest.mark.parametrize(
    ("question", "shares", "words", "sparse"),
    [
        (GERMAN, {"en": 1.0}, LEAST, LEAST),
        (ENGLISH, {"de": 0.95, "en": 0.05}, LEAST, LEAST),
        (ENGLISH, {"en": 1.0}, 1.0, 1.0),
        ("为什么清洗时不能使用氯?", {"zh": 1.0}, 1.0, LEAST),
        (GERMAN, {"de": 0.5, "en": 0.5}, 0.5, LEAST),
    ],
)
def test_word_weights_are_the_share_of_question_languages(
    question: str, shares: dict[str, float], words: float, sparse: float
) -> None:
    weights = word_weights(RECOGNISER.probabilities(question), shares, LEAST)
    assert weights == pytest.approx({"bm25": words, "splade": sparse}, abs=0.02)


@pytest.mark.parametrize(
    ("question", "shares", "weight"),
    [
        (ENGLISH, {"en": 0.6, "ar": 0.4}, 1.0),
        (ARABIC, {"en": 0.6, "ar": 0.4}, TIE),
        (ARABIC, {"ar": 1.0}, TIE),
        (GERMAN, {"de": 0.9, "en": 0.1}, TIE),
        ("KLM-310 Zell Mill", {"en": 1.0}, 1.0),
    ],
)
def test_an_english_encoder_counts_for_english_only(
    question: str, shares: dict[str, float], weight: float
) -> None:
    weights = english_weights(RECOGNISER.probabilities(question), shares)
    assert weights == pytest.approx({"dense": weight, "splade": weight}, abs=0.02)


def test_encoders_are_known_by_their_names() -> None:
    english = ("all-MiniLM-L6-v2-onnx-int8", "bge-small-en-v1.5", "intfloat/e5-base-v2")
    others = ("text-embedding-3-small", "multilingual-e5-base", "bge-m3", "gte-multilingual-base")
    assert all(map(reads_english_only, english))
    assert not any(map(reads_english_only, others))

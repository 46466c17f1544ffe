"""What words weigh where a question is in another language than the passages."""

import pytest

from docstokg.adapters.languages import Recogniser
from docstokg.domain.text.spoken import LEAST, word_weights

RECOGNISER = Recogniser()


@pytest.mark.parametrize(
    ("question", "held", "words", "sparse"),
    [
        ("Warum soll man zur Reinigung kein Chlor verwenden?", {"en": 1.0}, LEAST, LEAST),
        ("Why should chlorine not be used for cleaning?", {"de": 0.95, "en": 0.05}, LEAST, LEAST),
        ("Why should chlorine not be used for cleaning?", {"en": 1.0}, 1.0, 1.0),
        ("为什么清洗时不能使用氯?", {"zh": 1.0}, 1.0, LEAST),
        ("Warum soll man zur Reinigung kein Chlor verwenden?", {"de": 0.5, "en": 0.5}, 0.5, LEAST),
    ],
)
def test_words_weigh_as_much_as_passages_are_in_the_language_of_the_question(
    question: str, held: dict[str, float], words: float, sparse: float
) -> None:
    weights = word_weights(RECOGNISER.probabilities(question), held, LEAST)
    assert weights == pytest.approx({"bm25": words, "splade": sparse}, abs=0.02)

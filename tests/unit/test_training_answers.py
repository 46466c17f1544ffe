"""The fit of the built-in model's probabilities."""

import pytest

from docstokg.domain.answer.extractive import logistic
from training.answers import ANSWERABLE, Chosen, credit, fit_logistic


def test_answerable_questions_weigh_the_same_in_each_set() -> None:
    def group(answerable: int, other: int) -> list[Chosen]:
        answered = [Chosen({"sign": i % 2}, True, True) for i in range(answerable)]
        return answered + [Chosen({"sign": i % 2}, False, False) for i in range(other)]

    fitted = fit_logistic([group(20, 60), group(50, 50), group(8, 0)], ["sign"])
    expected = (ANSWERABLE + ANSWERABLE + 1) / 3
    assert logistic(fitted, {"sign": 0.5}) == pytest.approx(expected, abs=0.01)


def test_credit_is_half_for_the_wrong_part_of_a_right_passage() -> None:
    outcomes = ((True, True), (False, True), (False, False))
    assert [credit(Chosen({}, *outcome)) for outcome in outcomes] == [1, 0.5, 0]

"""Sentences and rows about cited tables, with right values and with values of other cells."""

from docstokg.contracts.state import Block
from docstokg.usecases.check_answer import check_answer

PUMPS = """| Model | Flow | Weight | Colour |
|---|---|---|---|
| Tarn 4 | 12 l/min | 31 kg | grey |
| Tarn 9 | 26 l/min | 58 kg | blue |
| Fell 2 | 7 l/min | 19 kg | red |
| Fell 5 | 18 l/min | 44 kg | green |
"""
YEARS = """| Year | Visitors | Guides | Closed |
|---|---|---|---|
| 2019 | 8,412 | 14 | March |
| 2020 | 1,077 | 5 | April |
| 2021 | 3,950 | 9 | June |
| 2022 | 9,633 | 17 | October |
"""
BLOCKS = [
    Block(rank=1, uuid="u1", text=PUMPS, document_name="pumps.md", relevance=9),
    Block(rank=2, uuid="u2", text=YEARS, document_name="years.md", relevance=8),
]
# Sentence with the right value and a value of another cell.
ROWS = (
    ("The flow of the Tarn 4 amounts to {} [1].", "12 l/min", "26 l/min"),
    ("At full speed the Tarn 9 has a flow of {} [1].", "26 l/min", "12 l/min"),
    ("The Fell 2 reaches a flow of only {} [1].", "7 l/min", "18 l/min"),
    ("For the Fell 5 the table gives a flow of {} [1].", "18 l/min", "7 l/min"),
    ("The Tarn 4 has a weight of {} when empty [1].", "31 kg", "58 kg"),
    ("Its weight makes the Tarn 9 heavy: {} [1].", "58 kg", "44 kg"),
    ("With a weight of {}, the Fell 2 is portable [1].", "19 kg", "31 kg"),
    ("The weight of a Fell 5 is {} [1].", "44 kg", "19 kg"),
    ("The colour of the Tarn 4 is {} [1].", "grey", "blue"),
    ("Painted in the colour {}, the Fell 2 is easy to see [1].", "red", "green"),
    ("In 2019 there were {} visitors [2].", "8,412", "9,633"),
    ("The number of visitors fell to {} in 2020 [2].", "1,077", "3,950"),
    ("2021 saw {} visitors again [2].", "3,950", "1,077"),
    ("With {} visitors, 2022 was the best year [2].", "9,633", "8,412"),
    ("In 2019 the cave employed {} guides [2].", "14", "17"),
    ("Only {} guides worked there in 2020 [2].", "5", "9"),
    ("The guides numbered {} in 2021 [2].", "9", "14"),
    ("In 2022 it was closed in {} [2].", "October", "March"),
    ("| Model | Weight |\n|---|---|\n| Tarn 9 | {} [1] |", "58 kg", "31 kg"),
    ("| Year | Guides |\n|---|---|\n| 2022 | {} [2] |", "17", "5"),
)
LEAST_REPORTED, MOST_WRONG = 17, 1


def reports(answer: str) -> bool:
    grounding = check_answer(answer, BLOCKS).grounding
    return any("cell_mismatch" in sentence.reasons for sentence in grounding.sentences)


def test_exchanged_values_are_reported() -> None:
    missed = [answer for answer, _, other in ROWS if not reports(answer.format(other))]
    print(missed)
    assert len(ROWS) - len(missed) >= LEAST_REPORTED


def test_right_values_are_not_reported() -> None:
    wrong = [answer for answer, value, _ in ROWS if reports(answer.format(value))]
    print(wrong)
    assert len(wrong) <= MOST_WRONG


def test_an_exchanged_value_warns_and_caps_confidence() -> None:
    answer = check_answer("The weight of a Fell 5 is 19 kg [1].", BLOCKS)
    assert "Values of other cells of the table: 19 kg (sentence 1)." in answer.warnings
    assert answer.confidence <= 0.49


def test_a_comparison_of_two_rows_is_not_reported() -> None:
    assert not reports("The weight of the Tarn 9, 58 kg, exceeds the 31 kg of the Tarn 4 [1].")
    assert not reports("The Tarn 9 is 27 kg above the weight of the Tarn 4 [1].")

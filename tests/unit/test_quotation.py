"""Which sentences are quotations: whole sentences, rows and items, and nothing that is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.answer.quotation import comparable, find_quotation
from docstokg.domain.text.sentences import sentence_spans

PASSAGE = """# Harbour fees

A share costs 450 euros, and members pay in **May**. Vessels above 60 m may not enter in wind.
Dispersants may not be used without the
consent of the harbour master. The area is 10\u00b2 km.

- Blue cheese is turned daily
- Hard cheese is kept [dry and cool](http://cellar)

| Tug | Bollard pull | Year |
|---|---|---|
| Bonxie | 70 t | 2012 |
| Tystie | 60 t | 2014 |

| Berth | Depth |
|---|---|
| Fish Pier | 8 m |
"""


@pytest.mark.parametrize(
    "text",
    [
        "A share costs 450 euros, and members pay in May.",
        "a SHARE costs 450 euros, and members pay in *May*",
        "\u201cA share costs 450 euros, and members pay in May\u201d",
        "A  share costs\n450\u00a0euros, and members pay in May",
        "Dispersants may not be used without the consent of the harbour master.",
        "A share costs 450 euros, and members pay in May. "
        "Vessels above 60 m may not enter in wind.",
        "Blue cheese is turned daily.",
        "Hard cheese is kept dry and cool.",
        "| Bonxie | 70 t | 2012 |",
        "Bonxie: Bollard pull: 70 t; Year: 2012",
        "Tystie: Year: 2014",
        "Fish Pier: 8 m",
    ],
)
def test_whole_sentences_rows_and_items_are_quotations(text: str) -> None:
    found = find_quotation(text, PASSAGE, ())
    assert found is not None
    assert 0 <= found.start < found.end <= len(PASSAGE)


@pytest.mark.parametrize(
    "text",
    [
        "A share costs 45",
        "A share costs 450",
        "A share costs 450 euros",
        "members pay in May",
        "Vessels above 60 m may not enter",
        "Vessels above 60 m may enter in wind.",
        "Dispersants may not be used without the",
        "Dispersants may not be used",
        "consent of the harbour master",
        "The area is 102 km.",
        "Blue cheese is turned",
        "cheese is turned daily",
        "Bonxie: 70",
        "Bonxie: 2014",
        "Bonxie: Year: 2014",
        "Fish Pier: 8",
        "8 m",
        "Harbour",
        "",
        "...",
    ],
)
def test_a_cut_or_changed_text_is_not(text: str) -> None:
    assert find_quotation(text, PASSAGE, ()) is None


def test_stored_borders_of_a_cut_passage_count() -> None:
    whole = "The gate opens at nine. The gate closes at noon on Sundays."
    cut = whole[:46]
    assert find_quotation("The gate closes at noon", cut, ((0, 23),)) is None
    assert find_quotation("The gate opens at nine", cut, ((0, 23),)) is not None


@given(st.text(max_size=200))
def test_the_comparable_form_is_stable(text: str) -> None:
    assert comparable(comparable(text)) == comparable(comparable(comparable(text)))


WORDS = st.sampled_from(["the", "gate", "opens", "at", "9", "45", "not", "in", "Tug", "is", "4.5"])
SENTENCE = st.lists(WORDS, min_size=4, max_size=9).map(lambda words: " ".join(words).capitalize())


@given(st.lists(SENTENCE, min_size=1, max_size=4), st.data())
def test_every_whole_sentence_is_a_quotation_and_no_part_is(
    texts: list[str], data: st.DataObject
) -> None:
    passage = ". ".join(texts) + "."
    for start, end in sentence_spans(passage):
        assert find_quotation(passage[start:end], passage, ()) is not None
    words = texts[0].split()
    size = data.draw(st.integers(1, len(words) - 1))
    part = " ".join(words[:size])
    whole = {comparable(passage[start:end]) for start, end in sentence_spans(passage)}
    if comparable(part) not in whole:
        assert find_quotation(part, passage, ()) is None

"""Which sentences are quotations: whole sentences, rows and items, and nothing that is cut."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.contracts.state import Block
from docstokg.domain.answer.quotation import comparable, find_quotation
from docstokg.domain.text.sentences import sentence_spans
from docstokg.usecases.check_answer import check_answer

KEPT = json.loads(Path(__file__).with_name("quotations.json").read_text("utf-8"))
"""Passages and answers that were written before the rule was tried on them."""

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
    span = find_quotation(text, PASSAGE, ())
    assert 0 <= span.start < span.end <= len(PASSAGE)


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
def test_whole_sentences_are_quotations_and_parts_are_not(
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


def verdicts(row: dict[str, str], answer: str | None = None) -> list[str]:
    """Return the verdicts on the factual sentences of an answer that cites its one passage."""
    passage = KEPT["passages"][row["passage"]]
    block = Block(rank=1, uuid="u", text=passage, document_name="Document", relevance=5)
    grounding = check_answer(row["answer"] if answer is None else answer, [block]).grounding
    sentences = grounding.sentences if grounding is not None else ()
    return [sentence.verdict for sentence in sentences if sentence.reasons != ("no_claim",)]


def is_supported(row: dict[str, str]) -> bool:
    labels = verdicts(row)
    return bool(labels) and set(labels) == {"supported"}


def test_57_of_60_whole_quotations_are_supported() -> None:
    missed = [row["kind"] for row in KEPT["whole"] if not is_supported(row)]
    assert len(KEPT["whole"]) == 60
    assert len(missed) <= 3, missed


@pytest.mark.parametrize("row", KEPT["cut"], ids=lambda row: row["kind"])
def test_quotations_cut_in_number_word_or_condition_fail(row: dict[str, str]) -> None:
    assert "supported" not in verdicts(row)


@pytest.mark.parametrize("row", KEPT["traps"], ids=lambda row: row["kind"])
def test_cut_passages_code_markup_and_lists(row: dict[str, bool]) -> None:
    assert is_supported(row) == row["supported"]


def cuts(text: str) -> Iterator[str]:
    """Yield a text without its first or last words, without any one word and any one digit."""
    words = text.split(" ")
    for place, word in enumerate(words):
        before, after = words[:place], words[place + 1 :]
        yield from (" ".join(before + after), " ".join(before), " ".join([word, *after]))
        for digit in re.finditer(r"\d", word):
            less = word[: digit.start()] + word[digit.end() :]
            yield " ".join([*before, less, *after])


@pytest.mark.parametrize("passage", ["observatory", "dryer", "archive", "lake", "reservoir"])
def test_no_quotation_of_prose_survives_a_cut(passage: str) -> None:
    tried = 0
    for row in (row for row in KEPT["whole"] if row["passage"] == passage):
        whole = row["answer"].replace("[1]", "").rstrip(" .")
        for text in set(cuts(whole)):
            if comparable(text) in ("", comparable(whole)):
                continue
            tried += 1
            assert "supported" not in verdicts(row, f"{text} [1]."), text
    assert tried > 50

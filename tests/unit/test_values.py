"""Values in different notations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.answer.reader_features import asked_values, in_asked_notation
from docstokg.domain.text.values import is_stated, numbers, other_notations, unstated, values

EQUAL = {
    "date in words": ("7 April 2024", "posted 07.04.2024"),
    "ISO date": ("April 7, 2024", "2024-04-07"),
    "date with a slash, day first": ("7 April 2024", "07/04/2024"),
    "date with a slash, month first": ("7 April 2024", "04/07/2024"),
    "day without a year": ("on 7 April", "2024-04-07"),
    "French date": ("7 April 2024", "le 7 avril 2024"),
    "Spanish date": ("7 April 2024", "el 7 de abril de 2024"),
    "Chinese date": ("7 April 2024", "2024\u5e744\u67087\u65e5"),
    "month": ("in May 2023", "since 12 May 2023"),
    "German month": ("in March 2023", "im M\u00e4rz 2023"),
    "year of a date": ("in 2024", "07.04.2024"),
    "quarter in words": ("the third quarter of 2023", "Q3 2023"),
    "quarter after its year": ("Q3 2023", "2023 Q3"),
    "month of a quarter": ("August 2023", "third quarter of 2023"),
    "year in a range": ("2021", "from 2019 to 2023"),
    "time in a range": ("10:30", "9:00 to 17:00"),
    "month in digits": ("in October 2019", "10/2019"),
    "ISO month": ("June 2021", "2021-06"),
    "half past": ("14:30", "half past two in the afternoon"),
    "half past, at any time of day": ("2:30 pm", "half past two"),
    "quarter to": ("20:45", "a quarter to nine in the evening"),
    "noon": ("12:00", "at noon"),
    "half day": ("5 p.m.", "17:00"),
    "German time": ("17:00", "um 17 Uhr"),
    "separators": ("1234.56", "1.234,56"),
    "spaces as separators": ("9300 people", "9\u202f300 people"),
    "currency sign": ("3.5 million dollars", "$3.5M"),
    "currency in German": ("1,234.56 euros", "1.234,56 \u20ac"),
    "unit of length": ("2 km", "2000 metres"),
    "unit of time": ("90 seconds", "1.5 minutes"),
    "amount in a range": ("7 kg", "5-10 kg"),
    "length in a range with one unit": ("610 cm", "5.3 to 6.8 m"),
    "number in words": ("25 members", "twenty-five members"),
    "German number in words": ("3 months", "drei Monate"),
    "thousands and hundreds in words": ("2406 people", "two thousand four hundred and six people"),
    "half an hour": ("30 min", "after half an hour"),
    "fraction as a percentage": ("25 %", "a quarter of the fee"),
    "half of it": ("50 %", "half of the fee"),
    "several parts": ("75 percent", "three quarters of it"),
    "one in so many": ("20 percent of them", "one in five of them"),
    "sign of a fraction": ("25 percent off", "\u00bc off"),
    "two units": ("150 minutes", "2 h 30 min"),
    "dozens": ("24 members", "two dozen members"),
    "pence": ("85p", "\u00a30.85"),
    "ordinal of two words": ("the 25th", "the twenty-fifth"),
    "year of two digits": ("14 October 2024", "14.10.24"),
    "year after an apostrophe": ("November 2023", "Nov. '23"),
    "years with a short end, or a month": ("2002", "2001-02"),
    "years with a short end": ("1963", "1958\u201371"),
    "short quarter": ("Q3 2019", "3Q19"),
    "month of a short year": ("02/2024", "since Feb '24"),
    "end of the calendar": ("9999-12-31", "31.12.9999"),
    "share before a noun": ("66\u2154 %", "a two-thirds majority"),
    "share before a verb": ("12.5 %", "One eighth had driven"),
    "minutes to midnight": ("11:50 pm", "at ten to midnight"),
    "hours without a colon": ("11:15", "at 1115 hrs"),
    "telephone number with its country": ("01632960417", "+44 1632 960 417"),
    "version": ("version 2.3", "firmware v2.3"),
    "telephone number": ("0471-553208", "0471 553 208"),
    "ordinal": ("the 3rd row", "the third row"),
    "power": ("1,000,000 cells", "10^6 cells"),
    "Unicode power": ("1,000,000 cells", "10\u2076 cells"),
    "power of Markdown": ("1,000,000 cells", "10<sup>6</sup> cells"),
    "power of reStructuredText": ("1,000,000 cells", "10\\ :sup:`6` cells"),
    "scientific notation": ("0.0025 l", "2.5 \u00d7 10^-3 l"),
}

WORDS = (
    "0 00 1 2 3 07 10 12 13 19 31 99 2019 2024 '21 '99 half quarter third fifths a an one two "
    "twenty thousand dozen past to in out of the minutes o'clock midnight noon am p.m. evening Feb "
    "may Q1 Q 4Q % per cent \u00bd \u2154 \u20ac \u00a3 p EUR km m h min v V. . : \u2013 th second"
)

DIFFERENT = {
    "other day": ("7 April 2024", "08.04.2024"),
    "year outside a range": ("2025", "from 2019 to 2023"),
    "time outside a range": ("18:30", "9:00 to 17:00"),
    "unit of another dimension": ("2 km", "2000 kg"),
    "other telephone number": ("0471-553208", "0471 535 208"),
    "quarter of a year": ("25 %", "the second quarter of 2023"),
    "range of hours": ("7:55", "five to eight pieces"),
    "scale": ("3.5 million dollars", "$3,500"),
    "next quarter": ("Q2 2018", "in Q3 2018"),
    "next month": ("02/2024", "in March 2024"),
    "verb that is a month": ("in May", "it may take longer"),
    "power without its sign": ("106 cells", "10\u2076 cells"),
    "part of a name": ("53 patients", "p53 is a protein"),
}


@pytest.mark.parametrize(("claimed", "text"), EQUAL.values(), ids=EQUAL)
def test_equal_values_agree(claimed: str, text: str) -> None:
    evidence = values(text)
    assert any(is_stated(value, evidence) for value in values(claimed))


@pytest.mark.parametrize(("claimed", "text"), DIFFERENT.values(), ids=DIFFERENT)
def test_different_values_do_not_agree(claimed: str, text: str) -> None:
    first, evidence = values(claimed)[0], values(text)
    assert not is_stated(first, evidence)


def test_values_are_written_as_in_the_question() -> None:
    text = "On 5 October 2023 (9:00 to 17:00) 7 people came, not on 6 October 2023."
    asked = "Who came on 2023-10-05 at 10:30?"
    expected = "On 2023-10-05 (10:30) 7 people came, not on 6 October 2023."
    assert in_asked_notation(asked, text) == expected
    assert in_asked_notation("Who came in 1994?", "They came '91 to '99.") == "They came 1994."
    assert in_asked_notation("What is 25 percent off?", "Wool is \u00bc off.") == (
        "Wool is 25 percent off."
    )


def test_ids_are_written_as_in_the_question() -> None:
    text = "Lot L.0417-B was called back, L.1047-B and L.0417-C were sold (v2.3, utf-8)."
    expected = text.replace("L.0417-B", "l0417b").replace("utf-8", "UTF8")
    assert in_asked_notation("Why was l0417b called back, UTF8, v2.13?", text) == expected


def test_a_longer_period_is_not_written_as_the_asked_time() -> None:
    text = "In the fourth quarter of 2023 they resurfaced the lane, in Nov. '23 the yard."
    asked = "What was resurfaced in 11/2023?"
    assert in_asked_notation(asked, text) == text.replace("Nov. '23", "11/2023")


@given(
    st.lists(st.sampled_from(WORDS.split()), max_size=12),
    st.sampled_from(("", " ", "/", "-", " of ")),
)
def test_no_text_breaks_the_reading_of_values(words: list[str], joint: str) -> None:
    text = joint.join(words)
    assert all(value.low <= value.high for value in values(text))
    is_second = any(value.kind == "ordinal" and value.low == 2 for value in values(text))
    assert not is_second or "2nd" in in_asked_notation("Which is the 2nd?", text)
    assert isinstance(other_notations(text), str)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("on 2023-10-05", "october oct 10 05 5 2023"),
        ("in June 2021", "june jun 06 2021"),
        ("in Q2 2023", "q2 second zweite quarter 2023"),
        ("from 2019 to 2023, with 1,000 people at midnight in May", ""),
    ],
)
def test_words_of_other_notations_of_dates(text: str, words: str) -> None:
    assert other_notations(text) == words


def test_digits_inside_a_name_are_no_number() -> None:
    assert numbers("p53, w12x4 and H2O; x_12, 3.5 and 1,200") == {"12", "3.5", "1200"}


def test_unstated_numbers_are_listed_as_written() -> None:
    claim = "It cost 3.5 million dollars on 5 May 2024, and 77 people came."
    assert unstated(claim, "2024-05-05: $3,500,000 for 76 people") == ("77",)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("£1 to £4,999", 0.0),
        ("£25,000 to £99,999", 1.0),
        ("£100,000 to £250,000", 0.0),
        ("£25.000 bis £99.999", 1.0),
    ],
)
def test_asked_amounts_are_in_the_range_of_their_notation(cell: str, expected: float) -> None:
    (asked,) = asked_values("What does a balance of £30,000 earn?")
    assert asked.share(values(cell)) == expected

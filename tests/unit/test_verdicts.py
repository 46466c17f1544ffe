"""Verdicts: what supports, what does not, and why, with the span that decides."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from docstokg.domain.answer.verdicts import Passage, Weights, decide, examine
from docstokg.domain.text.quantities import quantities
from docstokg.domain.text.wording import read

TEXT = (
    "We enrolled 120 patients with epilepsy. Valproate reduced the frequency of seizures by 49.6% "
    "within 12 weeks. No patient developed hepatitis. Seizure (HP:0001250) is coded by the clinic. "
    "SCN1A variants increase the risk of febrile seizures."
)
PASSAGE = Passage("u-1", TEXT, base=100, header="Valproate trial")


def judged(claim: str, *passages: Passage):
    return decide(examine(claim, passages or (PASSAGE,)))


def test_a_quotation_is_supported_and_its_span_is_exact() -> None:
    claim = "valproate reduced the frequency of seizures by 49.6% within 12 weeks"
    result = judged(claim)
    assert (result.verdict, result.support, result.reasons) == ("supported", 1.0, ())
    assert result.evidence is not None
    assert result.evidence.uuid == "u-1"
    found = TEXT[result.evidence.start - 100 : result.evidence.end - 100]
    assert found == "Valproate reduced the frequency of seizures by 49.6% within 12 weeks."


@pytest.mark.parametrize(
    "claim",
    [
        "Valproate reduced seizure frequency by 49.6% in 12 weeks",
        "Within 12 weeks, valproate reduced how frequent seizures were by about 50%",
        "Variants of SCN1A increase febrile seizure risk",
    ],
)
def test_a_paraphrase_is_not_called_unsupported(claim: str) -> None:
    assert judged(claim).verdict in ("supported", "weak")
    assert judged(claim).reasons == ()


@pytest.mark.parametrize(
    ("claim", "reason", "verdicts"),
    [
        ("Valproate reduced the frequency of seizures by 75%", "number_not_in_source",
         {"unsupported"}),
        ("The trial enrolled 1200 patients with epilepsy", "number_not_in_source",
         {"unsupported"}),
        ("Topiramate and MTOR reduced the frequency of seizures", "name_not_in_source",
         {"weak", "unsupported"}),
        ("Ataxia (HP:0001250) is coded by the clinic", "id_label_mismatch", {"unsupported"}),
        ("Seizure (HP:0009999) is coded by the clinic", "id_not_in_source", {"unsupported"}),
        ("Valproate did not reduce the frequency of seizures", "contradicted",
         {"unsupported"}),
        ("SCN1A variants decrease the risk of febrile seizures", "contradicted",
         {"unsupported"}),
    ],
)  # fmt: skip
def test_reasons(claim: str, reason: str, verdicts: set[str]) -> None:
    result = judged(claim)
    assert reason in result.reasons
    assert result.verdict in verdicts


def test_another_topic_is_unsupported() -> None:
    assert judged("The Golden Gate Bridge opened to traffic in California").verdict == "unsupported"


def test_two_passages_may_support_together() -> None:
    other = Passage("u-2", "Febrile seizures are common in Dravet syndrome.")
    assert judged("Dravet syndrome has febrile seizures", PASSAGE, other).evidence.uuid == "u-2"


def test_vectors_may_lift_a_paraphrase() -> None:
    found = examine("The drug made fits rarer", (PASSAGE,))
    near = decide(found, [0.95] * len(found.evidence))
    far = decide(found, [0.0] * len(found.evidence))
    assert near.support > far.support


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=120), st.lists(st.text(max_size=150), max_size=3))
def test_any_text_gets_a_verdict(claim: str, texts: list[str]) -> None:
    passages = [Passage(str(place), text) for place, text in enumerate(texts)]
    result = judged(claim, *passages) if passages else decide(examine(claim, []))
    assert 0 <= result.support <= 1
    assert result.verdict in ("supported", "weak", "unsupported")
    if result.evidence is not None:
        text = texts[int(result.evidence.uuid)]
        assert text[result.evidence.start : result.evidence.end] == result.evidence.text


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 4), st.integers(1, 3))
def test_whole_sentences_of_a_source_are_supported(first: int, count: int) -> None:
    pieces = TEXT.split(". ")
    claim = ". ".join(pieces[first : first + count])
    assert judged(claim).verdict == "supported"


def test_weights_are_read_strictly() -> None:
    with pytest.raises(ValidationError):
        Weights.model_validate({"card": [], "lexical": {}, "dense": {}})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5.2 mg of IL-6 and p53", [(5.2, "mg")]),
        ("1,000 patients", [(1000.0, "")]),
        ("50 percent, 50%", [(50.0, "%"), (50.0, "%")]),
        ("two million dollars, $2 million", [(2e6, "usd"), (2e6, "usd")]),
        ("up to seventy-seven bar", [(77.0, "bar")]),
        ("one hundred and five days, one of them", [(105.0, "day")]),
        ("three quarters, half a litre", [(0.75, ""), (0.5, "l")]),
        ("nineteen sixty-two", [(1962.0, "")]),
        ("26 of the 27 patients", [(26.0, "of 27"), (27.0, "")]),
        ("HP:0001250 and CO2", []),
        ("twice", [(2.0, "")]),
    ],
)
def test_numbers_are_read_with_units(text: str, expected: list[tuple[float, str]]) -> None:
    assert [(found.value, found.unit) for found in quantities(text)] == expected


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("on 14 May 1891", [(1891, 5, 14)]),
        ("on May 14, 1891", [(1891, 5, 14)]),
        ("1891-05-14 or March 3", [(1891, 5, 14), (None, 3, 3)]),
        ("in June 2027, in May, in 1999", [(2027, 6, None), (None, 5, None), (1999, None, None)]),
        ("it may march on", []),
    ],
)
def test_dates_are_read_as_far_as_they_are_said(text: str, dates: list[object]) -> None:
    assert [found.date for found in quantities(text) if found.date] == dates


def test_a_part_of_a_date_is_stated_by_the_whole_and_no_other_day() -> None:
    (whole,), (part,), (other,) = map(quantities, ("14 May 1891", "May 1891", "4 May 1891"))
    assert part.is_stated_by(whole)
    assert not other.is_stated_by(whole)
    assert not whole.is_stated_by(part)


def test_names_are_told_from_first_words() -> None:
    assert read("Patients with Dravet carry SCN1A and p53").names == {"dravet", "scn1a", "p53"}


def test_a_list_quoted_item_by_item_is_supported() -> None:
    source = Passage(
        "u", "Keep the rules in mind:\n\n- Each value has an owner.\n- There can only be one owner."
    )
    said = "Keep the rules in mind: Each value has an owner; There can only be one owner"
    assert judged(f"{said}.", source).verdict == "supported"
    turned = "There can only be one owner; Each value never has an owner"
    assert judged(f"{turned}.", source).verdict != "supported"

"""What a sentence says otherwise than its source, rule by rule."""

import pytest

from docstokg.domain.claims import align, read_claim
from docstokg.domain.contradictions import differences, is_misplaced_number
from docstokg.domain.verdicts import judge


def differing(claim: str, *sentences: str, heading: str = "") -> set[str]:
    alignment = align(read_claim(claim, judge().weigh), sentences, heading)
    return set(differences(alignment, sentences)[0])


SOURCE = (
    "Febrile seizures occur with fever in children under five years and are caused by infections."
)


@pytest.mark.parametrize(
    ("claim", "difference"),
    [
        ("Febrile seizures do not occur with fever in children.", "contradicted"),
        ("Febrile seizures never occur with fever.", "restriction_mismatch"),
        ("Only febrile seizures occur with fever in children.", "restriction_mismatch"),
        ("All febrile seizures occur with fever in children.", "restriction_mismatch"),
        ("Kidney stones occur with fever in children under five years.", "subject_mismatch"),
    ],
)
def test_a_claim_that_differs_is_told_how(claim: str, difference: str) -> None:
    assert difference in differing(claim, SOURCE)


@pytest.mark.parametrize(
    "claim",
    [
        "Febrile seizures occur with fever in children.",
        "Febrile seizures are caused by infections.",
        "Infections cause febrile seizures.",
    ],
)
def test_a_claim_in_other_order_or_voice_does_not_differ(claim: str) -> None:
    assert not differing(claim, SOURCE)


def test_the_direction_of_a_relation_counts() -> None:
    source = "Smoking causes lung cancer."
    assert "contradicted" in differing("Lung cancer causes smoking.", source)
    assert not differing("Lung cancer is caused by smoking.", source)
    assert "contradicted" in differing("Smoking is caused by lung cancer.", source)


def test_a_negation_in_another_clause_says_nothing_of_the_claim() -> None:
    source = "Seizures occurred in 26 of 27 patients, but no death was reported."
    assert not differing("Seizures occurred in 26 of 27 patients.", source)
    assert "contradicted" in differing("Seizures did not occur in patients.", source)


def test_the_heading_can_name_the_subject() -> None:
    source = "It is treated with carbamazepine and rest."
    claim = "Angelman syndrome is treated with carbamazepine and rest."
    assert "subject_mismatch" in differing(claim, source)
    assert not differing(claim, source, heading="Angelman syndrome")


def test_a_number_belongs_to_what_its_clause_says() -> None:
    sentences = ["1233 patients show developmental delay, 870 patients show hypotonia."]
    judged = judge()
    wrong = align(read_claim("870 patients show developmental delay.", judged.weigh), sentences)
    right = align(read_claim("1233 patients show developmental delay.", judged.weigh), sentences)
    assert is_misplaced_number(wrong, sentences)
    assert not is_misplaced_number(right, sentences)

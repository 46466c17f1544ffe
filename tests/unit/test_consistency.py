"""Ids, labels and relations against a small ontology."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.answer.consistency import Ontology, Term, check, mentions

ONTOLOGY = Ontology(
    terms={
        "HP:0001250": Term(("Seizure", "Epileptic seizure")),
        "HP:0012638": Term(("Abnormal nervous system physiology",)),
        "HP:0000707": Term(("Abnormality of the nervous system",)),
        "HP:0000001": Term(("Old name",), obsolete=True, replaced_by="HP:0000118"),
    },
    above={
        "HP:0001250": {"is_a": {"HP:0012638", "HP:0000707"}, "part_of": set()},
        "HP:0012638": {"is_a": {"HP:0000707"}},
    },
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Seizure (HP:0001250) was seen.", []),
        ("Children with epileptic seizures (HP:0001250).", []),
        ("HP:0001250 (Seizure)", []),
        ("HP:0001250 (see below) and HP:0001250 (1, 2)", []),
        ("Children with ataxia (HP:0001250).", [("id_label_mismatch", "ataxia")]),
        ("HP:0001250 (Ataxia)", [("id_label_mismatch", "Ataxia")]),
        ("See HP:9999999.", [("unknown_id", "HP:9999999")]),
        ("PMID:12345678 and http://host:8080 or localhost:8080 are no terms.", []),
        ("Old name (HP:0000001)", [("obsolete_id", "HP:0000001")]),
        ("HP:0001250 is a HP:0012638.", []),
        ("hp:0001250 is_a HP:0000707", []),
        ("Seizure (HP:0001250) is an Abnormal nervous system physiology (HP:0012638).", []),
        ("HP:0012638 is a kind of HP:0001250",
         [("relation_not_found", "HP:0012638 is a kind of HP:0001250")]),
        ("HP:0001250 is part of HP:0012638",
         [("relation_not_found", "HP:0001250 is part of HP:0012638")]),
        ("HP:0012638 is not a HP:0001250", []),
        ("HP:0001250 is a symptom seen with HP:0012638", []),
        ("HP:0012638. It is a kind of HP:0001250", []),
    ],
)  # fmt: skip
def test_issues(text: str, expected: list[tuple[str, str]]) -> None:
    issues = [(issue.code, text[issue.start : issue.end]) for issue in check(text, ONTOLOGY)]
    assert issues == expected


PIECES = st.sampled_from(
    [
        "HP:0001250",
        "HP:9999999",
        " (",
        ")",
        "Seizure",
        " is a ",
        " part of ",
        "not ",
        ". ",
        "x",
        "(",
    ]
)


@given(st.lists(PIECES, max_size=15).map("".join))
def test_every_issue_has_a_place_in_the_text(text: str) -> None:
    issues = check(text, ONTOLOGY)
    assert all(0 <= issue.start < issue.end <= len(text) for issue in issues)
    assert list(issues) == sorted(issues, key=lambda issue: (issue.start, issue.end, issue.code))
    assert all(text[m.start : m.end].upper() == m.id for m in mentions(text))

"""Verdicts: what supports, what does not, and why, with the span that decides."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from docstokg.domain.answer.claims import read_claim
from docstokg.domain.answer.verdicts import (
    DENSE_NAMES,
    Closeness,
    Passage,
    Weights,
    about_subject,
    decide,
    examine,
    judge,
)
from docstokg.domain.text.wording import quantities, read, stem

OWN = ("own_near", "own_together", "own_else")
TEXT = (
    "We enrolled 120 patients with epilepsy. Valproate reduced the frequency of seizures by 49.6% "
    "within 12 weeks. No patient developed hepatitis. Seizure (HP:0001250) is coded by the clinic. "
    "SCN1A variants increase the risk of febrile seizures."
)
PASSAGE = Passage("u-1", TEXT, base=100, header="Valproate trial")


def judged(claim: str, *passages: Passage):
    return decide(examine(claim, passages or (PASSAGE,), judge()), judge())


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
        ("SCN1A variants decrease the risk of febrile seizures", "contradiction_suspected",
         {"weak", "unsupported"}),
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
    found = examine("The drug made fits rarer", (PASSAGE,), judge())
    near = decide(found, judge(), Closeness([0.95] * len(found.evidence), 0.5, 0.5, 0.5))
    far = decide(found, judge(), Closeness([0.0] * len(found.evidence), 0.0, 0.0, 0.0))
    assert near.support > far.support


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=120), st.lists(st.text(max_size=150), max_size=3))
def test_any_text_gets_a_verdict(claim: str, texts: list[str]) -> None:
    passages = [Passage(str(place), text) for place, text in enumerate(texts)]
    result = judged(claim, *passages) if passages else decide(examine(claim, [], judge()), judge())
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
        Weights.model_validate({"idf": [], "rarest": 1, "lexical": {}, "dense": {}})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5.2 mg of IL-6 and p53", [(5.2, "mg")]),
        ("1,000 patients", [(1000.0, "patient")]),
        ("50 percent, 50%", [(50.0, "%"), (50.0, "%")]),
        ("two million dollars", [(2e6, "")]),
        ("3 million people", [(3e6, "")]),
        ("HP:0001250 and CO2", []),
        ("twice", [(2.0, "")]),
    ],
)
def test_numbers_are_read_with_units(text: str, expected: list[tuple[float, str]]) -> None:
    assert [(found.value, found.unit) for found in quantities(text)] == expected


def test_inflections_meet() -> None:
    for words in (("increase", "increased", "increasing", "increases"),
                  ("inhibits", "inhibition", "inhibitor"),
                  ("activates", "activation", "active", "activity"),
                  ("seizure", "seizures"), ("association", "associated")):  # fmt: skip
        assert len({stem(word) for word in words}) == 1, words


def test_names_are_told_from_first_words() -> None:
    assert read("Patients with Dravet carry SCN1A and p53").names == {"dravet", "scn1a", "p53"}


TOOLS = (
    "-x, --extract extracts files from an archive. -c, --create writes a new archive. "
    "-k, --keep Keep (don't delete) the input files. "
    "-n, --dry-run Don't remove anything, only show what would be done by clean."
)


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        ("tool -x writes a new archive", "subject_mismatch"),
        ("tool -k deletes the input files", "contradicted"),
        ("Patients with epilepsy were treated with antibiotics", "contradiction_suspected"),
        ("The frequency of seizures reduces valproate", "contradicted"),
        ("Valproate never reduced the frequency of seizures", "contradicted"),
    ],
)
def test_alike_words_that_say_otherwise_are_not_supported(claim: str, reason: str) -> None:
    result = judged(claim, PASSAGE, Passage("u-2", TOOLS))
    assert result.verdict != "supported"
    assert reason in result.reasons


@pytest.mark.parametrize(
    "claim",
    [
        "tool -x extracts files from an archive",
        "clean -n shows what would be done without removing anything",
        "The diagnosis of ALL rests on blasts",
    ],
)
def test_what_a_source_says_in_other_words_is_not_called_its_opposite(claim: str) -> None:
    blasts = "A diagnosis of ALL rests on finding blasts in blood or marrow."
    result = judged(claim, Passage("u-2", TOOLS), Passage("u-3", blasts))
    assert not {"contradicted", "restriction_mismatch", "subject_mismatch"} & set(result.reasons)


def test_a_denial_far_from_what_is_claimed_denies_something_else() -> None:
    text = (
        "When a growth is not malignant it is labelled as such Common places of growth Bones "
        "Lungs Liver Brain Bone cancer can spread to the lung and to other organs of the chest"
    )
    assert (
        "contradicted"
        not in judged("Bone cancer can spread to the lung", Passage("u", text)).reasons
    )
    denied = judged("Bone cancer can not spread to the lung", Passage("u", text))
    assert "contradicted" in denied.reasons


def test_a_name_put_together_by_signs_may_stand_in_parts() -> None:
    text = "Tumours that are positive for p16 are found in the throat."
    result = judged("p16-positive tumours are found in the throat", Passage("u", text))
    assert "name_not_in_source" not in result.reasons


@pytest.mark.parametrize(
    ("claim", "text", "verdict"),
    [
        ("rm removes directories by default.", "rm removes each file. By default, it does not "
         "remove directories.", "unsupported"),
        ("mv -n overwrites an existing file without asking.", "mv renames files. -n: mv does not "
         "overwrite an existing file.", "unsupported"),
        ("Diagnosis of glioma involves biopsy.", "Biopsy is how a glioma is found: the diagnosis "
         "of glioma follows from it.", "supported"),
    ],
)  # fmt: skip
def test_a_denied_verb_contradicts_and_a_plan_has_its_means(
    claim: str, text: str, verdict: str
) -> None:
    assert judged(claim, Passage("u", text)).verdict == verdict


def test_a_participle_behind_a_noun_is_not_the_verb() -> None:
    claim = read_claim("Organs affected by the disease include the lung", judge().weigh)
    assert claim.verb == ("includ",)
    assert claim.sides == ("Organs affected by the disease", "include the lung")


def test_what_was_looked_for_is_weighed_apart_from_what_is_cited() -> None:
    """A claim that no source cites is held against what speaks of its subject anyway."""
    fitted = judge()
    one = examine("Variants of SCN1A raise the risk of febrile seizures", [PASSAGE], fitted)
    near = Closeness([0.9] * len(one.evidence), 0.7, 0.8, 0.4)
    cited, found = decide(one, fitted, near), decide(one, fitted, near, searched=True)
    assert cited.support != found.support
    assert decide(one, fitted) == decide(one, fitted, searched=True), "by words alone"
    assert fitted.weights.searched.features.keys() <= one.features.keys() | {*DENSE_NAMES}


def test_words_on_both_sides_of_a_claim_do_not_stand_for_its_subject() -> None:
    """A text about stage 3 lung tumours holds "tumour" and "stage" whatever the subject is."""
    fitted = judge()
    text = Passage("u", "Radiotherapy is recommended after surgery for all stage 3 lung tumours.")
    said = "is recommended after surgery for stage 3 lung tumours"
    right = examine(f"Radiotherapy {said}", [text], fitted)
    other = examine(f"Kidney tumour staging {said}", [text], fitted)
    assert [right.features[name] for name in OWN] == [1.0, 1.0, 0.0]
    assert [other.features[name] for name in OWN] == [0.0, 0.0, 0.0]
    assert other.features["subject"] > 0.5, "words alone see most of the subject"
    near = Closeness([0.75], 0.45, 0.6, 0.3)
    true, false = (decide(one, fitted, near, searched=True).support for one in (right, other))
    assert true > false


def test_the_verb_before_a_label_is_no_part_of_it() -> None:
    claim = "A code of the clinic is Seizure (HP:0001250)"
    assert "id_label_mismatch" not in judged(claim).reasons
    assert "id_label_mismatch" in judged("A code of the clinic is Ataxia (HP:0001250)").reasons


def test_a_sentence_that_says_something_else_of_the_subject_is_told() -> None:
    text = Passage("u", "Radiotherapy causes tiredness. Surgery is recommended for lung tumours.")
    one = examine("Radiotherapy is recommended for lung tumours", [text], judge())
    alone = examine("Radiotherapy treats tiredness and tumours", [text], judge())
    assert one.features["own_else"] == 0.0, "its best sentence has another subject"
    assert 0.3 < alone.features["own_else"] < 1.0


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        (
            "Patients with stage II disease need surgery.",
            "In stage 2 disease patients need surgery.",
        ),
        ("The drug is used for FLT3-mutated tumors.", "The drug is used for tumors with FLT3."),
    ],
)
def test_a_numeral_or_a_common_word_beside_a_name_is_no_foreign_name(
    claim: str, source: str
) -> None:
    assert "name_not_in_source" not in judged(claim, Passage("u", source)).reasons


def test_a_stage_that_no_source_counts_is_a_foreign_name() -> None:
    claim = "Patients with stage III disease need surgery."
    source = Passage("u", "In stage 2 disease patients need surgery.")
    assert "name_not_in_source" in judged(claim, source).reasons


def test_a_claim_that_begins_with_a_document_is_about_that_document() -> None:
    push = Passage("p", "git push sends tags to the remote.", header="git-push.txt\n\n")
    clean = Passage("c", "Removes untracked files.", header="git-clean.txt\n\n")
    see = Passage("s", "See git push and git clean.", header="git-tag.txt\n\n")
    found = [push, clean, see]
    assert about_subject("git clean sends tags to the remote.", found) == [clean, see]
    assert about_subject("git clean -n removes nothing.", found) == [clean]
    assert about_subject("Tags are sent to the remote.", found) == found
    assert about_subject("git clean sends tags.", [push, see]) == [push, see]


def test_a_list_quoted_item_by_item_is_supported() -> None:
    source = Passage(
        "u", "Keep the rules in mind:\n\n- Each value has an owner.\n- There can only be one owner."
    )
    said = "Keep the rules in mind: Each value has an owner; There can only be one owner"
    assert judged(f"{said}.", source).verdict == "supported"
    turned = "There can only be one owner; Each value never has an owner"
    assert judged(f"{turned}.", source).verdict != "supported"

"""Names that people write differently must meet under one key, whatever the script."""

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from docstokg.domain.text.folding import alias_keys, question_keys, singular, variant, words
from docstokg.domain.text.words import fold

ODD = st.text(
    alphabet=st.sampled_from(list("aAsSeé\u0301\u0327ﬁİıßΣς½①ａ0²'’ -_.가\u1100\u1161 1が"))
)
TEXT = st.one_of(st.text(), ODD)


@given(TEXT)
@example("10\u00b2")
def test_fold_equals_the_unicode_specification(text: str) -> None:
    powers = re.sub("(?<=\\d)(?=[\u00b2\u00b3\u00b9\u2070\u2074-\u207b])", "^", text)
    plain = unicodedata.normalize("NFKC", powers).casefold()
    expected = re.sub(r"[\W_]+", " ", plain).strip() or text.strip()
    assert fold(text) == expected
    assert all(part.isalnum() for part in fold(text).split(" ")) or not re.search(r"[^\W_]", plain)


@given(st.text(alphabet="abeishxzuy", min_size=1, max_size=12))
def test_singular_is_idempotent_and_only_shortens(word: str) -> None:
    once = singular(word)
    assert singular(once) == once
    assert len(once) <= len(word)


@pytest.mark.parametrize(
    ("plural", "expected"),
    [
        ("seizures", "seizure"), ("biopsies", "biopsy"), ("boxes", "box"), ("masses", "mass"),
        ("virus", "virus"), ("diabetes", "diabetes"), ("aids", "aids"), ("sepsis", "sepsis"),
        ("rs7412s", "rs7412s"),
    ],
)  # fmt: skip
def test_singular_examples(plural: str, expected: str) -> None:
    assert singular(plural) == expected


def test_possessives_meet_but_protein_s_stays() -> None:
    assert variant("Crohn's disease") == variant("Crohn disease") == "crohn disease"
    assert variant("Crohn’s disease") == "crohn disease"
    assert variant("Protein S") == "protein s"


def test_alias_keys_hold_names_variants_and_the_curie() -> None:
    keys = dict(alias_keys("HP:0001250", "Seizures", ["Epileptic seizure's", "fits"]))
    assert keys == {
        "seizures": True,
        "seizure": False,
        "hp 0001250": False,
        "epileptic seizure s": False,
        "epileptic seizure": False,
        "fits": False,
        "fit": False,
    }
    assert alias_keys("ent:00", "A b") == (("a b", True),)


@given(TEXT)
@example("\u0345")
@example("a \u0345b")
@example("10\u00b2 cells")
def test_words_cover_what_fold_keeps(text: str) -> None:
    seen = words(text)
    assert len(seen.spans) == len(seen.forms)
    ends = 0
    for (start, end), form in zip(seen.spans, seen.forms, strict=True):
        assert 0 <= start < end <= len(text)
        assert end >= ends
        ends = end
        if seen.exact:
            assert singular(fold(text[start:end])) == form
    if not any(mark in text for mark in "'\u2019\u02bc\u2032"):
        assert seen.forms == [singular(word) for word in fold(text).split() if word.isalnum()]


def test_question_keys_offer_names_curies_and_capitals() -> None:
    keys = question_keys("What genes cause Crohn's disease, HP:0001250 or ALL?")
    assert {"crohn s disease", "crohn disease", "hp 0001250", "gene", "genes", "all"} <= set(keys)
    assert "what" not in keys
    assert len(keys[0].split()) == 8
    assert "all" not in question_keys("are all of them")


def test_question_keys_are_capped_and_keep_the_longest() -> None:
    keys = question_keys(" ".join(f"w{i}" for i in range(2000)))
    assert len(keys) == 4000
    assert all(len(key.split()) >= 6 for key in keys)

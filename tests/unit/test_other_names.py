"""Words of other names: only of named entities, never of homonyms, never the question's own."""

from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.graph.other_names import MAX_WORDS, other_words
from docstokg.domain.text.query_terms import content_words

FEVER = {"ex:1": ("Fever", "Pyrexia", "Raised temperature")}
TREES = ("alder", "birch", "cedar", "maple", "rowan", "willow")
NAMES = st.lists(st.sampled_from(TREES), min_size=1)


def test_another_name_leads_to_preferred_and_other_names() -> None:
    assert other_words("What is pyrexia?", FEVER) == " ".join(
        content_words("fever raised temperature")
    )
    assert other_words("What causes fever?", FEVER) == "", "it is the preferred name"
    assert other_words("What is the temperature of the sun?", FEVER) == ""


def test_a_longer_name_hides_a_shorter_name_inside() -> None:
    names = {"ex:1": ("Sugar disease", "Diabetes"), "ex:2": ("Dry thirst", "Diabetes insipidus")}
    assert other_words("What is diabetes insipidus?", names) == " ".join(
        content_words("dry thirst")
    )


def test_a_name_of_two_entities_adds_nothing() -> None:
    names = {"ex:1": ("Mercury", "Quicksilver"), "ex:2": ("Mercury", "Hermes")}
    assert other_words("What is mercury?", names) == ""


@given(st.dictionaries(st.sampled_from("abcdefgh"), NAMES), NAMES)
def test_words_are_new_few_and_from_given_names(
    names: dict[str, list[str]], question: list[str]
) -> None:
    terms = other_words(" ".join(question), names).split()
    assert len(terms) == len(set(terms)) <= MAX_WORDS
    assert not set(terms) & set(content_words(" ".join(question)))
    assert set(terms) <= set(
        content_words(" ".join(n for aliases in names.values() for n in aliases))
    )


def test_an_entity_with_many_names_adds_few_words() -> None:
    names = {"ex:1": ("Fever", *(f"name{number}" for number in range(100)))}
    assert len(other_words("name7", names).split()) == MAX_WORDS

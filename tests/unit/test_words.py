"""Stop words, stems and the forms in which texts are compared."""

import pytest

from docstokg.domain.text import words
from docstokg.domain.text.wording import content_stems
from docstokg.domain.text.words import stem


def test_stop_words_are_function_words_and_no_subjects() -> None:
    assert {"the", "of", "not", "whether", "t", "ll", "isn"} <= words.STOP_WORDS
    # All of these are in stopwordsiso, but a question can ask about them.
    assert {"may", "us", "one", "use", "back", "computer", "fire"}.isdisjoint(words.STOP_WORDS)


def test_stems_are_those_of_porter2() -> None:
    # Published vectors: snowballstem.org/algorithms/english/stemmer.html.
    published = {"consistency": "consist", "consisting": "consist", "knightly": "knight"}
    assert {word: stem(word) for word in published} == published
    assert [stem(word) for word in ("studies", "study", "p53", "caf\u00e9s")] == [
        "studi", "studi", "p53", "caf\u00e9s",
    ]  # fmt: skip


def test_content_stems_omit_stop_words_and_pair_characters() -> None:
    assert content_stems("The Studies of it") == ("studi",)
    assert content_stems("\u6771\u4eac\u90fd") == ("\u6771\u4eac", "\u4eac\u90fd")


def test_names_and_sentences_have_separate_comparison_forms() -> None:
    assert words.fold("IL\u20116, Type\u00a0II") == "il 6 type ii"
    assert words.normalise("p\u200b53 ≥ ２.5 Mg") == "p53 ≥ 2.5 mg"
    assert words.fold("--") == "--"


@pytest.mark.parametrize(
    ("text", "whole", "within", "shared"),
    [
        ("HP:0001250", True, True, True), ("HP_0001250", False, False, True),
        ("mesh:D004827", True, False, False), ("host:80/path", True, False, False),
        ("http://x.org/ab:123456", False, False, True),
    ],
)  # fmt: skip
def test_an_id_is_told_by_where_it_stands(
    text: str, whole: bool, within: bool, shared: bool
) -> None:
    assert (words.CURIE.fullmatch(text) is not None) is whole
    assert (words.CURIE_IN_TEXT.search(text) is not None) is within
    assert (words.ID_IN_CLAIM.search(text) is not None) is shared

"""The word lists differ on purpose."""

import pytest

from docstokg.domain.text import words


def test_the_lists_differ_where_their_jobs_do() -> None:
    assert {"no", "not", "without", "cannot"}.isdisjoint(words.CLAIM_STOP_WORDS)  # they deny
    assert {"may", "one", "two", "use"}.isdisjoint(words.QUERY_STOP_WORDS)  # they are asked about
    assert {"t", "ll", "isn"} <= words.QUERY_STOP_WORDS  # halves of contractions
    assert {"against", "down", "above"}.isdisjoint(words.NAME_STOP_WORDS)  # they begin names


def test_names_and_sentences_are_compared_in_forms_of_their_own() -> None:
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

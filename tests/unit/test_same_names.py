"""One thing under two names: what texts say, what hands decide, what questions misspell."""

import pytest

from docstokg.contracts.graph import GraphSlice, SliceEntity, SliceRelation
from docstokg.domain.graph.linking import Match
from docstokg.domain.graph.same_names import SAME_AS, are_distinct, same_names
from docstokg.domain.graph.slice_graph import SliceGraph, with_other_names
from docstokg.domain.text.folding import alias_keys
from docstokg.domain.text.misspelt import candidates, near_keys


@pytest.mark.parametrize(
    ("text", "title", "expected"),
    [
        ("Hof Bridge, also known as the Iron Gate, spans it.", "",
         [("Hof Bridge", "Iron Gate", "also called")]),
        ("It was built in 1900. Zell Hall (formerly Zell Mill) burnt.", "",
         [("Zell Hall", "Zell Mill", "formerly")]),
        ('Brown fever, also called "Marsh Fever", is rare.', "Brown fever",
         [("Brown fever", "Marsh Fever", "also called")]),
        ('Long Nap (also known as "Four Men for One Fish") is a film.', "",
         []),
        ("The Zell Water Board (ZWB) meets.", "",
         [("Zell Water Board", "ZWB", "abbreviation")]),
        # A part of a longer name, another sentence's words and small letters are none.
        ("He is count of Zell, also known as Adolf of Zell.", "", []),
        ("Ada Zell, also known internationally, sings.", "", []),
        ("They met in Zell. It is also called a great success.", "", []),
    ],
)  # fmt: skip
def test_a_text_says_which_names_are_the_same(text: str, title: str, expected: list) -> None:
    pairs = list(same_names(text, title))
    assert [(pair.name, pair.other, pair.reason) for pair in pairs] == expected
    for pair in pairs:
        span = text[pair.start : pair.end]
        assert span.startswith(pair.name)
        assert span.endswith(pair.other)


def test_entities_of_two_lists_are_never_one() -> None:
    assert are_distinct("HP:1", "MONDO:1")
    assert not are_distinct("HP:1", "ent:0123456789abcdef")


def part(*relations: tuple[str, str, float]) -> SliceGraph:
    ids = sorted({end for source, target, _ in relations for end in (source, target)})
    rows = tuple(
        SliceRelation(source=source, type=SAME_AS, target=target, weight=weight)
        for source, target, weight in relations
    )
    entities = tuple(SliceEntity(id=i, name=i) for i in ids)
    return SliceGraph(GraphSlice(entities=entities, relations=rows), ())


def test_ambiguous_names_do_not_stand_for_others() -> None:
    graph = part(("long", "SF", 1.0), ("long", "old", 1.0), ("other", "SF", 1.0))
    assert sorted(graph.same_as("SF")) == ["long", "other"]
    assert graph.same_as("long") == ["old"]
    assert graph.same_as("old") == ["long"]
    (match,) = with_other_names([Match(0, 3, "old", ("old",), True)], graph)
    assert match.entity_ids == ("old", "long")


def test_a_split_comes_before_whatever_texts_say() -> None:
    graph = part(("long", "SF", 1.0), ("SF", "long", 0.0))
    assert graph.same_as("SF") == graph.same_as("long") == []
    assert not graph.relations


@pytest.mark.parametrize(
    ("question", "key"),
    [("Who runs Foxcon?", "foxconn"), ("Is angleman syndrome rare?", "angelman syndrome"),
     ("What did Mendelsohn write?", "mendelssohn"), ("Who is Humphery Bogart?", "humphrey bogart")],
)  # fmt: skip
def test_a_long_word_may_have_a_wrong_letter(question: str, key: str) -> None:
    absent = candidates(question)
    start, end = near_keys(question, (), absent)[key]
    assert len(question[start:end].split()) == len(key.split())
    assert key not in near_keys(question, [(0, len(question))], absent)
    assert near_keys(question, (), ()) == {}


def test_the_first_letter_is_never_the_wrong_one() -> None:
    keys = near_keys("What is the capital of France?", (), ("france",))
    assert keys
    assert all(key.split()[-1].startswith("f") or "france" in key for key in keys)
    assert "trance" not in keys
    assert "rfance" not in keys


def test_short_everyday_and_digit_words_are_not_misspelt() -> None:
    assert candidates("Is Rome the problem of history?") == ()
    assert candidates("Which Fibre does the system use in IL6sevennine near Foxconn?") == (
        "foxconn",
    )


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Dvořák", "dvorak"), ("Apple Inc.", "apple"), ("IL-6", "il6"), ("Zell & Co.", "zell"),
    ],
)  # fmt: skip
def test_a_name_matches_its_hasty_spelling(name: str, key: str) -> None:
    assert (key, False) in alias_keys("ent:1", name)
    assert "pathogen" not in dict(alias_keys("ent:1", "Path-O-Gen"))

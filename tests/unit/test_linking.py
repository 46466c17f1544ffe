"""A linker that misplaces a name breaks every citation behind it: places, nesting, homonyms."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.graph.linking import Linker, abbreviations, resolve
from docstokg.domain.text.folding import alias_keys, question_keys, variant
from docstokg.domain.text.words import fold

NAMES = {
    "HP:0001250": ("Seizures", ["Epileptic seizure"]), "MONDO:1": ("Crohn's disease", []),
    "MONDO:2": ("acute lymphoblastic leukemia", ["ALL"]), "MONDO:3": ("leukemia", []),
    "ent:a": ("The Who", []), "ent:b": ("MS", []), "MONDO:4": ("multiple sclerosis", ["MS"]),
    "ent:c": ("Ångström", []), "ent:d": ("new york", []), "ent:e": ("york city", []),
}  # fmt: skip


def linker() -> Linker:
    return Linker(
        (key, entity, preferred)
        for entity, (name, synonyms) in sorted(NAMES.items())
        for key, preferred in alias_keys(entity, name, synonyms)
    )


def mentions_in(text: str, **options: bool) -> list[tuple[str, tuple[str, ...], bool]]:
    return [
        (text[match.start : match.end], match.entity_ids, match.nested)
        for match in linker().find(text, **options)
    ]


def test_longest_wins_and_nested_names_are_reported() -> None:
    assert mentions_in("Acute Lymphoblastic\n leukemia (ALL), all of it") == [
        ("Acute Lymphoblastic\n leukemia", ("MONDO:2",), False),
        ("leukemia", ("MONDO:3",), True),
        ("ALL", ("MONDO:2",), False),
    ]
    assert mentions_in("New York City") == [
        ("New York", ("ent:d",), True),
        ("York City", ("ent:e",), False),
    ]


def test_plural_possessive_curie_and_unusual_letters() -> None:
    assert mentions_in("a seizure, hp:0001250, Crohn disease's and Crohn’s diseases") == [
        ("seizure", ("HP:0001250",), False),
        ("hp:0001250", ("HP:0001250",), False),
        ("Crohn disease", ("MONDO:1",), False),
        ("Crohn’s diseases", ("MONDO:1",), False),
    ]
    text = "½ of an A\u030angstro\u0308m"
    assert mentions_in(text) == [("A\u030angstro\u0308m", ("ent:c",), False)]


def test_short_names_need_capitals_unless_asked() -> None:
    assert mentions_in("the ms and the MS of who")[0] == ("MS", ("ent:b", "MONDO:4"), False)
    assert len(mentions_in("ms")) == 0
    assert mentions_in("ms", lower_case=True) == [("ms", ("ent:b", "MONDO:4"), False)]
    assert mentions_in("those of the who") == []
    assert mentions_in("those of The Who") == [("The Who", ("ent:a",), False)]


def test_a_short_acronym_is_no_everyday_plural() -> None:
    acronyms = Linker([("odd", "HP:1", False)])
    assert acronyms.find("the odds were odd") == []
    assert [match.start for match in acronyms.find("two ODDs")] == [4]


def test_a_firm_without_legal_form_needs_a_capital() -> None:
    firm = Linker((key, "ent:f", preferred) for key, preferred in alias_keys("ent:f", "Jazz, Ltd"))
    text = "a jazz standard of Jazz and of jazz, ltd"
    assert [match.start for match in firm.find(text)] == [19, 31]


def test_context_then_type_decides_homonyms_else_all_stay() -> None:
    matches = linker().find("MS")
    assert [m.entity_ids for m in resolve(matches, {}, {})] == [("ent:b", "MONDO:4")]
    assert [m.entity_ids for m in resolve(matches, {}, {"MONDO:4": 2})] == [("MONDO:4",)]
    text = "leukemia and MS"
    types = {"MONDO:3": "disease", "MONDO:4": "disease", "ent:b": "degree"}
    assert [m.entity_ids for m in resolve(linker().find(text), types, {})] == [
        ("MONDO:3",),
        ("MONDO:4",),
    ]


@given(
    st.lists(st.text(alphabet="abs' Aé-1", min_size=1, max_size=8), max_size=6),
    st.text(alphabet="abs' Aé-1\u0301½", max_size=60),
)
def test_every_match_is_an_alias_at_its_place(names: list[str], text: str) -> None:
    entries = [(key, f"ent:{i}", p) for i, n in enumerate(names) for key, p in alias_keys("", n)]
    keys = {key for key, _, _ in entries}
    winners: list[tuple[int, int]] = []
    for match in Linker(entries).find(text):
        surface = text[match.start : match.end]
        assert match.key in keys
        assert fold(surface) == match.key or variant(surface) == variant(match.key)
        if not match.nested:
            winners.append((match.start, match.end))
    assert all(a[1] <= b[0] for a, b in pairwise(winners))


@given(
    st.lists(st.sampled_from(["ab", "Abs", "ab's cd", "cds", "ab cd", "HP:01"]), max_size=5),
    st.text(alphabet="abcds 'HP:01", max_size=40),
)
def test_alias_index_and_automaton_find_the_same(names: list[str], text: str) -> None:
    entries = [(key, f"ent:{i}", p) for i, n in enumerate(names) for key, p in alias_keys("", n)]
    by_automaton = {i for m in Linker(entries).find(text, lower_case=True) for i in m.entity_ids}
    keys = set(question_keys(text))
    by_index = {entity for key, entity, _ in entries if key in keys}
    assert by_automaton <= by_index


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("Acute kidney injury (AKI) is common.", [("Acute kidney injury", "AKI")]),
        ("the heat shock protein 70 (HSP70) family", [("heat shock protein 70", "HSP70")]),
        ("patients (n=20) and controls (see Table)", []),
        ("in 1998 (1999)", []),
        ("American Institute of Physics (AIP), est.", [("American Institute of Physics", "AIP")]),
        ("a (B)", []),
    ],
)
def test_abbreviations(text: str, pairs: list[tuple[str, str]]) -> None:
    defined = abbreviations(text)
    assert [(item.long, item.short) for item in defined] == pairs


@given(st.text(alphabet="aAbB ()[];-", max_size=80))
def test_abbreviations_stand_in_the_text(text: str) -> None:
    for item in abbreviations(text):
        assert item.long in text
        assert re.search(rf"[(\[]\s*{re.escape(item.short)}", text)

"""What counts as a name: titles, headings, abbreviations, and words of a text."""

from itertools import permutations

import pytest

from docstokg.adapters.spacy_names import SpacyNames
from docstokg.domain.graph.linking import Linker
from docstokg.domain.text.names import (
    better_kind,
    better_surface,
    capitalised_names,
    heading_name,
    is_definition,
    is_mention,
    is_proper,
    prose,
    tidy,
    title_names,
)
from docstokg.loading.names.mentions import linked


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("The Chase (1946 film)", ("The Chase (1946 film)", "The Chase", "Chase")),
        ("git-rebase(1)", ("git-rebase(1)", "git-rebase")),
        ("Angelman syndrome", ("Angelman syndrome",)), ("Node.js", ("Node.js",)),
        ("notes-2024.md", ()), ("readme", ()), ("x" * 201, ()), ("  ", ()),
        ("switch_root(8)", ("switch_root(8)", "switch_root")),
        ("fs.readFile(path[, options], callback)", ()),
    ],
)  # fmt: skip
def test_titles_are_names_except_files_and_code(title: str, names: tuple) -> None:
    assert title_names(title, "notes.md", "guide/readme.md") == names


def test_a_command_page_may_share_its_file_name() -> None:
    assert title_names("npm-access", "npm-access.md") == ("npm-access",)


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("Parental leave", "Parental leave"), ("3.2 Northwind Vault", "Northwind Vault"),
        ("The Buffer class", "Buffer class"), ("npm ci", "npm ci"), ("Files", None), ("type", None),
        ("Options", None), ("Exit status", None), ("How to install", None),
        ("Using the cache", None), ("-k, --insecure", None), ("new Buffer(size)", None),
        ("fs.readFile(path[, options], callback)", None), ("What is new?", None),
        ("WINDOWS AND PANES", None),
        ("This heading is a whole sentence that goes on and on about nothing", None),
    ],
)  # fmt: skip
def test_headings_are_names_except_parts_questions_and_code(heading: str, name: str | None) -> None:
    assert heading_name(heading) == name


@pytest.mark.parametrize(
    ("long", "short", "defines"),
    [
        ("programmed cell death", "PCD", True),
        ("human immunodeficiency virus", "HIV-1", True),
        ("files SYNOPSIS sort [OPTION]...", "FILE", False), ("Figure", "Fig", False),
        ("encoded `TypedArray` into this API instead. * `outputEncoding`", "TAPI", False),
        ("Node.js process the [`domain`][] module can be used.", "NPD", False),
        ("the mode of the old file", "m", False),
    ],
)  # fmt: skip
def test_definitions_are_no_option_lists_and_no_code(long: str, short: str, defines: bool) -> None:
    assert is_definition(long, short) is defines


@pytest.mark.parametrize(
    ("surface", "expected"),
    [
        ("Hucbert", True), ("epilepsy", True), ("file", False), ("Files", False), ("US", True),
        ("us", False), ("Us", False), ("World War", True), ("world war", False),
        ("exit status", False), ("東京", True),
    ],
)  # fmt: skip
def test_everyday_and_short_lowercase_words_are_no_mentions(surface: str, expected: bool) -> None:
    assert is_mention(surface) is expected


@pytest.mark.parametrize(
    "word",
    ["NAME", "NOTE", "TRUE", "NULL", "STANDARDS", "VERBOSE", "PERMISSIONS", "ALIAS", "Disables",
     "Merge", "Remove", "Optional", "Publish", "Listing", "Keyword", "Commit", "Execute"],
)  # fmt: skip
def test_common_words_of_manuals_are_no_names(word: str) -> None:
    assert not is_proper(word)
    assert not is_mention(word)
    assert heading_name(word) is None


@pytest.mark.parametrize(
    "name",
    ["Node.js", "Bash", "POSIX", "GitHub", "Rust", "HTTPS", "CLOCK", "ENCODE", "Academy Award",
     "Royal Navy", "Young", "Baker", "Brain"],
)  # fmt: skip
def test_names_of_programs_protocols_and_people_stay(name: str) -> None:
    assert is_proper(name)
    assert is_mention(name)


def test_names_inside_options_and_addresses_are_no_mentions() -> None:
    names = ("cmake", "github", "cargo")
    linker = Linker([(name, f"ent:{name}", True) for name in names])
    text = "CMAKE_PREFIX_PATH, --cargo, https://github.com/x, a@github.com and /usr/lib/cmake/y"
    assert linked(text, linker.find(text)) == {}
    text = "Run CMake, see `cargo run`, or ask GitHub."
    assert set(linked(text, linker.find(text))) == {f"ent:{name}" for name in names}


def test_proper_names_are_capitalised_and_no_everyday_words() -> None:
    texts = ("Marie Dupont", "NHS", "III", "Files", "It", "lace plant")
    assert list(filter(is_proper, texts)) == ["Marie Dupont", "NHS"]
    assert tidy("The Duke of") == "Duke"
    assert tidy("the “Hello") == "Hello"
    assert tidy("the Bank of\nEngland's") == "Bank of England"


def test_capitalised_runs_are_names_without_a_model() -> None:
    text = (
        "She was a queen of Lotharingia by marriage to Lothair II. The Bank of England and Marie "
        "Dupont moved. Yesterday they met in New York City.\n\n```\nFoo Bar = New(Zork)\n```\n"
        "SYNOPSIS OF COMMANDS\n\nSee `Some Thing`, --Long-Option and /usr/Share."
    )
    names = ["Lotharingia", "Lothair II", "Bank of England", "Marie Dupont", "New York City"]
    assert list(capitalised_names(text)) == names
    assert len(prose(text)) == len(text)


def test_spelling_and_kind_are_independent_of_load_order() -> None:
    for first, second, third in permutations(("marie dupont", "Marie Dupont", "MARIE DUPONT")):
        assert better_surface(better_surface(first, second), third) == "Marie Dupont"
    for candidates, wanted in (
        (("Title", "Person", None, "Person"), "Person"),
        (("Title", "Person", None, "Organization"), "Name"),
        (("Title", "Disease", "Person", "Organization"), "Disease"),
        (("Heading", "Title", None), "Title"),
        ((None,), None),
    ):
        for kinds in permutations(candidates):
            best = None
            for kind in kinds:
                best = better_kind((best, kind))
            assert best == wanted


def test_a_place_name_that_acts_has_no_kind() -> None:
    texts = ["TSMC makes chips and Foxconn assembles phones.", "He drove to Foxconn in Taiwan."]
    results = SpacyNames().find(texts)
    kinds = [{name.text: name.kind for name in names}["Foxconn"] for names in results]
    assert kinds == [None, "Place"]

"""Markers: every form read, every orphan found, nothing renumbered, for any text whatever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.answer.citations import (
    check_markers,
    find_markers,
)

PIECES = st.sampled_from(
    [
        "[1]",
        "[2]",
        "[1, 3]",
        "[1-3]",
        "[2–9]",
        "[99]",
        "[0]",
        "[",
        "]",
        "[[",
        "]]",
        "9",
        "1",
        ",",
        "-",
        "`",
        "```",
        "\n",
        "~~~\n",
        " ",
        ".",
        "word",
        "[^1]",
        "[1]:",
        "](http://x)",
        "【2†a】",
        "[source 2]",
        "[1,]",
        "[3-1]",
        "(",
        ")",
        "١",
        "é",
        "😀",
        "\\",
        "[1.5]",
        "[sic]",
    ]
)
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=40).map("".join))


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("A [1].", [(1,)]),
        ("A [1][2].", [(1,), (2,)]),
        ("A [1] [2].", [(1,), (2,)]),
        ("A [1, 3].", [(1, 3)]),
        ("A [1,3;4].", [(1, 3, 4)]),
        ("A [1-3].", [(1, 2, 3)]),
        ("A [1\u20133, 7].", [(1, 2, 3, 7)]),
        ("A[1].", [(1,)]),
        ("A [ 1 ].", [(1,)]),
        ("[1](https://example.org/x)", [(1,)]),
        ("[[1]]", [(1,)]),
        ("As [1]: shown", [(1,)]),
        ("No [^1] [sic] [a] [1.5] [95% CI 1-3] [n=3] [Smith 2] (1) [] [ ]", []),
        ("`a[1]` and ``b ` [2]`` [3]", [(3,)]),
        ("```\na[1]\n```\n[2]", [(2,)]),
        ("~~~py\na[1]", []),
        ("a ` lone tick [1]", [(1,)]),
    ],
)
def test_forms(text: str, ranks: list[tuple[int, ...]]) -> None:
    citations = [marker for marker in find_markers(text) if marker.kind == "citation"]
    assert [marker.ranks for marker in citations] == ranks


@pytest.mark.parametrize(
    ("text", "cleaned", "ranks"),
    [
        ("A [1]. B [9].", "A [1]. B.", (9,)),
        ("A [1, 9] b.", "A [1] b.", (9,)),
        ("A [9] b.", "A b.", (9,)),
        ("A [1-5].", "A [1, 2, 3].", (4, 5)),
        ("A [1-3].", "A [1-3].", ()),
        ("A [0].", "A.", (0,)),
        ("A [1](http://evil.example) b", "A [1] b", ()),
        (
            "Text [1].\n\n[1]: http://x\n[9]: http://y",
            "Text [1].\n\n[1]: http://x\n http://y",
            (9,),
        ),
        ("`x[9]` stays [2].", "`x[9]` stays [2].", ()),
    ],
)
def test_orphans_go_and_are_listed(text: str, cleaned: str, ranks: tuple[int, ...]) -> None:
    checked = check_markers(text, {1, 2, 3})
    assert (checked.text, checked.invalid) == (cleaned, tuple(f"[{rank}]" for rank in ranks))


@pytest.mark.parametrize("text", ["[source 1]", "【1†a】", "[1,]", "[3-1]", "[1-99999]", "[#1]"])
def test_malformed_markers_go_and_are_listed(text: str) -> None:
    checked = check_markers(f"A [1] {text}.", {1, 2, 3})
    assert checked.text == "A [1]."
    assert checked.invalid == (text,)


def test_remaining_text_cannot_form_a_marker() -> None:
    assert check_markers("[[9]1]", {2}).text == ""
    deep = "[" * 50 + "9" + "]9" * 49 + "]"
    checked = check_markers(deep, {1})
    assert not [m for m in find_markers(checked.text) if set(m.ranks) - {1}]


@given(TEXTS)
def test_markers_are_ordered_and_apart(text: str) -> None:
    at = 0
    for marker in find_markers(text):
        assert at <= marker.start < marker.end <= len(text)
        at = marker.end

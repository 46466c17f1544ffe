"""A reply is read as it was meant, beside faults/reply_shapes.py, and cannot act on its reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.answer.notices import ABSTENTION
from docstokg.domain.answer.quotation import comparable
from docstokg.domain.answer.reply import cleaned, cut, harmless, inert


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("It opens at noon [1].<think>was that right", "It opens at noon [1]."),
        ('{"question": "when?"}', '{"question": "when?"}'),
        ("Sure! Based on the sources, here is the answer: At noon [1].", "At noon [1]."),
        ("Surely it opens at noon: the sign says so [1].",) * 2,
        ("(1) Open the valve.\n(2) Close it.",) * 2,
        ("Step (2) is next [1].",) * 2,
        ("It covers 5 m<sup>2</sup>.",) * 2,
        ("It is 10<sup>6</sup> times.",) * 2,
        ("The yard has 9 km<sup>2</sup> [1].",) * 2,
        ("At noon.\n\nSources:\n[1] hours.md\n", "At noon.\n\nSources:\n[1] hours.md"),
        ("Use `a[source 1]` here [1].",) * 2,
        ("It opens " + "the the the the the the", "It opens the"),
        ("It has 5 m\u00b2 and 10\u00b3 seats.",) * 2,
        (f"It opens at noon [1].\n\n{ABSTENTION}",) * 2,
        (f"I am sorry. {ABSTENTION}", ABSTENTION),
    ],
)
def test_other_shapes_are_read(raw: str, expected: str) -> None:
    assert cleaned(raw) == expected


@pytest.mark.parametrize(
    "text",
    [
        "A fault has `<reason>` and `<env:Reason>` [1].",
        "Call `<function_name>(x)` with `<tool_name>` [1].",
        "Run <function name> twice, then <invoke later> [1].",
        "The body has `<response>` and `<answer>`, </answer> at its end [1].",
        "See [analysis] and [thought] of the report [1].",
        "Rows of `[[0, 1], [2, 3]]` and `x[1](2)` are summed [1].",
    ],
)
def test_brackets_of_other_texts_stay(text: str) -> None:
    assert cleaned(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "See https://good.example/a [1].", "Mail help@good.example [1].",
        "Put `<b>` around it [1].", "A <section> holds it [1].",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 [1].",
        "\U0001f469\u200d\U0001f680 flew [1].", "5 < 7 and 9 > 3 [1].",
    ],
)  # fmt: skip
def test_links_of_a_passage_stay(text: str) -> None:
    passage = "help@good.example, https://good.example/a, a <section> element"
    assert harmless(text, [passage]) == (text, False)


@given(st.text("<>/ab!()[]:@.`\u200b\u200d\n x", max_size=200) | st.text(max_size=200))
def test_nothing_harmful_is_put_together_by_removing(text: str) -> None:
    safe, _ = harmless(cleaned(text), [])
    assert harmless(safe, []) == (safe, False)


def test_a_tag_in_a_tag_goes_as_well() -> None:
    assert harmless("<scr<b>ipt>x</scr</b>ipt> [1]", [])[0] == "x [1]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See [the manual](javascript:alert(1)) [1].", "See the manual [1]."),
        ("See [it](java&#115;cript:x) and ![p](data:text/html;base64,QQ==).", "See it and p."),
        ("See [site](https://a.b/c_(d)) or [us](mailto:a@b.c) or [page](page.md#x).",) * 2,
        ("<script>alert(1)</script> and </b> <!-- c --> <?x?>",
         "&lt;script>alert(1)&lt;/script> and &lt;/b> &lt;!-- c --> &lt;?x?>"),
        ("Put `<b>` and 3 < 4 <5 there.",) * 2,
        ("```html\n<b>[x](data:y)</b>\n```\nDone.",) * 2,
        ("[a][1]\n\n[1]: javascript:alert(1)\n", "[a][1]\n\n\n"),
    ],
)  # fmt: skip
def test_tags_are_escaped_and_other_schemes_lose_targets(text: str, expected: str) -> None:
    assert inert(text) == expected


def test_a_quotation_with_markup_is_one_after_escaping() -> None:
    passage = (
        "The gate opens at 8 bar, see [the manual](javascript:alert(1)) and <script>x</script>."
    )
    assert comparable(inert(passage)) == comparable(passage)


def test_an_endless_reply_is_cut_at_a_sentence() -> None:
    text = "It opens at noon [1]. It shuts at six [2]. " * 1000
    shortened = cut(text, 4000)
    assert 3950 < len(shortened) <= 4000
    assert shortened.endswith("].")
    assert cut("Short.", 4000) == "Short."
    assert len(cut("\U0001f600" * 3000, 4000).encode()) == 4000

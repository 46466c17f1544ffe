"""The one sentence rule: exact offsets for any text, and the borders people would draw."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.text.sentences import sentence_spans, sentences

TRICKY = st.text(alphabet=st.sampled_from(list("aAbB1 .!?\n\t()[]\"'’*-#…。é😀,")), max_size=200)


@given(st.one_of(st.text(max_size=300), TRICKY))
def test_spans_cover_all_but_white_space(text: str) -> None:
    at = 0
    for span in sentence_spans(text):
        assert span.start < span.end
        assert not text[at : span.start].strip()
        piece = text[span.start : span.end]
        assert piece == piece.strip()
        at = span.end
    assert not text[at:].strip()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two.", ["One.", "Two."]),
        ("Dr. Smith took 5.2 mg (ca. 3 ml). He slept.", None),
        ("See Fig. 3 of Smith et al. 2020 for E. coli. Then stop.", None),
        ("Levels of p53 rose. p53 is a protein.", ["Levels of p53 rose.", "p53 is a protein."]),
        ("He was in ED. Two died.", ["He was in ED.", "Two died."]),
        ('"Yes!" she said. "No." He left.', ['"Yes!" she said.', '"No."', "He left."]),
        ("A is B.[1][2] C is D. [3] E is F.", ["A is B.[1][2]", "C is D. [3]", "E is F."]),
        ("Updates\n-------\nRun it twice", ["Updates\n-------", "Run it twice"]),
        ("[2] says so. Yes.", ["[2] says so.", "Yes."]),
        ("It is \u201ca type.\u201d [1]. It is B.", ["It is \u201ca type.\u201d [1].", "It is B."]),
        ("Water boils at 100 \u00b0C. Ice melts.", ["Water boils at 100 \u00b0C.", "Ice melts."]),
        (
            "Members vote on Wed. Nov. 4 only. It costs Kr. 450 a day.",
            ["Members vote on Wed. Nov. 4 only.", "It costs Kr. 450 a day."],
        ),
        ("To St. Ives on Jan. 5 by Tamar Ltd. of Looe, with v. 2.0 of it. It came.", None),
        ("See p. 47.\n\n\u00a7 6. Sacks stay.", ["See p. 47.", "\u00a7 6. Sacks stay."]),
        ("First\n\nSecond", ["First", "Second"]),
        ("# Head\nBody text\nwraps here.", ["# Head", "Body text\nwraps here."]),
        ("Intro:\n- a\n- b", ["Intro:", "- a", "- b"]),
        ("Intro:\n1. One.\n2. Two.", ["Intro:", "1. One.", "2. Two."]),
        ("2.1. A pays\n2.2. B repairs.\n", ["2.1. A pays", "2.2. B repairs."]),
        ("a) Open it\n(b) Close it", ["a) Open it", "(b) Close it"]),
        ("He pays [1]. 2.2. She repairs [1].", ["He pays [1].", "2.2. She repairs [1]."]),
        ("The dose is\n2.5 mg or\n3.5 mg.", ["The dose is\n2.5 mg or\n3.5 mg."]),
        ("これは文。次の文。", ["これは文。", "次の文。"]),
        ("Am 3. Mai kam Frau Dr. Weiß, vgl. Abb. 4. Danach ging sie.", None),
        ("La Sra. Ruiz vive en el núm. 5. Mme. Roy et le sig. Bo aussi.", None),
        ("I am 30. She is not.", ["I am 30.", "She is not."]),
        ("Was it (yes. Or no.) so? Yes", ["Was it (yes. Or no.) so?", "Yes"]),
        ("  \n\t ", []),
        ("", []),
    ],
)
def test_borders(text: str, expected: list[str] | None) -> None:
    split = list(sentences(text))
    assert split == expected if expected is not None else len(split) == 2


def test_unclosed_brackets_do_not_swallow_the_text() -> None:
    assert len(sentences("(" * 3000 + "One. Two. Three.")) == 3


def test_stops_alone_are_no_sentences() -> None:
    assert len(sentences("One. " + ". " * 5000)) == 1

import pytest

from docstokg.domain.text.follow_up import (
    MOST_ADDED,
    whole_question,
)

ASKED = [
    ("user", "What is Angelman syndrome?"),
    ("assistant", "A disorder that Harry Angelman described [1]."),
]


@pytest.mark.parametrize(
    "question",
    [
        "Which abnormalities does it show?", "and for women?", "why?", "since when?",
        "how about his brother?", "When was that?", "What are the side effects?",
        "Is there a cure for it?", "Who described that?", "Tell me more.",
    ],
)  # fmt: skip
def test_a_follow_up_contains_its_subject(question: str) -> None:
    assert whole_question(question, ASKED) == f"{question} (Angelman syndrome Harry)"


@pytest.mark.parametrize(
    "question",
    [
        "What is epilepsy?", "Where was Josip Broz Tito born, and when did he die?",
        "Is there a treaty that protects Antarctica?",
        "How is it decided which city hosts the Olympic Games?",
        "What is it that keeps a greenhouse warm?", "Is it true that whales sleep?",
        "HP:0001250 and its synonyms?", "symptoms of Prader-Willi syndrome?",
        "Can eating trigger a seizure?", "when did the renaissance begin?",
        "\u00bfQu\u00e9 es la epilepsia?", "它有什么症状？", "And " + "why is it so? " * 80,
    ],
)  # fmt: skip
def test_a_question_with_a_subject_stays_unchanged(question: str) -> None:
    assert whole_question(question, ASKED) == question


def test_the_subject_is_handed_on_over_several_turns() -> None:
    talk = [*ASKED, ("user", "Which gene causes it?"), ("assistant", "UBE3A, by its loss.")]
    last = whole_question("Where is that?", [*talk, ("user", "why?"), ("assistant", "Nobody says")])
    assert last == "Where is that? (gene causes Angelman syndrome Harry UBE3A Nobody)"


def test_a_changed_subject_is_the_new_one() -> None:
    talk = [*ASKED, ("user", "Who wrote Dracula?"), ("assistant", "Bram Stoker.")]
    assert whole_question("when?", talk) == "when? (wrote Dracula Bram Stoker)"


def test_without_an_earlier_question_nothing_is_added() -> None:
    assert whole_question("why?", []) == "why?"
    assert whole_question("why?", [("assistant", "Ask me about Angelman syndrome.")]) == "why?"


def test_names_stay_when_not_all_words_fit() -> None:
    words = " ".join(f"word{n}" for n in range(20))
    question = whole_question("why?", [("user", f"{words} of Angelman")])
    assert question.startswith("why? (word0 ")
    assert question.endswith(" Angelman)")
    assert len(question.split()) == 1 + MOST_ADDED

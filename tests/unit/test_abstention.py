"""Replies without an answer, and answers with their words, in five languages."""

import json
from pathlib import Path

import pytest

from docstokg.domain.answer.notices import ABSTENTION
from docstokg.domain.answer.reply import abstains, cleaned

ROWS = json.loads(Path(__file__).with_name("abstentions.json").read_text("utf-8"))
LEAST_RECOGNISED = 22


def test_abstentions_in_five_languages_are_recognised() -> None:
    recognised = [reply for question, reply in ROWS["measured"] if abstains(reply, question)]
    print(f"{len(recognised)} of {len(ROWS['measured'])}")
    assert len(recognised) >= LEAST_RECOGNISED


@pytest.mark.parametrize(("question", "reply"), ROWS["further"])
def test_a_reply_of_listed_words_becomes_the_abstention(question: str, reply: str) -> None:
    assert cleaned(reply, question) == ABSTENTION


@pytest.mark.parametrize(("question", "reply"), ROWS["answers"])
def test_an_answer_with_a_negation_stays(question: str, reply: str) -> None:
    assert cleaned(reply, question) == reply


@pytest.mark.parametrize(
    "reply",
    [
        "I don't know [1].",
        "I don't know. I can't say. I can't help.",
        "I don't know, but the gate opens at noon.",
        "I know.",
    ],
)
def test_markers_and_further_content_stay(reply: str) -> None:
    assert cleaned(reply, "When does it open?") == reply

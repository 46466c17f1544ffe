"""Each marker of a sentence is proven by its own passage."""

import pytest

from docstokg.contracts.state import Block
from docstokg.domain.answer.grounding import proof
from docstokg.domain.text.sentences import sentences
from docstokg.usecases.check_answer import CheckedAnswer, Repair, check_answer
from tests.workflow.test_cited_inventions import TOPICS

BLOCKS = [
    Block(rank=rank, uuid=topic["name"], text=topic["text"], document_name=topic["name"],
          relevance=8)
    for rank, topic in enumerate(TOPICS, 1)
]  # fmt: skip


SENTENCES = [
    (block.rank, text) for block in BLOCKS for text in sentences(block.text.partition("\n\n")[2])
][:40]
"""With the rank of their passage."""


def check(text: str, repair: Repair = "report") -> CheckedAnswer:
    return check_answer(text, BLOCKS, repair=repair)


def marked(text: str, *ranks: int) -> str:
    return f"{text.rstrip('.')} {''.join(f'[{rank}]' for rank in ranks)}."


def others(rank: int, count: int) -> list[int]:
    return [(rank + step) % len(BLOCKS) + 1 for step in range(count)]


def test_only_the_quoted_rank_is_proven() -> None:
    assert len(SENTENCES) == 40
    for number, (rank, text) in enumerate(SENTENCES):
        right = check(marked(text, rank))
        mixed = check(marked(text, rank, *others(rank, 1 + number % 3)))
        assert right.grounding.grounded is True and mixed.grounding.grounded is None
        assert right.grounding.basis == mixed.grounding.basis == "quotation"
        (sentence,) = mixed.grounding.sentences
        assert (sentence.verdict, sentence.proven) == ("supported", (rank,))
        assert any("was not found in" in warning for warning in mixed.warnings)
        assert mixed.confidence <= right.confidence + 0.01


def test_attribute_replaces_a_wrong_marker() -> None:
    for rank, text in SENTENCES[::2]:
        (wrong,) = others(rank, 1)
        result = check(f"{marked(text, wrong)} Thank you.", "attribute")
        assert marked(text, rank) in result.answer, result.answer
        assert f"[{wrong}]" not in result.answer
        sentence = result.grounding.sentences[0]
        assert (sentence.verdict, sentence.proven) == ("supported", (rank,))
        assert "marker_added" in sentence.reasons


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (marked(SENTENCES[0][1], 1), "quoted from [1]"),
        (f"{marked(SENTENCES[0][1], 1)} It never rains [2].", "1 of 2 sentences quoted from [1]"),
        ("It never rains [2].", "0 of 1 sentence verified"),
    ],
)
def test_proof_is_described_in_words(answer: str, words: str) -> None:
    report = check(answer).grounding
    assert proof(report.model_dump()) == words

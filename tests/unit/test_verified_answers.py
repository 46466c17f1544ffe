"""An answer with a verifier: its decisions, their limits, and the report."""

from collections.abc import Sequence

import pytest

from docstokg.contracts.response import Grounding
from docstokg.contracts.state import Block
from docstokg.domain.deadline import Deadline
from docstokg.ports import Opinion, Pair, Verifier
from docstokg.usecases.check_answer import check_answer, ground_sentences, ground_text
from docstokg.usecases.verification import Asking, asking
from tests.plans import call
from tests.verifier_server import supports

GATE = Block(rank=1, uuid="u1", text="The gate opens at 8 bar. It is old.", document_name="Gate",
             relevance=8, char_start=100)  # fmt: skip
LAMP = Block(rank=2, uuid="u2", text="Ann painted the lamp green.", document_name="Lamp",
             relevance=6)  # fmt: skip
BLOCKS = [GATE, LAMP]
QUOTED, RIGHT = "The gate opens at 8 bar [1].", "The old gate opens at 8 bar [1]."
WRONG, BARE = "The gate opens at 9 bar [1].", "The lamp is new."


class Words:
    """Supports claims whose words are all in a source; `asked`: its inputs."""

    name, threshold = "llm:judge", 0.5

    def __init__(self, quote: str = "") -> None:
        self.asked: list[Sequence[Pair]] = []
        self.quote = quote

    def verify(self, pairs: Sequence[Pair], deadline: Deadline) -> Sequence[Opinion | None]:
        self.asked.append(pairs)
        return [
            Opinion(0.9 if any(supports(pair.claim, source) for source in pair.sources) else 0.1,
                    0.7, (self.quote,) if self.quote else ())
            for pair in pairs
        ]  # fmt: skip


def bound(verifier: Verifier, author: str | None = None) -> Asking | None:
    return asking(call(), verifier, author)


def verdicts(report: Grounding | None) -> list[tuple[str, str | None]]:
    return [(sentence.verdict, sentence.decided_by) for sentence in report.sentences]


def test_nobody_is_asked_where_nothing_is_open() -> None:
    judge = Words()
    report = check_answer(f"{QUOTED} {BARE}", BLOCKS, verifier=bound(judge)).grounding
    assert not judge.asked
    assert [checker.name for checker in report.checked_by] == ["rules"]
    assert asking(call(), None) is None


@pytest.mark.parametrize(
    ("author", "is_own"),
    [("judge", True), ("gateway/judge", True), ("other", False), (None, False)],
)
def test_a_model_judging_itself_is_named_as_such(author: str | None, is_own: bool) -> None:
    report = check_answer(RIGHT, BLOCKS, verifier=bound(Words(), author)).grounding
    assert report.checked_by[1].self_check is is_own


def test_a_quote_becomes_the_span() -> None:
    words = "gate opens at 8 bar"
    report = check_answer(RIGHT, BLOCKS, verifier=bound(Words(quote=words))).grounding
    (sentence,) = report.sentences
    assert sentence.quote == words and sentence.span is not None
    assert (sentence.span.uuid, sentence.span.char_start, sentence.span.char_end) == (
        "u1",
        104,
        123,
    )


def test_drop_removes_refuted_sentences_with_one_call() -> None:
    judge = Words()
    result = check_answer(f"{RIGHT} {WRONG} {BARE}", BLOCKS, repair="drop", verifier=bound(judge))
    assert result.answer == RIGHT and len(judge.asked) == 1
    assert verdicts(result.grounding) == [("supported", "llm:judge")]


def test_an_added_marker_is_judged_too() -> None:
    judge = Words()
    result = check_answer(
        "The old gate opens at 8 bar.", BLOCKS, repair="attribute", verifier=bound(judge)
    )
    (sentence,) = result.grounding.sentences
    assert (
        sentence.verdict == "supported"
        and sentence.citations == (1,)
        and "marker_added" in sentence.reasons
    )


def test_a_foreign_text_is_verified_as_it_stands() -> None:
    cited = ground_text(f"{RIGHT} {WRONG}", BLOCKS, None, bound(Words()))
    assert [verdict for verdict, _ in verdicts(cited)] == ["supported", "unsupported"]
    judge = Words()
    bare = ground_sentences(
        "The old gate opens at 8 bar. Ann painted the red gate.",
        [[LAMP, GATE], [LAMP, GATE]], None, bound(judge),
    )  # fmt: skip
    assert [verdict for verdict, _ in verdicts(bare)] == ["supported", "unsupported"]
    assert all(len(pair.sources) == 3 for pair in judge.asked[0]), "two passages, and both joined"
    assert all(len(sentence.citations) == 1 for sentence in bare.sentences)

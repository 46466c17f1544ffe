"""Windows of passages, and decisions from a verifier's opinions."""

import math
from collections.abc import Callable, Sequence

import pytest

from docstokg.domain.answer import judge
from docstokg.domain.answer.windows import LONGEST, best_windows, windows
from docstokg.domain.deadline import Deadline
from docstokg.errors import WrongAnswer
from docstokg.ports import Opinion, Pair, strongest
from docstokg.usecases.run import Call
from docstokg.usecases.verification import Claim, Verification, verify
from tests.plans import call, soon

FILLER = " ".join(f"Sentence number {n} speaks of other things." for n in range(40))


class Scripted:
    """Returns or raises as it is told."""

    name, threshold = "scripted", 0.6

    def __init__(self, give: Callable[[Sequence[Pair]], Sequence[Opinion | None]]) -> None:
        self.give, self.asked = give, list[Sequence[Pair]]()

    def verify(self, pairs: Sequence[Pair], deadline: Deadline) -> Sequence[Opinion | None]:
        self.asked.append(pairs)
        return self.give(pairs)


def decided(
    *opinions: Opinion | None,
    source: str = "The gate opens at 8 bar.",
    count: int | None = None,
    run: Call | None = None,
) -> Verification:
    claims = [Claim("The gate opens.", (source,))] * (len(opinions) if count is None else count)
    return verify(run or call(), Scripted(lambda pairs: opinions), claims, soon())


def test_a_sentence_without_an_end_is_cut() -> None:
    text = "word " * 1000
    texts = windows(text)
    assert max(map(len, texts)) <= LONGEST
    assert "".join(texts).replace(" ", "") == text.replace(" ", "")


def test_the_best_windows_come_ordered_and_then_joined() -> None:
    passage = f"The gate opens at 8 bar. {FILLER} The gate closes at 3 bar. {FILLER}"
    texts = best_windows("The gate opens at 8 bar and closes at 3 bar.", (passage, FILLER))
    assert len(texts) == 4
    assert texts[0].startswith("The gate opens") and "gate closes" in texts[1]
    assert texts[3] == "\n".join(texts[:3])
    assert best_windows("The gate opens.", ("The gate opens.",) * 2) == ("The gate opens.",)
    assert best_windows("The gate opens.", ()) == ()


def test_the_threshold_is_the_verifiers_own() -> None:
    verification = decided(Opinion(0.6), Opinion(0.59), Opinion(0.1, 0.7), Opinion(0.1, 0.2), None)
    summary = [
        decision and (decision.verdict, decision.support, decision.reason)
        for decision in verification.decisions
    ]
    assert summary == [
        ("supported", 0.6, None), ("unsupported", 0.59, "not_stated"),
        ("unsupported", 0.1, "contradicted"), ("unsupported", 0.1, "not_stated"), None,
    ]  # fmt: skip
    assert verification.problem is None


@pytest.mark.parametrize(
    "opinions",
    [(), (Opinion(0.9), Opinion(0.9)), (Opinion(math.nan),), (Opinion(1.1),), (Opinion(-0.1),),
     (Opinion(0.9, math.nan),), (Opinion(math.inf),)],
)  # fmt: skip
def test_one_lie_voids_the_batch(opinions: Sequence[Opinion]) -> None:
    run = call()
    verification = decided(*opinions, count=1, run=run)
    assert verification.decisions == (None,) and verification.problem is not None
    assert run.degraded == ["verifier_unavailable"]


def test_at_most_twelve_claims_are_sent_together() -> None:
    scripted = Scripted(lambda pairs: [Opinion(0.9)] * len(pairs))
    claims = [Claim("No source.", ())] + [Claim(f"Gate {n}.", ("A gate.",)) for n in range(20)]
    verification = verify(call(), scripted, claims, soon())
    assert [len(pairs) for pairs in scripted.asked] == [12]
    assert [bool(decision) for decision in verification.decisions] == [
        False,
        *[True] * 12,
        *[False] * 8,
    ]


@pytest.mark.parametrize(
    ("quote", "counts"),
    [("gate opens at 8 bar", True), ("gate opens  at\n8 bar", True), ("gate opens at 9 bar", False),
     ("Gate opens at 8 bar", False), ("opens at 8 bar", False), ("ate opens at 8 bar", False)],
)  # fmt: skip
def test_a_quote_counts_where_a_source_holds_it(quote: str, counts: bool) -> None:
    run = call()
    verification = decided(Opinion(0.9, None, (quote,)), run=run)
    (decision,) = verification.decisions
    assert (decision is not None) == counts == (verification.problem is None)
    assert run.degraded == ([] if counts else ["verifier_unavailable"])
    if decision is not None:
        assert decision.quotes == (quote,)


def test_a_quote_of_the_fenced_text_counts() -> None:
    source = "The gate [3] opens <<at>> 8 bar."
    prompt = judge.messages([("A gate.", [source])])[1]["content"]
    assert "The gate (3) opens <at> 8 bar." in prompt
    verification = decided(Opinion(0.9, None, ("The gate (3) opens <at> 8 bar.",)), source=source)
    assert verification.decisions[0] is not None


def test_the_strongest_opinion_is_of_any_source() -> None:
    assert strongest([Opinion(0.2, 0.1), Opinion(0.7), Opinion(0.3, 0.6)]) == Opinion(0.7, 0.6)
    assert strongest([Opinion(0.2)]) == Opinion(0.2, None)


@pytest.mark.parametrize(
    "reply",
    ["", "no", "[]", "{", '{"statements": 1}', '{"other": []}',
     '{"statements": [{"n": 1, "verdict": "maybe", "quotes": []}]}',
     '{"statements": [{"n": 2, "verdict": "supported", "quotes": ["a"]}]}',
     '{"statements": ' + "[" * 100_000 + "}"],
)  # fmt: skip
def test_a_reply_without_rows_is_a_wrong_answer(reply: str) -> None:
    with pytest.raises(WrongAnswer):
        judge.parse(reply, 1, "llm:m")


BROKEN = ['{"n": 2, "verdict": "supp', '{"n": 2, "verdict": "maybe", "quotes": []}', '{"n": "x"}']


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_row_loses_one_verdict(broken: str) -> None:
    row = '{{"n": {}, "verdict": "Supported", "quotes": ["The {{gate}} opens."]}}'
    reply = f'<think>{{1}}</think>{{"statements": [{row.format(1)}, {broken}, {row.format(3)}'
    parsed = judge.parse(reply, 3, "llm:m")
    assert [row and row.verdict for row in parsed] == ["supported", None, "supported"]


def test_replies_may_have_surrounding_words_and_extra_fields() -> None:
    row = '{"n": 1, "verdict": "not_stated", "quotes": [], "why": "x"}'
    (parsed,) = judge.parse(f'Sure:\n```json\n{{"statements": [{row}]}}\n```', 1, "llm:m")
    assert parsed.verdict == "not_stated"
